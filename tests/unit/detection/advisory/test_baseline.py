"""Drift against a frozen reference, mix by mix, and what is only a shift of the mix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import comb, exp, log

import numpy as np
import numpy.typing as npt
import pytest

from monitor.core.intervals import wilson
from monitor.core.metric import Metric
from monitor.core.time import DAY, HOUR, WEEK
from monitor.detection.advisory.baseline import Baseline
from monitor.detection.advisory.reference import MAX_STRATA, SHIFTS, Reference, ReferenceBets
from monitor.detection.arrays import decode, encode

Floats = npt.NDArray[np.float64]
METRICS = [Metric.TPR, Metric.FPR]
ONES = np.ones(1)


def bound(k: float, n: float, metric: Metric) -> float:
    lower, upper = wilson(k / n, n, 1.645)
    return float(lower if metric is Metric.TPR else upper)


def moved(c: float, shift: float, metric: Metric) -> float:
    """expit(logit c -+ shift), written out."""
    odds = c / (1 - c) * exp(-shift if metric is Metric.TPR else shift)
    return odds / (1 + odds)


def collected(
    metric: Metric, n: npt.ArrayLike, k: npt.ArrayLike, slices: Sequence[str] = ("s",)
) -> Baseline:
    """A baseline with this finished reference, ready for the second day's cohorts."""
    trials, hits = (np.atleast_2d(np.asarray(x, float)) for x in (n, k))
    baseline = Baseline.empty(metric, slices, [f"m{i}" for i in range(trials.shape[1])])
    weights = np.full(len(slices), 1 / len(slices))
    baseline.advance(0, trials, hits, weights)
    baseline.advance(DAY, 0 * trials, 0 * hits, weights)
    assert baseline.reference.frozen.all()
    return baseline


@pytest.mark.parametrize("metric", METRICS)
def test_bets_are_the_likelihood_ratios_beyond_the_wilson_bounds(metric: Metric) -> None:
    reference_n, reference_k = [1500, 500], [1350, 240]
    bets = ReferenceBets.against(
        np.array([reference_n], float), np.array([reference_k], float), metric
    )
    n, k = (7, 4), (5, 1)
    expected = [
        sum(
            hits * log(moved(c, shift, metric) / c)
            + (trials - hits) * log((1 - moved(c, shift, metric)) / (1 - c))
            for trials, hits, c in zip(
                n, k, (bound(1350, 1500, metric), bound(240, 500, metric)), strict=True
            )
        )
        for shift in SHIFTS
    ]
    assert bets.log_e(np.array([n], float), np.array([k], float))[0] == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS)
def test_by_enumeration_no_alternative_gains_on_average_while_every_mix_keeps_its_bound(
    metric: Metric,
) -> None:
    reference_n, reference_k = np.array([[900.0, 700.0, 400.0]]), np.array([[855.0, 525.0, 80.0]])
    bets = ReferenceBets.against(reference_n, reference_k, metric)
    n = (3, 4, 2)
    bounds = [bound(k, m, metric) for k, m in zip(reference_k[0], reference_n[0], strict=True)]
    outcomes = np.array(list(product(*(range(m + 1) for m in n))), float)
    log_e = np.concatenate([bets.log_e(np.array([n], float), k[None]) for k in outcomes])
    for better in product((0, 0.02, 0.2), repeat=3):
        sign = 1 if metric is Metric.TPR else -1
        rates = np.clip(np.array(bounds) + sign * np.array(better), 0, 1)
        mean = binomials(outcomes, n, rates) @ np.exp(log_e)
        if better == (0, 0, 0):
            assert mean == pytest.approx(np.ones(len(SHIFTS)), abs=1e-12)
        assert np.all(mean <= 1 + 1e-12)


def binomials(outcomes: Floats, n: Sequence[int], rates: Floats) -> Floats:
    chances = [
        [comb(m, int(k)) * p**k * (1 - p) ** (m - k) for m, k, p in zip(n, row, rates, strict=True)]
        for row in outcomes
    ]
    return np.asarray(np.prod(chances, axis=1))


@pytest.mark.full
def test_at_the_bound_itself_crossings_keep_to_their_budget() -> None:
    """The worst null: every rate sits on its bound. One crossing in 90 days at most."""
    slices, days = 300, 60
    rng = np.random.default_rng(8)
    names = [str(i) for i in range(slices)]
    baseline = collected(
        Metric.TPR, np.tile([1500, 900], (slices, 1)), np.tile([1400, 600], (slices, 1)), names
    )
    rates = [bound(1400, 1500, Metric.TPR), bound(600, 900, Metric.TPR)]
    crossings = 0
    for hour in range(25, 25 + days * 24):
        n = rng.poisson((5, 3), (slices, 2))
        baseline.advance(hour * HOUR, n, rng.binomial(n, rates), np.ones(slices))
        crossings += (baseline.stratified.crossed_at == hour * HOUR).sum()
    budget = slices * days / 90
    # Four standard errors: crossings of different slices are independent here.
    assert 0.3 * budget < crossings < budget + 4 * budget**0.5


def season(hour: int) -> Floats:
    """Shares of two mixes that swing with a period of 100 hours."""
    swing = 0.3 * np.sin(2 * np.pi * hour / 100)
    return np.array([0.5 + swing, 0.5 - swing])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("worse", [0.0, 0.10])
def test_a_season_of_the_mix_crosses_without_mixes_only_and_a_true_drift_crosses_both(
    metric: Metric, worse: float
) -> None:
    slices, rng = 100, np.random.default_rng(5)
    rates = np.array([0.95, 0.75]) if metric is Metric.TPR else np.array([0.05, 0.25])
    worse = -worse if metric is Metric.TPR else worse
    baseline = Baseline.empty(metric, [str(i) for i in range(slices)], ["easy", "hard"])
    drifted = np.zeros(slices, bool)
    shifted = np.zeros(slices, bool)
    for hour in range(1000):
        n = rng.poisson(20 * season(hour), (slices, 2))
        k = rng.binomial(n, rates + (worse if hour >= 200 else 0))
        baseline.advance(hour * HOUR, n, k, np.ones(slices))
        drifted |= baseline.stratified.crossed_recently(hour * HOUR)
        shifted |= baseline.mix_shift(hour * HOUR)
    if worse:
        assert drifted.all()
        assert not baseline.mix_shift(999 * HOUR).any()
    else:
        # 37 days: the budget of 90 days a slice would allow .4.
        assert drifted.mean() < 0.1
        assert shifted.mean() > 0.6


def test_a_true_drop_is_found_about_as_fast_as_if_the_mix_stood_still() -> None:
    slices, rng = 200, np.random.default_rng(6)
    baseline = Baseline.empty(Metric.TPR, [str(i) for i in range(slices)], ["easy", "hard"])
    delays = np.full(slices, np.nan)
    labels = np.zeros(slices)
    for hour in range(500):
        n = rng.poisson(20 * season(hour), (slices, 2))
        drop = 0.10 if hour >= 200 else 0
        baseline.advance(
            hour * HOUR, n, rng.binomial(n, np.array([0.95, 0.75]) - drop), np.ones(slices)
        )
        labels += n.sum(axis=1) * (hour >= 200)
        now = baseline.stratified.crossed_at == hour * HOUR
        delays[now & np.isnan(delays) & (hour >= 200)] = labels[now & np.isnan(delays)]
    # 40,000 labels a false crossing; the exact optimum for a known rate would take about 150.
    assert np.median(delays) < 330
    assert np.percentile(delays, 95) < 700


@pytest.mark.parametrize(
    ("hours", "labels", "finished"),
    [
        (23, 100, None),  # labels enough, but not a day
        (30, 100, 23),
        (13 * 24, 2, None),
        (14 * 24, 2, 14 * 24 - 1),  # 672 labels must do after 14 days
        (20 * 24, 1, None),  # 480 must not
        (22 * 24, 1, 499),
        (30 * 24, 3, 14 * 24 - 1),
        (30 * 24, 6.5, 307),  # thinned labels may be fractions
    ],
)
def test_a_reference_takes_two_thousand_labels_or_five_hundred_in_a_fortnight(
    hours: int, labels: float, finished: int | None
) -> None:
    reference, found = Reference.empty(1, 1), None
    for hour in range(hours):
        if reference.collect(hour * HOUR, np.full((1, 1), labels), np.full((1, 1), 1.0))[0]:
            assert found is None
            found = hour
    assert found == finished
    assert bool(reference.frozen[0]) is (finished is not None)
    if finished is not None:
        assert reference.n[0, 0] == (finished + 1) * labels


def test_the_time_of_a_reference_begins_with_its_first_labels() -> None:
    reference = Reference.empty(1, 1)
    for hour in range(1000):
        reference.collect(hour * HOUR, np.full((1, 1), 2.0 * (hour >= 500)), np.ones((1, 1)))
    assert reference.begun[0] == 500 * HOUR
    assert reference.n[0, 0] == 2 * 14 * 24


def test_the_clock_starts_with_the_reference_and_what_froze_it_is_no_evidence() -> None:
    baseline = collected(Metric.TPR, [[3000, 0]], [[2700, 0]])
    assert baseline.stratified.mixture.pending.tolist() == [0]
    assert baseline.statistic().tolist() == [-np.inf]
    bets = baseline.advance(2 * DAY, [[10, 0]], [[2, 0]], ONES)
    assert bets.rows.tolist() == [0]
    assert baseline.statistic()[0] == pytest.approx(
        np.logaddexp.reduce(np.log(1 / 24 / 5) + bets.log_e[0])
    )


def test_dependent_decisions_share_their_evidence() -> None:
    one, four = (collected(Metric.TPR, [[3000]], [[2700]]) for _ in range(2))
    bets = one.advance(2 * DAY, [[10]], [[2]], ONES)
    same = four.advance(2 * DAY, [[10]], [[2]], ONES, cluster_size=4)
    assert np.array_equal(bets.log_e, same.log_e)
    assert four.statistic()[0] == pytest.approx(
        np.logaddexp.reduce(np.log(1 / 24 / 5) + bets.log_e[0] / 4)
    )


def test_the_rarest_mixes_are_one_stratum_and_unknown_ones_are_none() -> None:
    rng = np.random.default_rng(3)
    n = rng.permutation(np.array([400.0] * 9 + [40, 30, 20, 0, 0]))[None]
    k = np.floor(n * 0.8)
    bets = ReferenceBets.against(n, k, Metric.TPR)
    rare = (n[0] > 0) & (n[0] < 400)
    common = n[0] == 400
    assert sorted(bets.strata[0, common].tolist()) == list(range(9))
    assert set(bets.strata[0, rare].tolist()) == {MAX_STRATA - 1}
    only_rare, joined = ReferenceBets.against(n[:, rare], k[:, rare], Metric.TPR), np.array([[9.0]])
    total_n, total_k = (counts[:, rare].sum(axis=1, keepdims=True) for counts in (n, k))
    alone = ReferenceBets.against(total_n, total_k, Metric.TPR)
    for column in np.flatnonzero(rare):
        cohort = np.zeros_like(n)
        cohort[0, column] = 9
        assert np.allclose(bets.log_e(cohort, cohort / 3), alone.log_e(joined, joined / 3))
    assert len(np.unique(only_rare.strata)) == 3
    unknown = np.where(n == 0, 50.0, 0)
    assert not bets.compared(unknown)[0]
    assert bets.log_e(unknown, 0 * unknown).tolist() == [[0] * len(SHIFTS)]


def test_a_mix_that_the_reference_has_never_seen_is_no_drift_but_may_be_a_shift() -> None:
    baseline = collected(Metric.TPR, [[2000, 0]], [[1800, 0]])
    for hour in range(48, 72):
        bets = baseline.advance(hour * HOUR, [[0, 50]], [[0, 10]], ONES)
        assert len(bets.rows) == 0
    assert baseline.mix_shift(72 * HOUR).tolist() == [True]
    assert baseline.mix_shift(71 * HOUR + WEEK).tolist() == [False]
    assert baseline.statistic().tolist() == [-np.inf]


@pytest.mark.parametrize(("metric", "k"), [(Metric.TPR, 0), (Metric.FPR, 2000)])
def test_a_rate_that_cannot_become_worse_never_drifts(metric: Metric, k: int) -> None:
    baseline = collected(metric, [[2000]], [[k]])
    bets = baseline.advance(2 * DAY, [[100]], [[k / 20]], ONES)
    assert bets.log_e.tolist() == [[0] * len(SHIFTS)]
    assert not baseline.mix_shift(2 * DAY).any()


@pytest.mark.parametrize(("metric", "k"), [(Metric.TPR, 2000), (Metric.FPR, 0)])
def test_a_rate_at_its_best_end_can_still_drift(metric: Metric, k: int) -> None:
    baseline = collected(metric, [[2000]], [[k]])
    baseline.advance(2 * DAY, [[40]], [[20]], ONES)
    assert baseline.stratified.crossed_recently(2 * DAY).tolist() == [True]


def test_a_restart_forgets_the_chosen_slices_and_leaves_the_others_alone() -> None:
    names = ("a", "b", "c")
    n, k = np.full((3, 2), 1500), np.full((3, 2), 1350)
    restarted, steady = (collected(Metric.TPR, n, k, names) for _ in range(2))
    weights = np.full(3, 1 / 3)
    bad = np.full((3, 2), 30)
    for baseline in (restarted, steady):
        baseline.advance(2 * DAY, bad, bad // 2, weights)
        assert baseline.stratified.crossed_recently(2 * DAY).all()
    restarted.restart(np.array([False, True, False]))
    assert restarted.stratified.crossed_recently(2 * DAY).tolist() == [True, False, True]
    assert restarted.reference.frozen.tolist() == [True, False, True]
    assert restarted.reference.n[1].sum() == 0
    for hour in range(60, 90):
        for baseline in (restarted, steady):
            baseline.advance(hour * HOUR, bad * 2, bad, weights)
    others = np.array([0, 2])
    assert np.array_equal(restarted.statistic()[others], steady.statistic()[others])
    # The new version's rate is its own reference.
    assert restarted.reference.frozen[1]
    assert restarted.reference.k[1].sum() / restarted.reference.n[1].sum() == 0.5
    assert restarted.stratified.crossed_recently(90 * HOUR).tolist() == [True, False, True]


def world(
    rng: np.random.Generator, names: Sequence[str], hours: Iterable[int]
) -> Iterator[tuple[int, Floats, npt.NDArray[np.int64]]]:
    for hour in hours:
        n = rng.poisson(25, (len(names), 3))
        yield (
            hour * HOUR,
            n.astype(np.float64),
            rng.binomial(n, [0.9, 0.8, 0.7 - 0.3 * (hour > 90)]),
        )


@pytest.mark.parametrize("metric", METRICS)
def test_stopped_after_any_cohort_it_continues_as_if_it_had_not(metric: Metric) -> None:
    names = ("a", "b", "c", "d")
    steady = Baseline.empty(metric, names, ("x", "y", "z"))
    stopped = Baseline.empty(metric, names, ("x", "y", "z"))
    for at, n, k in world(np.random.default_rng(1), names, range(150)):
        expected = steady.advance(at, n, k, np.full(4, 0.25))
        found = stopped.advance(at, n, k, np.full(4, 0.25))
        assert np.array_equal(found.rows, expected.rows)
        assert np.array_equal(found.log_e, expected.log_e)
        arrays, _ = decode(encode(stopped.to_arrays(), {}))
        stopped = Baseline.from_arrays(arrays)
        assert encode(stopped.to_arrays(), {}) == encode(steady.to_arrays(), {})
        assert np.array_equal(stopped.mix_shift(at), steady.mix_shift(at))
    assert steady.reference.frozen.all()
    assert steady.stratified.crossed_recently(at).any() == (metric is Metric.TPR)


def test_other_slices_and_mixes_are_taken_in_without_a_stop() -> None:
    rng = np.random.default_rng(2)
    narrow = Baseline.empty(Metric.TPR, ("a", "b"), ("x", "y", "z"))
    wide = Baseline.empty(Metric.TPR, ("n", "b", "a"), ("w", "z", "y", "x"))
    for at, n, k in world(rng, ("a", "b"), range(120)):
        narrow.advance(at, n, k, np.full(2, 0.5))
        moved_n, moved_k = np.zeros((3, 4)), np.zeros((3, 4))
        moved_n[2:0:-1, 3:0:-1], moved_k[2:0:-1, 3:0:-1] = n, k
        wide.advance(at, moved_n, moved_k, np.array([1e-3, 0.5, 0.5]))
    grown = narrow.aligned(("n", "b", "a"), ("w", "z", "y", "x"))
    for name, values in wide.to_arrays().items():
        if not name.endswith("pending"):
            assert np.array_equal(values, grown.to_arrays()[name]), name
    back = grown.aligned(("a", "b"), ("x", "y", "z"))
    assert encode(back.to_arrays(), {}) == encode(narrow.to_arrays(), {})


def test_no_slices_are_no_trouble() -> None:
    nothing = Baseline.empty(Metric.TPR, (), ())
    bets = nothing.advance(0, np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0))
    assert bets.log_e.shape == (0, len(SHIFTS))
    assert Baseline.from_arrays(nothing.to_arrays()).aligned(("a",), ("x",)).slices == ("a",)
