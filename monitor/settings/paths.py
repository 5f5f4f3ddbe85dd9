"""Paths of the files that settings name, made absolute by their origin.

A relative path in a settings file is relative to the folder of that file. A relative path in an
environment variable is relative to the working directory. Both hold for SQLite databases too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_origin

from monitor.settings.build import bare, declared_kinds, is_section, required
from monitor.settings.environment import EnvText
from monitor.settings.kinds import LocalFile, Url

SQLITE = "sqlite:///"
NO_FILE = (":memory:", "file:")
"""Names that SQLite does not read as the path of a file."""


def anchor(kind: Any, value: Any, folder: Path) -> Any:
    """Return the TOML form of a value, with relative paths made absolute below ``folder``.

    Args:
        kind: the value's declared kind, as for :func:`monitor.settings.build.build`.
        value: value parsed by tomllib, or :class:`EnvText` from the environment. A value that does
            not fit its kind is kept, for ``build`` to refuse.
        folder: an absolute path.
    """
    kind = required(kind)
    if isinstance(value, dict) and is_section(kind):
        kinds = declared_kinds(kind)
        return {
            name: anchor(kinds[name], part, folder) if name in kinds else part
            for name, part in value.items()
        }
    if isinstance(value, list) and get_origin(kind) is tuple:
        return [anchor(get_args(kind)[0], part, folder) for part in value]
    base, _ = bare(kind)
    if isinstance(value, EnvText):
        inner = value.as_text() if base in (LocalFile, Url) else value.parsed
        return replace(value, parsed=anchor(kind, inner, folder))
    if not isinstance(value, str) or not value.strip():
        return value
    if base is LocalFile:
        return str(folder / value)
    return _anchored_url(value, folder) if base is Url else value


def _anchored_url(url: str, folder: Path) -> str:
    """Return a database URL, with a relative SQLite path made absolute below ``folder``."""
    file = url.removeprefix(SQLITE)
    if not url.startswith(SQLITE) or not file or file.startswith(("/", *NO_FILE)):
        return url
    return f"{SQLITE}{folder}/{file}"  # keeps a last /, by which checks recognise a folder
