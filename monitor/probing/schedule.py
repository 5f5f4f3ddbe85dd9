"""Schedule of the rounds of a probe set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

from monitor.probing.pace import StopRequest, wait_until


@dataclass(frozen=True, slots=True)
class Schedule:
    """The cadence of a set.

    Attributes:
        every: seconds from the start of one round to the start of the next.
        times: rounds in all; None never ends.
    """

    every: float = 0.0
    times: int | None = 1

    def rounds(self, monotonic: Callable[[], float], stop: StopRequest) -> Iterator[int]:
        """Numbers of rounds from 1, each when it is to begin; ends when asked to.

        Starts lie a multiple of ``every`` after the first. A round that lasts longer than that
        takes the place of those that should have begun meanwhile.
        """
        first, number = monotonic(), 0
        while not stop.asked and (self.times is None or number < self.times):
            number += 1
            yield number
            if number == self.times:
                return
            if not wait_until(self._next(first, monotonic()), monotonic, stop):
                return

    def _next(self, first: float, now: float) -> float:
        if self.every <= 0:
            return now
        return first + self.every * max(ceil((now - first) / self.every), 1)
