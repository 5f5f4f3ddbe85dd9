"""CSV as the objects that JSON lines would hold.

Columns have the fields' names, but for attributes (``attributes.NAME``) and versions
(``versions.judge`` ...); ``varies`` is separated by spaces, ``request`` is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from monitor.audit.fields import ALL_NAMES, HINTS, SetFields, VersionFields, fits
from monitor.audit.files import Record, csv_table, parse_json
from monitor.audit.problems import problem, unknown
from monitor.settings.kinds import AttributeName

_COLUMNS = (
    *(name for name in ALL_NAMES if name not in {"attributes", "versions"}),
    *(f"versions.{name}" for name in HINTS[VersionFields]),
)
_SHOWN_COLUMNS = (*_COLUMNS, "attributes.NAME")
_TRUE_OR_FALSE = {"synthetic", "expected_ready", "reviewers_agree", "held_out", "evidence_passed"}
_NUMBERS = {"judge_score", "threshold"}
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")
_TRUTHS = {"true": True, "false": False}


def nested_records(path: Path) -> Iterator[Record]:
    """The rows of a CSV file.

    Raises:
        AuditError: the file cannot be read, or has a column that no row has.
    """
    header, rows = csv_table(path)
    _check_columns(path, header)
    for line, cells in rows:
        yield line, _nested(path, line, cells)


def _check_columns(path: Path, header: Sequence[str]) -> None:
    unknowns = [name for name in header if not (name in _COLUMNS or _is_attribute(name))]
    if not unknowns:
        return
    if 2 * len(unknowns) > len(header):
        # Without a header the first row is data, which is not repeated.
        known = "no" if len(unknowns) == len(header) else "hardly a"
        columns = ", ".join(_SHOWN_COLUMNS)
        text = f"{known} known column; the first row names the columns: {columns}"
        raise problem(path, text, line=1)
    raise unknown(path, 1, _SHOWN_COLUMNS, unknowns[0])


def _is_attribute(column: str) -> bool:
    outer, _, name = column.partition(".")
    return outer == "attributes" and fits(name, AttributeName)


def _nested(path: Path, line: int, cells: Mapping[str, str]) -> dict[str, object]:
    """A row of CSV as the object it would be in JSON lines."""
    record: dict[str, object] = {}
    for name, cell in cells.items():
        outer, dot, inner = name.partition(".")
        if dot:
            cast(dict[str, object], record.setdefault(outer, {}))[inner] = cell
        else:
            record[name] = _value(path, line, name, cell)
    return record


def _value(path: Path, line: int, name: str, cell: str) -> object:
    """A cell as its column has it; what does not fit stays text, and is refused as such."""
    if name == "request":
        return parse_json(path, line, cell, name)
    if name == "varies":
        names = cell.split()
        return names if fits(names, HINTS[SetFields][name]) else cell
    if name in _TRUE_OR_FALSE:
        return _TRUTHS.get(cell.lower(), cell)
    if name in _NUMBERS and _NUMBER.match(cell):
        return float(cell)
    return cell
