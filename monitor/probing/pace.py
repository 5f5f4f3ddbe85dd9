"""Pace of probes: one at a time, evenly, and slower when the router asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


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
