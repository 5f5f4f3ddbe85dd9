"""Stop signals, noted from the first line of the program and obeyed in bounded time."""

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
"""Seconds after which a stopping process is ended, less than any usual grace period."""


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals of a service manager, of Ctrl-C and of a closed terminal."""


def on_stop(handler: Callable[..., object] | signal.Handlers) -> None:
    """Install ``handler`` for all stop signals; an ignored hang-up stays ignored.

    ``nohup`` ignores hang-ups, so that a command outlives its terminal.
    """
    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def end_when_stopped() -> None:
    """Install :func:`end_now` for all stop signals."""
    on_stop(end_now)


def end_now(number: int, _: object) -> NoReturn:
    """Print one line and raise SystemExit so that open resources close; a signal handler.

    Further signals change nothing meanwhile.
    """
    on_stop(lambda *_: None)
    os.write(2, b"slicewatch: stopped before it was done\n")  # print() may be what was interrupted
    raise SystemExit(128 + number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer stop signals until the block ends, so that it writes files whole or not at all."""
    signals: list[int] = []
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    on_stop(lambda number, _: signals.append(number))
    try:
        yield
    finally:
        for waiting, handler in handlers.items():
            signal.signal(waiting, handler)
        for number in signals[:1]:
            signal.raise_signal(number)


class StopSignal:
    """Recorder of stop signals in flags; its handler takes no lock, so it may run at any point.

    Attributes:
        asked: True after a signal.
        hurried: True after a second signal.
    """

    def __init__(self) -> None:
        self.asked = self.hurried = False

    def listen(self) -> None:
        """Install :meth:`ask` for all stop signals; safe to call twice."""
        on_stop(self.ask)

    def ask(self, number: int, frame: object) -> None:
        """Record a signal: set ``asked``, and at the second signal ``hurried``."""
        self.hurried = self.asked
        self.asked = True

    def wait(self, seconds: float) -> bool:
        """Sleep up to ``seconds``; return True as soon as a stop is asked for, else False."""
        deadline = time.monotonic() + seconds
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK))
        return self.asked

    def unless_asked(self, make: Callable[[], Made]) -> Made | None:
        """Return ``make()``, called in a thread; None as soon as a stop is asked for.

        `make` runs on a thread of its own, because no signal interrupts calls to a database or
        broker. Its failure is raised here.
        """
        return _unless(lambda: self.asked, make)

    def unless_hurried(self, make: Callable[[], Made]) -> Made | None:
        """Return ``make()``, called in a thread; None as soon as a second stop signal comes."""
        return _unless(lambda: self.hurried, make)

    def call(self, stop: Callable[[], None]) -> None:
        """Start a thread that calls ``stop`` at a stop signal, and ends the process if that hangs.

        In that case each thread's traceback is on standard error, and the exit code is 1.
        """
        threading.Thread(target=self._call, args=(stop,), name="stop", daemon=True).start()

    def _call(self, stop: Callable[[], None]) -> None:
        while not self.asked:
            time.sleep(_LOOK)
        faulthandler.dump_traceback_later(LONGEST_STOP, exit=True)
        stop()


def _unless(stopped: Callable[[], bool], make: Callable[[], Made]) -> Made | None:
    """Make a value in a thread, so that a stop is noticed meanwhile; None if one comes."""
    values: list[Made] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            values.append(make())
        except BaseException as error:
            failures.append(error)

    if stopped():
        return None
    thread = threading.Thread(target=run, name="start", daemon=True)
    thread.start()
    while thread.is_alive() and not stopped():
        thread.join(_LOOK)
    if stopped():
        return None
    if failures:
        raise failures[0]
    return values[0]


_IMPORTED = 200_000
"""New objects before the first collection; `run` imports about 170,000, hardly any are garbage."""
_YOUNG = 50_000
"""New objects after which Python looks for cycles: more than a few batches create."""


def collect_late() -> None:
    """Put off garbage collection until the imports are done."""
    gc.set_threshold(_IMPORTED)


def collect_rarely() -> None:
    """Exempt present objects from garbage collection, and make collections rare.

    Messages and events are freed without it. By default Python looks at every 700 new objects and
    among all imported ones, which takes a sixth of an ingest worker's time.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG)


def leave() -> NoReturn:
    """Flush output and end the process at once with code 0; an unfinished start is rolled back."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)  # a normal exit would wait for the thread of the start, or fail because of it
