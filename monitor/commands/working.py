"""Signs of life on standard error during long work of a command."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console

REMIND_SECONDS = 10.0
"""Interval of the lines that replace a moving sign without a terminal."""


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a spinner, or print reminders without a terminal, until the block ends.

    A terminal shows it at once and in place. A log gets a line every ten seconds; quick work
    writes none.

    Args:
        text: the work in words, such as "evaluating".
    """
    if sys.stderr.isatty():
        with Console(file=sys.stderr).status(f"{text} ..."):
            yield
        return
    done = threading.Event()
    reminder = threading.Thread(target=_remind, args=(text, done), name="working", daemon=True)
    reminder.start()
    try:
        yield
    finally:
        done.set()
        reminder.join()


def _remind(text: str, done: threading.Event) -> None:
    seconds = REMIND_SECONDS
    while not done.wait(REMIND_SECONDS):
        click.echo(f"{text}: {seconds:.0f} s so far", err=True)
        seconds += REMIND_SECONDS
