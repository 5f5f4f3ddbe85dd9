"""Sign-off files: who answers for what a run of an audit cannot measure.

A TOML file; ``[for]`` says what is released, every other table is a requirement:

    [for]
    judge = "j2"
    rubric = "r1"
    policy = "p1"
    router = "t1"
    threshold = 0.70
    dataset = "..."        # optional: hash of the set, when it was signed for this one alone

    [production_monitoring_owner]
    by = "A. Person"
    at = 2026-11-01
    reference = "on-call rota replies"

``reference`` says where it can be read. It is required where a set is signed for that is not the
one of the run: representative_reviewed_slice_set, minimum_positive_and_negative_support.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, fields
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path

from monitor.audit.model import Versions
from monitor.audit.problems import field_name, found, problem
from monitor.audit.report import Requirement, Run

_MAX_BYTES = 1 << 16
_MAX_TEXT = 200
_FOR, _DATASET, _THRESHOLD = "for", "dataset", "threshold"
_VERSIONS = tuple(field.name for field in fields(Versions))
_REFERRED = frozenset({Requirement.REVIEWED_SET, Requirement.SUPPORT})
"""Signed for a set that is not the one of the run: which one has to be said."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Who says that a requirement is met, when, and where that can be read."""

    by: str
    at: date
    reference: str = ""


@dataclass(frozen=True, slots=True)
class SignOff:
    """A sign-off file.

    Attributes:
        path: of the file, for messages.
        versions: of what is released.
        threshold: that it decides by.
        dataset: hash of the set that it was signed for; empty where it is for any.
        signatures: by requirement; what is not signed is absent.
    """

    path: Path
    versions: Versions
    threshold: float
    dataset: str
    signatures: Mapping[Requirement, Signature]

    def check_for(self, run: Run, digest: str) -> None:
        """Refuse a sign-off for something else than what was run.

        Raises:
            AuditError: versions, threshold or set differ, or the run has several of them.
        """
        for name in _VERSIONS:
            theirs = {getattr(one, name) for one in run.versions}
            self._check_same(name, getattr(self.versions, name), theirs, run.title)
        self._check_same(_THRESHOLD, self.threshold, set(run.thresholds), run.title)
        if self.dataset:
            self._check_same(_DATASET, self.dataset, {digest}, run.title)

    def _check_same(self, name: str, signed: object, run: Set[object], title: str) -> None:
        if run == {signed}:
            return
        what = f"is not what the {title} was run with; have what is released signed"
        if len(run) > 1:
            what = f"is one, and the {title} was run with {len(run)}; release one of them"
        raise problem(self.path, what, field=field_name(_FOR, name))


def read_sign_off(path: Path, today: date) -> SignOff:
    """A sign-off file.

    Args:
        path: of the file.
        today: nothing may be signed after it.

    Raises:
        AuditError: it cannot be read, or says something that it cannot.
    """
    tree = _parsed(path)
    for name in tree:
        _check_known(path, name, (_FOR, *Requirement))
    head = _table(path, tree, _FOR)
    for name in head:
        _check_known(path, name, (*_VERSIONS, _THRESHOLD, _DATASET), _FOR)
    return SignOff(
        path=path,
        versions=Versions(**{name: _text(path, head, _FOR, name) for name in _VERSIONS}),
        threshold=_threshold(path, head),
        dataset=_text(path, head, _FOR, _DATASET) if _DATASET in head else "",
        signatures={
            Requirement(name): _signature(path, tree, name, today) for name in tree if name != _FOR
        },
    )


def _signature(path: Path, tree: Mapping[str, object], name: str, today: date) -> Signature:
    table = _table(path, tree, name)
    for key in table:
        _check_known(path, key, ("by", "at", "reference"), name)
    needs_reference = name in _REFERRED or "reference" in table
    return Signature(
        by=_text(path, table, name, "by"),
        at=_date(path, table, name, today),
        reference=_text(path, table, name, "reference") if needs_reference else "",
    )


def _parsed(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise problem(path, f"is larger than {_MAX_BYTES} bytes; give a sign-off file")
        return tomllib.loads(data.decode())
    except OSError as error:
        raise problem(path, f"cannot be read: {error.strerror or 'check the path'}") from None
    except UnicodeDecodeError:
        raise problem(path, "is not UTF-8 text; save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise problem(path, f"is not valid TOML: {' '.join(str(error).split())}") from None


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


def _date(path: Path, table: Mapping[str, object], name: str, today: date) -> date:
    at, field = table.get("at"), field_name(name, "at")
    if isinstance(at, datetime) or not isinstance(at, date):
        what = "a date with a time" if isinstance(at, datetime) else found(at)
        raise problem(path, f"found {what}; write a date, {today}, without quotes", field=field)
    if at > today:
        raise problem(path, f"is after today, {today}; write when it was signed", field=field)
    return at
