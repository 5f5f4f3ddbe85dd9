"""CSV that is safe to open in a spreadsheet.

Example:
    >>> print(written(["slice", "gap"], [["=cmd", 0.1], ["channel=chat", None]]), end="")
    slice,gap
    '=cmd,0.1
    channel=chat,
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import date
from enum import Enum

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def written(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format a table as CSV text (RFC 4180, but lines end in LF); None becomes an empty field.

    A text that a spreadsheet would take for a formula is preceded by an apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(value) for value in row] for row in rows)
    return buffer.getvalue()


def _field(value: object) -> object:
    """Return a value for CSV; text that a spreadsheet would run as a formula gets an apostrophe."""
    if isinstance(value, date):  # datetimes too
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
