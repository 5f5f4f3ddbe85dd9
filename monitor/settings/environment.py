"""Environment overrides: ``SLICEWATCH__SECTION__KEY=value``; list items have an index as key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from itertools import pairwise
from typing import Any

from monitor.settings.problems import join, problem, shown

PREFIX = "SLICEWATCH__"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]{1,128}\Z")
_INDEX = re.compile(r"[0-9]{1,4}\Z")


def exact(text: str) -> Decimal:
    """Return the text of a TOML float as an exact Decimal; NaN for an absurd exponent."""
    try:
        return Decimal(text)
    except DecimalException:
        return Decimal("NaN")


@dataclass(frozen=True, slots=True)
class EnvText:
    """Value of an environment variable: its raw text, and what it means as TOML."""

    variable: str
    raw: str
    parsed: object

    @classmethod
    def parse(cls, variable: str, raw: str) -> EnvText:
        """Return the EnvText of a variable; raise SettingsError if it is not UTF-8.

        Raises:
            SettingsError: the value is not valid text.
        """
        variable = _shown_name(variable)
        try:
            raw.encode()
        except UnicodeEncodeError:
            raise problem(variable, "is not valid UTF-8; set it again") from None
        return cls(variable, raw, _parse(raw))

    def as_text(self) -> str:
        """Return the text of a TOML string, else the raw value (``123`` for a password)."""
        return self.parsed if isinstance(self.parsed, str) else self.raw

    def as_list(self) -> object:
        """Return a TOML list as it is, or plain text split at commas into stripped parts."""
        if isinstance(self.parsed, list):
            return self.parsed
        return [part.strip() for part in self.as_text().split(",") if part.strip()]


def origin(value: object) -> str:
    """Return `` (from VARIABLE)`` if a part of a value comes from the environment, else no text."""
    if isinstance(value, EnvText):
        return f" (from {value.variable})"
    children = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return ""
    return next((text for child in children if (text := origin(child))), "")  # type: ignore[attr-defined]


def override(tree: dict[str, Any], env: Mapping[str, str]) -> None:
    """Change ``tree``, a parsed settings file, in place by the overrides in ``env``.

    Raises:
        SettingsError: a variable leads nowhere: into a plain value, or past the end of a list.
    """
    variables = [(_segments(name), name) for name in env if name.startswith(PREFIX)]
    for segments, name in sorted(
        variables, key=lambda variable: [_order(part) for part in variable[0]]
    ):
        _place(tree, segments, EnvText.parse(name, env[name]))


def _shown_name(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else shown(name)


def _parse(raw: str) -> object:
    try:
        tree = tomllib.loads(f"value = {raw}", parse_float=exact)
    except (ValueError, RecursionError):
        return raw
    return tree["value"] if len(tree) == 1 else raw


def _segments(name: str) -> list[str]:
    segments = name.removeprefix(PREFIX).lower().split("__")
    if not all(segments):
        raise problem(_shown_name(name), f"has an empty part; write {PREFIX}SECTION__KEY")
    return segments


def _order(part: str) -> tuple[int, str]:
    return (int(part), "") if _INDEX.match(part) else (-1, part)


def _place(tree: dict[str, Any], segments: list[str], value: EnvText) -> None:
    """Put a value at its place in the tree of settings; tables and lists are made on the way."""
    node: Any = tree
    key = ""
    for part, after in pairwise(segments):
        empty: Any = [] if _INDEX.match(after) else {}
        node, key = _get_or_set(node, key, part, empty, value.variable)
    _get_or_set(node, key, segments[-1], value, value.variable, replace=True)


def _get_or_set(
    node: Any, key: str, part: str, value: Any, variable: str, *, replace: bool = False
) -> tuple[Any, str]:
    """Return (child, its full key); a new child, or with ``replace`` any, is set to ``value``."""
    if isinstance(node, dict):
        if replace or part not in node:
            node[part] = value
        return node[part], join(key, part)
    if not isinstance(node, list) or not _INDEX.match(part):
        raise problem(key or part, f"cannot be reached by {variable}; there is no part {part!r}")
    index = int(part)
    if index > len(node):
        raise problem(join(key, index), f"{variable} leaves out item {len(node)}; begin with it")
    if index == len(node):
        node.append(value)
    elif replace:
        node[index] = value
    return node[index], join(key, index)
