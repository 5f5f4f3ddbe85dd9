"""Options that several commands share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from monitor.errors import SlicewatchError
from monitor.settings import Settings, load

Command = TypeVar("Command", bound=Callable[..., Any])

settings_option = click.option(
    "-s",
    "--settings",
    "path",
    type=click.Path(path_type=Path),
    default=Path("slicewatch.toml"),
    envvar="SLICEWATCH_SETTINGS",
    show_default=True,
    show_envvar=True,
    help="Settings file (TOML); SLICEWATCH__SECTION__KEY variables override it.",
)

_MOST = 1 << 31  # as an id, far from the end of any database's integers
incident_argument = click.argument("number", metavar="ID", type=click.IntRange(1, _MOST))


def plain_line(option: str, text: str, longest: int | None = None) -> str:
    """What was typed, without spaces around it.

    Raises:
        SlicewatchError: it is not one line of plain text, or longer than that.
    """
    if not text.isprintable():
        raise SlicewatchError(f"{option} must be one line of plain text")
    if longest is not None and len(text.strip()) > longest:
        raise SlicewatchError(f"{option} must have at most {longest} characters")
    return text.strip()


def load_settings(path: Path) -> Settings:
    """The settings of a file with the overrides of the environment."""
    return load(path, os.environ)


def on_stop(callback: Callable[..., None]) -> None:
    """Call back on SIGTERM and SIGINT instead of dying."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, callback)
