"""Series of a probe set on the slice page; every number is of synthetic test requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from alerts.exposition import catalogue
from alerts.exposition.catalogue import Family
from monitor.core.probes.flips import FlipCause, FlipDirection, FlipStage
from monitor.core.publish.snapshot import ShownFlips, ShownProbeSet
from monitor.core.time import SECOND

STAGES: tuple[str, ...] = (FlipStage.EVIDENCE_GATE, *FlipCause)
"""Stages of a flip: the evidence gate, or one of the causes behind it."""


def probe_series(one: ShownProbeSet) -> Iterator[tuple[Family, tuple[str, ...], float]]:
    """Family, label values and value of every series of a set: 10 + 20 for each variant at most."""
    which = (one.name,)
    yield catalogue.PROBE_SET_INFO, (one.name, one.digest, "true"), 1
    yield catalogue.PROBE_COVERED, which, one.covered / SECOND
    yield catalogue.PROBE_CADENCE, which, one.every / SECOND
    yield catalogue.PROBE_MAX_FLIP, which, one.max_flip_ratio
    for direction in FlipDirection:
        yield catalogue.PROBE_PAGING, (one.name, direction), direction in one.pages
    for direction, crossed in sorted(one.pages.items()):
        yield catalogue.PROBE_PAGING_SINCE, (one.name, direction), crossed / SECOND
    yield catalogue.PROBE_PAIRS, which, one.compared
    yield catalogue.PROBE_INCOMPLETE, which, one.incomplete
    for what, since, now in _flips(one):
        yield catalogue.PROBE_FLIPS, (one.name, *what), since
        yield catalogue.PROBE_FLIPPING, (one.name, *what), now


def _flips(one: ShownProbeSet) -> Iterator[tuple[tuple[str, str, str], int, int]]:
    """Variant, direction and stage; flips since it was declared, and now.

    All possible series exist from the beginning: ``increase`` needs a first sample, and what is
    absent is unknown.
    """
    since, now = _counts(one.flips), _counts(one.standing)
    for what in product(one.variants, FlipDirection, STAGES):
        yield what, since.get(what, 0), now.get(what, 0)


def _counts(flips: Iterable[ShownFlips]) -> dict[tuple[str, str, str], int]:
    return {(one.variant, one.direction, one.stage): one.count for one in flips}
