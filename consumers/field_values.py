"""Values of an existing log, turned into what the fields of an event hold.

What cannot be turned stays as it is, so that the codec refuses it by the name of the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

TimeUnit = Literal["milliseconds", "seconds", "microseconds", "nanoseconds"]

TIMES = ("decided_at", "labelled_at")
TRUTHS = ("evidence_passed", "label_requested", "expected_ready", "ready", "blind")
FRACTIONS = ("judge_score", "threshold", "audit_p")
_IDS = ("decision_id", "label_id", "unit", "pair_id", "reviewer")
_MILLIS: Mapping[TimeUnit, float] = {
    "milliseconds": 1.0,
    "seconds": 1e3,
    "microseconds": 1e-3,
    "nanoseconds": 1e-6,
}
_TRUTH_BY_TEXT = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?\Z")
_DIGITS_OF_DATES = (8, 14)
"""Digits of 20260601 and 20260601100500, which would be read as another moment."""
LARGEST = 1e19
"""Numbers below it fit a machine word, and no unit of time makes them infinite."""
DIGITS = 19
"""Most digits of a whole number in text: nanoseconds have as many."""
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


def value_text(value: str | float) -> str:
    """Return the text by which settings name a value; non-texts as JSON has them.

    Example:
        >>> [value_text(value) for value in ("chat", 7, 2.0, True)]
        ['chat', '7', '2', 'true']
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if value == int(value) else repr(value)


def text_of(value: object) -> str | None:
    """Return the text by which settings name a value; None for what is no scalar."""
    return value_text(value) if isinstance(value, str | int | float) else None


def number_of(value: object) -> int | float | None:
    """Return a number below :data:`LARGEST`, also one in text; None for anything else.

    Example:
        >>> [number_of(value) for value in (7, "7", " 0.92 ", "1780308300000.0", "nan", True)]
        [7, 7, 0.92, 1780308300000.0, None, None]
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if abs(value) < LARGEST else None
    if not isinstance(value, str) or not _NUMBER.match(text := value.strip()):
        return None
    if text.isdecimal() and len(text) <= DIGITS:
        return int(text)
    number = float(text)
    return number if abs(number) < LARGEST else None


@dataclass(frozen=True, slots=True)
class TimeForm:
    """Form of a log's times.

    Attributes:
        unit: unit of numbers since 1970.
        format: format of texts as ``strptime`` has it; None for ISO 8601.
        zone: zone of texts that name none; None leaves them unread.
    """

    unit: TimeUnit = "milliseconds"
    format: str | None = None
    zone: ZoneInfo | None = None

    @classmethod
    def named(cls, times: str, zone: ZoneInfo | None) -> TimeForm:
        """Return the form of ``mapping.*.times``: a unit of numbers, or a format of texts."""
        unit = next((unit for unit in get_args(TimeUnit) if unit == times), None)
        return cls(format=times, zone=zone) if unit is None else cls(unit, zone=zone)

    def read(self, value: object) -> object:
        """Return a time as milliseconds or in RFC 3339; return any other value unchanged."""
        if isinstance(value, str) and (self.format is not None or not self._is_number(value)):
            return self._from_text(value)
        number = number_of(value)
        return value if number is None else round(number * _MILLIS[self.unit])

    def _is_number(self, text: str) -> bool:
        """Return True for the text of a number, unless it is as long as a date without dashes."""
        return number_of(text) is not None and len(text.strip()) not in _DIGITS_OF_DATES

    def _from_text(self, text: str) -> str:
        """Return a time as RFC 3339; the text itself if it fits no known form, so it is refused."""
        if self.format is None and RFC_3339.match(text):
            return text
        try:
            if self.format is None:
                moment = datetime.fromisoformat(text.strip())
            else:
                moment = datetime.strptime(text.strip(), self.format)  # noqa: DTZ007 - see below
        except ValueError:
            return text
        if moment.tzinfo is None:
            if self.zone is None:
                return text
            moment = moment.replace(tzinfo=self.zone)
        return moment.isoformat()


def reader_of(field: str, times: TimeForm, divisor: float | None) -> Callable[[Any], Any]:
    """Return the function that turns a log's value into one of ``field``.

    Args:
        field: name of the field, nested ones with a dot.
        times: form of the log's times.
        divisor: what numbers are divided by; None leaves them as they are.
    """
    if field in TIMES:
        return times.read
    if field in TRUTHS:
        return _truth
    if field == "version" or field in FRACTIONS:
        return lambda value: _divided(value, divisor)
    if field in _IDS:
        return _identifier
    return _version_name if field.startswith("versions.") else lambda value: value


def _truth(value: object) -> object:
    text = text_of(value)
    return value if text is None else _TRUTH_BY_TEXT.get(text.strip().lower(), value)


def _divided(value: object, divisor: float | None) -> object:
    """Return a number over the divisor, or as it is without one; other values unchanged."""
    number = number_of(value)
    if number is None:
        return value
    return number if divisor is None else number / divisor


def _identifier(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _version_name(value: object) -> object:
    return value if text_of(value) is None else text_of(value)
