"""Sign-off files: who answers for what a run of an audit cannot measure.

A TOML file; ``[for]`` says what is released, every other table is a requirement:

    [for]
    judge = "j2"
    rubric = "r1"
    policy = "p1"
    router = "t1"
    threshold = 0.70
    contract = "replies 1"     # name and version, as the report has them
    dataset = "..."            # content hash of the set, as the report has it
    results = "..."            # results hash: what was decided on it, as the report has it

    [production_monitoring_owner]
    by = "A. Person"
    at = 2026-11-01
    reference = "on-call rota replies"

What was signed holds for that release alone: for other versions, another threshold, contract or
set, and for other decisions or scores on it, nothing is signed. ``reference`` says where it can be
read. It is required where a set is signed for that is not the one of the run:
representative_reviewed_slice_set and minimum_positive_and_negative_support.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, fields
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path

from monitor.audit.audit_report import AuditReport, Requirement, Run
from monitor.audit.inputs import RunVersions
from monitor.audit.record_files import field_name, found, problem, toml_tree

_MAX_BYTES = 1 << 16
_MAX_TEXT = 200
_HASH = re.compile(r"[0-9a-f]{64}")
_HASH_SHOWN = 12
_FOR, _DATASET, _THRESHOLD, _CONTRACT, _SET = "for", "dataset", "threshold", "contract", "set"
_RESULTS = "results"
_VERSIONS = tuple(field.name for field in fields(RunVersions))
_REFERRED = frozenset({Requirement.REVIEWED_SET, Requirement.SUPPORT})
"""Signed for a set that is not the one of the run: which one has to be said."""


@dataclass(frozen=True, slots=True)
class RequirementSignature:
    """Signature for a requirement: who says that it is met, when, and where that can be read."""

    by: str
    at: date
    reference: str = ""


@dataclass(frozen=True, slots=True)
class SignOff:
    """A sign-off file.

    Attributes:
        versions: of what is released.
        threshold: that it decides by.
        contract: name and version of the contract that it keeps.
        dataset: content hash of the set that it was run on.
        results: hash of what was decided on it.
        signatures: by requirement; what is not signed is absent.
    """

    versions: RunVersions
    threshold: float
    contract: str
    dataset: str
    results: str
    signatures: Mapping[Requirement, RequirementSignature]

    def differences(self, run: Run, report: AuditReport) -> tuple[str, ...]:
        """List how the release that was signed differs from the release that was run.

        Args:
            run: what is to be released, with all versions and thresholds that decided.
            report: on it; a value that it does not show is not shown here either.
        """
        shown = report.judged
        found = (
            *(
                _difference(
                    name,
                    getattr(self.versions, name),
                    {getattr(one, name) for one in run.versions},
                    {getattr(one, name) for one in shown.versions},
                )
                for name in _VERSIONS
            ),
            _difference(
                _THRESHOLD,
                str(self.threshold),
                {*map(str, run.thresholds)},
                {*map(str, shown.thresholds)},
            ),
            _difference(_CONTRACT, self.contract, {report.contract}, {report.contract}),
            _difference(_SET, self.dataset, {report.digest}, {report.digest}),
            _difference(_RESULTS, self.results, {report.results_digest}, {report.results_digest}),
        )
        return tuple(filter(None, found))


def _difference(name: str, signed: str, run: Set[str], shown: Set[str]) -> str:
    """Describe how a signed value differs from the run; only a single shown value is quoted.

    Content hashes are long: their first digits distinguish them.
    """
    if run == {signed}:
        return ""
    text = f"signed for {name} {_short(name, signed)}"
    if len(run) == 1 and run == shown:
        return f"{text}, this is {_short(name, *run)}"
    return f"{text}, and not all was decided by it"


def _short(name: str, value: str) -> str:
    return value[:_HASH_SHOWN] if name in (_SET, _RESULTS) else value


def read_sign_off(path: Path, today: date) -> SignOff:
    """A sign-off file.

    Args:
        path: of the file.
        today: nothing may be signed after it.

    Raises:
        AuditError: it cannot be read, or says something that it cannot.
    """
    tree = toml_tree(path, _MAX_BYTES, "a sign-off file")
    for name in tree:
        _check_known(path, name, (_FOR, *Requirement))
    head = _table(path, tree, _FOR)
    for name in head:
        _check_known(path, name, (*_VERSIONS, _THRESHOLD, _CONTRACT, _DATASET, _RESULTS), _FOR)
    return SignOff(
        versions=RunVersions(**{name: _text(path, head, _FOR, name) for name in _VERSIONS}),
        threshold=_threshold(path, head),
        contract=_text(path, head, _FOR, _CONTRACT),
        dataset=_hash(path, head, _DATASET, "content hash of the set"),
        results=_results(path, head),
        signatures={
            Requirement(name): _signature(path, tree, name, today) for name in tree if name != _FOR
        },
    )


def _signature(
    path: Path, tree: Mapping[str, object], name: str, today: date
) -> RequirementSignature:
    table = _table(path, tree, name)
    for key in table:
        _check_known(path, key, ("by", "at", "reference"), name)
    needs_reference = name in _REFERRED or "reference" in table
    return RequirementSignature(
        by=_text(path, table, name, "by"),
        at=_date(path, table, name, today),
        reference=_text(path, table, name, "reference") if needs_reference else "",
    )


def _check_known(path: Path, name: str, known: Collection[str], table: str = "") -> None:
    if name not in known:
        near = get_close_matches(name.lower()[:64], known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        text = f"unknown key; {hint}known here: {', '.join(known)}"
        raise problem(path, text, field=field_name(*filter(None, (table, name))))


def _table(path: Path, tree: Mapping[str, object], name: str) -> dict[str, object]:
    table = tree.get(name)
    if not isinstance(table, dict):
        text = f"found {found(table)}; write it as a table [{name}]"
        raise problem(path, text, field=field_name(name))
    return table


def _text(path: Path, table: Mapping[str, object], *place: str) -> str:
    text = table.get(place[-1])
    if not isinstance(text, str) or not text.strip():
        what = "empty text" if isinstance(text, str) else found(text)
        raise problem(path, f"found {what}; write text in quotes", field=field_name(*place))
    if len(text) > _MAX_TEXT or not text.isprintable():
        fix = f"write one line of at most {_MAX_TEXT} printable characters"
        raise problem(path, fix, field=field_name(*place))
    return text.strip()


def _threshold(path: Path, head: Mapping[str, object]) -> float:
    threshold = head.get(_THRESHOLD)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        text = f"found {found(threshold)}; write the number that the router decides by"
        raise problem(path, text, field=field_name(_FOR, _THRESHOLD))
    return float(threshold)


def _results(path: Path, head: Mapping[str, object]) -> str:
    if _RESULTS not in head:
        text = (
            "is missing; it was signed for an earlier version of slicewatch, which did not bind the"
            " decisions and scores: look at the report again, and sign its results hash"
        )
        raise problem(path, text, field=field_name(_FOR, _RESULTS))
    return _hash(path, head, _RESULTS, "results hash")


def _hash(path: Path, head: Mapping[str, object], name: str, what: str) -> str:
    text = _text(path, head, _FOR, name)
    if not _HASH.fullmatch(text):
        fix = f"write the {what}, 64 hexadecimal digits, as the report has it"
        raise problem(path, fix, field=field_name(_FOR, name))
    return text


def _date(path: Path, table: Mapping[str, object], name: str, today: date) -> date:
    at, field = table.get("at"), field_name(name, "at")
    if isinstance(at, datetime) or not isinstance(at, date):
        what = "a date with a time" if isinstance(at, datetime) else found(at)
        raise problem(path, f"found {what}; write a date, {today}, without quotes", field=field)
    if at > today:
        raise problem(path, f"is after today, {today}; write when it was signed", field=field)
    return at
