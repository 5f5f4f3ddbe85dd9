"""A world in the product's own terms: its contract, its coding, and the cells of an hour."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from fleet_worlds import CONTRACT, GAP, GROUP_BY, World

from monitor.core.contract import COMPLEMENT, Contract, GroupBy, Limits
from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s, Route, Stratum, content_id
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.counts.rollup import CellIndex
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.metric import Metric
from monitor.detection.pages.cohort import SliceCohort
from monitor.detection.pages.streams import StreamKind


def coding(world: World) -> Coding:
    """One attribute with a value a slice; as many score bands as the world has."""
    values = tuple(text.partition("=")[2] for text in world.slices)
    bands = world.profile.shape[2]
    edges = tuple((i + 1) / bands for i in range(bands - 1))
    return Coding((Attribute(GROUP_BY, values),), edges, tuple(world.audits.rates.tolist()))


def contract(world: World) -> Contract:
    """The limits that the world watches; gaps of TPR and FPR have one in every contract."""
    reference = COMPLEMENT if world.reference is None else world.slices[world.reference]
    return Contract(
        name=CONTRACT,
        version="1",
        owner="bench",
        limits=Limits(
            max_tpr_gap=_limit(world, Metric.TPR, StreamKind.GAP) or GAP,
            max_fpr_gap=_limit(world, Metric.FPR, StreamKind.GAP) or GAP,
            max_blocked_gap=_limit(world, Metric.BLOCKED, StreamKind.GAP),
            min_tpr=_limit(world, Metric.TPR, StreamKind.LEVEL),
            max_fpr=_limit(world, Metric.FPR, StreamKind.LEVEL),
            min_positives=50,
            min_negatives=30,
            max_selection_gap=_limit(world, Metric.SELECTION, StreamKind.GAP),
            min_selection_ratio=_limit(world, Metric.SELECTION, StreamKind.RATIO),
            max_precision_gap=_limit(world, Metric.PRECISION, StreamKind.GAP),
        ),
        window="7d",
        group_bys=(GroupBy((GROUP_BY,), reference),),
        synthetic=False,
        k=11,
    )


def _limit(world: World, metric: Metric, kind: StreamKind) -> Fraction | None:
    """The limit of a metric in a world; None where it is not watched."""
    found = (w.limit for w in world.watches if w.metric is metric and w.kind is kind)
    return next(found, None)


@dataclass(frozen=True)
class Cells:
    """The cells of a world: slices x (strata of the reviewed routes, then blocked)."""

    world: World

    @cached_property
    def strata(self) -> list[int]:
        """Codes of route x rate x band, and the one that everything blocked is in."""
        _, rates, bands = self.world.layout.shape
        reviewed = [
            Stratum(route, band, rate).code
            for route in REVIEWED_ROUTES
            for rate in range(rates)
            for band in range(bands)
        ]
        return [*reviewed, Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0, evidence_passed=False).code]

    @cached_property
    def _ids(self) -> Int64s:
        """Of the cells, slice by slice."""
        texts = [f"{text}|{stratum}" for text in self.world.slices for stratum in self.strata]
        return np.array([content_id(text) for text in texts], np.int64)

    @cached_property
    def _order(self) -> Int64s:
        return np.argsort(self._ids)

    @cached_property
    def index(self) -> CellIndex:
        """What the ids mean."""
        atoms = {content_id(text): text for text in self.world.slices}
        atom_of = np.repeat(np.array(list(atoms)), len(self.strata))[self._order]
        strata = np.tile(np.array(self.strata), self.world.size)[self._order]
        return CellIndex(self._ids[self._order], atom_of, strata, atoms)

    def counts(self, cohort: SliceCohort) -> Counts:
        """The counts of an hour, a row a cell."""
        values = np.zeros((self.world.size, len(self.strata), COUNTERS), np.int64)
        reviewed = values[:, :-1]
        reviewed[..., Counter.N] = cohort.decisions.reshape(self.world.size, -1)
        reviewed[..., Counter.LABELLED] = cohort.labelled.reshape(self.world.size, -1)
        reviewed[..., Counter.READY] = cohort.ready.reshape(self.world.size, -1)
        reviewed[..., Counter.Q] = reviewed[..., Counter.LABELLED]
        # What is missing of a route is written down in its first stratum: no test tells them apart.
        _, rates, bands = self.world.layout.shape
        reviewed[:, :: rates * bands, Counter.Q] += cohort.requested - cohort.received
        values[:, -1, Counter.N] = cohort.routed[:, Route.BLOCKED_BY_EVIDENCE]
        return Counts(self.index.cells, values.reshape(-1, COUNTERS)[self._order])
