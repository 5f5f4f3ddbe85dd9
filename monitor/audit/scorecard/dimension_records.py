"""Records of a dimension: JSON lines or CSV, one item and variant, text or vector per line.

Unknown fields are refused, so that prompts and answers have no place here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from msgspec import Meta, Struct, ValidationError, convert

from monitor.audit.record_files import (
    Label,
    Record,
    Truth,
    csv_table,
    first_error,
    hints_of,
    is_csv,
    json_records,
    parse_json,
    problem,
    unknown,
)

ASSOCIATED = ("X", "Y", "A", "B")
_LONGEST_VECTOR = 16_384
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

LogProbability = Annotated[
    float, Meta(le=0, description="a natural logarithm of a probability, 0 or below")
]
SetName = Annotated[
    Literal["X", "Y", "A", "B"], Meta(description="X or Y for a target, A or B for an attribute")
]
Numbers = Annotated[
    list[float],
    Meta(
        min_length=1,
        max_length=_LONGEST_VECTOR,
        description="a list of numbers, as many in every line (CSV: JSON in quotes)",
    ),
]


class _OfVariant(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    item: Label
    variant: Label


class _OfSlice(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    item: Label
    slice: Label


class Refusal(_OfVariant, frozen=True, kw_only=True):
    """Answer to one variant of an item; ``refused`` is true if the model refused it."""

    refused: Truth


class LogProbabilities(_OfVariant, frozen=True, kw_only=True):
    """Log probability of a target in one variant of an item, and without the item."""

    log_p_target: LogProbability
    log_p_prior: LogProbability


class Categorised(_OfVariant, frozen=True, kw_only=True):
    """Answer to one variant of an item, by its category."""

    category: Label


class Selected(_OfSlice, frozen=True, kw_only=True):
    """Item in a slice; ``selected`` is true if it was selected."""

    selected: Truth


class Judged(Selected, frozen=True, kw_only=True):
    """Item in a slice: selected or not, and ready (should be selected) or not."""

    ready: Truth


class Flagged(_OfSlice, frozen=True, kw_only=True):
    """Text in a slice: flagged by an evaluator or not, and toxic by reviewers or not."""

    flagged: Truth
    toxic: Truth


class Vector(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Vector of one word or sentence in set X, Y, A or B."""

    set: SetName
    vector: Numbers


Kind = TypeVar("Kind", bound=Struct)


def read_records(path: Path, kind: type[Kind]) -> list[Kind]:
    """Read a file's records as type ``kind``; no item and variant may occur twice.

    Raises:
        AuditError: the file cannot be read, has no records, or a record is not of this kind.
    """
    names = tuple(get_type_hints(kind))
    keys = [name for name in ("item", "variant") if name in names]
    records, first_lines = [], dict[tuple[object, ...], int]()
    for line, fields in _lines(path, kind):
        record = typed(path, fields, kind, line=line)
        key = tuple(getattr(record, name) for name in keys)
        if keys and first_lines.setdefault(key, line) != line:
            text = f"line {first_lines[key]} already has this {' and '.join(keys)}; remove one"
            raise problem(path, text, line=line, field=keys[-1])
        records.append(record)
    if not records:
        raise problem(path, f"no records; write one a line, with {', '.join(names)}")
    _check_lengths(path, records)
    return records


def typed(
    path: Path,
    fields: Mapping[str, object],
    kind: type[Kind],
    *,
    line: int = 0,
    place: Sequence[str] = (),
) -> Kind:
    """Convert fields by name to a record of type ``kind``; errors name the field and the fix.

    Args:
        path: path of the file, for errors.
        fields: fields by name.
        kind: type of the record.
        line: line of the fields; 0 where the file has no lines.
        place: names of the tables around the fields.

    Raises:
        AuditError: a field is missing, unfit or unknown; the error names it and the fix.
    """
    try:
        return convert(fields, kind)
    except ValidationError:
        raise first_error(path, line, fields, kind, *place) from None


def _lines(path: Path, kind: type[Struct]) -> Iterable[Record]:
    """Return line number and fields of each record, from JSON lines or CSV."""
    if not is_csv(path):
        return json_records(path)
    hints = hints_of(kind)
    header, rows = csv_table(path)
    for name in header:
        if name not in hints:
            raise unknown(path, 1, hints, name)
    return ((line, _cells(path, line, cells, hints)) for line, cells in rows)


def _cells(
    path: Path, line: int, cells: Mapping[str, str], hints: Mapping[str, Any]
) -> dict[str, object]:
    """Convert the cells of a CSV row to their fields' types; cells that do not fit stay text."""
    fields: dict[str, object] = {}
    for name, cell in cells.items():
        if hints[name] == Truth:
            fields[name] = _TRUTHS.get(cell.lower(), cell)
        elif hints[name] in (LogProbability, Numbers):
            fields[name] = parse_json(path, line, cell, name)
        else:
            fields[name] = cell
    return fields


def _check_lengths(path: Path, records: Sequence[Struct]) -> None:
    if len({len(record.vector) for record in records if isinstance(record, Vector)}) > 1:
        raise problem(path, "vectors of several lengths; all are of one space", field="vector")
