"""Rates of all slices of one group-by at once, correct under sampled labels.

Labels are requested with a different probability in every stratum (all of human_review, a few
per cent of auto_serve), so the rate over labelled rows is garbage. So every stratum's ready
rate p_k = m_k / n_k is weighted by **all** its decisions N_k; with A the strata of auto_serve:

    TPR = P(auto_serve | ready) = sum_A N_k p_k / sum N_k p_k
    FPR = P(auto_serve | not ready), the same with 1 - p_k
    READY = P(ready) = sum N_k p_k / sum N_k
    PRECISION = P(ready | auto_serve) = sum_A N_k p_k / sum_A N_k

The interval is Wilson's at the effective number of trials n_eff = 1 / (T (1 - T) V), V the
linearised variance, or a wider one if few labels carry the weight
(:mod:`monitor.core.rates.effective`). It is about the router's rate, not about this window's:
complete labels give plain Wilson on the counts. ``blocked_by_evidence``, decisions without
evidence and probes are left out; P(auto_serve) and P(blocked_by_evidence) are over all production
decisions.

Labels must be missing at random inside a stratum; the data cannot show whether they are.

Source: Begg and Greenes (1983), Biometrics 39 (post-stratified rates under verification bias);
Wilson (1927), JASA 22; Kish (1965), Survey Sampling (effective size of weighted labels).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counter, Int64s, Route, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import REVIEWED_ROUTES, PostStrata, post_strata, production
from monitor.core.intervals import Z95, Floats, divide
from monitor.core.metric import Among, Metric, Share
from monitor.core.rates.effective import Evidence, Trials, ready_share, served_share

_ROUTES = {Share.SERVED: Route.AUTO_SERVE, Share.BLOCKED: Route.BLOCKED_BY_EVIDENCE}
HIT_ROUTES = {metric: _ROUTES[metric.row.share] for metric in Metric if not metric.labelled}
"""Metrics of routes: every decision is a trial, and a decision on this route is a hit."""

_AUTO = REVIEWED_ROUTES.index(Route.AUTO_SERVE)


@dataclass(frozen=True, slots=True)
class RateColumns:
    """Rates of one metric for all slices, arrays of shape (S,); NaN means undefined.

    Attributes:
        value: the point; NaN without trials, or if it is not identified.
        lower: lower bound of the two-sided interval; NaN without trials. For a point that is
            not identified, lower and upper still bound it by the unlabelled share.
        upper: upper bound.
        support: n_eff, the trials of the interval; plain counts if all is labelled; 0 without a
            point.
        hits: counted trials behind the numerator (decisions for selection and blocked;
            labelled ready in auto_serve for TPR and PRECISION, labelled not ready in auto_serve
            for FPR; labelled ready for READY).
        misses: counted trials behind the numerator's complement.
        route_labels: smallest number of labels among the routes (auto_serve, human_review)
            that have decisions in the slice; number of decisions for unlabelled metrics.
    """

    metric: Metric
    value: Floats
    lower: Floats
    upper: Floats
    support: Floats
    hits: Int64s
    misses: Int64s
    route_labels: Int64s

    @property
    def as_labelled(self) -> Floats:
        """Rate over labelled rows, shape (S,), for comparison only: it is wrong under sampling.

        NaN without such rows. Selection and blocked rates need no labels and use all decisions.
        """
        return divide(self.hits, self.hits + self.misses)


def estimate(
    counts: SliceCounts,
    coding: Coding,
    metric: Metric,
    z: float = Z95,
    strata: PostStrata | None = None,
) -> RateColumns:
    """Return the rates of every slice for one metric, with Wilson intervals at ``z``.

    Edge cases of the labelled metrics (positives stand for negatives in an FPR):

    - No decisions, or all labelled and no positive among them: no trials; everything NaN.
    - No positive labelled, but decisions without label: NaN between the bounds 0 and 1.
    - One route without decisions: the rate is 0 or 1, support is the labelled positives.
    - One route completely labelled without positives: only the other route has them, support is
      their estimated number (the limit of the formula).
    - A route without any label: not identified; NaN, support 0, and the bounds are Wilson's in
      the two extreme cases, so they span at least the unlabelled share.

    Args:
        counts: a group-by in one window.
        coding: coding of the strata.
        metric: the rate.
        z: normal quantile; a gap needs rates at :func:`monitor.core.rates.gaps.simultaneous_z`.
        strata: post-strata of the counts, if they are already computed.

    Raises:
        ValueError: if a stratum has an audit rate that the coding does not know.
    """
    return measure(counts, coding, metric, strata).columns(z)


@dataclass(frozen=True, slots=True)
class Measured:
    """Rates of every slice for one metric, before a z is chosen for their bounds.

    Attributes:
        metric: the rate.
        evidence: the points and their evidence; NaN and 0 if not identified.
        extremes: evidence of the lower and of the upper bounds: ``evidence`` if all is identified,
            else with unlabelled decisions at their worst and at their best.
        trialless: slices without trials, shape (S,), which have no bounds.
        hits: as in :class:`RateColumns`.
        misses: as in :class:`RateColumns`.
        route_labels: as in :class:`RateColumns`.
    """

    metric: Metric
    evidence: Evidence
    extremes: tuple[Evidence, Evidence]
    trialless: npt.NDArray[np.bool_]
    hits: Int64s
    misses: Int64s
    route_labels: Int64s

    @property
    def value(self) -> Floats:
        """Points; NaN as in :class:`RateColumns`."""
        return self.evidence.value

    def columns(self, z: float) -> RateColumns:
        """Return the rates with their bounds at normal quantile ``z``."""
        (rates,) = columns_of([self], z)
        return rates

    def with_bounds(self, lower: Floats, upper: Floats) -> RateColumns:
        """Return the rates with the given bounds; NaN bounds for slices without trials."""
        return RateColumns(
            self.metric,
            self.evidence.value,
            np.where(self.trialless, np.nan, lower),
            np.where(self.trialless, np.nan, upper),
            self.evidence.support,
            self.hits,
            self.misses,
            self.route_labels,
        )

    def row(self, index: int) -> Measured:
        """Return the row at ``index`` as a table of its own."""
        return self.rows(slice(index, index + 1))

    def rows(self, at: slice) -> Measured:
        """Return the rows that a slice object selects."""
        worst, best = self.extremes
        worst_rows = worst.rows(at)
        ends = (worst_rows, worst_rows if best is worst else best.rows(at))
        columns = (self.trialless[at], self.hits[at], self.misses[at], self.route_labels[at])
        return Measured(self.metric, self.evidence.rows(at), ends, *columns)


def columns_of(tables: Sequence[Measured], z: float) -> list[RateColumns]:
    """Return the rates of each table with bounds at ``z``, computed together at the cost of one."""
    ends = {id(end): end for table in tables for end in table.extremes}
    bounds = dict(zip(ends, Evidence.bounds_of([*ends.values()], z), strict=True))
    return [
        table.with_bounds(bounds[id(worst)][0], bounds[id(best)][1])
        for table in tables
        for worst, best in (table.extremes,)
    ]


def measure(
    counts: SliceCounts, coding: Coding, metric: Metric, strata: PostStrata | None = None
) -> Measured:
    """Return the rates of every slice for one metric, without bounds, which depend on z."""
    if not metric.labelled:
        return _measure_decisions(counts, metric)
    strata = post_strata(counts, coding) if strata is None else strata
    trials = Trials.for_metric(strata, metric)
    evidence = _evidence(trials, metric)
    extremes = _extreme_rates(trials, metric) if trials.unlabelled.any() else (evidence, evidence)
    trialless = np.isnan(evidence.value) & trials.complete.all(axis=(0, 1))
    labels = (*_numerator_and_rest(strata.totals, metric), _route_labels(strata.totals))
    return Measured(metric, evidence, extremes, trialless, *labels)


def calibration(counts: SliceCounts, coding: Coding, z: float = Z95) -> dict[int, RateColumns]:
    """Return P(ready | score band) of every slice, by band index, over the routes of the band.

    Bands are not merged with each other; audit rates are pooled as in other rates.
    """
    bands = range(coding.bands)
    return {band: estimate(in_band(counts, band), coding, Metric.READY, z) for band in bands}


def in_band(counts: SliceCounts, band: int) -> SliceCounts:
    """Return the counts of the strata of one score band."""
    columns = decode_strata(counts.strata).band == band
    return SliceCounts(counts.slices, counts.strata[columns], counts.values[:, columns])


def _measure_decisions(counts: SliceCounts, metric: Metric) -> Measured:
    """Return the rates of a metric without labels, over all production decisions."""
    hits, misses = _hits_and_misses(counts, metric)
    total = hits + misses
    evidence = Evidence.plain(divide(hits, total), total.astype(np.float64))
    return Measured(metric, evidence, (evidence, evidence), total == 0, hits, misses, total)


def _hits_and_misses(counts: SliceCounts, metric: Metric) -> tuple[Int64s, Int64s]:
    """Return numbers of production decisions per slice: on the metric's route, and on others."""
    routes = decode_strata(counts.strata).route
    decisions = counts.values[:, :, Counter.N] * production(counts)
    hits: Int64s = decisions[:, routes == HIT_ROUTES[metric]].sum(axis=1)
    return hits, decisions.sum(axis=1) - hits


def _extreme_rates(trials: Trials, metric: Metric) -> tuple[Evidence, Evidence]:
    """Return evidence of the lowest and of the highest rates that unlabelled decisions allow."""
    cases = ((0, 0), (1, 1)) if metric.of_ready else ((0, 1), (1, 0))
    worst, best = (_evidence(trials.filled(case), metric) for case in cases)
    return worst, best


def _evidence(trials: Trials, metric: Metric) -> Evidence:
    """Return the evidence of a metric; value NaN and support 0 where a rate has no point."""
    evidence = (ready_share if metric.of_ready else served_share)(trials)
    return evidence.unless(np.isnan(evidence.value) | trials.unlabelled.any(axis=(0, 1)))


def _numerator_and_rest(totals: Int64s, metric: Metric) -> tuple[Int64s, Int64s]:
    """Return counted labels of the rate's numerator and of its complement, each of shape (S,).

    ``totals`` is (N, labelled, ready) x route x S.
    """
    _, labelled, ready = totals
    if metric.of_ready:
        routes = [_AUTO] if metric.row.among is Among.SERVED else slice(None)
        return ready[routes].sum(axis=0), (labelled - ready)[routes].sum(axis=0)
    auto, review = labelled - ready if metric.row.among is Among.NOT_READY else ready
    return auto, review


def _route_labels(totals: Int64s) -> Int64s:
    """Return, for each slice, the fewest labels of a route with decisions; 0 without decisions."""
    decisions, labelled, _ = totals
    fewest = np.where(decisions > 0, labelled, np.iinfo(np.int64).max).min(axis=0)
    return np.where(decisions.any(axis=0), fewest, 0)
