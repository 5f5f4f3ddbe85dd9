"""Report of declared probe sets for people: what was compared, what pages, what flips now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.core.probes.flips import FlipDirection
from monitor.core.time import to_datetime
from monitor.evaluate.probes import WatchedSet

A_CASE = (
    "Probes are synthetic test conditions. A flip is a case to investigate, not a population"
    " disparity."
)


@dataclass(frozen=True, slots=True)
class FlippingReport:
    """A variant of a pair that flips at its newest comparison.

    Attributes:
        pair: id in the set.
        variant: the one that was compared with the reference.
        direction: which way.
        stage: at which the two diverge.
        at: event time of the comparison.
    """

    pair: str
    variant: str
    direction: FlipDirection
    stage: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ProbeSetReport:
    """One declared set.

    Attributes:
        name: as declared.
        digest: content hash.
        pairs: how many it has.
        reference: what the other variants are compared with.
        compared: comparisons of a variant with the reference, since it was declared.
        incomplete: rounds that came in part, and decisions of no round.
        covered: event time since which every pair was compared; until then, when it was declared.
            None until the service has seen the set.
        pages: directions that page, and since when.
        flipping: what flips now, by pair and variant.
    """

    name: str
    digest: str
    pairs: int
    reference: str
    compared: int
    incomplete: int
    covered: datetime | None
    pages: Mapping[FlipDirection, datetime]
    flipping: tuple[FlippingReport, ...]


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """All declared sets.

    Attributes:
        note: what flips are, and what they are not.
        sets: by name.
    """

    note: str
    sets: tuple[ProbeSetReport, ...]


def report(watched: WatchedSet) -> ProbeSetReport:
    """Report of one set."""
    pairs, declared, shown = watched.pairs, watched.pairs.declared, watched.shown()
    return ProbeSetReport(
        name=declared.name,
        digest=declared.digest,
        pairs=declared.pairs,
        reference=declared.reference,
        compared=pairs.compared,
        incomplete=pairs.incomplete,
        covered=None if shown is None else to_datetime(shown.covered),
        pages={way: to_datetime(at) for way, at in sorted(watched.watch.shown().items())},
        flipping=tuple(
            FlippingReport(one.pair, one.variant, one.direction, one.stage, to_datetime(one.at))
            for one in pairs.flipping
        ),
    )
