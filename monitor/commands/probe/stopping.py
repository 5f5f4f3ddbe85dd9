"""Ends a run on SIGTERM and Ctrl-C, between two requests."""

from __future__ import annotations

import signal
import time

SLICE = 0.1  # seconds until a wait that goes on has seen that it should not


class Stopper:
    """Whether it is time to end; its handler takes no lock, so that it may run at any point."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, number: int, _: object) -> None:
        """A signal's handler; the second Ctrl-C does not wait any more."""
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def wait(self, seconds: float) -> bool:
        """Let time pass, less of it when asked to end; whether that was asked."""
        deadline = time.monotonic() + seconds
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, SLICE))
        return self.asked
