"""Simulated time: event time that runs thousands of times faster than the wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class SimulatedClock:
    """A Clock whose ``now`` is simulated; durations stay real.

    Until :meth:`start` it stays at its beginning.

    Example:
        >>> seconds = iter([100.0, 102.5])
        >>> clock = SimulatedClock(1_000_000, speed=10, monotonic=lambda: next(seconds))
        >>> clock.start()
        >>> clock.now()
        26000000

    Args:
        begins: microseconds since 1970 UTC.
        speed: simulated seconds a second.
        monotonic: real seconds.
    """

    def __init__(
        self, begins: int, speed: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.speed = speed
        self._begins = begins
        self._monotonic = monotonic
        self._started: float | None = None

    def start(self) -> None:
        """Let simulated time run."""
        self._started = self._monotonic()

    def now(self) -> int:
        """Simulated microseconds since 1970 UTC."""
        if self._started is None:
            return self._begins
        return self._begins + round((self._monotonic() - self._started) * self.speed * 1e6)

    def monotonic(self) -> float:
        """Real seconds since some fixed moment."""
        return self._monotonic()
