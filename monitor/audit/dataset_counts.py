"""Row counts of a training set by combination of attributes, read from a CSV file.

Each line is a combination. Columns are named like the attributes, plus ``count``, and if known
``ready`` (true or false) and ``target``, the share of all rows that the combination should have.
``target`` adds up to 1, or to 100 in percent. A combination with a target and no rows is listed
with the count 0::

    language_variety,ready,count,target
    formal,true,400,0.30
    formal,false,220,0.20
    conversational,true,150,0.30
    conversational,false,230,0.20
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from pathlib import Path

from monitor.audit.record_files import Label, csv_table, fits, is_csv, problem, words
from monitor.settings.kinds import AttributeName

MAX_VALUES = 100
"""Most values of an attribute: nobody compares more slices, and intersections are products."""
_MAX_DIGITS = 12
_READY, _COUNT, _TARGET = "ready", "count", "target"
_RESERVED = (_READY, _COUNT, _TARGET)
_SHARE = re.compile(r"[0-9]{1,3}(\.[0-9]{1,9})?\Z")
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Combination:
    """Line of the CSV file: one combination of values with its number of rows.

    Attributes:
        values: value of each attribute.
        ready: label of these rows; None without this column.
        count: number of rows.
        target: share of all rows that they should be; None without this column.
    """

    values: Mapping[str, str]
    ready: bool | None
    count: int
    target: float | None


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Content of the CSV file of counts; no combination occurs twice.

    Attributes:
        attributes: names, sorted.
        has_ready: the rows have labels.
        has_target: the file states a target.
        combinations: in the order of the file.
    """

    attributes: tuple[str, ...]
    has_ready: bool
    has_target: bool
    combinations: tuple[Combination, ...]


def read_counts(path: Path) -> RowCounts:
    """Read and check a CSV file of row counts; targets are scaled to sum to 1.

    Raises:
        AuditError: the file cannot be read, or is not as described above.
    """
    if not is_csv(path):
        raise problem(path, "counts are read from CSV; choose a name that ends in .csv")
    header, rows = csv_table(path)
    attributes = _attributes(path, header)
    lines = [(line, _combination(path, line, header, cells)) for line, cells in rows]
    _check_doubles(path, lines)
    combinations = [combination for _, combination in lines]
    if not any(row.count for row in combinations):
        raise problem(path, "no rows are counted; write one line for each combination")
    for name in attributes:
        if len({row.values[name] for row in combinations}) > MAX_VALUES:
            raise problem(path, f"more than {MAX_VALUES} values; group them", field=name)
    if _TARGET in header:
        combinations = _with_shares(path, combinations)
    return RowCounts(attributes, _READY in header, _TARGET in header, tuple(combinations))


def _attributes(path: Path, header: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the attribute columns, sorted; the error names a bad or absent column."""
    names = [name for name in header if name not in _RESERVED]
    for name in names:
        if not fits(name, AttributeName):
            # Without a header the first line is data, which is not repeated.
            text = f"column {header.index(name) + 1} has no name of an attribute; write "
            raise problem(path, f"{text}{words(AttributeName)}", line=1)
    if not names or _COUNT not in header:
        missing = "column of an attribute" if not names else f"column {_COUNT}"
        raise problem(path, f"no {missing}; write attributes, {_COUNT} and a header", line=1)
    return tuple(sorted(names))


def _combination(
    path: Path, line: int, header: Iterable[str], cells: Mapping[str, str]
) -> Combination:
    """Return one line of the file, checked: attribute values, label, count and target."""
    values = {name: cells.get(name, "") for name in sorted(header) if name not in _RESERVED}
    for name, value in values.items():
        if not fits(value, Label):
            raise problem(path, f"empty or unfit; write {words(Label)}", line=line, field=name)
    ready = _TRUTHS.get(cells.get(_READY, "").lower())
    if ready is None and _READY in header:
        raise problem(path, "write true or false", line=line, field=_READY)
    count = cells.get(_COUNT, "")
    if not (count.isascii() and count.isdigit() and len(count) <= _MAX_DIGITS):
        raise problem(path, "write a whole number from 0", line=line, field=_COUNT)
    return Combination(values, ready, int(count), _target(path, line, header, cells))


def _target(path: Path, line: int, header: Iterable[str], cells: Mapping[str, str]) -> float | None:
    if _TARGET not in header:
        return None
    text = cells.get(_TARGET, "")
    if not _SHARE.match(text):
        raise problem(path, "write a share such as 0.25, or 25", line=line, field=_TARGET)
    return float(text)


def _check_doubles(path: Path, lines: Iterable[tuple[int, Combination]]) -> None:
    """Raise an error if two lines have the same values and label."""
    first_lines: dict[tuple[object, ...], int] = {}
    for line, combination in lines:
        first_line = first_lines.setdefault((*combination.values.values(), combination.ready), line)
        if first_line != line:
            text = f"the combination of line {first_line} again; add the counts up"
            raise problem(path, text, line=line)


def _with_shares(path: Path, combinations: Sequence[Combination]) -> list[Combination]:
    """Return the rows with targets that sum to 1; an error unless they sum to 1 or 100."""
    total = sum(row.target or 0 for row in combinations)
    # Shares are written with two or three digits: thirds add up to 0.999.
    if not (isclose(total, 1, abs_tol=0.005) or isclose(total, 100, abs_tol=0.5)):
        raise problem(path, f"adds up to {total:g}; make it 1, or 100 in percent", field=_TARGET)
    return [replace(row, target=(row.target or 0) / total) for row in combinations]
