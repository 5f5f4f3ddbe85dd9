"""Detection of a wrong clock on this machine, as opposed to a producer with wrong times."""

from __future__ import annotations

from monitor.core.time import DAY, SECOND, to_datetime
from monitor.errors import ClockError
from monitor.ports import Clock
from monitor.records import Shard

FEWEST = 2
"""Least number of partitions that stops a worker: a single one may have a wrong producer."""


class WallClockWatch:
    """Watch over shards beyond the wall clock: one is a wrong producer, most a wrong clock.

    Example:
        >>> from types import SimpleNamespace
        >>> still = SimpleNamespace(now=lambda: 0, monotonic=lambda: 0.0)
        >>> watch = WallClockWatch(still, most=DAY)
        >>> for number, beyond in enumerate((True, False, False)):
        ...     watch.record(Shard("decisions", number), beyond=beyond)
        >>> watch.require_right()

    Args:
        clock: this machine's clock.
        most: largest step back of the wall clock while we run (microseconds).
    """

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._beyond: dict[Shard, bool] = {}
        self._before = clock.now(), clock.monotonic()

    def record(self, shard: Shard, *, beyond: bool) -> None:
        """Record whether most of a shard's last batch, or its stored clock, is far ahead."""
        self._beyond[shard] = beyond

    def forget(self, shard: Shard) -> None:
        """Forget a shard that is no longer ours."""
        self._beyond.pop(shard, None)

    def require_right(self) -> None:
        """Raise ClockError if most shards contradict the wall clock, or if it was set back.

        Raises:
            ClockError: they do not; nothing may be judged or stored now.
        """
        now = self._clock.now()
        self._require_steady(now)
        beyond = sorted(shard for shard, is_beyond in self._beyond.items() if is_beyond)
        if len(beyond) < FEWEST or 2 * len(beyond) <= len(self._beyond):
            return
        raise ClockError(
            f"this machine's clock says {to_datetime(now):%Y-%m-%d %H:%M}Z, and {len(beyond)} of"
            f" {len(self._beyond)} partitions ({beyond[0]}, ...) lie far beyond it; nothing since"
            " the last flush was stored. Set the clock and start again; if it is right, the store"
            " or the producers are not"
        )

    def _require_steady(self, now: int) -> None:
        """Raise ClockError if the clock was set back: earlier judgements used another time."""
        (wall, steady), self._before = self._before, (now, self._clock.monotonic())
        back = wall + round((self._before[1] - steady) * SECOND) - now
        if back > self._most:
            raise ClockError(
                f"this machine's clock was set back by {back / DAY:,.0f} days, to"
                f" {to_datetime(now):%Y-%m-%d %H:%M}Z; nothing since the last flush was stored. Set"
                " the clock and start again"
            )
