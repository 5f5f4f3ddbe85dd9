"""Two arms compared by counts alone: e-values by projection, and the thinning of labels.

The null of an ordered pair is a - b <= limit (a gap) or r a <= b (a ratio), a and b being P(hit) in
each arm; both are a - slope b <= offset. The denominator of the likelihood ratio is the pair of
rates in the null that is nearest to the alternative (in the sense of Kullback and Leibler). That
makes it an e-value for the whole null, also when both rates drift.

Source: Turner and Gruenwald (2023), "Exact anytime-valid confidence intervals for contingency
tables and beyond".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counter, Int64s, Route
from monitor.core.counts.rollup import HourlyCounts
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.intervals import Floats, divide
from monitor.core.metric import Among, Metric
from monitor.core.rates.estimates import HIT_ROUTES
from monitor.core.rates.gaps import Bools
from monitor.detection.pages.cohort import SliceCohort


def log_likelihood_ratio(
    n: npt.ArrayLike, k: npt.ArrayLike, null: npt.ArrayLike, alternative: npt.ArrayLike
) -> Floats:
    """Return k ln(p1 / p0) + (n - k) ln((1 - p1) / (1 - p0)), broadcast, in nats.

    This log likelihood ratio is the log e-value of k hits in n trials for P(hit) = p1 against p0,
    both inside (0, 1): E[e] stays at most 1 for every rate at least p0 if p1 < p0, at most p0 if p1
    > p0.

    Example:
        >>> print(f"{log_likelihood_ratio(10, 7, 0.80, 0.70):.6f}")
        0.281676
    """
    trials, hits = np.asarray(n, np.float64), np.asarray(k, np.float64)
    p0, p1 = np.asarray(null, np.float64), np.asarray(alternative, np.float64)
    ratio: Floats = hits * np.log(p1 / p0) + (trials - hits) * np.log1p((p0 - p1) / (1 - p0))
    return ratio


EXCESSES = np.array([0.03, 0.06, 0.12, 0.25, 0.45])
"""Distances from the limit to the gaps that are bet on, weighted equally."""

SHORTFALLS = np.array([0.04, 0.08, 0.16, 0.32, 0.60])
"""Relative distances below the limit to the ratios that are bet on, weighted equally."""

_RAREST = (
    1e-4  # lowest rate of a ratio's alternative: all decisions count, and may be served rarely
)
_LOWEST, _HIGHEST = 0.005, 0.995  # alternatives stay inside (0, 1): no label decides alone
_BISECTIONS = 52  # down to the spacing of float64 below 1
_MEMORY = 1000.0  # half-life of the level, in trials
_START_TRIALS = 20.0  # trials that the initial guess of a level is worth
_LABELS_AT_ONCE = 1 << 20  # bounds the memory of thinning, about 50 MB

_Words = npt.NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Trials and hits of P ordered pairs of disjoint arms, each of shape (P,).

    Arm a is the arm with the supposedly higher rate: for SLICE_WORSE the reference in a TPR gap,
    the slice in an FPR or a blocked gap. Both arms must cover the same hours, as few as possible:
    the test compares the means of both rates over these hours.

    Attributes:
        n_a: trials of arm a.
        k_a: hits among them.
        n_b: trials of arm b.
        k_b: hits among them.
    """

    n_a: Int64s
    k_a: Int64s
    n_b: Int64s
    k_b: Int64s

    @classmethod
    def joined(cls, parts: Sequence[PairCounts]) -> PairCounts:
        """Return the pairs of all parts, one after the other."""
        return cls(*map(np.concatenate, zip(*(part._columns for part in parts), strict=True)))

    @property
    def swapped(self) -> PairCounts:
        """Return the pairs with arms a and b exchanged."""
        return PairCounts(self.n_b, self.k_b, self.n_a, self.k_a)

    @property
    def comparable(self) -> Bools:
        """Return True for pairs with trials in both arms, shape (P,); others cannot bet."""
        return (self.n_a > 0) & (self.n_b > 0)

    def only(self, pairs: Bools) -> PairCounts:
        """Return all P pairs, with zeros for pairs outside the mask."""
        return PairCounts(*(np.where(pairs, column, 0) for column in self._columns))

    def selected(self, pairs: Bools) -> PairCounts:
        """Return the pairs in the mask and no others."""
        return PairCounts(*(column[pairs] for column in self._columns))

    def split(self, parts: int) -> list[PairCounts]:
        """Return the pairs as a list of ``parts`` equally long pieces."""
        columns = (column.reshape(parts, -1) for column in self._columns)
        return [PairCounts(*part) for part in zip(*columns, strict=True)]

    @property
    def _columns(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        return self.n_a, self.k_a, self.n_b, self.k_b


@dataclass(frozen=True, slots=True)
class PairLevel:
    """Recent pooled rate of both arms of each pair, around which alternatives are chosen.

    The level must come from trials before the bet's; a wrong level costs delay, never validity.

    Attributes:
        trials: decayed number of trials, shape (P,).
        hits: decayed number of hits, shape (P,).
    """

    trials: Floats
    hits: Floats

    @classmethod
    def start(cls, pairs: int, rate: float) -> PairLevel:
        """Return the level before any trial: ``rate``, with a weight of 20 trials."""
        return cls(np.full(pairs, _START_TRIALS), np.full(pairs, _START_TRIALS * rate))

    @property
    def rate(self) -> Floats:
        """Return the hits per trial, shape (P,)."""
        return self.hits / self.trials

    def learned(self, counts: PairCounts) -> PairLevel:
        """Return the level after these trials; counts halve with every 1,000 new trials."""
        new_trials = counts.n_a + counts.n_b
        decay = np.exp2(-new_trials / _MEMORY)
        return PairLevel(
            decay * self.trials + new_trials, decay * self.hits + (counts.k_a + counts.k_b)
        )


def trials(cohort: SliceCohort, metric: Metric) -> tuple[Int64s, Int64s]:
    """Return trials and hits of each slice for a metric, both of shape (S,).

    TPR: labelled ready, and auto-served among them; FPR: labelled not ready, and auto-served among
    them; PRECISION: labelled auto-served, and ready among them (all three where every decision is
    to be labelled); BLOCKED, SELECTION: all decisions, and blocked or auto-served among them.

    Raises:
        ValueError: for another metric.
    """
    if (hit := HIT_ROUTES.get(metric)) is not None:
        return cohort.routed.sum(axis=1), cohort.routed[:, hit]
    if metric.row.among is Among.SERVED:
        served = np.s_[:, REVIEWED_ROUTES.index(Route.AUTO_SERVE)]
        return cohort.labelled[served].sum(axis=(1, 2)), cohort.ready[served].sum(axis=(1, 2))
    if metric.of_ready:
        raise ValueError(f"{metric} has no two-sample test")
    unready = metric.row.among is Among.NOT_READY
    labels = cohort.labelled - cohort.ready if unready else cohort.ready
    by_route = labels.sum(axis=(2, 3))
    return by_route.sum(axis=1), by_route[:, REVIEWED_ROUTES.index(Route.AUTO_SERVE)]


def gap_log_e(counts: PairCounts, level: Floats, limit: npt.ArrayLike) -> Floats:
    """Return log e-values that rate_a - rate_b exceeds the limit, per pair and alternative.

    Args:
        counts: trials since the last bet.
        level: common rate of both arms before these trials, shape (P,).
        limit: largest gap of the contract, inclusive, shape () or (P,).

    Returns:
        Shape (P, 5), in nats; 0 where an arm has no trial, or where the alternative, kept inside
        (0, 1), is no violation.
    """
    return pair_log_e(counts, gap_alternatives(counts, level, limit), limit)


def pair_log_e(
    counts: PairCounts,
    alternatives: tuple[Floats, Floats],
    offset: npt.ArrayLike,
    slope: npt.ArrayLike = 1.0,
) -> Floats:
    """Return log e-values of alternatives against rate_a - slope rate_b <= offset, shape (P, M).

    Args:
        counts: trials since the last bet.
        alternatives: rates of both arms, each of shape (P, M).
        offset: offset of the null, shape () or (P,).
        slope: slope of the null, above 0, shape () or (P,).
    """
    a1, b1 = alternatives
    log_e, comparable = np.zeros_like(a1), counts.comparable
    if comparable.any():  # in hours of little traffic, hardly a pair has new labels on both sides
        edge = tuple(
            np.broadcast_to(bound, comparable.shape)[comparable, None] for bound in (offset, slope)
        )
        log_e[comparable] = _log_e(
            counts.selected(comparable), a1[comparable], b1[comparable], *edge
        )
    return log_e


def _log_e(counts: PairCounts, a1: Floats, b1: Floats, offset: Floats, slope: Floats) -> Floats:
    """Return the log e-value of two arms against the nearest point on the limit's line."""
    n_a, k_a, n_b, k_b = (
        column[:, None] for column in (counts.n_a, counts.k_a, counts.n_b, counts.k_b)
    )
    a0, b0 = project(a1, b1, n_a, n_b, offset, slope)
    return log_likelihood_ratio(n_a, k_a, a0, a1) + log_likelihood_ratio(n_b, k_b, b0, b1)


def gap_alternatives(
    counts: PairCounts, level: Floats, limit: npt.ArrayLike
) -> tuple[Floats, Floats]:
    """Return alternative rates of arms a and b, (P, 5) each, with gaps beyond the limit.

    The mean over the trials of both arms is the level, unless that would leave [.005, .995].
    """
    delta = np.broadcast_to(np.asarray(limit, np.float64), level.shape)
    gap = delta[:, None] + EXCESSES
    share_b = divide(counts.n_b, counts.n_a + counts.n_b, empty=0.5)
    a1 = np.minimum(level[:, None] + gap * share_b[:, None], _HIGHEST)
    b1 = np.maximum(a1 - gap, _LOWEST)
    return np.minimum(b1 + gap, _HIGHEST), b1


def ratio_alternatives(
    counts: PairCounts, level: Floats, limit: npt.ArrayLike
) -> tuple[Floats, Floats]:
    """Return alternative rates of arms a and b, (P, 5) each, ratios b / a below the limit.

    The mean over the trials of both arms is the level, unless that would leave [.0001, .995].
    """
    ratio = np.broadcast_to(np.asarray(limit, np.float64), level.shape)[:, None] * (1 - SHORTFALLS)
    share_b = divide(counts.n_b, counts.n_a + counts.n_b, empty=0.5)[:, None]
    a1 = np.clip(level[:, None] / (1 - share_b * (1 - ratio)), _RAREST, _HIGHEST)
    return a1, np.maximum(a1 * ratio, _RAREST)


def project(  # noqa: PLR0917 - two rates, two numbers of trials, and the edge of the null
    a1: npt.ArrayLike,
    b1: npt.ArrayLike,
    n_a: npt.ArrayLike,
    n_b: npt.ArrayLike,
    offset: npt.ArrayLike,
    slope: npt.ArrayLike = 1.0,
) -> tuple[Floats, Floats]:
    """Return the rates (a0, b0) in the null that are nearest to an alternative.

    They minimise n_a KL(a1 || a0) + n_b KL(b1 || b0) over a0 - slope b0 <= offset. At the minimum
    slope times the pull of arm a, n_a (a1 - a0) / (a0 (1 - a0)), is that of arm b,
    n_b (b0 - b1) / (b0 (1 - b0)); that makes E[e] <= exp(pull (mean a - slope mean b - offset)),
    with the pull of arm a, for any drifting rates.

    Args:
        a1: alternative rates of arm a, inside (0, 1).
        b1: alternative rates of arm b, inside (0, 1).
        n_a: trials of arm a.
        n_b: trials of arm b.
        offset: largest gap, inclusive; 0 for a ratio.
        slope: one over the smallest ratio b / a; 1 for a gap. All are broadcast.
    """
    arrays = (np.asarray(argument, np.float64) for argument in (a1, b1, n_a, n_b, offset, slope))
    a1, b1, n_a, n_b, delta, steep = np.broadcast_arrays(*arrays)
    b0 = _balanced_rate(a1, b1, n_a, n_b, delta, steep)
    violates = a1 - steep * b1 > delta
    return np.where(violates, steep * b0 + delta, a1), np.where(violates, b0, b1)


def _balanced_rate(  # noqa: PLR0917 - two rates, two numbers of trials, and the edge of the null
    a1: Floats, b1: Floats, n_a: Floats, n_b: Floats, delta: Floats, steep: Floats
) -> Floats:
    """Return b0 where the pulls of both arms balance, found by bisection; broadcast."""
    low, high = b1, np.maximum((a1 - delta) / steep, b1)
    for _ in range(_BISECTIONS):
        b0 = (low + high) / 2
        a0 = steep * b0 + delta
        # The pulls lack their denominators, which may be 0 outside the root's interval.
        pull_a = steep * n_a * (a1 - a0) * b0 * (1 - b0)
        pull_b = n_b * (b0 - b1) * a0 * (1 - a0)
        upward = pull_a > pull_b
        low, high = np.where(upward, b0, low), np.where(upward, high, b0)
    middle: Floats = (low + high) / 2
    return middle


def thin_labels(
    hours: Int64s | int, counts: HourlyCounts, audit: Floats, least: Floats | float
) -> HourlyCounts:
    """Return the counts with labels thinned to one label probability for all decisions.

    Labels of a cell audited with probability p are kept with probability least / p, ready and not
    ready ones separately; all else stays. Among kept ready labels P(auto_serve) is the TPR. Cells
    are thinned before any roll-up, so slices, complements and group-bys agree.

    Args:
        hours: index of the hour of each row, or of all rows.
        counts: one row per cell and hour.
        audit: audit rate of each row, in (0, 1], shape (R,).
        least: the smallest audit rate in use in the hour of each row, or in all; it must not depend
            on that hour's decisions.

    Raises:
        ValueError: if a cell with labels has a smaller audit rate.
    """
    labelled = np.maximum(counts.values[:, Counter.LABELLED], 0)
    if np.any(np.less(audit, least) & (labelled > 0)):
        raise ValueError("a label was audited at less than the least rate")
    keep = np.minimum(np.divide(least, audit), 1.0)
    ready = np.clip(counts.values[:, Counter.READY], 0, labelled)
    kept_ready = thin(hours, counts.cells, 1, ready, keep)
    kept_labels = kept_ready + thin(hours, counts.cells, 0, labelled - ready, keep)
    values = counts.values.copy()
    values[:, Counter.LABELLED], values[:, Counter.READY] = kept_labels, kept_ready
    return replace(counts, values=values)


def thin(hours: Int64s | int, cells: Int64s, outcome: int, counts: Int64s, keep: Floats) -> Int64s:
    """Return how many items of each cell are kept by a reproducible binomial draw.

    The same hour, cell and outcome give the same draw on every machine and in every order;
    different ones give independent draws. With more items, kept items stay kept.

    Args:
        hours: index of the hour of each cell, or of all of them.
        cells: content ids, distinct within an hour.
        outcome: distinguishes draws of one cell.
        counts: items of each cell, not negative.
        keep: probability of each cell's items to be kept; at 1 all are.
    """
    drawn = np.where(keep < 1, counts, 0)
    ends = np.cumsum(drawn)
    of_hour = _mix(np.atleast_1d(np.asarray(hours, np.int64)).view(np.uint64))
    seeds = _mix(of_hour + cells.view(np.uint64))
    seeds = _mix(seeds + np.uint64(outcome))
    kept = np.where(keep < 1, 0, counts)
    for start in range(0, int(drawn.sum()), _LABELS_AT_ONCE):
        item = np.arange(start, min(start + _LABELS_AT_ONCE, ends[-1]))
        cell = np.searchsorted(ends, item, side="right")
        within = (item - (ends - drawn)[cell]).astype(np.uint64)
        stays = _uniform(seeds[cell], within) < keep[cell]
        kept += np.bincount(cell[stays], minlength=len(cells))
    return kept


def _uniform(seeds: _Words, position: _Words) -> Floats:
    """Return numbers in [0, 1) at positions of seeded sequences, exact multiples of 2^-53."""
    words = _mix(seeds + position * _GOLDEN)
    uniform: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform


def _mix(words: _Words) -> _Words:
    """Return the words after one step of SplitMix64, a bijection that mixes all bits.

    Source: Steele, Lea and Flood (2014), OOPSLA.
    """
    mixed: _Words = words + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed
