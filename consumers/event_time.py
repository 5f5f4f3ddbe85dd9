"""Event time of a shard: which events are believed, and how far its clock may go.

An event says itself when it happened, and so does the record that carries it: both are the word of
a producer. What is believed of it must not harm anybody else's:

* Clock ``live``: the clock of a shard never runs ahead of this worker's own wall clock, whatever
  its events say. One that is ahead of its own record by more than ``max_early``, or of the wall
  clock by more than ``max_ahead``, is refused. The second limit is the wider one, since the wall
  clock may be the one that is wrong: what lies within it is counted, and moves nothing.
* Clock ``history``: files have no present. An event that leaps more than a horizon ahead, and the
  first one of all, is believed if the events around it are of its time (:mod:`consumers.leaps`).

Too old is judged by event time alone: a horizon before the newest event of the shard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from consumers.leaps import Leaps, Reading, find_leaps
from monitor.core.counts.cells import Int64s
from monitor.core.time import DAY

TOO_EARLY, FUTURE, TOO_OLD, JUMP = "too_early", "future", "too_old", "jump"
FIRST_DAY = 10_957 * DAY
"""2000-01-01: before it there was nothing to decide, only clocks that had never been set."""

AHEAD_SECONDS = 600.0
"""Time for which events ahead of the wall clock are reported: longer than an alert waits."""

Reasons = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class ClockPolicy:
    """Limits on how far events may be out of order (microseconds).

    Attributes:
        live: the wall clock is the present; else there is none (``history``).
        horizon: how old an event may be, and in ``history`` how far it may leap ahead.
        max_early: how far it may be ahead of the timestamp of its own record (``live``).
        max_ahead: how far it may be ahead of the wall clock (``live``).
    """

    live: bool
    horizon: int
    max_early: int
    max_ahead: int = DAY


@dataclass(slots=True)
class Ahead:
    """Largest lead of events over the wall clock in the last minutes.

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
        """Take in the most of one batch, at ``now`` (monotonic seconds)."""
        if micros >= self.lately(now):
            self._most, self._at = micros, now

    def lately(self, now: float) -> int:
        """The most (microseconds) of the last :data:`AHEAD_SECONDS`."""
        return self._most if now - self._at < AHEAD_SECONDS else 0


@dataclass(slots=True)
class ShardClock:
    """Event time that one shard has reached.

    Attributes:
        policy: fixed.
        newest: the running maximum of decided_at, never beyond the wall clock (``live``); None
            before the first event.
        jumps: how many of the last events were leaps that were not believed, in a row.
        ahead: how far the newest accepted event of the last batch was ahead of the wall clock
            (microseconds, at least 0; ``live``).
        beyond: whether most events of the last batch were refused as :data:`FUTURE`.
    """

    policy: ClockPolicy
    newest: int | None = None
    jumps: int = 0
    ahead: int = 0
    beyond: bool = False

    def look(self, ts: Int64s, offsets: Int64s, reading: Reading) -> Leaps | None:
        """Find the leaps among events (``history``); None where there is nothing to look at.

        Args:
            ts: decided_at of readable events in order of arrival.
            offsets: of their messages.
            reading: how far the shard was read.
        """
        if self.policy.live or not len(ts):
            return None
        if self.newest is not None and int(ts.max()) <= self.newest + self.policy.horizon:
            return None
        rows = np.flatnonzero(ts >= FIRST_DAY)  # the others are refused whatever surrounds them
        found = find_leaps(
            ts[rows],
            offsets[rows],
            newest=self.newest,
            refused_before=self.jumps,
            horizon=self.policy.horizon,
            reading=reading,
        )
        decided = int(rows[found.decided]) if found.decided < len(rows) else len(ts)
        refused = np.zeros(decided, np.bool_)
        refused[rows[: found.decided]] = found.refused
        return Leaps(refused, decided, found.lone)

    def admit(
        self,
        ts: Int64s,
        timestamps_ms: Int64s,
        now: int,
        looked: Leaps | None = None,
    ) -> tuple[Reasons, Int64s]:
        """Judge events in order of arrival and move the clock.

        Args:
            ts: decided_at, microseconds.
            timestamps_ms: the broker's timestamps; -1 when unknown.
            now: this worker's wall clock, microseconds.
            looked: what :meth:`look` found; None: there was nothing to look at.

        Returns:
            For each event the reason it is refused, or None; and the running maximum of
            decided_at as it arrived.
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
        # In milliseconds, rounded up: a producer's absurd timestamp would overflow as micros.
        earliest_ms = -((self.policy.max_early - ts) // 1000)
        reasons[(timestamps_ms >= 0) & (earliest_ms > timestamps_ms)] = TOO_EARLY
        # An event that its own record contradicts is no witness against our clock.
        future = (reasons == None) & (ts > now + self.policy.max_ahead)  # noqa: E711
        reasons[future] = FUTURE
        self.beyond = 2 * int(future.sum()) > len(ts)
        accepted = ts[reasons == None]  # noqa: E711 - element-wise
        self.ahead = max(0, int(accepted.max()) - now) if len(accepted) else 0

    def _count_jumps(self, leaps: npt.NDArray[np.bool_] | None) -> None:
        if leaps is None or not leaps[-1]:
            self.jumps = 0
        elif leaps.all():
            self.jumps += len(leaps)
        else:
            self.jumps = len(leaps) - 1 - int(np.flatnonzero(~leaps)[-1])
