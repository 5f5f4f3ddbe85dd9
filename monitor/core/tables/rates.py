"""Rates with their intervals, computed from what tables show and from nothing else.

    selection = served / all,   TPR = sum_A N_k p_k / sum N_k p_k,   p_k = r_k / (r_k + q_k)

as in :mod:`monitor.core.rates.estimates`, with the middle of each band for the decisions N_k and
the labels r_k (ready) and q_k (not ready) of stratum k. A stratum whose decisions cannot be told
from its labels is taken for fully labelled: its labels count as they are, and N_k adds no error.

The interval has two sources of error: labels are a sample, and counts are bands. With V_s the
variance of the first (larger by the design effect where requests of one unit are alike) and V_b of
the second, its effective number of trials is

    n = n_eff V_s / (V_s + V_b),   V_b = sum_j ((T(x_j + s_j) - T(x_j - s_j)) / 2)^2

over all bands x_j with standard deviations s_j; the interval is the one of estimates, at n. Where
the hits or the misses of a rate are all below k, it has no point: it is a bound, computed
from the ends of all bands.

Example:
    >>> from monitor.core.tables.bands import row_rule
    >>> table = np.array([[950, 60], [30, 5], [4, 3]])
    >>> counts = Counted.from_bands(row_rule(table, 11))
    >>> shown = selection_estimate(counts, np.array([True, False])).at()
    >>> for value, lower, upper in zip(shown.value, shown.lower, shown.upper):
    ...     print(f"{value:.3f} {lower:.3f} {upper:.3f}")
    0.941 0.924 0.955
    nan 0.514 1.000
    nan nan nan
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts.cells import Int64s, Route
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.intervals import Z95, Floats, divide
from monitor.core.metric import Among, Metric
from monitor.core.rates.effective import Evidence, Trials, ready_share, served_share
from monitor.core.tables.bands import Bools
from monitor.core.tables.counted import Counted

Share = Callable[[Floats, float], Evidence]
"""Evidence of a rate from counts, shape (counts, rows) or several of them side by side, and from
what is assumed of decisions without any label: 0 that it lowers the rate, 1 that it raises it."""


@dataclass(frozen=True, slots=True)
class ShownRate:
    """A rate of every row with its interval and support, arrays of shape (rows,).

    Attributes:
        value: the point; NaN where the rate is a bound or is not shown.
        lower: lower bound of the interval; NaN where the rate is not shown. A bound alone where
            there is no point: "at least".
        upper: upper bound, or "at most".
        support: effective number of trials at the middles of all bands, which a minimum of support
            asks for; 0 where the rate is not shown. The width of bands and units are in the
            interval alone: a slice that is never served would lose its support by the first.
        shown: rows that show the rate, as a point or as a bound.
        evidence: what the middles of all bands say, where there is a point and where there is none,
            worth less for the width of the bands and for units.
        sampled: the same without these losses.
    """

    value: Floats
    lower: Floats
    upper: Floats
    support: Floats
    shown: Bools
    evidence: Evidence
    sampled: Evidence


@dataclass(frozen=True, slots=True)
class LabelledCounts:
    """Bands of decisions and labels for labelled rates, each of shape (strata, rows).

    Attributes:
        decisions: of the decision tables.
        ready: labels of the label tables.
        not_ready: likewise.
        served: which strata are of auto_serve, shape (strata,).
    """

    decisions: Counted
    ready: Counted
    not_ready: Counted
    served: Bools

    @property
    def all_labelled(self) -> Bools:
        """Return True where decisions may all be labelled, by their bands; (strata, rows)."""
        return self.decisions.low <= self.labels_high

    @property
    def labels_low(self) -> Int64s:
        """Return the smallest number of labels in each stratum, (strata, rows)."""
        return self.ready.low + self.not_ready.low

    @property
    def labels_high(self) -> Int64s:
        """Return the largest number of labels in each stratum, (strata, rows)."""
        return self.ready.high + self.not_ready.high

    @property
    def shown(self) -> Bools:
        """Return True for each row whose counts all three tables show, (rows,)."""
        return self.decisions.shown & self.ready.shown & self.not_ready.shown


def selection_estimate(decisions: Counted, hits: Bools) -> RateEstimate:
    """Return an estimate of each row's share of decisions that are hits, without a quantile.

    Args:
        decisions: of the decision tables.
        hits: which parts are hits, shape (parts,): those of one route.
    """

    def share(counts: Floats, _: float) -> Evidence:
        trials = counts.sum(axis=0)
        return Evidence.plain(divide(counts[hits].sum(axis=0), trials), trials)

    hit, missed = ((decisions.low[parts] > 0).any(axis=0) for parts in (hits, ~hits))
    return RateEstimate.from_bands(share, decisions, np.asarray(hit & missed), decisions.shown)


def labelled_estimate(counts: LabelledCounts, metric: Metric) -> RateEstimate:
    """Return an estimate of every row's TPR, FPR, READY or PRECISION, without a quantile.

    A row shows a rate where all three tables show its counts. TPR needs k ready labels in a
    stratum, FPR k labels that are not ready.
    """
    joined = _stacked_counts(counts)
    by_trials = {Among.READY: counts.ready, Among.NOT_READY: counts.not_ready}
    labels = by_trials.get(metric.row.among, counts.decisions)
    shown = joined.shown & (labels.low > 0).any(axis=0)
    return RateEstimate.from_bands(
        _share_function(counts, metric), joined, _has_both_sides(counts, metric), shown
    )


def rate_as_labelled(counts: LabelledCounts, metric: Metric) -> Floats:
    """Return the naive rate of labelled decisions alone, shape (rows,); NaN without any.

    It is what a table of labels says to somebody who forgets that they are a biased sample.
    """
    ready, not_ready = counts.ready.middle, counts.not_ready.middle
    if metric.of_ready:
        strata = counts.served if metric.row.among is Among.SERVED else np.ones_like(counts.served)
        hits, misses = ready[strata].sum(axis=0), not_ready[strata].sum(axis=0)
    else:
        labels = not_ready if metric.row.among is Among.NOT_READY else ready
        hits, misses = labels[counts.served].sum(axis=0), labels[~counts.served].sum(axis=0)
    return divide(hits, hits + misses)


def _stacked_counts(counts: LabelledCounts) -> Counted:
    """Return the counts of decisions, ready and not ready, stacked to shape (3 * strata, rows)."""
    variance = np.where(counts.all_labelled, 0, counts.decisions.variance)
    decisions = replace(counts.decisions, variance=variance)
    parts = (decisions, counts.ready, counts.not_ready)
    return Counted(
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.variance for part in parts]),
        np.asarray(np.all([part.shown for part in parts], axis=0)),
        counts.decisions.effect,
    )


def _has_both_sides(counts: LabelledCounts, metric: Metric) -> Bools:
    """Return True for each row in which a count of hits and a count of misses is k or more."""
    ready, not_ready, served = counts.ready.low > 0, counts.not_ready.low > 0, counts.served
    if metric is Metric.READY:
        few = (counts.decisions.low == 0) | ready | not_ready
        blind = [~few[route].any(axis=0) for route in (served, ~served)]
        sides = (ready & ~np.any(blind, axis=0), not_ready)
    elif metric.of_ready:
        sides = (ready[served], not_ready[served])
    else:
        labels = ready if metric.row.among is Among.READY else not_ready
        sides = (labels[served], labels[~served])
    return np.asarray(sides[0].any(axis=0) & sides[1].any(axis=0))


def _share_function(counts: LabelledCounts, metric: Metric) -> Share:
    """Return the function that computes a metric's evidence from decisions, ready and not ready."""
    strata, all_labelled, served = len(counts.served), counts.all_labelled, counts.served
    of_route = {Route.AUTO_SERVE: served, Route.HUMAN_REVIEW: ~served}
    by_route = np.array([of_route[r] for r in REVIEWED_ROUTES], np.float64)[:, :, None]
    if metric.row.among is Among.SERVED:
        by_route *= served[:, None]

    def share(values: Floats, raises: float) -> Evidence:
        """Return the share of these sums; ``raises`` 1 or 0 is what unlabelled strata count as."""
        decisions, ready, not_ready = values.reshape(3, strata, -1)
        labelled = ready + not_ready
        every = np.tile(all_labelled, labelled.shape[1] // max(all_labelled.shape[1], 1))
        total = np.where(every, labelled, np.maximum(decisions, labelled))
        hits = not_ready if metric.row.among is Among.NOT_READY else ready
        trials = Trials(by_route * total, by_route * labelled, by_route * hits)
        guess = (raises, raises) if metric.of_ready else (raises, 1 - raises)
        filled = trials.filled((int(guess[0]), int(guess[1])))
        return (ready_share if metric.of_ready else served_share)(filled)

    return share


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """A rate of every row before its quantile is chosen; ``at`` computes its interval.

    Attributes:
        middle: the evidence at the middles of all bands.
        with_error: the same, worth less for the width of the bands and for units.
        ends: the evidence at the ends of the bands that lower the rate, and at those that raise it.
        point: rows whose rate has a point.
        shown: rows that show the rate.
    """

    middle: Evidence
    with_error: Evidence
    ends: tuple[Evidence, Evidence]
    point: Bools
    shown: Bools

    @classmethod
    def from_bands(cls, share: Share, counts: Counted, point: Bools, shown: Bools) -> RateEstimate:
        """Return the estimate: a point in rows marked ``point``, a bound in others shown."""
        middle, effect = share(counts.middle, 0), counts.effect
        exact = (counts.low == counts.high).all(axis=0)
        shown = shown & ~(exact & np.isnan(middle.value))
        point = (point | exact) & shown & ~np.isnan(middle.value)
        with_error = _discounted(middle.in_units(effect), _band_variance(share, counts))
        lowest, highest = (end.in_units(effect) for end in _evidence_at_ends(share, counts))
        return cls(middle, with_error, (lowest, highest), point, shown)

    def at(self, z: float = Z95) -> ShownRate:
        """Return the rate with its interval at the normal quantile z."""
        (lower, upper), (least, _), (_, most) = Evidence.bounds_of([self.with_error, *self.ends], z)
        least, most = np.nan_to_num(least, nan=0.0), np.nan_to_num(most, nan=1.0)
        return ShownRate(
            np.where(self.point, self.middle.value, np.nan),
            np.where(self.shown, np.where(self.point, lower, least), np.nan),
            np.where(self.shown, np.where(self.point, upper, most), np.nan),
            np.where(self.shown, np.nan_to_num(self.middle.support), 0),
            self.shown,
            self.with_error.unless(~self.shown),
            self.middle.unless(~self.shown),
        )


def _rates_under(share: Share, *assumed: Floats) -> Floats:
    """Return rates, shape (arrays, cases, rows), for arrays of shape (cases, counts, rows)."""
    rates = share(np.concatenate(np.concatenate(assumed), axis=1), 0).value
    return rates.reshape(len(assumed), *assumed[0].shape[::2])


def _band_variance(share: Share, counts: Counted) -> Floats:
    """Return V_b per row, shape (rows,): the variance that the bands' width adds to the rate."""
    spread, middle = np.sqrt(counts.variance), counts.middle
    wide = np.flatnonzero(spread.any(axis=1))
    if not len(wide):
        return np.zeros(counts.low.shape[1])
    steps = np.zeros((len(wide), *spread.shape))
    steps[np.arange(len(wide)), wide] = np.minimum(spread[wide], middle[wide])
    up, down = _rates_under(share, middle + steps, middle - steps)
    total: Floats = (np.nan_to_num((up - down) / 2) ** 2).sum(axis=0)
    return total


def _discounted(evidence: Evidence, variance: Floats) -> Evidence:
    """Return the evidence, its support and hits scaled down for a variance per row of bands."""
    sampling = divide(evidence.value * (1 - evidence.value), evidence.support, empty=0)
    worth = divide(sampling, sampling + variance, empty=1)
    support, hits, alone, shared = (column * worth for column in list(evidence)[1:-1])
    return replace(evidence, support=support, hits=hits, alone=alone, shared=shared)


def _evidence_at_ends(share: Share, counts: Counted) -> tuple[Evidence, Evidence]:
    """Return the evidence at the band ends that lower the rate, and at those that raise it."""
    each = np.arange(len(counts.low))
    up = np.repeat(counts.middle[None], len(each), axis=0)
    down = up.copy()
    up[each, each], down[each, each] = counts.high, counts.low
    rising, falling = _rates_under(share, up, down)
    falls = rising < falling
    raising = np.where(falls, counts.low, counts.high).astype(np.float64)
    lowering = np.where(falls, counts.high, counts.low).astype(np.float64)
    return share(lowering, 0), share(raising, 1)
