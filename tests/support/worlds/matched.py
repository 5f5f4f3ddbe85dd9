"""Matched pairs for tests of the audit: the lesson's ten, and pairs made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import lesson

from monitor.audit.inputs import Item, Pair, Row, RunVersions
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed

VERSIONS = RunVersions("j1", "r1", "p1", "t1")
VARIETY = "language_variety"
REFERENCES = {VARIETY: "formal"}
SERVED, REVIEWED, BLOCKED = Route.AUTO_SERVE, Route.HUMAN_REVIEW, Route.BLOCKED_BY_EVIDENCE

# formal, conversational: what a candidate makes of the lesson's pairs.
CANDIDATE = {
    "p1": (0.92, 0.91),
    "p2": (0.86, 0.84),
    "p3": (0.81, 0.80),
    "p4": (0.77, 0.75),
    "p5": (0.72, 0.71),
    "p6": (0.66, 0.65),
    "n1": (0.62, 0.61),
    "n2": (0.60, 0.58),
    "n3": (0.55, 0.56),
    "n4": (0.64, 0.62),
}


def seen(
    score: float | None, threshold: float = 0.70, route: Route | None = None, *, passed: bool = True
) -> Observed:
    """What the router did; the route follows from the gate, then from the score."""
    if route is None:
        served = score is not None and score >= threshold
        route = (SERVED if served else REVIEWED) if passed else BLOCKED
    return Observed(route, score, threshold, passed)


def row(
    pair: str,
    variant: str,
    attributes: Mapping[str, str],
    observed: Observed,
    *,
    ready: bool = True,
    held_out: bool = False,
) -> Row:
    item = Item(
        pair,
        variant,
        attributes,
        expected_ready=ready,
        policy="p1",
        reviewers_agree=True,
        held_out=held_out,
    )
    return Row(item, observed, VERSIONS, 1)


def pair(rows: Iterable[Row]) -> Pair:
    found = sorted(rows, key=lambda row: row.item.variant)
    return Pair(found[0].item.pair, found[0].item.axis, tuple(found))


def varieties(
    name: str, formal: Observed, conversational: Observed, *, ready: bool = True, **more: str
) -> Pair:
    """A pair in formal and in conversational wording."""
    both = {"formal": formal, "conversational": conversational}
    return pair(
        row(name, variety, {VARIETY: variety, **more}, observed, ready=ready)
        for variety, observed in both.items()
    )


def ten_pairs(scores: Mapping[str, tuple[float, float]] | None = None) -> Sequence[Pair]:
    """The lesson's pairs with the scores of its judge, or of another."""
    return [
        varieties(name, *map(seen, (scores or {}).get(name, its)), ready=ready, channel=channel)
        for name, ready, channel, *its in lesson.PAIRS
    ]
