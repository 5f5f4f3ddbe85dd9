"""Errors in files, reported on one line: file, line, field, what was found, and the fix.

A value is never repeated: a set may be reviewed data of real people. Names of fields are.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from monitor.errors import AuditError
from monitor.settings.problems import join

_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "an object"),
)


def problem(path: Path, text: str, *, line: int = 0, field: str = "") -> AuditError:
    """The error about a file, one of its lines, or one field of it."""
    place = [str(path) if str(path).isprintable() else repr(str(path))]
    place += [f"line {line}"] if line else []
    place += [f"field {field}"] if field else []
    return AuditError(f"{', '.join(place)}: {text}")


def found(value: object) -> str:
    """The kind of a value, never the value."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "nothing")


def field_name(*parts: str) -> str:
    """The full name of a field, on one line and cut short: ``versions.judge``."""
    name = ""
    for part in parts:
        name = join(name, part)
    return name


def unknown(path: Path, line: int, known: Iterable[str], *parts: str) -> AuditError:
    """The error for a field that does not exist, with the nearest one that does."""
    names = [".".join((*parts[:-1], name)) for name in known]
    near = get_close_matches(".".join(parts).lower()[:64], names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    text = f"unknown field; {hint}known here: {', '.join(names)}"
    return problem(path, text, line=line, field=field_name(*parts))
