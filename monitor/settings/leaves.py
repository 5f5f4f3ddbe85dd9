"""Leaves of the settings: how one TOML value becomes one typed value."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from msgspec import Meta

from monitor.settings.kinds import Duration, Secret, Url, duration_micros

# An exact limit is a person's decision: more digits are a mistake, and huge exponents would
# fill the memory.
_MAX_DECIMALS = 12


class UnfitError(ValueError):
    """The value is not of the kind; the caller knows the key and the words."""


def check_bounds(value: Any, meta: Meta) -> None:
    """Raise UnfitError when a value lies outside the bounds of its kind."""
    inside = (
        (meta.ge is None or value >= meta.ge)
        and (meta.gt is None or value > meta.gt)
        and (meta.le is None or value <= meta.le)
        and (meta.lt is None or value < meta.lt)
    )
    if not inside:
        raise UnfitError


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UnfitError
    return value


def _duration(value: object) -> Duration:
    try:
        return duration_micros(_text(value))
    except ValueError:
        raise UnfitError from None


def _number(value: object) -> Decimal:
    """A finite number with few digits, from a TOML integer or float."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise UnfitError
    if isinstance(value, int):
        value = Decimal(value) if value.bit_length() <= 64 else Decimal("NaN")  # noqa: PLR2004
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DECIMALS:
        raise UnfitError
    return value


def _fraction(value: object) -> Fraction:
    number = _number(value)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -_MAX_DECIMALS:
        raise UnfitError
    return Fraction(number)


def _date(value: object) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(_text(value))
    except ValueError:
        raise UnfitError from None


def _instant(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise UnfitError from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise UnfitError
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise UnfitError from None


def _secret(value: object) -> Secret:
    if not _text(value).strip():
        raise UnfitError
    return Secret(_text(value))


def _url(value: object) -> Url:
    scheme, mark, _ = _text(value).partition("://")
    if not (scheme and mark) or any(letter.isspace() for letter in _text(value)):
        raise UnfitError
    return Url(_text(value))


PARSERS: dict[Any, Callable[[object], Any]] = {
    Duration: _duration,
    Fraction: _fraction,
    Secret: _secret,
    Url: _url,
    date: _date,
    datetime: _instant,
    float: lambda value: float(_number(value)),
}
WORDS: dict[Any, str] = {
    bool: "true or false",
    str: "text in quotes",
    Secret: "text that is not empty",
    date: "a date such as 2026-01-31",
    datetime: "a time with a zone such as 2026-01-31T00:00:00Z",
}
