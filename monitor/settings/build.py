"""From a parsed TOML tree to the typed settings, key by key, so that errors name the key."""

from __future__ import annotations

import enum
import types
from datetime import date, datetime
from fractions import Fraction
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from monitor.errors import SettingsError
from monitor.settings.environment import EnvText, origin
from monitor.settings.kinds import Secret, Url
from monitor.settings.leaves import PARSERS, WORDS, UnfitError, check_bounds
from monitor.settings.problems import found, join, problem, shown, unknown


def build(kind: Any, value: object, key: str) -> Any:
    """Make a value of a declared kind from its TOML form.

    Args:
        kind: a Section, ``tuple[kind, ...]``, ``dict[str, str]``, a leaf, or one of them
            ``| None`` (TOML has no null: an optional key is left out).
        value: what tomllib gave, with :class:`EnvText` where the environment overrides it.
        key: full key for messages; empty at the top.

    Raises:
        SettingsError: one line that names the key, the kind of value found and the fix.
    """
    kind = required(kind)
    if not isinstance(value, EnvText):
        return _build(kind, value, key)
    try:
        return _build(kind, _from_environment(kind, value), key)
    except SettingsError as error:
        raise SettingsError(f"{error}{origin(value)}") from None


def required(kind: Any) -> Any:
    """The kind without its ``| None``."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def is_section(kind: Any) -> bool:
    """Return True when a kind is a table with declared keys."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def bare(kind: Any) -> tuple[Any, Meta]:
    """A leaf kind without its annotations, and its bounds."""
    if get_origin(kind) is Annotated:
        base, meta = get_args(kind)
        return base, meta
    return kind, Meta()


def _from_environment(kind: Any, value: EnvText) -> object:
    if get_origin(kind) is tuple and not is_section(get_args(kind)[0]):
        return value.as_list()
    if is_section(kind) or get_origin(kind) in (tuple, dict):
        return value.parsed
    numeric = (int, bool, float, Fraction, date, datetime)
    return value.parsed if bare(kind)[0] in numeric else value.as_text()


def _build(kind: Any, value: object, key: str) -> Any:
    if is_section(kind):
        return _section(kind, value, key)
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        if not isinstance(value, list):
            raise problem(key, f"{found(value)}, expected a list; put it in [ ]")
        return tuple(build(item, part, join(key, i)) for i, part in enumerate(value))
    if get_origin(kind) is dict:
        table = _table(value, key)
        return {name: build(str, part, join(key, name)) for name, part in table.items()}
    return _leaf(kind, value, key)


def _table(value: object, key: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise problem(key, f"{found(value)}, expected a table with keys of its own")
    return value


def _section(kind: type[Struct], value: object, key: str) -> Struct:
    table = _table(value, key)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name, part in table.items():
        if name not in fields:
            raise SettingsError(f"{unknown(key, name, fields)}{origin(part)}")
    for name, field in fields.items():
        if field.required and name not in table:
            raise problem(join(key, name), f"is missing; set it to {expected(field.type)}")
    built = {name: build(fields[name].type, part, join(key, name)) for name, part in table.items()}
    return kind(**built)


def _leaf(kind: Any, value: object, key: str) -> Any:
    base, meta = bare(kind)
    try:
        if base not in PARSERS:
            return msgspec.convert(value, kind)
        parsed = PARSERS[base](value)
        check_bounds(parsed, meta)
    except (UnfitError, msgspec.ValidationError):
        raise problem(key, f"{_found(base, value)}, expected {expected(kind)}") from None
    return parsed


def _found(base: Any, value: object) -> str:
    if isinstance(value, str) and _choices(base):
        return f"found {shown(value)}"
    return found(value, numbers=base not in (Secret, Url))


def expected(kind: Any) -> str:
    """Words for what a key should hold, for an error message."""
    kind = required(kind)
    base, meta = bare(kind)
    if meta.description:
        return meta.description
    if choices := _choices(base):
        return f"one of {', '.join(choices)}"
    if is_section(base):
        return "a table with keys of its own"
    return "a list" if get_origin(base) is tuple else WORDS[base]


def _choices(base: Any) -> list[str]:
    if get_origin(base) is Literal:
        return list(get_args(base))
    if isinstance(base, type) and issubclass(base, enum.Enum):
        return [member.value for member in base]
    return []
