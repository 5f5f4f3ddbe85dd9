"""Rates of the finest atoms of a use case, from the few labels of the hours after a page.

An atom alone has too few audits for :mod:`monitor.core.rates.estimates`. But all its decisions are
counted, and reviewed ones are labelled: only the number of ready ones among its auto-served
requests is estimated. The estimate starts with the labels of all atoms for that route and score
band, as if :data:`BORROWED` of them were the atom's own, and gives way to the atom's labels as they
come. The numbers serve only to compare atoms; they are never published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Counts, Int64s, Route, merge
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import CellIndex, roll_up
from monitor.core.counts.strata import MIN_LABELS
from monitor.core.intervals import Floats, divide
from monitor.core.metric import Among, Metric
from monitor.core.rates.estimates import HIT_ROUTES
from monitor.core.rates.gaps import Bools
from monitor.detection.pages.cohort import Layout, SliceCohort, rates_of

BORROWED = float(MIN_LABELS)
"""Labels of all atoms that count as one atom's own; with many more, its own labels dominate."""


@dataclass(frozen=True, slots=True)
class AtomTrials:
    """Expected harmed and spared trials of one metric by atom, with their variances.

    Arrays of one shape, the last axis by atom.

    Attributes:
        harmed: ready but not served (TPR), served but not ready (FPR, PRECISION), not served
            (SELECTION), or blocked.
        spared: the other trials of the metric.
        harmed_variance: variance of ``harmed``; equal to it where all trials are counted.
        spared_variance: variance of ``spared``.
    """

    harmed: Floats
    spared: Floats
    harmed_variance: Floats
    spared_variance: Floats

    @property
    def total(self) -> Floats:
        """Return harmed plus spared trials, by atom."""
        return self.harmed + self.spared

    @property
    def rate(self) -> Floats:
        """Return the harmed share of trials, by atom; NaN without trials."""
        return divide(self.harmed, self.total)

    @property
    def support(self) -> Floats:
        """Return the number of fully counted trials that would give the rate as precisely."""
        spared_part = self.spared * divide(self.harmed_variance, self.harmed, empty=1)
        harmed_part = self.harmed * divide(self.spared_variance, self.spared, empty=1)
        return divide(self.total**2, spared_part + harmed_part, empty=0)

    @property
    def variance(self) -> Floats:
        """Return the sampling variance of the rate, by atom; NaN without trials.

        Half an added trial keeps it above 0.
        """
        share = divide(self.harmed + 0.5, self.total + 1)
        return divide(share * (1 - share), self.support)

    def within(self, atoms: Bools) -> AtomTrials:
        """Return the trials summed over the atoms in a mask."""
        parts = (self.harmed, self.spared, self.harmed_variance, self.spared_variance)
        return AtomTrials(*(part[..., atoms].sum(axis=-1) for part in parts))

    def since(self, pane: int) -> AtomTrials:
        """Return the trials from this pane to the last: one row, by atom."""
        parts = (self.harmed, self.spared, self.harmed_variance, self.spared_variance)
        return AtomTrials(*(part[pane] for part in parts))


@dataclass(frozen=True, slots=True)
class AtomRates:
    """Trials of every finest atom over recent panes, from which causes are searched.

    Attributes:
        atoms: atom texts, sorted: values of all considered attributes.
        trials: trials, shape (panes, atoms): row t is over the panes from t to the last.
    """

    atoms: tuple[str, ...]
    trials: AtomTrials

    @classmethod
    def from_panes(
        cls,
        panes: Sequence[Counts],
        index: CellIndex,
        attributes: Sequence[str],
        coding: Coding,
        metric: Metric,
    ) -> AtomRates:
        """Return every atom's trials of one metric, summed from each pane to the last.

        Args:
            panes: counts by cell id in order of time, at least one.
            index: meaning of the ids.
            attributes: attributes that make up an atom.
            coding: meaning of the strata.
            metric: TPR, FPR, BLOCKED, SELECTION or PRECISION.

        Raises:
            ValueError: if a stratum has an audit rate that the coding does not know.
        """
        atoms = roll_up(merge(panes), index, attributes)
        layout = Layout.for_rates(rates_of(atoms), coding)
        cohorts = [
            SliceCohort.from_counts(roll_up(pane, index, attributes), atoms.slices, layout)
            for pane in panes
        ]
        if (hit := HIT_ROUTES.get(metric)) is not None:
            trials = _counted(_sums_to_end([cohort.routed for cohort in cohorts]), hit, metric)
        else:
            trials = _expected(cohorts, metric)
        return cls(atoms.slices, trials)


def _sums_to_end(arrays: Sequence[Int64s]) -> Floats:
    """Return cumulative sums as one array: row t is the sum of the arrays from t on."""
    stacked = np.stack(list(arrays))[::-1].astype(np.float64)
    total: Floats = np.cumsum(stacked, axis=0)[::-1]
    return total


def _counted(routed: Floats, hit: Route, metric: Metric) -> AtomTrials:
    """Return the trials of a rate over all decisions, whose counts need no estimate."""
    hits = routed[..., hit]
    rest = routed.sum(axis=-1) - hits
    bad, good = (rest, hits) if metric.harmed_by_less else (hits, rest)
    return AtomTrials(bad, good, bad, good)


def _expected(cohorts: Sequence[SliceCohort], metric: Metric) -> AtomTrials:
    """Estimate hits by atom that audits stand for, and their variances, from labelled cohorts."""
    decisions, labelled, ready = (
        _sums_to_end([getattr(cohort, name) for cohort in cohorts])
        for name in ("decisions", "labelled", "ready")
    )
    if metric.of_ready:
        good, _, good_variance, _ = _estimate_hits(decisions, labelled, ready)
        bad, _, bad_variance, _ = _estimate_hits(decisions, labelled, labelled - ready)
        # Both sampling errors are equal, with opposite signs: together they count for more.
        sampling_factor = divide((good + bad) ** 2, good**2 + bad**2, empty=1)
        unsure = sampling_factor * ((good_variance - good) + (bad_variance - bad)) / 2
        return AtomTrials(bad, good, bad + unsure, good + unsure)
    hits = labelled - ready if metric.row.among is Among.NOT_READY else ready
    auto, review, auto_variance, review_variance = _estimate_hits(decisions, labelled, hits)
    if metric.harmed_by_less:
        return AtomTrials(review, auto, review_variance, auto_variance)
    return AtomTrials(auto, review, auto_variance, review_variance)


def _estimate_hits(
    decisions: Floats, labelled: Floats, hits: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Estimate hits of auto_serve, hits of human_review, and the variances of both, by atom."""
    share = _hit_shares(labelled, hits)
    rest = decisions - labelled
    trials = hits + rest * share
    unsure = share * (1 - share) * rest * (decisions + BORROWED) / (labelled + BORROWED)
    auto, review = np.moveaxis(trials.sum(axis=(-2, -1)), -1, 0)
    auto_variance, review_variance = np.moveaxis((trials + unsure).sum(axis=(-2, -1)), -1, 0)
    return auto, review, auto_variance, review_variance


def _hit_shares(labelled: Floats, hits: Floats) -> Floats:
    """Return P(hit | stratum) of every atom, estimated from its labels and those of all atoms."""
    routes = [counts.sum(axis=(1, 3, 4), keepdims=True) for counts in (hits, labelled)]
    of_route = (routes[0] + 0.5) / (routes[1] + 1)
    bands = [counts.sum(axis=(1, 3), keepdims=True) for counts in (hits, labelled)]
    of_band = (bands[0] + BORROWED * of_route) / (bands[1] + BORROWED)
    share: Floats = (hits + BORROWED * of_band) / (labelled + BORROWED)
    return share
