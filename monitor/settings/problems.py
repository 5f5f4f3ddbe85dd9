"""Errors in settings, each on one line: the key, the value found and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches

from monitor.errors import SettingsError

_BARE = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_LONGEST_SHOWN = 40


def problem(key: str, text: str) -> SettingsError:
    """Return a SettingsError with the message ``key: text``."""
    return SettingsError(f"{key}: {text}")


class Problems:
    """Collector of SettingsErrors, so that all errors of a settings file are raised at once.

    Example:
        >>> problems = Problems()
        >>> with problems.collected():
        ...     raise problem("a", "is missing")
        >>> problems.raise_any()
        Traceback (most recent call last):
        monitor.errors.SettingsError: a: is missing
    """

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Catch a SettingsError of the block and keep its problems, without duplicates."""
        try:
            yield
        except SettingsError as error:
            self._found += [text for text in error.problems if text not in self._found]

    def raise_any(self) -> None:
        """Raise one SettingsError with all collected problems; do nothing if there are none."""
        if self._found:
            raise SettingsError(*self._found)


def shown(text: str) -> str:
    """Return the repr of a text, cut short if it is long."""
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "...")


def join(key: str, part: str | int) -> str:
    """Return the full key of a child, such as ``use_case[0].contract``."""
    if isinstance(part, int):
        return f"{key}[{part}]"
    part = part if _BARE.match(part) else shown(part)
    return f"{key}.{part}" if key else part


def found_text(value: object, *, numbers: bool = False) -> str:
    """Return ``found ...`` with the kind of a value in words; ``numbers`` shows a number itself."""
    if numbers and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return f"found the number {value}" if _is_short(value) else "found an extreme number"
    for kind, words in _KINDS:
        if isinstance(value, kind):
            return f"found {words}"
    return "found nothing"


def unknown(key: str, name: str, keys: Iterable[str]) -> SettingsError:
    """Return the SettingsError for an unknown key, with the nearest of ``keys``, or all of them."""
    names = list(keys)
    near = get_close_matches(name.lower()[:64], names, n=1)
    fix = f"did you mean {join(key, near[0])}?" if near else f"known here: {', '.join(names)}"
    return problem(join(key, name), f"unknown key; {fix}")


def _is_short(value: int | Decimal) -> bool:
    if isinstance(value, Decimal):
        return len(str(value)) <= _LONGEST_SHOWN
    # Converting a huge integer to text is refused by Python itself.
    return value.bit_length() <= 64  # noqa: PLR2004 - one machine word


# bool before int and datetime before date: they are subclasses.
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (Decimal, "a decimal number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a table"),
    (datetime, "a date with a time"),
    (date, "a date"),
    (time, "a time of day"),
)
