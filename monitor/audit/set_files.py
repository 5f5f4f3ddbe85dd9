"""Read and write probe sets and results; every row is checked field by field.

Written files can be read back, and are never overwritten.

Example:
    >>> read_set(Path("no-such-set.jsonl"))
    Traceback (most recent call last):
    monitor.errors.AuditError: no-such-set.jsonl: cannot be read: No such file or directory
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from msgspec import ValidationError, convert, structs

from monitor.audit.inputs import (
    Item,
    ProbeSet,
    Results,
    Row,
    RunVersions,
    item_fields,
    request_digest,
    result_fields,
    set_fields,
)
from monitor.audit.record_files import (
    ALL_NAMES,
    RESULT_NAMES,
    ResultFields,
    SetFields,
    first_error,
    is_csv,
    is_gzipped,
    json_records,
    nested_records,
    problem,
    unknown,
)
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed
from monitor.errors import AuditError

Fields = TypeVar("Fields", bound=SetFields)


def typed_rows(path: Path, kind: type[Fields]) -> Iterator[tuple[int, Fields]]:
    """Yield (line number, typed row) of a set or results file; a set ignores results' fields.

    ``request_sha256`` is filled in where there is a request.

    Raises:
        AuditError: the file cannot be read, or a row is unfit.
    """
    records = nested_records(path) if is_csv(path) else json_records(path)
    for line, record in records:
        for name in record:
            if name not in ALL_NAMES:
                raise unknown(path, line, ALL_NAMES, name)
        fields = record
        if kind is SetFields:
            fields = {name: value for name, value in record.items() if name not in RESULT_NAMES}
        elif not RESULT_NAMES & record.keys():
            text = "a row without results (threshold, evidence_passed, versions ...); a set is "
            raise problem(path, text + "sent to a router by slicewatch probe run", line=line)
        yield line, typed_row(path, line, fields, kind)


def typed_row(path: Path, line: int, record: Mapping[str, object], kind: type[Fields]) -> Fields:
    """Convert a record to a checked row of type ``kind``, with the hash of its request.

    Raises:
        AuditError: a field does not fit; the error names it.
    """
    try:
        fields = convert(record, kind)
    except ValidationError:
        raise first_error(path, line, record, kind) from None
    try:
        request_hash = request_digest(fields.request)
    except (ValueError, RecursionError):
        text = "found broken text, or nested too deeply; write valid JSON"
        raise problem(path, text, line=line, field="request") from None
    if fields.request_sha256 and request_hash and fields.request_sha256 != request_hash:
        text = "not the hash of the request beside it; leave one of the two out"
        raise problem(path, text, line=line, field="request_sha256")
    return structs.replace(fields, request_sha256=request_hash) if request_hash else fields


def read_results(path: Path) -> Results:
    """Read a router's results from a file; pairs may be incomplete.

    Raises:
        AuditError: the file cannot be read, or a row of it is unfit.
    """
    rows = list(typed_rows(path, ResultFields))
    probe_set = _set(path, rows)
    items = tuple(replace(item, request=None) for item in probe_set.items)
    return Results(
        probe_set=replace(probe_set, items=items),
        rows=tuple(_row(line, fields) for line, fields in rows),
        path=path,
    )


def read_set(path: Path) -> ProbeSet:
    """Read a probe set from a file; fields of results are ignored.

    Raises:
        AuditError: as :func:`read_results`, or a variant of a pair occurs twice.
    """
    rows = list(typed_rows(path, SetFields))
    _check_doubles(path, rows)
    return _set(path, rows)


def route_of(score: float | None, threshold: float, evidence_passed: bool) -> Route:
    """Return the route that the router's rule gives; a score equal to the threshold is served."""
    if not evidence_passed:
        return Route.BLOCKED_BY_EVIDENCE
    served = score is not None and score >= threshold
    return Route.AUTO_SERVE if served else Route.HUMAN_REVIEW


def _set(path: Path, rows: Sequence[tuple[int, SetFields]]) -> ProbeSet:
    """Return the probe set of all rows; an error if two rows name different sets."""
    if not rows:
        raise problem(path, "no rows; write one row for each variant of each pair")
    first_line, first = rows[0]
    for line, fields in rows:
        for name in ("dataset", "dataset_version", "synthetic", "varies"):
            row_field, first_field = getattr(fields, name), getattr(first, name)
            if (
                (sorted(row_field) != sorted(first_field))
                if name == "varies"
                else row_field != first_field
            ):
                difference = f"differs from line {first_line}; all rows of a file are of one set"
                raise problem(path, difference, line=line, field=name)
    items = (_item(fields) for _, fields in rows)
    return ProbeSet(
        name=first.dataset,
        version=first.dataset_version,
        synthetic=first.synthetic,
        varies=frozenset(first.varies),
        items=tuple(sorted(items, key=lambda item: (item.pair, item.variant))),
    )


def _check_doubles(path: Path, rows: Iterable[tuple[int, SetFields]]) -> None:
    """Raise an error if two rows are of the same variant and pair."""
    first_lines: dict[tuple[str, str], int] = {}
    for line, fields in rows:
        first_line = first_lines.setdefault((fields.pair_id, fields.variant), line)
        if first_line != line:
            repeated = f"line {first_line} already has this variant of the pair; remove one"
            raise problem(path, repeated, line=line, field="variant")


def _item(fields: SetFields) -> Item:
    return Item(
        pair=fields.pair_id,
        variant=fields.variant,
        attributes=fields.attributes,
        expected_ready=fields.expected_ready,
        policy=fields.policy,
        axis=fields.axis,
        evidence=fields.evidence,
        reviewers_agree=fields.reviewers_agree,
        held_out=fields.held_out,
        request=fields.request,
        request_digest=fields.request_sha256,
    )


def _row(line: int, fields: ResultFields) -> Row:
    """Return a row of results; a route that is not stated follows from score and threshold."""
    score, threshold, passed = fields.judge_score, fields.threshold, fields.evidence_passed
    route = Route[fields.route.upper()] if fields.route else route_of(score, threshold, passed)
    return Row(
        item=replace(_item(fields), request=None),
        observed=Observed(route, score, threshold, passed),
        versions=RunVersions(**structs.asdict(fields.versions)),
        line=line,
    )


def write_set(path: Path, probe_set: ProbeSet) -> None:
    """Write a probe set with its requests as new JSON lines, gzipped if the name ends in ``.gz``.

    Raises:
        AuditError: the file exists already or cannot be written, or a field is unfit.
    """
    rows = (item_fields(item) | {"request": item.request} for item in probe_set.items)
    _write(path, (set_fields(probe_set) | row for row in rows), SetFields)


def write_rows(path: Path, probe_set: ProbeSet, rows: Iterable[Row]) -> None:
    """Write results as new JSON lines, in the order of ``rows``, with hashes of requests.

    Raises:
        AuditError: as :func:`write_set`.
    """
    results = (item_fields(row.item) | result_fields(row) for row in rows)
    _write(path, (set_fields(probe_set) | row for row in results), ResultFields)


def _write(path: Path, records: Iterable[dict[str, object]], kind: type[SetFields]) -> None:
    """Check records and create a file of JSON lines, gzipped by its name; never overwrite."""
    if is_csv(path):
        raise problem(path, "JSON lines are written; choose a name that ends in .jsonl")
    lines = []
    for line, record in enumerate(records, 1):
        hashed = record | {"request_sha256": record["request_sha256"] or None}
        fields = {name: value for name, value in hashed.items() if value is not None}
        typed_row(path, line, fields, kind)
        lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    data = "".join(lines).encode()
    # Without the time of packing: the same set is the same file.
    _create(path, gzip.compress(data, mtime=0) if is_gzipped(path) else data)


def _create(path: Path, data: bytes) -> None:
    """Create a file with this content; remove it if it cannot be written as a whole."""
    try:
        file = path.open("xb")
    except FileExistsError:
        reason = "stands there already, and a set or its results never change; choose another name"
        raise problem(path, reason) from None
    except OSError as error:
        raise problem(path, f"cannot be written: {error.strerror}") from None
    try:
        with file:
            file.write(data)
    except BaseException as error:  # a stop signal too
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise problem(path, f"cannot be written: {error.strerror}") from None
        raise


def promote(source: ProbeSet, flips: Iterable[str], *, name: str, version: str) -> ProbeSet | None:
    """Return a new set with all variants of the flipped pairs; None if all are held out.

    Held-out pairs stay out: a router is never repaired on them.

    Args:
        source: the set that was sent, with its requests if the new set is to be sent too.
        flips: ids of the pairs that flipped, in any order and number.
        name: name of the new set.
        version: version of the new set; name and version must differ from the source's.

    Returns:
        The set, identified by the hash of its content; None if no pair outside the held-out part
        flipped.

    Raises:
        AuditError: the source is not synthetic, has the name and version of the new set, or lacks
            a pair of ``flips``.
    """
    flipped = set(flips)
    if not source.synthetic:
        raise AuditError(
            "only synthetic pairs are promoted: requests of real people are no fixture"
        )
    if (name, version) == (source.name, source.version):
        raise AuditError("the new set needs a name or a version of its own: a set never changes")
    if flipped - {item.pair for item in source.items}:
        raise AuditError("a flip is of a pair that this set has not: promote from the set itself")
    held_out = {item.pair for item in source.items if item.held_out}
    items = tuple(item for item in source.items if item.pair in flipped - held_out)
    if not items:
        return None
    return ProbeSet(name, version, synthetic=True, varies=source.varies, items=items)
