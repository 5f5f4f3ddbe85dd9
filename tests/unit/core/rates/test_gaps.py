from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from slice_tables import auto, blocked, counted, review, slice_counts

from monitor.core.contract import COMPLEMENT, Verdict
from monitor.core.counts.cells import Counter, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import mover, ratio_interval, wilson
from monitor.core.metric import Metric
from monitor.core.rates.estimates import RateColumns, estimate
from monitor.core.rates.gaps import (
    GapColumns,
    both,
    comparisons,
    gap,
    level_verdicts,
    references,
    simultaneous_z,
    spread,
    verdict,
)
from monitor.core.rates.tolerance import Tolerance

CODING = Coding(())
Cells = Mapping[Stratum, Mapping[Counter, int]]
FAIL, PASS, OPEN = Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE
AHEAD = Verdict.BETTER_OFF
UNSUPPORTED = Verdict.INSUFFICIENT_SUPPORT
TENTH = Tolerance.of_gap(Fraction("0.10"))
FOUR_FIFTHS = Tolerance.of_ratio(Fraction("0.80"))


def complete(
    n_auto: int, ready_auto: int, n_review: int, ready_review: int, n_blocked: int = 0
) -> Cells:
    return {
        auto(rate=0): counted(n_auto, n_auto, ready_auto),
        review(): counted(n_review, n_review, ready_review),
        blocked(): counted(n_blocked),
    }


PAIRS = slice_counts({"v=conversational": complete(3, 3, 7, 3), "v=formal": complete(6, 5, 4, 1)})


def gaps_of(counts: SliceCounts, metric: Metric, reference: str = COMPLEMENT) -> GapColumns:
    z = simultaneous_z(comparisons(len(counts.slices), reference))
    rates = [
        estimate(table, CODING, metric, z) for table in (counts, references(counts, reference))
    ]
    return gap(*rates)


def test_the_ten_pairs() -> None:
    tpr = gaps_of(PAIRS, Metric.TPR, "v=formal")
    assert tpr.value[0] == pytest.approx(1 / 3)
    assert tpr.lower[0] < 0.1 < tpr.upper[0]
    assert tpr.ratio[0] == pytest.approx(0.6)
    assert verdict(tpr, TENTH, np.array([True, False])) == [OPEN, UNSUPPORTED]
    assert gaps_of(PAIRS, Metric.FPR, "v=formal").value[0] == pytest.approx(-0.25)
    assert gaps_of(PAIRS, Metric.SELECTION, "v=formal").value[0] == pytest.approx(0.3)


def test_the_reference_has_no_gap_with_itself() -> None:
    tpr = gaps_of(PAIRS, Metric.TPR, "v=formal")
    assert np.isnan([tpr.value[1], tpr.lower[1], tpr.upper[1], tpr.ratio[1]]).all()


def test_a_reference_without_decisions_gives_no_gaps() -> None:
    tpr = gaps_of(PAIRS, Metric.TPR, "v=poetic")
    assert np.isnan(tpr.value).all()
    assert verdict(tpr, TENTH, np.array([True, True])) == [OPEN, OPEN]


@pytest.mark.parametrize("metric", list(Metric))
def test_two_slices_and_their_complements_mirror_each_other(metric: Metric) -> None:
    gaps = gaps_of(PAIRS, metric)
    assert gaps.value[0] == -gaps.value[1]
    assert gaps.lower[0] == -gaps.upper[1]


@pytest.mark.parametrize(
    ("metric", "worse"),
    [
        (Metric.TPR, complete(40, 30, 60, 30)),
        (Metric.SELECTION, complete(30, 30, 70, 10)),
        (Metric.FPR, complete(60, 40, 40, 10)),
        (Metric.BLOCKED, complete(50, 40, 50, 10, 30)),
        (Metric.READY, complete(50, 48, 50, 12)),
    ],
)
def test_positive_means_that_the_slice_is_worse_off(metric: Metric, worse: Cells) -> None:
    counts = slice_counts({"a": worse, "b": complete(50, 40, 50, 10)})
    gaps = gaps_of(counts, metric)
    assert gaps.value[0] > 0 > gaps.value[1]


@pytest.mark.parametrize("allowed", [TENTH, FOUR_FIFTHS], ids=["gap", "ratio"])
def test_only_the_slice_that_is_worse_off_fails(allowed: Tolerance) -> None:
    worse, better = complete(300, 300, 700, 100), complete(600, 400, 400, 100)
    counts, enough = slice_counts({"a": worse, "b": better}), np.array([True, True])
    gaps = gaps_of(counts, Metric.SELECTION)
    expected = [FAIL, AHEAD]
    assert verdict(gaps, allowed, enough) == expected


def test_different_metrics_are_not_compared() -> None:
    with pytest.raises(ValueError, match="not comparable"):
        gap(estimate(PAIRS, CODING, Metric.TPR), estimate(PAIRS, CODING, Metric.FPR))


@pytest.mark.parametrize(
    ("slices", "reference", "number"),
    [(2, COMPLEMENT, 1), (3, COMPLEMENT, 3), (5, "a=b", 4), (1, COMPLEMENT, 0), (0, "a=b", 0)],
)
def test_declared_comparisons(slices: int, reference: str, number: int) -> None:
    assert comparisons(slices, reference) == number


def test_simultaneous_z_is_bonferroni() -> None:
    assert simultaneous_z(1) == simultaneous_z(0) == pytest.approx(1.959963984540054)
    assert simultaneous_z(5) == pytest.approx(2.5758293035489004)


def columns(*bounds: tuple[float, float]) -> GapColumns:
    lower, upper = np.array(bounds).T
    middle = (lower + upper) / 2
    return GapColumns(Metric.TPR, middle, lower, upper, middle, lower, upper)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0.11, 0.30), FAIL),
        ((-0.30, -0.11), AHEAD),
        ((-0.05, 0.05), PASS),
        ((-0.10, 0.10), PASS),  # inclusive
        ((0.10, 0.30), OPEN),
        ((0.05, 0.11), OPEN),
        ((-0.11, 0.05), OPEN),
        ((0.8 - 0.7, 0.8 - 0.7), PASS),  # 0.10000000000000009
        ((math.nan, math.nan), OPEN),
    ],
)
def test_verdict_by_bounds(bounds: tuple[float, float], expected: Verdict) -> None:
    assert verdict(columns(bounds), TENTH, np.array([True])) == [expected]
    assert verdict(columns(bounds), TENTH, np.array([False])) == [UNSUPPORTED]
    assert verdict(columns(bounds), None, np.array([True])) == [None]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0.60, 0.79), FAIL),  # the slice is served less often
        ((1.26, 1.50), AHEAD),  # its reference is
        ((0.60, 0.80), OPEN),
        ((1.25, 1.50), OPEN),
        ((0.80, 1.25), PASS),
        ((0.79, 1.10), OPEN),
        ((0.90, 1.26), OPEN),
        ((0.90, math.nan), OPEN),  # no upper bound: the reference may be 0
        ((1.30, math.nan), AHEAD),
    ],
)
def test_verdict_on_a_ratio(bounds: tuple[float, float], expected: Verdict) -> None:
    one, nothing = np.array([1.0]), np.array([math.nan])
    lower, upper = (np.array([x]) for x in bounds)
    ratios = GapColumns(Metric.SELECTION, nothing, nothing, nothing, one, lower, upper)
    assert verdict(ratios, FOUR_FIFTHS, np.array([True])) == [expected]
    assert verdict(ratios, FOUR_FIFTHS, np.array([False])) == [UNSUPPORTED]


@pytest.mark.parametrize("seed", range(10))
def test_ratio_verdicts_are_those_of_the_linear_difference(seed: int) -> None:
    """MOVER on slice - r reference says the same as MOVER-R on their ratio, reference 0 too."""
    rng = np.random.default_rng(seed)
    served, all_of = rng.integers(0, 60, 40), rng.integers(60, 90, 40)
    others, rest = rng.integers(0, 60, 40), rng.integers(60, 90, 40)
    others[:5] = 0
    (t1, l1, u1), (t2, l2, u2) = (
        (k / n, *wilson(k / n, n)) for k, n in ((served, all_of), (others, rest))
    )
    lower, upper = ratio_interval(t1, l1, u1, t2, l2, u2)
    for ratio in (0.5, 0.8, 1.25, 2.0):
        low, high = mover(t1, l1, u1, ratio * t2, ratio * l2, ratio * u2)
        assert (low > 1e-9).tolist() == (lower > ratio + 1e-9).tolist()
        assert (high < -1e-9)[5:].tolist() == (upper < ratio - 1e-9)[5:].tolist()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (None, None, None),
        (PASS, None, PASS),
        (PASS, FAIL, FAIL),
        (OPEN, PASS, OPEN),
        (OPEN, FAIL, FAIL),
        (UNSUPPORTED, PASS, UNSUPPORTED),
    ],
)
def test_two_limits_have_the_worse_verdict(
    one: Verdict | None, other: Verdict | None, expected: Verdict | None
) -> None:
    assert both(one, other) is both(other, one) is expected


def level(metric: Metric, lower: float, upper: float) -> RateColumns:
    low, high = np.array([lower]), np.array([upper])
    count = np.array([100])
    return RateColumns(metric, low, low, high, high, count, count, count)


@pytest.mark.parametrize(
    ("metric", "lower", "upper", "expected"),
    [
        (Metric.TPR, 0.80, 0.90, PASS),
        (Metric.TPR, 0.70, 0.79, FAIL),
        (Metric.TPR, 0.70, 0.80, OPEN),
        (Metric.FPR, 0.70, 0.80, PASS),
        (Metric.FPR, 0.81, 0.90, FAIL),
        (Metric.FPR, 0.80, 0.90, OPEN),
        (Metric.FPR, math.nan, math.nan, OPEN),
    ],
)
def test_level_verdict(metric: Metric, lower: float, upper: float, expected: Verdict) -> None:
    rates = level(metric, lower, upper)
    assert level_verdicts(rates, Fraction("0.80"), np.array([True])) == [expected]
    assert level_verdicts(rates, Fraction("0.80"), np.array([False])) == [UNSUPPORTED]
    assert level_verdicts(rates, None, np.array([True])) == [None]


def test_spread_is_worst_to_best() -> None:
    assert spread(Metric.FPR, [0.1, math.nan, 0.4]) == pytest.approx((2, 0, 0.3))
    assert spread(Metric.TPR, [0.1, 0.4]) == pytest.approx((0, 1, 0.3))
    assert spread(Metric.TPR, [0.2, 0.2]) == (0, 0, 0)
    assert spread(Metric.TPR, [0.2, math.nan]) is None
    assert spread(Metric.TPR, []) is None
