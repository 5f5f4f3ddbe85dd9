"""Gaps of slices against their references, with intervals, and verdicts by bounds.

A gap is oriented by harm: positive means that the slice is worse off. Bounds inside one
group-by hold together (Bonferroni over its declared comparisons). The range from worst to best is
described, not tested: of eight equal slices it would be "significant" half of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from monitor.core.contract import COMPLEMENT, Verdict
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import Floats, divide, mover, ratio_interval, z_value
from monitor.core.metric import Metric
from monitor.core.rates.effective import Evidence
from monitor.core.rates.estimates import RateColumns
from monitor.core.rates.tolerance import SLACK, Tolerance

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GapColumns:
    """Gaps of one metric for all slices against their references, arrays of shape (S,).

    Attributes:
        value: TPR, PRECISION, SELECTION (statistical parity difference): reference - slice; FPR,
            BLOCKED, READY: slice - reference. NaN if one of the rates has no point.
        lower: lower bound (MOVER); NaN if one of the rates has no trials.
        upper: upper bound.
        ratio: slice / reference for every metric (SELECTION: disparate impact); NaN over 0.
        ratio_lower: lower bound (MOVER-R); also of a ratio over 0.
        ratio_upper: upper bound; NaN if the reference may be 0.
    """

    metric: Metric
    value: Floats
    lower: Floats
    upper: Floats
    ratio: Floats
    ratio_lower: Floats
    ratio_upper: Floats


def comparisons(n_slices: int, reference: str) -> int:
    """Return the number of declared comparisons of a group-by with ``n_slices`` slices.

    A named reference is not compared with itself; two slices and their complements are one
    comparison seen from both sides.

    Example:
        >>> comparisons(5, "channel=chat"), comparisons(5, "complement"), comparisons(2, COMPLEMENT)
        (4, 5, 1)
    """
    if reference == COMPLEMENT and n_slices > 2:  # noqa: PLR2004 - a slice and the rest
        return n_slices
    return max(n_slices - 1, 0)


def simultaneous_z(comparisons: int, confidence: float = 0.95) -> float:
    """Return the normal quantile at which this many comparisons hold together (Bonferroni)."""
    return z_value(1 - (1 - confidence) / max(comparisons, 1))


def gap(slices: RateColumns, reference: RateColumns) -> GapColumns:
    """Return the gap of each slice to its reference, in columns; above 0 the slice is worse off.

    Both must be estimated at the simultaneous z and be disjoint: a slice is never compared
    with one that contains it. ``reference`` has one row per slice, or one row for all.

    Raises:
        ValueError: if the two are different metrics.
    """
    if slices.metric is not reference.metric:
        raise ValueError(f"{slices.metric} is not comparable with {reference.metric}")
    worse, better = slices, reference
    if slices.metric.harmed_by_less:
        worse, better = reference, slices
    lower, upper = mover(*_interval(worse), *_interval(better))
    ratio_lower, ratio_upper = ratio_interval(*_interval(slices), *_interval(reference))
    return GapColumns(
        metric=slices.metric,
        value=worse.value - better.value,
        lower=lower,
        upper=upper,
        ratio=divide(slices.value, reference.value),
        ratio_lower=ratio_lower,
        ratio_upper=ratio_upper,
    )


def references(counts: SliceCounts, reference: str) -> SliceCounts:
    """Return the counts of each slice's reference; row i is disjoint from slice i.

    Estimated like the slices, the rows are the second argument of :func:`gap` (their support
    counts too). The row of a named reference is empty, so its rates are NaN and it has no gap.
    All rows are empty when the reference has no decisions.

    Args:
        counts: the group-by in one window.
        reference: a slice text of it, or ``complement``.
    """
    if reference == COMPLEMENT:
        return counts.complements
    is_reference = np.array([text == reference for text in counts.slices], bool)
    row = counts.values[is_reference].sum(axis=0)
    return SliceCounts(counts.slices, counts.strata, np.where(is_reference[:, None, None], 0, row))


class WithEvidence(Protocol):
    """Rates of slices with their evidence, measured from counts or shown by tables."""

    @property
    def evidence(self) -> Evidence:
        """Points and the effective trials behind them."""


def support_together(slices: WithEvidence, reference: WithEvidence) -> tuple[Floats, Floats]:
    """Return support of slices and of references at their joint rate, two arrays of shape (S,).

    A minimum of support is judged by these, not by n_eff at the own rate of each side. With few
    audits, n_eff follows the compared rate (twice the FPR, twice the support), so slices that just
    reach a minimum would be selected by their gap. The mean of both rates, weighted by n_eff, is
    not correlated with their difference. If all is labelled, the support is the counted hits.
    """
    slice_evidence, reference_evidence = slices.evidence, reference.evidence
    sums = [
        np.nan_to_num(evidence.value) * evidence.support
        for evidence in (slice_evidence, reference_evidence)
    ]
    together = divide(
        sums[0] + sums[1], slice_evidence.support + reference_evidence.support, empty=0
    )
    return slice_evidence.support_at(together), reference_evidence.support_at(together)


def verdict(
    gaps: GapColumns, allowed: Tolerance | None, enough_support: Bools
) -> list[Verdict | None]:
    """Return the verdict on each gap or ratio, from its bounds and limit, never from its point.

    FAIL if the interval is beyond the limit and the slice is worse off, BETTER_OFF if it is beyond
    and the slice is better off, PASS if it is within the limit in both directions, INCONCLUSIVE
    otherwise; always INSUFFICIENT_SUPPORT without support. None without a limit.

    Args:
        gaps: gaps of one metric; published gaps are decided on their published bounds.
        allowed: the contract's limit, on the gap or on the ratio.
        enough_support: shape (S,); True if slice and reference have the contract's minimum.
    """
    if allowed is None:
        return [None] * len(gaps.value)
    sides = allowed.worse_off(gaps), allowed.better_off(gaps)
    return _verdicts(*sides, allowed.within(gaps), enough_support)


def both(first: Verdict | None, second: Verdict | None) -> Verdict | None:
    """Return the worse of the verdicts on two limits; None if neither limit applies.

    Example:
        >>> both(Verdict.PASS, Verdict.INCONCLUSIVE).value, both(None, Verdict.PASS).value
        ('inconclusive', 'pass')
    """
    return next((worst for worst in _WORST_FIRST if worst in (first, second)), None)


_WORST_FIRST = (
    Verdict.FAIL,
    Verdict.INSUFFICIENT_SUPPORT,
    Verdict.BETTER_OFF,
    Verdict.INCONCLUSIVE,
    Verdict.PASS,
)


def level_verdicts(
    rates: RateColumns, limit: Fraction | None, enough_support: Bools
) -> list[Verdict | None]:
    """Return the verdicts of all rates against one level limit; None each if there is no limit.

    TPR (and SELECTION) must be at least the limit: FAIL if upper < limit, PASS if lower >=
    limit. FPR (and BLOCKED, READY) at most: FAIL if lower > limit, PASS if upper <= limit.
    """
    if limit is None:
        return [None] * len(rates.value)
    edge = float(limit)
    if rates.metric.harmed_by_less:
        fails, passes = rates.upper < edge - SLACK, rates.lower >= edge - SLACK
    else:
        fails, passes = rates.lower > edge + SLACK, rates.upper <= edge + SLACK
    return _verdicts(fails, np.zeros_like(fails), passes, enough_support)


def spread(metric: Metric, values: npt.ArrayLike) -> tuple[int, int, float] | None:
    """Return index of the worst rate, index of the best, and their distance; None without two.

    Returns:
        Index of the worst, index of the best (the first of equals), and their distance >= 0;
        None if fewer than two rates have a point. For READY, highest and lowest.

    Example:
        >>> spread(Metric.TPR, [0.5, float("nan"), 0.75])
        (0, 2, 0.25)
    """
    points = np.asarray(values, np.float64)
    with_point = np.flatnonzero(~np.isnan(points))
    if len(with_point) < 2:  # noqa: PLR2004 - a distance has two ends
        return None
    harm = -points[with_point] if metric.harmed_by_less else points[with_point]
    worst, best = int(with_point[harm.argmax()]), int(with_point[harm.argmin()])
    return worst, best, float(abs(points[worst] - points[best]))


def _interval(rates: RateColumns) -> tuple[Floats, Floats, Floats]:
    return rates.value, rates.lower, rates.upper


def _verdicts(fails: Bools, better: Bools, passes: Bools, enough: Bools) -> list[Verdict | None]:
    rows = zip(*(flags.tolist() for flags in (fails, better, passes, enough)), strict=True)
    return [_verdict_by_flags(*row) for row in rows]


def _verdict_by_flags(fails: bool, better: bool, passes: bool, enough: bool) -> Verdict:
    """Return the verdict: support decides first, then fails, then better, then passes."""
    if not enough:
        return Verdict.INSUFFICIENT_SUPPORT
    if fails:
        return Verdict.FAIL
    if better:
        return Verdict.BETTER_OFF
    return Verdict.PASS if passes else Verdict.INCONCLUSIVE
