"""Sign-off files: signatures for the requirements that a run of an audit cannot measure.

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

A signature holds for that release alone, not for other versions, another threshold, contract or
set, nor for other decisions or scores on the set. ``reference`` says where the signature can be
read. It is required for requirements on another set than that of the run:
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
from monitor.audit.record_files import field_name, kind_of, problem, toml_tree

_MAX_BYTES = 1 << 16
_MAX_TEXT = 200
_HASH = re.compile(r"[0-9a-f]{64}")
_HASH_SHOWN = 12
_FOR, _DATASET, _THRESHOLD, _CONTRACT, _SET = "for", "dataset", "threshold", "contract", "set"
_RESULTS = "results"
_VERSIONS = tuple(field.name for field in fields(RunVersions))
_REFERRED = frozenset({Requirement.REVIEWED_SET, Requirement.SUPPORT})
"""Requirements on another set than that of the run: the signature has to name the set."""


@dataclass(frozen=True, slots=True)
class RequirementSignature:
    """Signature for one requirement: signer, day and where to read the signature."""

    by: str
    at: date
    reference: str = ""


@dataclass(frozen=True, slots=True)
class SignOff:
    """Content of a sign-off file: the signed release and the signatures.

    Attributes:
        versions: versions of the release.
        threshold: threshold that it decides by.
        contract: name and version of the contract that it keeps.
        dataset: content hash of the set that it was run on.
        results: hash of the decisions on the set.
        signatures: by requirement; unsigned requirements are absent.
    """

    versions: RunVersions
    threshold: float
    contract: str
    dataset: str
    results: str
    signatures: Mapping[Requirement, RequirementSignature]

    def differences(self, run: Run, report: AuditReport) -> tuple[str, ...]:
        """Return a sentence for each value in which the signed release differs from the run.

        Args:
            run: run of the release, with all versions and thresholds that decided.
            report: report on it; values that it hides stay hidden here too.
        """
        shown = report.judged
        differences = (
            *(
                _difference_text(
                    name,
                    getattr(self.versions, name),
                    {getattr(decided_by, name) for decided_by in run.versions},
                    {getattr(decided_by, name) for decided_by in shown.versions},
                )
                for name in _VERSIONS
            ),
            _difference_text(
                _THRESHOLD,
                str(self.threshold),
                {*map(str, run.thresholds)},
                {*map(str, shown.thresholds)},
            ),
            _difference_text(_CONTRACT, self.contract, {report.contract}, {report.contract}),
            _difference_text(_SET, self.dataset, {report.digest}, {report.digest}),
            _difference_text(
                _RESULTS, self.results, {report.results_digest}, {report.results_digest}
            ),
        )
        return tuple(filter(None, differences))


def _difference_text(name: str, signed: str, run: Set[str], shown: Set[str]) -> str:
    """Explain how a signed value differs from the run's values; empty without a difference.

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
    """Read and check a sign-off file; no signature may be later than ``today``.

    Args:
        path: path of the file.
        today: latest day of a signature.

    Raises:
        AuditError: the file cannot be read, or has unknown or unfit content.
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
    """Return who signed a requirement, when and by what; errors name the field."""
    table = _table(path, tree, name)
    for key in table:
        _check_known(path, key, ("by", "at", "reference"), name)
    needs_reference = name in _REFERRED or "reference" in table
    return RequirementSignature(
        by=_text(path, table, name, "by"),
        at=_date(path, table, name, today),
        reference=_text(path, table, name, "reference") if needs_reference else "",
    )


def _check_known(path: Path, name: str, allowed: Collection[str], table: str = "") -> None:
    """Raise an error with the nearest known key, unless ``name`` is allowed."""
    if name not in allowed:
        near = get_close_matches(name.lower()[:64], allowed, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        text = f"unknown key; {hint}known here: {', '.join(allowed)}"
        raise problem(path, text, field=field_name(*filter(None, (table, name))))


def _table(path: Path, tree: Mapping[str, object], name: str) -> dict[str, object]:
    table = tree.get(name)
    if not isinstance(table, dict):
        text = f"found {kind_of(table)}; write it as a table [{name}]"
        raise problem(path, text, field=field_name(name))
    return table


def _text(path: Path, table: Mapping[str, object], *place: str) -> str:
    text = table.get(place[-1])
    if not isinstance(text, str) or not text.strip():
        text_kind = "empty text" if isinstance(text, str) else kind_of(text)
        raise problem(path, f"found {text_kind}; write text in quotes", field=field_name(*place))
    if len(text) > _MAX_TEXT or not text.isprintable():
        fix = f"write one line of at most {_MAX_TEXT} printable characters"
        raise problem(path, fix, field=field_name(*place))
    return text.strip()


def _threshold(path: Path, head: Mapping[str, object]) -> float:
    threshold = head.get(_THRESHOLD)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        text = f"found {kind_of(threshold)}; write the number that the router decides by"
        raise problem(path, text, field=field_name(_FOR, _THRESHOLD))
    return float(threshold)


def _results(path: Path, head: Mapping[str, object]) -> str:
    """Return the hash of the results that were signed; an error without one."""
    if _RESULTS not in head:
        text = "is missing; look at the report again, and sign its results hash"
        raise problem(path, text, field=field_name(_FOR, _RESULTS))
    return _hash(path, head, _RESULTS, "results hash")


def _hash(path: Path, head: Mapping[str, object], name: str, noun: str) -> str:
    text = _text(path, head, _FOR, name)
    if not _HASH.fullmatch(text):
        fix = f"write the {noun}, 64 hexadecimal digits, as the report has it"
        raise problem(path, fix, field=field_name(_FOR, name))
    return text


def _date(path: Path, table: Mapping[str, object], name: str, today: date) -> date:
    """Return the day of a signature; an error if it is no date, or in the future."""
    signed_on, field = table.get("at"), field_name(name, "at")
    if isinstance(signed_on, datetime) or not isinstance(signed_on, date):
        date_kind = "a date with a time" if isinstance(signed_on, datetime) else kind_of(signed_on)
        raise problem(
            path, f"found {date_kind}; write a date, {today}, without quotes", field=field
        )
    if signed_on > today:
        raise problem(path, f"is after today, {today}; write when it was signed", field=field)
    return signed_on
