"""Stop signals: heard from the first line of the program on, and obeyed within a bound."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

Made = TypeVar("Made")

_LOOK = 0.1  # seconds until a signal is seen
LONGEST_STOP = 14.0
"""Seconds until a process that has been told to stop is ended, less than any grace period."""


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""A manager's, Ctrl-C, and that of a terminal that was closed."""


def on_stop(handler: Callable[..., object]) -> None:
    """Call a handler on stop signals instead of dying of them; whoever ignores hang-ups still does.

    ``nohup`` ignores them, so that a command outlives its terminal.
    """
    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def end_when_stopped() -> None:
    """End the program on a stop signal by :func:`end_now`."""
    on_stop(end_now)


def end_now(number: int, _: object) -> NoReturn:
    """End the program with one line; what is open is closed on the way, and removed.

    Further signals meanwhile change nothing.
    """
    on_stop(lambda *_: None)
    os.write(2, b"slicewatch: stopped before it was done\n")  # print() may be what was interrupted
    raise SystemExit(128 + number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let stop signals wait until the block ends: files are written whole, or not at all."""
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    on_stop(lambda number, _: came.append(number))
    try:
        yield
    finally:
        for waiting, handler in before.items():
            signal.signal(waiting, handler)
        for number in came[:1]:
            signal.raise_signal(number)


class StopSignal:
    """Flags of stop signals; their handler takes no lock, so it may run at any point.

    Attributes:
        asked: a signal has come.
        hurried: another one has come after it.
    """

    def __init__(self) -> None:
        self.asked = self.hurried = False

    def listen(self) -> None:
        """Note the signals from now on instead of dying of them; safe to call twice."""
        on_stop(self.ask)

    def ask(self, number: int, frame: object) -> None:
        """Note a signal."""
        self.hurried = self.asked
        self.asked = True

    def wait(self, seconds: float) -> bool:
        """Let time pass, less of it when a stop is asked for; whether that was asked."""
        deadline = time.monotonic() + seconds
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK))
        return self.asked

    def unless_asked(self, make: Callable[[], Made]) -> Made | None:
        """Make a value, or return None as soon as a stop is asked for; a failure is raised.

        It is made on a thread of its own: a database or a broker that lets us wait does so in
        calls that no signal interrupts.
        """
        return _unless(lambda: self.asked, make)

    def unless_hurried(self, make: Callable[[], Made]) -> Made | None:
        """Make a value as :meth:`unless_asked` does, until a stop is asked for a second time."""
        return _unless(lambda: self.hurried, make)

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


def _unless(stopped: Callable[[], bool], make: Callable[[], Made]) -> Made | None:
    made: list[Made] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(make())
        except BaseException as error:
            failed.append(error)

    if stopped():
        return None
    thread = threading.Thread(target=run, name="start", daemon=True)
    thread.start()
    while thread.is_alive() and not stopped():
        thread.join(_LOOK)
    if stopped():
        return None
    if failed:
        raise failed[0]
    return made[0]


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
