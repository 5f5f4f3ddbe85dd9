"""Event time of a shard: times that are believed, and limits of its clock.

The time of an event, and that of its record, are claims of a producer. A wrong claim must not harm
the events of others:

* Clock ``live``: the clock of a shard never runs ahead of this worker's own wall clock, whatever
  its events claim. An event is refused that is ahead of its own record by more than ``max_early``,
  or of the wall clock by more than ``max_ahead``. The second limit is wider, since the wall clock
  may be the wrong one: events within it are counted, and do not move the clock.
* Clock ``history``: files have no present. The first event, and an event that leaps more than a
  horizon ahead, is believed if most of the next events are of its time. The verdict depends on the
  content of the shard, never on its batches.

An event is too old by event time alone: more than a horizon before the newest event of the shard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY, MINUTE

FOLLOWERS = 100
"""Events after a leap by which it is judged; fewer at the end."""
FOLLOWED_OFFSETS = 200
"""Offsets after a leap in which these events are sought. Unreadable events must not make a leap
wait for ever, nor fill the memory with waiting events."""
WITNESSES = 10
"""Least number of events of its time that makes a leap believable: a producer that sends a wrong
event may well send it twice."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Reading:
    """Position up to which a shard was read, and whether more events are expected.

    Attributes:
        to: the newest offset that was read.
        quiet: nothing follows for now, so that the present events decide.
        ended: nothing will ever follow.
        newest_of_others: newest event time of all other shards; None when there is none.
    """

    to: int
    quiet: bool = False
    ended: bool = False
    newest_of_others: int | None = None


@dataclass(frozen=True, slots=True)
class Leaps:
    """Result of :func:`find_leaps`: a mask of refused events, and the number judged so far.

    Attributes:
        refused: leaps that are not believed, one flag per decided event.
        decided: number of events, from the first on, that can be judged now; the rest wait for
            later events.
        lone: this is the only event of all shards so far: it counts, and does not set the clock.
    """

    refused: Bools
    decided: int
    lone: bool = False


@dataclass(frozen=True, slots=True)
class _Around:
    """Times of the events after a leap, as far as read, and whether they suffice to judge it."""

    ts: Int64s
    complete: bool


def find_leaps(
    ts: Int64s,
    offsets: Int64s,
    *,
    newest: int | None,
    refused_before: int,
    horizon: int,
    reading: Reading,
) -> Leaps:
    """Judge events that leap ahead by the events around them; return a mask of those refused.

    An event that lies more than a horizon ahead of all before it is believed if most of the next
    events are of its time; else it alone is wrong. The first event of a shard is believed unless
    most of the next events lie a horizon before it.

    Args:
        ts: decided_at (microseconds) in order of arrival.
        offsets: offsets of their messages, not decreasing.
        newest: event time reached before; None for a shard without an event yet.
        refused_before: number of leaps that were refused just before, in a row.
        horizon: an event further ahead is a leap (microseconds).
        reading: position up to which the shard was read.

    Example:
        >>> day = 86_400_000_000
        >>> times = np.array([10, 11, 400, 12, 13]) * day
        >>> leaps = find_leaps(times, np.arange(5), newest=None, refused_before=0,
        ...     horizon=30 * day, reading=Reading(4, ended=True))
        >>> leaps.refused.tolist(), leaps.decided
        ([False, False, True, False, False], 5)
    """
    refused = np.zeros(len(ts), np.bool_)
    lone = (
        newest is None and len(ts) == 1 and not reading.ended and reading.newest_of_others is None
    )
    run, row = refused_before, 0
    while row < len(ts):
        if newest is not None:
            row, newest, passed = _next_leap(ts, row, newest, horizon)
            run = 0 if passed else run
            if row == len(ts):
                break
        around = _around(ts, offsets, row, reading)
        believed = (
            _first_believed(int(ts[row]), around, horizon, reading)
            if newest is None
            else _leap_believed(int(ts[row]), around, horizon, run)
        )
        if believed is None:
            break
        refused[row] = not believed
        newest, run = (int(ts[row]), 0) if believed else (newest, run + 1)
        row += 1
    return Leaps(refused[:row], row, lone)


def _next_leap(ts: Int64s, row: int, newest: int, horizon: int) -> tuple[int, int, bool]:
    """Return the row of the next leap (or the end), the newest time before it, and more.

    The last is True if events precede the leap.
    """
    before = np.maximum.accumulate(np.concatenate([[newest], ts[row:]]))
    leap_rows = np.flatnonzero(ts[row:] > before[:-1] + horizon)
    at = int(leap_rows[0]) if len(leap_rows) else len(ts) - row
    return row + at, int(before[at]), at > 0


def _around(ts: Int64s, offsets: Int64s, row: int, reading: Reading) -> _Around:
    """Return the times after an event, and whether they suffice to judge it."""
    last = int(offsets[row]) + FOLLOWED_OFFSETS
    end = min(row + 1 + FOLLOWERS, int(np.searchsorted(offsets, last, side="right")))
    following = ts[row + 1 : end]
    closed = reading.quiet or reading.ended
    return _Around(following, closed or len(following) == FOLLOWERS or reading.to >= last)


def _leap_believed(at: int, around: _Around, horizon: int, run: int) -> bool | None:
    """Return True if most next and just refused events are near ``at``; None if unsure yet."""
    if not around.complete:
        return None
    witnesses = run + int((np.abs(around.ts - at) <= horizon).sum())
    return witnesses >= WITNESSES and 2 * witnesses > run + len(around.ts)


def _first_believed(at: int, around: _Around, horizon: int, reading: Reading) -> bool | None:
    """Return False if a first event is ahead of next events or other shards; None if unsure."""
    if not around.complete:
        return None
    if not len(around.ts):
        return reading.newest_of_others is None or at <= reading.newest_of_others + horizon
    return 2 * int((around.ts < at - horizon).sum()) <= len(around.ts)


TOO_EARLY, FUTURE, TOO_OLD, JUMP = "too_early", "future", "too_old", "jump"
FIRST_DAY = 10_957 * DAY
"""2000-01-01: earlier times come from clocks that were never set."""

AHEAD_SECONDS = 600.0
"""Time that a lead over the wall clock is reported: longer than an alert waits."""

Reasons = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class ClockPolicy:
    """Limits on how far events may be out of order (microseconds).

    Attributes:
        live: the wall clock is the present; else there is none (``history``).
        horizon: largest age of an event, and in ``history`` its largest leap ahead.
        max_early: largest lead over the timestamp of its own record (``live``).
        max_ahead: largest lead over the wall clock (``live``).
    """

    live: bool
    horizon: int
    # A producer's clock is right within minutes; one that is not must be repaired.
    max_early: int = 5 * MINUTE
    # A day is any time zone taken for UTC: such events are counted, and move no window.
    max_ahead: int = DAY


@dataclass(slots=True)
class Ahead:
    """Largest lead of a shard's events over the wall clock in the last minutes.

    Example:
        >>> ahead = Ahead()
        >>> ahead.record(70, 0.0)
        >>> ahead.record(0, 200.0)
        >>> ahead.lately(599.0), ahead.lately(700.0)
        (70, 0)
    """

    _most: int = 0
    _at: float = 0.0

    def record(self, micros: int, now: float) -> None:
        """Record a batch's lead (microseconds) at ``now`` (monotonic seconds) if none is larger."""
        if micros >= self.lately(now):
            self._most, self._at = micros, now

    def lately(self, now: float) -> int:
        """Return the largest lead (microseconds) of the last :data:`AHEAD_SECONDS`, or 0."""
        return self._most if now - self._at < AHEAD_SECONDS else 0


@dataclass(slots=True)
class ShardClock:
    """Clock of the event time that one shard has reached; it judges events and advances with them.

    Attributes:
        policy: limits of the clock.
        newest: the running maximum of decided_at, never beyond the wall clock (``live``); None
            before the first event.
        jumps: number of leaps that were not believed at the end, in a row.
        ahead: lead of the newest accepted event of the last batch over the wall clock
            (microseconds, at least 0; ``live``).
        beyond: whether most events of the last batch were refused as :data:`FUTURE`.
    """

    policy: ClockPolicy
    newest: int | None = None
    jumps: int = 0
    ahead: int = 0
    beyond: bool = False

    def look(self, ts: Int64s, offsets: Int64s, reading: Reading) -> Leaps | None:
        """Return the judged leaps among events of a history; None if live, or if no event leaps.

        Args:
            ts: decided_at of readable events in order of arrival.
            offsets: offsets of their messages.
            reading: position up to which the shard was read.
        """
        if self.policy.live or not len(ts):
            return None
        if self.newest is not None and int(ts.max()) <= self.newest + self.policy.horizon:
            return None
        rows = np.flatnonzero(ts >= FIRST_DAY)  # earlier ones are refused anyway
        leaps = find_leaps(
            ts[rows],
            offsets[rows],
            newest=self.newest,
            refused_before=self.jumps,
            horizon=self.policy.horizon,
            reading=reading,
        )
        decided = int(rows[leaps.decided]) if leaps.decided < len(rows) else len(ts)
        refused = np.zeros(decided, np.bool_)
        refused[rows[: leaps.decided]] = leaps.refused
        return Leaps(refused, decided, leaps.lone)

    def admit(
        self, ts: Int64s, timestamps_ms: Int64s, now: int, looked: Leaps | None = None
    ) -> tuple[Reasons, Int64s]:
        """Judge events in order, advancing the clock; return each refusal (or None) and clock.

        Args:
            ts: decided_at, microseconds.
            timestamps_ms: the broker's timestamps; -1 when unknown.
            now: this worker's wall clock, microseconds.
            looked: result of :meth:`look`.

        Returns:
            The reason to refuse each event, or None; and the running maximum of decided_at as it
            arrived.
        """
        reasons: Reasons = np.full(len(ts), None, object)
        if not len(ts):
            return reasons, ts
        if self.policy.live:
            self._judge_early(ts, timestamps_ms, now, reasons)
        leaps = None if looked is None else looked.refused[: len(ts)]
        if leaps is not None:
            reasons[leaps] = JUMP
        reasons[ts < FIRST_DAY] = TOO_OLD
        self._count_jumps(leaps)
        refused = reasons != None  # noqa: E711 - element-wise
        reached = np.minimum(ts, now) if self.policy.live else ts
        floor = self.newest if self.newest is not None else int(reached.min())
        running = np.maximum.accumulate(np.maximum(np.where(refused, floor, reached), floor))
        reasons[~refused & (ts < running - self.policy.horizon)] = TOO_OLD
        lone = looked is not None and looked.lone
        if self.newest is not None or not (lone or refused.all()):
            self.newest = int(running[-1])
        return reasons, running

    def _judge_early(self, ts: Int64s, timestamps_ms: Int64s, now: int, reasons: Reasons) -> None:
        """Add reasons for times too early or in the future; most in the future doubts our clock."""
        # In milliseconds, rounded up: a producer's absurd timestamp would overflow as micros.
        earliest_ms = -((self.policy.max_early - ts) // 1000)
        reasons[(timestamps_ms >= 0) & (earliest_ms > timestamps_ms)] = TOO_EARLY
        # An event that contradicts its own record proves nothing about our clock.
        future = (reasons == None) & (ts > now + self.policy.max_ahead)  # noqa: E711
        reasons[future] = FUTURE
        self.beyond = 2 * int(future.sum()) > len(ts)
        accepted = ts[reasons == None]  # noqa: E711 - element-wise
        self.ahead = max(0, int(accepted.max()) - now) if len(accepted) else 0

    def _count_jumps(self, leaps: npt.NDArray[np.bool_] | None) -> None:
        """Count the events in a row, up to the last, that leap in time."""
        if leaps is None or not leaps[-1]:
            self.jumps = 0
        elif leaps.all():
            self.jumps += len(leaps)
        else:
            self.jumps = len(leaps) - 1 - int(np.flatnonzero(~leaps)[-1])
