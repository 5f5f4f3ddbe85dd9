"""Early and late by event time alone, so that a second reading gives the same verdict.

Nothing here looks at the wall clock: an event is too early against the broker's timestamp of
its own message (clock ``live``), or when it leaps a horizon ahead of its shard (clock
``history``); it is too old when it lies a horizon before the newest event of its shard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.cells import Int64s

TOO_EARLY, TOO_OLD, JUMP = "too_early", "too_old", "jump"
JUMPS_BELIEVED = 100
"""So many leaps in a row are the truth: the stream really went on there."""

Reasons = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class ClockPolicy:
    """How far events may be out of order (microseconds)."""

    live: bool
    horizon: int
    max_early: int


@dataclass(slots=True)
class ShardClock:
    """Where one shard stands in event time.

    Attributes:
        policy: fixed.
        newest: the running maximum of decided_at; None before the first event.
        jumps: how many events in a row were leaps ahead.
    """

    policy: ClockPolicy
    newest: int | None = None
    jumps: int = 0

    def admit(self, ts: Int64s, timestamps_ms: Int64s) -> tuple[Reasons, Int64s]:
        """Judge events in order of arrival and move the clock.

        Args:
            ts: decided_at, microseconds.
            timestamps_ms: the broker's timestamps; -1 when unknown.

        Returns:
            For each event the reason it is refused, or None; and the running maximum of
            decided_at as it arrived.
        """
        reasons: Reasons = np.full(len(ts), None, object)
        if not len(ts):
            return reasons, ts
        if self.policy.live:
            # In milliseconds, rounded up: a producer's absurd timestamp would overflow as micros.
            earliest_ms = -((self.policy.max_early - ts) // 1000)
            reasons[(timestamps_ms >= 0) & (earliest_ms > timestamps_ms)] = TOO_EARLY
        else:
            reasons[self._leaps(ts)] = JUMP
        refused = reasons != None  # noqa: E711 - element-wise
        floor = self.newest if self.newest is not None else int(ts.min())
        running = np.maximum.accumulate(np.maximum(np.where(refused, floor, ts), floor))
        reasons[~refused & (ts < running - self.policy.horizon)] = TOO_OLD
        if self.newest is not None or not refused.all():
            self.newest = int(running[-1])
        return reasons, running

    def _leaps(self, ts: Int64s) -> npt.NDArray[np.bool_]:
        newest = self.newest if self.newest is not None else int(ts[0])
        leap = np.zeros(len(ts), np.bool_)
        if int(ts.max()) <= newest + self.policy.horizon:
            self.jumps = 0
            return leap
        for row, at in enumerate(ts.tolist()):
            ahead = at > newest + self.policy.horizon
            self.jumps = self.jumps + 1 if ahead else 0
            leap[row] = ahead and self.jumps <= JUMPS_BELIEVED
            if not leap[row]:
                newest = max(newest, at)
                self.jumps = 0
        return leap
