"""Leaps in event time: is the stream really there, or is one event wrong?

Where time has no present (clock ``history``) only other events can tell. An event that lies more
than a horizon ahead of all before it is looked at together with what follows: it is believed if
most of the next events are of its time, else it alone is wrong. The first event of a shard has
nothing before it, and is believed unless most of what follows lies a horizon before it.

The verdict depends on what the shard holds, never on how it was cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

FOLLOWERS = 100
"""Events after a leap that it is judged by. Fewer where nothing follows."""
FOLLOWED_OFFSETS = 200
"""Offsets ahead in which they are looked for: what is unreadable must not make a leap wait for
ever, nor fill the memory with what waits behind it."""
WITNESSES = 10
"""So many events of its time, at least, make a leap believable: a producer that sends one wrong
event may well send it twice."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Reading:
    """Position up to which a shard was read, and what is known besides.

    Attributes:
        to: the newest offset that was read.
        quiet: nothing follows for now, so that what is there decides.
        ended: nothing will ever follow.
        others: newest event time of all other shards; None when there is none.
    """

    to: int
    quiet: bool = False
    ended: bool = False
    others: int | None = None


@dataclass(frozen=True, slots=True)
class Leaps:
    """Leaps that were found among events in order of arrival.

    Attributes:
        refused: leaps that are not believed, one flag for each decided event.
        decided: how many events, from the first on, can be judged now; the others wait for what
            follows them.
        lone: it is the only event of all shards so far: it counts, and is no clock to go by.
    """

    refused: Bools
    decided: int
    lone: bool = False


@dataclass(frozen=True, slots=True)
class _Around:
    """The events after one, as far as they were read, and whether more are to come."""

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
    """Walk over events, and judge those that leap.

    Args:
        ts: decided_at (microseconds) in order of arrival.
        offsets: of their messages, not decreasing.
        newest: event time reached before; None for a shard without an event yet.
        refused_before: leaps that were refused just before, in a row.
        horizon: what lies further ahead is a leap (microseconds).
        reading: how far the shard was read.

    Example:
        >>> day = 86_400_000_000
        >>> times = np.array([10, 11, 400, 12, 13]) * day
        >>> found = find_leaps(times, np.arange(5), newest=None, refused_before=0,
        ...     horizon=30 * day, reading=Reading(4, ended=True))
        >>> found.refused.tolist(), found.decided
        ([False, False, True, False, False], 5)
    """
    refused = np.zeros(len(ts), np.bool_)
    lone = newest is None and len(ts) == 1 and not reading.ended and reading.others is None
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
    """Row of the next leap, the time reached before it, and whether anything lies between."""
    before = np.maximum.accumulate(np.concatenate([[newest], ts[row:]]))
    found = np.flatnonzero(ts[row:] > before[:-1] + horizon)
    at = int(found[0]) if len(found) else len(ts) - row
    return row + at, int(before[at]), at > 0


def _around(ts: Int64s, offsets: Int64s, row: int, reading: Reading) -> _Around:
    last = int(offsets[row]) + FOLLOWED_OFFSETS
    end = min(row + 1 + FOLLOWERS, int(np.searchsorted(offsets, last, side="right")))
    following = ts[row + 1 : end]
    closed = reading.quiet or reading.ended
    return _Around(following, closed or len(following) == FOLLOWERS or reading.to >= last)


def _leap_believed(at: int, around: _Around, horizon: int, run: int) -> bool | None:
    """Return True when most of what follows, or was refused just before, is of its time."""
    if not around.complete:
        return None
    witnesses = run + int((np.abs(around.ts - at) <= horizon).sum())
    return witnesses >= WITNESSES and 2 * witnesses > run + len(around.ts)


def _first_believed(at: int, around: _Around, horizon: int, reading: Reading) -> bool | None:
    """Return True unless it lies ahead of most of what follows; alone, of all other shards."""
    if not around.complete:
        return None
    if not len(around.ts):
        return reading.others is None or at <= reading.others + horizon
    return 2 * int((around.ts < at - horizon).sum()) <= len(around.ts)
