"""Files of probe sets and of results.

Example:
    >>> read_set(Path("no-such-set.jsonl"))
    Traceback (most recent call last):
    monitor.errors.AuditError: no-such-set.jsonl: cannot be read: No such file or directory
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec.structs import asdict

from monitor.audit.fields import ResultFields, SetFields
from monitor.audit.model import Item, ProbeSet, Results, Row, Versions
from monitor.audit.problems import problem
from monitor.audit.rows import typed_rows
from monitor.core.cells import Route
from monitor.core.flips import Observed

_OF_THE_SET = ("dataset", "dataset_version", "synthetic", "varies")


def read_results(path: Path) -> Results:
    """What a router made of a set; pairs may be incomplete, which :func:`matched` tells.

    Raises:
        AuditError: the file cannot be read, or a row of it is not what it must be.
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
    """A probe set; of a file of results the set's part is taken, and the rest is not looked at.

    Raises:
        AuditError: as :func:`read_results`, or a variant of a pair stands there twice.
    """
    rows = list(typed_rows(path, SetFields))
    _check_doubles(path, rows)
    return _set(path, rows)


def route_of(score: float | None, threshold: float, evidence_passed: bool) -> Route:
    """Where a router sends by its own rule; a score that equals the threshold is auto_serve."""
    if not evidence_passed:
        return Route.BLOCKED_BY_EVIDENCE
    served = score is not None and score >= threshold
    return Route.AUTO_SERVE if served else Route.HUMAN_REVIEW


def _set(path: Path, rows: Sequence[tuple[int, SetFields]]) -> ProbeSet:
    if not rows:
        raise problem(path, "no rows; write one row for each variant of each pair")
    first_line, first = rows[0]
    for line, fields in rows:
        for name in _OF_THE_SET:
            if _compared(fields, name) != _compared(first, name):
                text = f"differs from line {first_line}; all rows of a file are of one set"
                raise problem(path, text, line=line, field=name)
    items = (_item(fields) for _, fields in rows)
    return ProbeSet(
        name=first.dataset,
        version=first.dataset_version,
        synthetic=first.synthetic,
        varies=frozenset(first.varies),
        items=tuple(sorted(items, key=lambda item: (item.pair, item.variant))),
    )


def _compared(fields: SetFields, name: str) -> object:
    value = getattr(fields, name)
    return sorted(value) if isinstance(value, list) else value


def _check_doubles(path: Path, rows: Iterable[tuple[int, SetFields]]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for line, fields in rows:
        first = seen.setdefault((fields.pair_id, fields.variant), line)
        if first != line:
            text = f"the variant of this pair stands in line {first} already; remove one"
            raise problem(path, text, line=line, field="variant")


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
    score, threshold, passed = fields.judge_score, fields.threshold, fields.evidence_passed
    route = Route[fields.route.upper()] if fields.route else route_of(score, threshold, passed)
    return Row(
        item=replace(_item(fields), request=None),
        observed=Observed(route, score, threshold, passed),
        versions=Versions(**asdict(fields.versions)),
        line=line,
    )
