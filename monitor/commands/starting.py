"""A stop signal: heard from the first import on, and obeyed within a bound."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

Made = TypeVar("Made")

_LOOK = 0.1  # seconds until a signal is seen
LONGEST_STOP = 14.0
"""Seconds until a process that has been told to stop is ended, less than any grace period."""


class StopSignal:
    """Flag for SIGTERM or Ctrl-C; its handler takes no lock, so it may run at any point."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Note the signals from now on instead of dying of them; safe to call twice."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True

    def unless_asked(self, make: Callable[[], Made]) -> Made | None:
        """Make a value, or return None as soon as a stop is asked for; a failure is raised.

        It is made on a thread of its own: a database or a broker that lets us wait does so in
        calls that no signal interrupts.
        """
        made: list[Made] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                made.append(make())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run, name="start", daemon=True)
        thread.start()
        while thread.is_alive() and not self.asked:
            thread.join(_LOOK)
        if self.asked:
            return None
        if failed:
            raise failed[0]
        return made[0]

    def call(self, stop: Callable[[], None]) -> None:
        """Call ``stop`` when it is asked for, and end the process if that takes too long.

        Whatever hangs, each thread's traceback is then on standard error, and the exit code is 1.
        """
        threading.Thread(target=self._call, args=(stop,), name="stop", daemon=True).start()

    def _call(self, stop: Callable[[], None]) -> None:
        while not self.asked:
            time.sleep(_LOOK)
        faulthandler.dump_traceback_later(LONGEST_STOP, exit=True)
        stop()


_YOUNG = 50_000
"""New objects after which Python looks for cycles among them: more than a few batches make."""


def collect_rarely() -> None:
    """Look for reference cycles rarely, and among what there is so far never.

    Messages and events are freed without that; looking for cycles among them whenever there are 700
    more, and among all that was imported, takes a sixth of an ingest worker's time.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    gc.set_threshold(_YOUNG)


def leave() -> NoReturn:
    """End the process at once, well: whatever its start was in the middle of is rolled back."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)  # the interpreter's own end would have to wait for the thread, or trip over it
