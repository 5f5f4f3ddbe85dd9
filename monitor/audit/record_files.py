"""Files as records: JSON lines or CSV, plain or gzipped, each record with its first line.

A row is flat: it has the fields of the set and those of the results. Absent fields, null and (in
CSV) empty cells mean that nothing was said. Columns of CSV such as ``versions.judge`` become the
nested objects that JSON lines have.

Errors are on one line: file, line, field, what was found, and the fix, in words that each field's
type has. They repeat names of fields but never a value: a set may be reviewed data of real people.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_type_hints

from msgspec import Meta, Struct, ValidationError, convert, structs

from monitor.errors import AuditError
from monitor.settings.kinds import AttributeName, Name
from monitor.settings.problems import join

MAX_BYTES = 64 << 20
"""Limit of an unpacked file, some 100,000 variants: people review a set, and memory holds it."""

Record = tuple[int, dict[str, object]]
"""First line of a record, from 1, and its fields."""
_PRINTABLE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"

Label = Annotated[
    str,
    Meta(
        # Ids and names are printed in tables, XML and HTML, on one line.
        pattern=rf"^(?!\s){_PRINTABLE}{{1,200}}(?<!\s)\Z",
        description="text of at most 200 characters, on one line, without spaces at its ends",
    ),
]
Axis = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z][A-Za-z0-9_-]{0,63})?\Z",
        description="the name of what is varied, such as dialect: a letter, then letters, digits, "
        "_ or -",
    ),
]
Version = Annotated[
    str,
    Meta(
        pattern=rf"^(?!\s){_PRINTABLE}{{1,128}}(?<!\s)\Z",
        description="a version in text: 1 to 128 printable characters, no blank at its ends",
    ),
]
Truth = Annotated[bool, Meta(description="true or false")]
Fraction = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1, such as 0.70")]
RouteName = Annotated[
    Literal["auto_serve", "human_review", "blocked_by_evidence"],
    Meta(description="auto_serve, human_review or blocked_by_evidence, or leave it out"),
]
Varied = Annotated[
    list[Literal["expected_ready", "policy", "evidence"]],
    Meta(
        description="a list of what differs on purpose, out of expected_ready, policy, evidence, "
        'such as ["policy"] (CSV: the names with a space between them)'
    ),
]
Attributes = Annotated[
    dict[AttributeName, Label],
    Meta(
        min_length=1,
        description='attribute names with their values in text, such as {"channel": "chat"} '
        "(CSV: a column attributes.NAME for each)",
    ),
]
RequestDigest = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{64}\Z",
        description="the SHA-256 of the request, as slicewatch probe run writes it",
    ),
]


class VersionFields(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Versions of the router's parts that decided, as a row of results has them.

    Reports have ``RunVersions``, whose published schema has no patterns.
    """

    judge: Version
    rubric: Version
    policy: Version
    router: Version


VersionTuple = Annotated[
    VersionFields,
    Meta(
        description="the versions of judge, rubric, policy and router "
        "(CSV: a column versions.NAME for each)"
    ),
]


class SetFields(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Fields of one row of a probe set: shared fields and those of the variant.

    Attributes:
        dataset: name of the set for people; the same in every row.
        synthetic: true for invented test conditions, false for reviewed data of real people.
        pair_id: the pair that the row belongs to.
        variant: name of the variant.
        attributes: allow-listed in the settings; variants of a pair differ in at least one.
        policy: version of the policy that the reviewers applied.
        dataset_version: version of the set for people; the same in every row.
        varies: which of expected_ready, policy and evidence differ within pairs on purpose.
        axis: what is varied; pairs of one axis have the same variants.
        expected_ready: whether reviewers say that the reply is ready.
        evidence: id of the evidence supplied with the request.
        reviewers_agree: two reviewers agree that the variants ask for the same, and on the outcome.
        held_out: never used to repair the router; reported apart.
        request: what is sent; only a set has it, results do not.
        request_sha256: hash of the request, which is all that results keep of it.
    """

    dataset: Name
    synthetic: Truth
    pair_id: Label
    variant: Label
    attributes: Attributes
    policy: Version
    dataset_version: Version = "1"
    varies: Varied = []
    axis: Axis = ""
    expected_ready: Truth | None = None
    evidence: Label | None = None
    reviewers_agree: Truth | None = None
    held_out: Truth = False
    request: Any = None
    request_sha256: RequestDigest = ""


class ResultFields(SetFields, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Fields of a row of results: those of the set, and the router's decision.

    Attributes:
        threshold: a score equal to it is served.
        evidence_passed: whether the evidence gate let the request through.
        versions: versions of judge, rubric, policy and router.
        judge_score: score of the judge.
        route: if left out, it follows from score, threshold and evidence gate.
    """

    threshold: Fraction
    evidence_passed: Truth
    versions: VersionTuple
    judge_score: Fraction | None = None
    route: RouteName | None = None


@cache
def hints_of(kind: type[Struct]) -> dict[str, Any]:
    """Return the types of a record's fields by name, with their descriptions."""
    return get_type_hints(kind, include_extras=True)


@cache
def required_of(kind: type[Struct]) -> frozenset[str]:
    """Return the names of the fields that a record must have."""
    return frozenset(field.name for field in structs.fields(kind) if field.required)


SET_NAMES = frozenset(hints_of(SetFields))
RESULT_NAMES = frozenset(hints_of(ResultFields)) - SET_NAMES
ALL_NAMES = tuple(hints_of(ResultFields))


def words(hint: Any) -> str:
    """Return the description of a field's type, for error messages."""
    for part in (hint, *get_args(hint)):
        for meta in getattr(part, "__metadata__", ()):
            if meta.description:
                return str(meta.description)
    raise LookupError(hint)


def fits(value: object, hint: Any) -> bool:
    """Return True if msgspec converts the value to the field's type."""
    try:
        convert(value, hint)
    except ValidationError:
        return False
    return True


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "an object"),
)


def problem(path: Path, text: str, *, line: int = 0, field: str = "") -> AuditError:
    """Build the error for a file, with the line and field if given; ``text`` says what to fix."""
    place = [str(path) if str(path).isprintable() else repr(str(path))]
    place += [f"line {line}"] if line else []
    place += [f"field {field}"] if field else []
    return AuditError(f"{', '.join(place)}: {text}")


def kind_of(value: object) -> str:
    """Return the JSON kind of a value in words, such as "a number", without the value."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "nothing")


def field_name(*parts: str) -> str:
    """Join parts to a field's full name on one line, such as ``versions.judge``, cut short."""
    name = ""
    for part in parts:
        name = join(name, part)
    return name


def unknown(path: Path, line: int, allowed: Iterable[str], *parts: str) -> AuditError:
    """Build the error for a field that does not exist, with the nearest allowed name."""
    names = [".".join((*parts[:-1], name)) for name in allowed]
    near = get_close_matches(".".join(parts).lower()[:64], names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    text = f"unknown field; {hint}known here: {', '.join(names)}"
    return problem(path, text, line=line, field=field_name(*parts))


def first_error(
    path: Path, line: int, record: Mapping[str, object], kind: type[Struct], *parents: str
) -> AuditError:
    """Build the error for the first field, in declared order, that is missing or does not fit."""
    for name, hint in hints_of(kind).items():
        parts = (*parents, name)
        if name in record and not fits(record[name], hint):
            return _unfit_error(path, line, record[name], hint, *parts)
        if name not in record and name in required_of(kind):
            text = f"missing; write {words(hint)}"
            return problem(path, text, line=line, field=field_name(*parts))
    name = next(name for name in record if name not in hints_of(kind))
    return unknown(path, line, hints_of(kind), *parents, name)


def _unfit_error(path: Path, line: int, value: object, hint: Any, *parts: str) -> AuditError:
    """Return the error for a value that does not fit; it names the innermost unfit field."""
    if parts == ("versions",) and isinstance(value, dict):
        return first_error(path, line, value, VersionFields, *parts)
    if parts == ("attributes",) and isinstance(value, dict) and value:
        name = next(name for name in value if not fits({name: value[name]}, hint))
        inner = Label if fits(name, AttributeName) else AttributeName
        unfit = value[name] if inner is Label else name
        return _unfit_error(path, line, unfit, inner, *parts, name)
    text = f"found {kind_of(value)}; write {words(hint)}"
    return problem(path, text, line=line, field=field_name(*parts))


def is_csv(path: Path) -> bool:
    """Return True if the file's name ends in .csv or .csv.gz; other files are JSON lines."""
    name = path.name.lower().removesuffix(".gz")
    return name.endswith(".csv")


def is_gzipped(path: Path) -> bool:
    """Return True if the file's name ends in .gz."""
    return path.name.lower().endswith(".gz")


def json_records(path: Path) -> Iterator[Record]:
    """Yield (line number, fields) of each JSON line; blank lines and null fields are left out."""
    for line, text in enumerate(_read_text(path).split("\n"), 1):
        if text.strip():
            value = parse_json(path, line, text)
            if not isinstance(value, dict):
                raise problem(
                    path, f"found {kind_of(value)}; write one JSON object a line", line=line
                )
            yield line, {name: field for name, field in value.items() if field is not None}


def csv_table(path: Path) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Return a CSV file's columns, and (line number, non-empty cells by column) of each row."""
    rows = _csv_rows(path)
    line, header = next(rows, (1, []))
    _check_header(path, line, header)
    return header, _csv_body(path, header, rows)


def _csv_body(
    path: Path, header: Sequence[str], rows: Iterable[tuple[int, Sequence[str]]]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and non-empty cells of each row; an error if their number is wrong."""
    for line, row in rows:
        if len(row) != len(header):
            text = f"cells: {len(row)}, columns: {len(header)}; check commas and quotes"
            raise problem(path, text, line=line)
        yield line, {name: cell for name, cell in zip(header, row, strict=True) if cell != ""}


def toml_tree(path: Path, max_bytes: int, kind: str) -> dict[str, object]:
    """Read a TOML file of at most ``max_bytes`` and return its tables; errors ask for ``kind``."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise problem(path, f"is larger than {max_bytes} bytes; give {kind}")
        return tomllib.loads(data.decode())
    except OSError as error:
        raise problem(path, f"cannot be read: {error.strerror or 'check the path'}") from None
    except UnicodeDecodeError:
        raise problem(path, "is not UTF-8 text; save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise problem(path, f"is not valid TOML: {' '.join(str(error).split())}") from None


def parse_json(path: Path, line: int, text: str, field: str = "") -> object:
    """Parse one JSON text strictly, refusing NaN, infinite numbers and repeated keys."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_object_without_repeats,
            parse_constant=_refuse_constant,
            parse_float=_finite_number,
        )
    except RecursionError:
        raise problem(path, "nested too deeply; make it flatter", line=line, field=field) from None
    except _RepeatedKeyError as error:
        name = field_name(str(error))
        raise problem(path, f"the key {name} stands there twice", line=line, field=field) from None
    except ValueError as error:
        place = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        text = f"not JSON{place}; write one whole JSON text, without NaN or Infinity"
        raise problem(path, text, line=line, field=field) from None


class _RepeatedKeyError(ValueError):
    """Signal that a key occurs twice in one JSON object; the text is the key."""


def _object_without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; an error if a name is in it twice."""
    value: dict[str, object] = {}
    for name, field in pairs:
        if name in value:
            raise _RepeatedKeyError(name)
        value[name] = field
    return value


def _refuse_constant(_: str) -> object:
    """Raise a ValueError: NaN and Infinity are no JSON."""
    raise ValueError


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (first line number, cells) of each CSV row that is not blank."""
    # newline="": a quoted line break is part of the cell.
    reader = csv.reader(StringIO(_read_text(path), newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error:
        text = "not CSV; check its quotes, and that no cell is longer than 128 KiB"
        raise problem(path, text, line=line) from None


def _check_header(path: Path, line: int, header: list[str]) -> None:
    """Raise an error if the separator is wrong, or a column has no name or that of another one."""
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise problem(path, "one column only; separate columns by commas", line=line)
    for column, name in enumerate(header, 1):
        if not name:
            raise problem(path, "a column has no name", line=line)
        first = header.index(name) + 1
        if first != column:
            # Without a header these are two equal values, which are not repeated.
            text = f"column {column} has the name of column {first}; rename or remove one"
            raise problem(path, text, line=line)


def _read_text(path: Path) -> str:
    data = _read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise problem(path, "not UTF-8; save it as UTF-8", line=line) from None


def _read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if gzipped; refuse more than MAX_BYTES."""
    try:
        with gzip.open(path) if is_gzipped(path) else path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "not a whole gzip file"
        raise problem(path, f"cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise problem(path, f"longer than {MAX_BYTES >> 20} MiB; split it into several sets")
    return data


_COLUMNS = (
    *(name for name in ALL_NAMES if name not in {"attributes", "versions"}),
    *(f"versions.{name}" for name in hints_of(VersionFields)),
)
_SHOWN_COLUMNS = (*_COLUMNS, "attributes.NAME")
_TRUE_OR_FALSE = {"synthetic", "expected_ready", "reviewers_agree", "held_out", "evidence_passed"}
_NUMBERS = {"judge_score", "threshold"}
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")
_TRUTHS = {"true": True, "false": False}


def nested_records(path: Path) -> Iterator[Record]:
    """Yield (line number, fields) of each CSV row, nested as in JSON lines.

    Raises:
        AuditError: the file cannot be read, or has an unknown column.
    """
    header, rows = csv_table(path)
    _check_columns(path, header)
    for line, cells in rows:
        yield line, _nest(path, line, cells)


def _check_columns(path: Path, header: Sequence[str]) -> None:
    """Raise an error for the first unknown column, or for a file that seems to have no header."""
    unknowns = [name for name in header if not (name in _COLUMNS or _is_attribute(name))]
    if not unknowns:
        return
    if 2 * len(unknowns) > len(header):
        # Without a header the first row is data, which is not repeated.
        quantifier = "no" if len(unknowns) == len(header) else "hardly a"
        columns = ", ".join(_SHOWN_COLUMNS)
        text = f"{quantifier} known column; the first row names the columns: {columns}"
        raise problem(path, text, line=1)
    raise unknown(path, 1, _SHOWN_COLUMNS, unknowns[0])


def _is_attribute(column: str) -> bool:
    """Return True for a column such as ``attributes.channel``."""
    outer, _, name = column.partition(".")
    return outer == "attributes" and fits(name, AttributeName)


def _nest(path: Path, line: int, cells: Mapping[str, str]) -> dict[str, object]:
    """Return the cells of a CSV row as the object that a JSON line would hold."""
    record: dict[str, object] = {}
    for name, cell in cells.items():
        outer, dot, inner = name.partition(".")
        if dot:
            cast(dict[str, object], record.setdefault(outer, {}))[inner] = cell
        else:
            record[name] = _convert_cell(path, line, name, cell)
    return record


def _convert_cell(path: Path, line: int, name: str, cell: str) -> object:
    """Convert a cell to the type of column ``name``; leave a cell that does not fit as text."""
    if name == "request":
        return parse_json(path, line, cell, name)
    if name == "varies":
        names = cell.split()
        return names if fits(names, hints_of(SetFields)[name]) else cell
    if name in _TRUE_OR_FALSE:
        return _TRUTHS.get(cell.lower(), cell)
    if name in _NUMBERS and _NUMBER.match(cell):
        return float(cell)
    return cell
