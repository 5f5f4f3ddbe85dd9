"""Signs of life on standard error while a command does something that may take long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console

REMIND_SECONDS = 10.0
"""Interval of the lines that are written where no terminal shows a moving sign."""


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show that something is being done, until the block ends.

    On a terminal at once and in place; elsewhere one line every ten seconds, so that a log shows
    it and what is quick says nothing.

    Args:
        text: what is being done, such as "evaluating".
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
