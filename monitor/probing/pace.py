"""Pace of probes: one at a time, evenly, slower when the router asks for it, round after round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from monitor.probing.protocol import RETRIED, Answer, Failure, Probe, Router

LONGEST_HOLD = 60.0
"""Seconds a router may put us off: a cadence has to go on."""


class StopRequest(Protocol):
    """A request to end, which waits take into account."""

    @property
    def asked(self) -> bool:
        """Somebody wants us to end."""
        ...

    def wait(self, seconds: float) -> bool:
        """Let time pass, less of it when asked to end; whether that was asked."""
        ...


class Pace:
    """Never two turns within 1 / rate seconds: what was missed is not made up for in a burst.

    Args:
        rate: turns a second at most.
        monotonic: seconds since some fixed moment.
        stop: ends a wait.
    """

    def __init__(self, rate: float, monotonic: Callable[[], float], stop: StopRequest) -> None:
        self._gap = 1.0 / rate
        self._monotonic = monotonic
        self._stop = stop
        self._next = monotonic()

    def turn(self) -> bool:
        """Wait for the next turn; False when asked to end."""
        if not wait_until(self._next, self._monotonic, self._stop):
            return False
        self._next = self._monotonic() + self._gap
        return True

    def hold(self, seconds: float) -> None:
        """No turn before so many seconds have passed."""
        self._next = max(self._next, self._monotonic() + seconds)


def wait_until(at: float, monotonic: Callable[[], float], stop: StopRequest) -> bool:
    """Wait until a moment of the monotonic clock; False when asked to end."""
    while (left := at - monotonic()) > 0:
        if stop.wait(left):
            return False
    return not stop.asked


@dataclass(frozen=True, slots=True)
class Retries:
    """Limit on attempts for a variant, and the pauses between them.

    Attributes:
        attempts: at most, the first one included.
        pause: seconds before the second; twice that before the third, and so on.
    """

    attempts: int = 3
    pause: float = 0.5


class Sender:
    """A router, and how it is treated; each attempt takes a turn of its own.

    A probe may be sent again without harm: the router acts on nothing, and only the answer that
    was received is passed on.
    """

    def __init__(self, router: Router, pace: Pace, retries: Retries) -> None:
        self._router = router
        self._pace = pace
        self._retries = retries

    def send(self, probe: Probe) -> Answer | Failure | None:
        """The answer, or the last failure; None when asked to end before there was any."""
        outcome: Failure | None = None
        for attempt in range(self._retries.attempts):
            if not self._pace.turn():
                return None
            tried = self._router.ask(probe)
            if isinstance(tried, Answer) or tried.kind not in RETRIED:
                return tried
            outcome = tried
            self._hold(tried, attempt)
        return outcome

    def _hold(self, failure: Failure, attempt: int) -> None:
        """After the last attempt, too: whoever is next has to wait as well."""
        wait = failure.retry_after
        if wait is None:
            wait = self._retries.pause * 2**attempt
        self._pace.hold(min(wait, LONGEST_HOLD))


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
