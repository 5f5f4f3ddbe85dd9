"""Synthetic decisions and labels as events on the wire, and a few records that are none."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from consumers.events import Decision, Label, Versions
from monitor.core.counts.cells import Route
from monitor.core.counts.labels import READY, UNDECIDABLE
from monitor.core.time import DAY, to_datetime
from monitor.demo.reviewers import Labels
from monitor.demo.router import ATTRIBUTES, THRESHOLD, Decisions

VERSIONS = Versions(judge="judge-1", rubric="rubric-1", policy="policy-1", router="router-1")
_encode = msgspec.json.Encoder().encode
_NAMES = tuple(ATTRIBUTES)
_ATOMS = {
    codes: dict(zip(_NAMES, values, strict=True))
    for codes, values in zip(
        itertools.product(*(range(len(shares)) for shares in ATTRIBUTES.values())),
        itertools.product(*ATTRIBUTES.values()),
        strict=True,
    )
}
_ROUTES = tuple(route.name.lower() for route in Route)


def decision_events(decisions: Decisions) -> list[Decision]:
    """Decisions as events; the truth stays with the generator."""
    columns = (
        decisions.number,
        decisions.at,
        decisions.values,
        decisions.score,
        decisions.route,
        decisions.audit_p,
        decisions.requested,
    )
    return [
        Decision(
            decision_id=_decision_id(number),
            decided_at=to_datetime(at),
            route=_ROUTES[route],
            judge_score=score,
            threshold=THRESHOLD,
            evidence_passed=route != Route.BLOCKED_BY_EVIDENCE,
            attributes=_ATOMS[tuple(values)],
            versions=VERSIONS,
            audit_p=audit_p,
            label_requested=requested,
        )
        for number, at, values, score, route, audit_p, requested in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def label_events(labels: Labels) -> list[Label]:
    """Labels as events."""
    columns = (
        labels.number,
        labels.at,
        labels.labelled_at,
        labels.ready,
        labels.correction,
        labels.audit,
        labels.reviewer,
    )
    return [
        Label(
            label_id=f"label-{number:09d}-{2 if correction else 1}",
            decision_id=_decision_id(number),
            decided_at=to_datetime(at),
            version=2 if correction else 1,
            ready=None if ready == UNDECIDABLE else ready == READY,
            kind="correction" if correction else "initial",
            reason="audit" if audit else "review",
            reviewer=f"reviewer-{reviewer:02d}",
            labelled_at=to_datetime(labelled_at),
        )
        for number, at, labelled_at, ready, correction, audit, reviewer in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _decision_id(number: int) -> str:
    return f"demo-{number:09d}"


def messages(events: Sequence[Decision] | Sequence[Label], size: int) -> Iterator[bytes]:
    """Events as JSON arrays of at most ``size``."""
    for first in range(0, len(events), size):
        yield _encode(events[first : first + size])


def bad_record(decision: Decision, rng: np.random.Generator) -> bytes:
    """One of the records that real topics have: each ends as a dead letter."""
    spoil = _SPOILS[int(rng.integers(len(_SPOILS)))]
    return spoil(decision)


def _changed(decision: Decision, **fields: object) -> bytes:
    return _encode(msgspec.to_builtins(decision) | fields)


def _incomplete(decision: Decision) -> bytes:
    event = msgspec.to_builtins(decision)
    del event["threshold"]
    return _encode(event)


_SPOILS: tuple[Callable[[Decision], bytes], ...] = (
    lambda _: b"not JSON at all",
    _incomplete,
    lambda decision: _changed(decision, judge_score=1.7),
    lambda decision: _changed(decision, route="somewhere"),
    lambda decision: _changed(decision, decided_at="2026-01-05T00:00:00"),
    lambda decision: _changed(decision, user_id="a field that nobody declared"),
    lambda decision: _changed(decision, decided_at=_tomorrow(decision)),
)


def _tomorrow(decision: Decision) -> object:
    return to_datetime(int(decision.decided_at.timestamp() * 1e6) + DAY)
