"""Build typed settings from a parsed TOML tree, key by key, so that errors name the key."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from unicodedata import normalize

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from monitor.errors import SettingsError
from monitor.settings.environment import EnvText, origin
from monitor.settings.kinds import (
    ENDS,
    Beginning,
    Duration,
    File,
    ListedValue,
    Secret,
    Url,
    duration_micros,
    listed_value,
)
from monitor.settings.problems import Problems, found_text, join, problem, shown, unknown

# A person decides an exact limit, so more digits are a mistake; huge exponents would fill the
# memory.
_MAX_DECIMALS = 12


def build(kind: Any, value: object, key: str) -> Any:
    """Return a TOML or environment value as ``kind``; raise SettingsError that names ``key``.

    Args:
        kind: a Section, ``tuple[kind, ...]``, ``dict[str, leaf]`` or a leaf, each also with
            ``| None`` (TOML has no null: an optional key is left out).
        value: value parsed by tomllib, or :class:`EnvText` from the environment.
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
        texts = (f"{text}{origin(value)}" for text in error.problems)
        raise SettingsError(*texts) from None


def required(kind: Any) -> Any:
    """Return the kind without ``| None``, if it has that."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def is_section(kind: Any) -> bool:
    """Return True when a kind is a settings section, that is a table with declared keys."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def bare(kind: Any) -> tuple[Any, Meta]:
    """Return a leaf kind without its annotation, and the annotation's bounds (Meta)."""
    if get_origin(kind) is Annotated:
        base, meta = get_args(kind)
        return base, meta
    return kind, Meta()


def secrets_of(kind: type[Struct]) -> list[str]:
    """Return the names of a section's secrets; each can be given as NAME or as NAME_file."""
    return [field.name for field in fields(kind) if bare(required(field.type))[0] is Secret]


def declared_kinds(kind: type[Struct]) -> dict[str, Any]:
    """Return the kinds of all keys of a section, with NAME_file for each secret NAME."""
    kinds = {field.name: field.type for field in fields(kind)}
    return kinds | {f"{name}_file": File for name in secrets_of(kind)}


def _from_environment(kind: Any, value: EnvText) -> object:
    """Return an environment variable's value as text or parsed, by the kind of the setting."""
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
        item_kind = get_args(kind)[0]
        if not isinstance(value, list):
            raise problem(key, f"{found_text(value)}, expected a list; put it in [ ]")
        return tuple(_build_all(item_kind, {join(key, i): part for i, part in enumerate(value)}))
    if get_origin(kind) is dict:
        table = _table(value, key)
        leaf = get_args(kind)[1]
        parts = _build_all(leaf, {join(key, name): part for name, part in table.items()})
        return {normalize("NFC", n): _nfc(part) for n, part in zip(table, parts, strict=True)}
    return _leaf(kind, value, key)


def _nfc(value: object) -> object:
    return normalize("NFC", value) if isinstance(value, str) else value


def _build_all(kind: Any, parts: Mapping[str, object]) -> list[Any]:
    """Return a list of built values; raise one SettingsError with the problems of all parts."""
    problems, built = Problems(), []
    for key, part in parts.items():
        with problems.collected():
            built.append(build(kind, part, key))
    problems.raise_any()
    return built


def _table(value: object, key: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise problem(key, f"{found_text(value)}, expected a table with keys of its own")
    return value


def _section(kind: type[Struct], value: object, key: str) -> Struct:
    table = _table(value, key)
    kinds = declared_kinds(kind)
    problems, built = Problems(), {}
    for name, part in table.items():
        with problems.collected():
            if name not in kind.__struct_fields__:
                raise SettingsError(f"{unknown(key, name, kinds)}{origin(part)}")
            built[name] = build(kinds[name], part, join(key, name))
    for field in fields(kind):
        with problems.collected():
            if field.required and field.name not in table:
                missing = join(key, field.name)
                raise problem(missing, f"is missing; set it to {expected(field.type)}")
    problems.raise_any()
    return kind(**built)


def _leaf(kind: Any, value: object, key: str) -> Any:
    """Return a value as its kind, within its bounds; errors name the key and what is expected."""
    base, meta = bare(kind)
    try:
        if base not in _PARSERS:
            return msgspec.convert(value, kind)
        parsed = _PARSERS[base](value)
        _check_bounds(parsed, meta)
    except (ValueError, OverflowError, msgspec.ValidationError):
        raise problem(key, f"{_found_text(base, value)}, expected {expected(kind)}") from None
    return parsed


def _found_text(base: Any, value: object) -> str:
    if isinstance(value, str) and base not in (Secret, Url):
        return f"found {'' if _choices(base) else 'text '}{shown(value)}"
    return found_text(value, numbers=base not in (Secret, Url))


def expected(kind: Any) -> str:
    """Return words on what a key should hold, for an error message."""
    kind = required(kind)
    base, meta = bare(kind)
    if meta.description:
        return meta.description
    if choices := _choices(base):
        return f"one of {', '.join(choices)}"
    if is_section(base):
        return "a table with keys of its own"
    return "a list" if get_origin(base) is tuple else _WORDS[base]


def _choices(base: Any) -> list[str]:
    if get_origin(base) is Literal:
        return list(get_args(base))
    if isinstance(base, type) and issubclass(base, enum.Enum):
        return [member.value for member in base]
    return []


def _check_bounds(value: Any, meta: Meta) -> None:
    inside = (
        (meta.ge is None or value >= meta.ge)
        and (meta.gt is None or value > meta.gt)
        and (meta.le is None or value <= meta.le)
        and (meta.lt is None or value < meta.lt)
    )
    if not inside:
        raise ValueError(value)


# The parsers raise ValueError or OverflowError for unsuitable values.


def _as_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _as_number(value: object) -> Decimal:
    """Return a TOML integer or float as a Decimal; raise ValueError if it is none, or extreme."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError
    if isinstance(value, int):
        value = Decimal(value) if value.bit_length() <= 64 else Decimal("NaN")  # noqa: PLR2004
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DECIMALS:
        raise ValueError
    return value


def _fraction(value: object) -> Fraction:
    number = _as_number(value)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -_MAX_DECIMALS:
        raise ValueError
    return Fraction(number)


def _date(value: object) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return date.fromisoformat(_as_text(value))


def _instant(value: object) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError
    return value.astimezone(UTC)


def _beginning(value: object) -> Beginning:
    return Beginning(str(value) if value in ENDS else _instant(value).isoformat())


def _secret(value: object) -> Secret:
    if isinstance(value, Secret):  # read from a file already
        return value
    if not _as_text(value).strip():
        raise ValueError
    return Secret(_as_text(value))


def _url(value: object) -> Url:
    scheme, mark, _ = _as_text(value).partition("://")
    if not (scheme and mark) or any(letter.isspace() for letter in _as_text(value)):
        raise ValueError
    return Url(_as_text(value))


_PARSERS: dict[Any, Callable[[object], Any]] = {
    Beginning: _beginning,
    Duration: lambda value: duration_micros(_as_text(value)),
    Fraction: _fraction,
    ListedValue: lambda value: listed_value(_as_text(value)),
    Secret: _secret,
    Url: _url,
    date: _date,
    datetime: _instant,
    float: lambda value: float(_as_number(value)),
}
_WORDS: dict[Any, str] = {
    bool: "true or false",
    str: "text in quotes",
    Beginning: '"earliest", "latest" or a time with a zone such as 2026-01-31T00:00:00Z',
    Secret: "text that is not empty",
    date: "a date such as 2026-01-31",
    datetime: "a time with a zone such as 2026-01-31T00:00:00Z",
}
