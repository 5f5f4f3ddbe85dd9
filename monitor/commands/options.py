"""Options shared by commands."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click
import msgspec

from monitor.commands.starting import uninterrupted
from monitor.core.plain_text import plain_line
from monitor.core.publish.act_input import ActInput, checked_act_input
from monitor.core.time import to_micros
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

_Instant = Annotated[datetime, msgspec.Meta(tz=True)]
LONGEST_TOPIC = 249  # Kafka allows no longer names
LONGEST_TIME = 64
_KEY_BYTES = 32
ROW_ID = click.IntRange(1, 1 << 31)  # the end is far from that of any database's integers
incident_argument = click.argument("number", metavar="ID", type=ROW_ID)


def instant(option: str, text: str) -> int:
    """Return a typed time with zone in us; raise SlicewatchError that names ``option``.

    Raises:
        SlicewatchError: the text is not a time with a zone.
    """
    try:
        return to_micros(
            msgspec.convert(plain_line(option, text, LONGEST_TIME), _Instant).astimezone(UTC)
        )
    except (msgspec.ValidationError, OverflowError):  # the latter at the ends of the calendar
        raise SlicewatchError(
            f"{option} must be a time with its zone, such as 2026-06-01T10:00:00Z"
        ) from None


def option_of(field: str) -> str:
    """Return the option that gives a field of an act."""
    return f"--{field}"


def checked_act(command: str, by: str | None, note: str | None) -> ActInput:
    """Return ``--by`` and ``--note`` as a checked ActInput; refuse a missing ``--by``.

    Raises:
        SlicewatchError: no name is given, or a text is too long or not a single line.
    """
    if by is None or not by.strip():
        raise SlicewatchError(f"--by is missing; slicewatch {command} --help has an example")
    return checked_act_input(by, note or "", option_of)


def load_settings(
    path: Path,
    *,
    with_secrets: bool = True,
    contract: Path | None = None,
    embedded: bool = False,
    with_use_case: bool = True,
) -> Settings:
    """Return the settings of a file with environment overrides.

    Args:
        path: settings file.
        with_secrets: False if no secret is needed.
        contract: a file whose use cases replace those of ``path``.
        embedded: True overrides ``stream.client``, so that no Kafka is needed.
        with_use_case: False if the file may lack use cases.
    """
    overrides = {"SLICEWATCH__STREAM__CLIENT": "embedded"} if embedded else {}
    env = {**os.environ, **overrides}
    return load(
        path, env, with_secrets=with_secrets, contract=contract, with_use_case=with_use_case
    )


def write_key(file: Path, key: str | None = None) -> None:
    """Write a key, or a new random one, to a new file that only its owner can read.

    Raises:
        SlicewatchError: the file is there already, or cannot be written.
    """
    try:
        with uninterrupted():
            _write_private(file, f"{key or secrets.token_hex(_KEY_BYTES)}\n")
    except FileExistsError:
        raise SlicewatchError(f"{file} already exists; give the name of a new file") from None
    except OSError as error:
        reason = error.strerror or "it cannot be written"
        raise SlicewatchError(f"{file}: {reason}; give the name of a new file") from None


def _write_private(file: Path, text: str) -> None:
    # Made with its rights, so that nobody can open it before they are set.
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as written:
        written.write(text)
