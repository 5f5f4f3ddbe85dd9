"""Rates of all slices of one group-by at once, right under sampled labels.

Labels are requested with a different probability in every stratum (all of human_review, a few
per cent of auto_serve), so the rate over labelled rows is garbage. Here every stratum's ready
rate p_k = m_k / n_k is weighted by **all** its decisions N_k; with A the strata of auto_serve:

    TPR = P(auto_serve | ready) = sum_A N_k p_k / sum N_k p_k
    FPR = P(auto_serve | not ready), the same with 1 - p_k
    READY = P(ready) = sum N_k p_k / sum N_k

The interval is Wilson's at the effective number of trials n_eff = 1 / (T (1 - T) V), V the
linearised variance. It speaks of the router's rate, not of this window's: complete labels give
plain Wilson on the counts. ``blocked_by_evidence``, decisions without evidence and probes are
outside; P(auto_serve) and P(blocked_by_evidence) are over all production decisions.

Labels must be missing at random inside a stratum. Nothing here can check that.

Source: Begg and Greenes (1983), Biometrics 39 (post-stratified rates under verification bias);
Wilson (1927), JASA 22; Kish (1965), Survey Sampling (effective size of weighted labels).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Metric
from monitor.core.counts.cells import Counter, Int64s, Route, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import PostStrata, post_strata, production
from monitor.core.intervals import Z95, Floats, divide, wilson

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Trials:
    """Post-strata seen through one metric, (route, slot, S): a hit is ready (FPR: not ready)."""

    decisions: Floats
    labelled: Floats
    hits: Floats

    @classmethod
    def of(cls, strata: PostStrata, metric: Metric) -> Trials:
        """The trials of TPR and READY (hits: ready) or FPR (hits: not ready)."""
        hits = strata.labelled - strata.ready if metric is Metric.FPR else strata.ready
        return cls(strata.decisions, strata.labelled, hits)

    @cached_property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Strata where every decision is labelled: exact."""
        return np.greater_equal(self.labelled, self.decisions)

    @cached_property
    def unlabelled(self) -> npt.NDArray[np.bool_]:
        """Strata with decisions whose rate nothing speaks for."""
        return np.equal(self.labelled, 0) & np.greater(self.decisions, 0)

    @property
    def expected(self) -> Floats:
        """N_k p_k; exactly the counted hits where the stratum is complete."""
        return divide(self.decisions * self.hits, self.labelled, empty=0)

    @cached_property
    def rate(self) -> Floats:
        """p_k for variances: (m + 1/2) / (n + 1) where a sample shows only hits or only misses.

        With p_k = 0 or 1 the variance would be 0 and the interval blind to what was not sampled.
        """
        one_sided = ~self.complete & ((self.hits == 0) | (self.hits == self.labelled))
        plain = divide(self.hits, self.labelled, empty=0)
        return np.where(one_sided, (self.hits + 0.5) / (self.labelled + 1), plain)

    @property
    def sampling(self) -> Floats:
        """Variance of N_k p_k from looking at n_k labels only: N_k^2 p_k (1 - p_k) / n_k."""
        return divide(self.decisions**2 * self.rate * (1 - self.rate), self.labelled, empty=0)

    def filled(self, shares: tuple[int, int]) -> Trials:
        """As if all unlabelled decisions of each route were hits (1) or misses (0)."""
        guess = self.decisions * np.array(shares, np.float64)[:, None, None]
        return Trials(
            self.decisions,
            np.where(self.unlabelled, self.decisions, self.labelled),
            np.where(self.unlabelled, guess, self.hits),
        )


def served_share(trials: Trials) -> tuple[Floats, Floats]:
    """P(auto_serve | hit) = a / (a + b) over the routes' expected hits, and its n_eff.

    V = spread_a / a^2 + spread_b / b^2, where spread = sampling + sum N_k p_k^2; with complete
    labels spread_a = a, so n_eff = a + b. Written without dividing by a + b's parts, because a
    complete route may hold no hit at all.
    """
    hits = trials.expected.sum(axis=1)
    smooth = (trials.decisions * trials.rate).sum(axis=1)
    spread = (trials.sampling + trials.decisions * trials.rate**2).sum(axis=1)
    auto, review = divide(spread, smooth, empty=1)
    total = smooth.sum(axis=0)
    support = divide(total**2, smooth[1] * auto + smooth[0] * review, empty=0)
    one_route = (trials.decisions.sum(axis=1) == 0).any(axis=0)
    counted = one_route | trials.complete.all(axis=(0, 1))
    support = np.where(counted, trials.hits.sum(axis=(0, 1)), support)
    return divide(hits[0], hits.sum(axis=0)), support


def ready_share(trials: Trials) -> tuple[Floats, Floats]:
    """P(hit) over both routes, and its n_eff.

    V N^2 = sampling + sum N_k (p_k - T)^2: what the strata's sizes add, so that complete labels
    give V = T (1 - T) / N and n_eff = N.
    """
    total = trials.decisions.sum(axis=(0, 1))
    smooth = divide((trials.decisions * trials.rate).sum(axis=(0, 1)), total, empty=0)
    between = trials.decisions * (trials.rate - smooth) ** 2
    variance = (trials.sampling + between).sum(axis=(0, 1))
    support = divide(smooth * (1 - smooth) * total**2, variance, empty=0)
    support = np.where(trials.complete.all(axis=(0, 1)), total, support)
    return np.minimum(divide(trials.expected.sum(axis=(0, 1)), total), 1), support


_Columns = TypeVar("_Columns", bound="DataclassInstance")


def one_row(columns: _Columns, index: int) -> _Columns:
    """One row of parallel arrays, to be compared with all of another table."""
    arrays = ((f.name, getattr(columns, f.name)) for f in fields(columns))
    at = slice(index, index + 1)
    return replace(columns, **{k: x[at] for k, x in arrays if isinstance(x, np.ndarray)})


_ROUTE_OF = {Metric.SELECTION: Route.AUTO_SERVE, Metric.BLOCKED: Route.BLOCKED_BY_EVIDENCE}


@dataclass(frozen=True, slots=True)
class RateColumns:
    """One metric of all slices, arrays of shape (S,); NaN stands for undefined inside the core.

    Attributes:
        metric: which rate.
        value: the point; NaN without trials or where it is not identified.
        lower: lower bound of the two-sided interval; NaN without trials. Where the point is
            not identified, lower and upper still bound it by the unlabelled share.
        upper: upper bound.
        support: n_eff, the trials the interval rests on; plain counts where all is labelled;
            0 without a point.
        hits: counted trials behind the numerator (decisions for selection and blocked;
            labelled ready in auto_serve for TPR, labelled not ready in auto_serve for FPR;
            labelled ready for READY).
        misses: counted trials behind numerator's complement.
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
        """The rate over labelled rows alone, shape (S,): for comparison only, wrong under sampling.

        NaN without such rows. Selection and blocked rates need no labels: over all decisions.
        """
        return divide(self.hits, self.hits + self.misses)


def estimate(
    counts: SliceCounts,
    coding: Coding,
    metric: Metric,
    z: float = Z95,
    strata: PostStrata | None = None,
) -> RateColumns:
    """One metric of every slice, with Wilson intervals at ``z``.

    Edge cases of the labelled metrics (positives stand for negatives in an FPR):

    - No decisions, or all labelled and no positive among them: no trials; everything NaN.
    - No positive labelled, but decisions without label: NaN between the bounds 0 and 1.
    - One route without decisions: the rate is 0 or 1, support is the labelled positives.
    - One route completely labelled without positives: the other alone has them, support is
      their estimated number (the limit of the formula).
    - A route without any label: not identified; NaN, support 0, and the bounds are Wilson's in
      the two extreme cases, so they span at least the unlabelled share.

    Args:
        counts: a group-by in one window.
        coding: what the strata mean.
        metric: which rate.
        z: normal quantile; a gap needs rates at :func:`monitor.core.rates.gaps.simultaneous_z`.
        strata: post-strata of the counts, where they are at hand already.

    Raises:
        ValueError: if a stratum has an audit rate that the coding does not know.
    """
    if not metric.labelled:
        return _plain(counts, metric, z)
    strata = post_strata(counts, coding) if strata is None else strata
    trials = Trials.of(strata, metric)
    value, support = _point(trials, metric)
    lower, upper = _bounds(trials, metric, value, support, z)
    hits, misses = _labels(strata.totals, metric)
    return RateColumns(
        metric, value, lower, upper, support, hits, misses, _route_labels(strata.totals)
    )


def calibration(counts: SliceCounts, coding: Coding, z: float = Z95) -> dict[int, RateColumns]:
    """P(ready | score band) of every slice, by band index, over the routes of the band.

    Bands are never merged with each other here; audit rates are pooled as everywhere.
    """
    bands = range(coding.bands)
    return {band: estimate(in_band(counts, band), coding, Metric.READY, z) for band in bands}


def in_band(counts: SliceCounts, band: int) -> SliceCounts:
    """The counts of the strata of one score band."""
    columns = decode_strata(counts.strata).band == band
    return SliceCounts(counts.slices, counts.strata[columns], counts.values[:, columns])


def _plain(counts: SliceCounts, metric: Metric, z: float) -> RateColumns:
    """Rates over all production decisions: nothing is sampled, plain Wilson."""
    hits, misses = _decisions(counts, metric)
    total = hits + misses
    value = divide(hits, total)
    bounds = wilson(value, total, z)
    lower, upper = (np.where(total == 0, np.nan, bound) for bound in bounds)
    return RateColumns(metric, value, lower, upper, total.astype(np.float64), hits, misses, total)


def _decisions(counts: SliceCounts, metric: Metric) -> tuple[Int64s, Int64s]:
    """Production decisions on the metric's route, and on the others."""
    routes = decode_strata(counts.strata).route
    decisions = counts.values[:, :, Counter.N] * production(counts)
    hits: Int64s = decisions[:, routes == _ROUTE_OF[metric]].sum(axis=1)
    return hits, decisions.sum(axis=1) - hits


def _point(trials: Trials, metric: Metric) -> tuple[Floats, Floats]:
    """Point and n_eff; NaN and 0 where there is no trial or something is not identified."""
    value, support = (ready_share if metric is Metric.READY else served_share)(trials)
    undefined = np.isnan(value) | trials.unlabelled.any(axis=(0, 1))
    return np.where(undefined, np.nan, value), np.where(undefined, 0, support)


def _bounds(
    trials: Trials, metric: Metric, value: Floats, support: Floats, z: float
) -> tuple[Floats, Floats]:
    """Wilson's bounds; without a point, of the two extreme cases; without trials NaN."""
    lower, upper = wilson(value, support, z)
    unknown = trials.unlabelled.any(axis=(0, 1))
    if unknown.any():
        worst, best = ((0, 0), (1, 1)) if metric is Metric.READY else ((0, 1), (1, 0))
        lower = np.where(unknown, wilson(*_point(trials.filled(worst), metric), z)[0], lower)
        upper = np.where(unknown, wilson(*_point(trials.filled(best), metric), z)[1], upper)
    trialless = np.isnan(value) & trials.complete.all(axis=(0, 1))
    return np.where(trialless, np.nan, lower), np.where(trialless, np.nan, upper)


def _labels(totals: Int64s, metric: Metric) -> tuple[Int64s, Int64s]:
    """Counted labels behind numerator and complement, from (N, labelled, ready) x route x S."""
    _, labelled, ready = totals
    if metric is Metric.READY:
        return ready.sum(axis=0), (labelled - ready).sum(axis=0)
    auto, review = ready if metric is Metric.TPR else labelled - ready
    return auto, review


def _route_labels(totals: Int64s) -> Int64s:
    """Fewest labels of a route that has decisions; 0 without decisions."""
    decisions, labelled, _ = totals
    fewest = np.where(decisions > 0, labelled, np.iinfo(np.int64).max).min(axis=0)
    return np.where(decisions.any(axis=0), fewest, 0)
