"""Options that several commands share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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


def load_settings(path: Path) -> Settings:
    """The settings of a file with the overrides of the environment."""
    return load(path, os.environ)


def on_stop(callback: Callable[..., None]) -> None:
    """Call back on SIGTERM and SIGINT instead of dying."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, callback)
