"""Probe sets and results written as JSON lines, and new sets made of the pairs that flipped.

Files that are written can be read back, and are never overwritten.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from monitor.audit.fields import ResultFields, SetFields
from monitor.audit.files import is_csv, is_gzipped
from monitor.audit.model import Item, ProbeSet, Row
from monitor.audit.problems import problem
from monitor.audit.reading import typed_row
from monitor.errors import AuditError

Record = Mapping[str, object]


def write_set(path: Path, probe_set: ProbeSet) -> None:
    """A set with its requests; gzipped when the name ends in ``.gz``.

    Raises:
        AuditError: the file exists already or cannot be written, or a field is unfit.
    """
    records = [
        _of_set(probe_set) | _of_item(item) | {"request": item.request} for item in probe_set.items
    ]
    _write(path, records, SetFields)


def write_rows(path: Path, probe_set: ProbeSet, rows: Iterable[Row]) -> None:
    """Results on a set, in the order of the rows; of the requests their hashes are kept.

    Raises:
        AuditError: as :func:`write_set`.
    """
    records = [_of_set(probe_set) | _of_item(row.item) | _of_router(row) for row in rows]
    _write(path, records, ResultFields)


def _of_set(probe_set: ProbeSet) -> dict[str, object]:
    return {
        "dataset": probe_set.name,
        "dataset_version": probe_set.version,
        "synthetic": probe_set.synthetic,
        "varies": sorted(probe_set.varies),
    }


def _of_item(item: Item) -> dict[str, object]:
    return {
        "pair_id": item.pair,
        "variant": item.variant,
        "axis": item.axis,
        "attributes": dict(item.attributes),
        "expected_ready": item.expected_ready,
        "policy": item.policy,
        "evidence": item.evidence,
        "reviewers_agree": item.reviewers_agree,
        "held_out": item.held_out,
        "request_sha256": item.request_digest or None,
    }


def _of_router(row: Row) -> dict[str, object]:
    return {
        "judge_score": row.observed.score,
        "threshold": row.observed.threshold,
        "evidence_passed": row.observed.evidence_passed,
        "route": row.observed.route.name.lower(),
        "versions": asdict(row.versions),
    }


def _write(path: Path, records: Iterable[Record], kind: type[SetFields]) -> None:
    if is_csv(path):
        raise problem(path, "JSON lines are written; choose a name that ends in .jsonl")
    lines = []
    for line, record in enumerate(records, 1):
        fields = {name: value for name, value in record.items() if value is not None}
        typed_row(path, line, fields, kind)
        lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    data = "".join(lines).encode()
    # Without the time of packing: the same set is the same file.
    _create(path, gzip.compress(data, mtime=0) if is_gzipped(path) else data)


def _create(path: Path, data: bytes) -> None:
    try:
        file = path.open("xb")
    except FileExistsError:
        text = "stands there already, and a set or its results never change; choose another name"
        raise problem(path, text) from None
    except OSError as error:
        raise problem(path, f"cannot be written: {error.strerror}") from None
    try:
        with file:
            file.write(data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise problem(path, f"cannot be written: {error.strerror}") from None


def promote(source: ProbeSet, flips: Iterable[str], *, name: str, version: str) -> ProbeSet | None:
    """The pairs that flipped, whole, as a set of their own.

    Pairs that are held out never become part of what a router is repaired on: they stay out.

    Args:
        source: the set that was sent, with its requests where the new set is to be sent too.
        flips: ids of the pairs that flipped, in any order and number.
        name: of the new set.
        version: of the new set; name and version together are not the source's.

    Returns:
        The set, whose identity is the hash of its content; None if no pair flipped that is not
        held out.

    Raises:
        AuditError: the source is not synthetic, is what the new set would be called, or has not
            all of these pairs.
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
