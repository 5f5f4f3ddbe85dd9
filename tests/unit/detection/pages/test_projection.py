from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from example_counts import every_third
from scipy import optimize, special, stats

from monitor.core.counts.cells import COUNTERS, Counter, Counts, content_id
from monitor.core.counts.rollup import HourlyCounts
from monitor.core.metric import Metric
from monitor.detection.pages import projection
from monitor.detection.pages.cohort import SliceCohort
from monitor.detection.pages.projection import (
    EXCESSES,
    SHORTFALLS,
    PairCounts,
    PairLevel,
    gap_alternatives,
    gap_log_e,
    pair_log_e,
    project,
    ratio_alternatives,
    thin,
    thin_labels,
    trials,
)

Floats = npt.NDArray[np.float64]


def pairs(*columns: int | npt.NDArray[np.int64]) -> PairCounts:
    """Counts (n_a, k_a, n_b, k_b), broadcast to one dimension."""
    return PairCounts(*np.broadcast_arrays(*(np.atleast_1d(column) for column in columns)))


def all_outcomes(n_a: int, n_b: int) -> PairCounts:
    k_a, k_b = (grid.ravel() for grid in np.indices((n_a + 1, n_b + 1)))
    return pairs(np.array(n_a), k_a, np.array(n_b), k_b)


def hits_pmf(rates: Floats) -> Floats:
    """P(hits = k) of independent trials with these rates, which may differ."""
    pmf = np.ones(1)
    for rate in rates:
        pmf = np.convolve(pmf, [1 - rate, rate])
    return pmf


def e_values(n_a: int, n_b: int, level: float, limit: float) -> Floats:
    """By hits of a, hits of b and alternative."""
    outcomes = all_outcomes(n_a, n_b)
    log_e = gap_log_e(outcomes, np.full(len(outcomes.n_a), level), limit)
    return np.exp(log_e).reshape(n_a + 1, n_b + 1, -1)


def expectation(e: Floats, a: Floats, b: Floats) -> Floats:
    """E[e] of each alternative over all outcomes of trials with these rates."""
    mean: Floats = np.einsum("i,j,ijm->m", hits_pmf(a), hits_pmf(b), e)
    return mean


def test_projection_reference_values() -> None:
    a1, b1 = [0.90, 0.90, 0.95, 0.90], [0.70, 0.70, 0.60, 0.85]
    a0, b0 = project(a1, b1, [1, 20, 5, 5], [1, 2, 5, 5], 0.1)
    assert a0 == pytest.approx([0.8602570731, 0.8945367404, 0.8485675349, 0.90], abs=1e-10)
    assert b0 == pytest.approx([0.7602570731, 0.7945367404, 0.7485675349, 0.85], abs=1e-10)


@pytest.mark.parametrize(("k_a", "k_b", "log_e"), [(18, 3, 0.6762159063), (19, 6, -0.5011479888)])
def test_log_e_reference_values(
    monkeypatch: pytest.MonkeyPatch, k_a: int, k_b: int, log_e: float
) -> None:
    """With the alternative (.9, .7), whatever the level."""
    fixed = (np.full((1, 1), 0.9), np.full((1, 1), 0.7))
    monkeypatch.setattr(projection, "gap_alternatives", lambda *_: fixed)
    found = gap_log_e(pairs(20, k_a, 6, k_b), np.array([0.85]), 0.1)
    assert found.item() == pytest.approx(log_e, abs=1e-10)


def test_alternative_reference_value() -> None:
    """The gap of .22 = delta + .12 at the level .85, 20 against 6 trials."""
    a1, b1 = gap_alternatives(pairs(20, 0, 6, 0), np.array([0.85]), 0.1)
    assert (a1[0, 2], b1[0, 2]) == pytest.approx((0.9007692308, 0.6807692308), abs=1e-10)


def divergence(p: Floats | float, q: Floats) -> Floats:
    """KL(p || q) of two rates, in nats."""
    total: Floats = special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)
    return total


def test_projection_is_the_nearest_pair_of_the_null() -> None:
    """Against a fine grid over all a - b <= limit."""
    grid = np.linspace(0.001, 0.999, 999)
    a, b = (x.ravel() for x in np.meshgrid(grid, grid))
    inside = a - b <= 0.07
    a, b = a[inside], b[inside]

    def distance(a0: Floats, b0: Floats) -> Floats:
        return 7 * divergence(0.93, a0) + 3 * divergence(0.55, b0)

    nearest = distance(*project(0.93, 0.55, 7, 3, 0.07))
    assert nearest <= distance(a, b).min()
    assert nearest == pytest.approx(distance(a, b).min(), rel=1e-4)


def designs(count: int) -> list[tuple[int, int, float, float]]:
    """Random (n_a, n_b, level, limit)."""
    rng = np.random.default_rng(6)
    return [
        (int(rng.integers(1, 13)), int(rng.integers(1, 13)), rng.uniform(), rng.uniform(0, 0.5))
        for _ in range(count)
    ]


@pytest.mark.parametrize("design", every_third(designs(60)))
def test_expected_e_is_at_most_one_over_the_null(design: tuple[int, int, float, float]) -> None:
    n_a, n_b, level, limit = design
    rates = np.linspace(0, 1, 26)
    edge = [(b + limit, b) for b in rates if b + limit <= 1]
    inside = [(a, b) for a, b in itertools.product(rates, rates) if a - b <= limit]
    e = e_values(n_a, n_b, level, limit)
    means = [expectation(e, np.full(n_a, a), np.full(n_b, b)) for a, b in edge + inside]
    assert np.max(means) <= 1 + 1e-12


def ratio_log_e(counts: PairCounts, level: Floats, limit: float) -> Floats:
    """Log e-values that rate_b / rate_a is below the limit, as bets of a ratio have them."""
    return pair_log_e(counts, ratio_alternatives(counts, level, limit), 0.0, 1 / limit)


def ratio_e_values(n_a: int, n_b: int, level: float, limit: float) -> Floats:
    """By hits of a, hits of b and alternative, of the null b >= limit * a."""
    outcomes = all_outcomes(n_a, n_b)
    log_e = ratio_log_e(outcomes, np.full(len(outcomes.n_a), level), limit)
    return np.exp(log_e).reshape(n_a + 1, n_b + 1, -1)


def ratio_designs(count: int) -> list[tuple[int, int, float, float]]:
    """Random (n_a, n_b, level, limit), rare rates and limits near 0 and 1 too."""
    rng = np.random.default_rng(8)
    return [
        (
            int(rng.integers(1, 13)),
            int(rng.integers(1, 13)),
            float(rng.choice([rng.uniform(), rng.uniform(0, 0.02)])),
            float(rng.choice([0.8, rng.uniform(0.01, 0.99)])),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("design", every_third(ratio_designs(60)))
def test_expected_e_of_a_ratio_is_at_most_one_over_the_null(
    design: tuple[int, int, float, float],
) -> None:
    """Over all pairs of rates with b >= limit * a, its edge first."""
    n_a, n_b, level, limit = design
    rates = np.concatenate([[0.001, 0.01], np.linspace(0, 1, 26)])
    edge = [(a, limit * a) for a in rates]
    inside = [(a, b) for a, b in itertools.product(rates, rates) if b >= limit * a]
    e = ratio_e_values(n_a, n_b, level, limit)
    means = [expectation(e, np.full(n_a, a), np.full(n_b, b)) for a, b in edge + inside]
    assert np.max(means) <= 1 + 1e-12


@pytest.mark.parametrize("seed", range(40))
def test_expected_e_of_a_ratio_is_at_most_one_when_both_rates_drift(seed: int) -> None:
    """Each hour has its own pair of rates within the limit; the level drifts by a factor of 9."""
    rng = np.random.default_rng(seed)
    limit, hours, share = rng.uniform(0.3, 0.95), int(rng.integers(2, 6)), int(rng.integers(1, 3))
    a = rng.uniform(0.1, 0.9, hours)
    b = limit * a * rng.choice([1.0, 1.0, 1 / limit], hours)
    e = ratio_e_values(share * hours, hours, rng.uniform(), limit)
    assert expectation(e, np.repeat(a, share), b).max() <= 1 + 1e-12


def test_a_breach_of_a_ratio_expects_more_than_one() -> None:
    e = ratio_e_values(12, 12, 0.5, 0.8)
    assert (expectation(e, np.full(12, 0.7), np.full(12, 0.3)) > 1).all()


@pytest.mark.parametrize(
    ("a1", "b1", "n_a", "n_b", "offset", "slope"),
    [
        (0.6, 0.3, 7, 3, 0.0, 1.25),
        (0.9, 0.2, 1, 20, 0.0, 2.0),
        (0.02, 0.004, 30, 30, 0.0, 1.25),
        (0.995, 0.7, 5, 5, 0.0, 1.1),
        (0.8, 0.5, 4, 9, 0.1, 1.0),
        (0.8, 0.2, 4, 9, 0.05, 1.5),
    ],
)
def test_the_projection_is_scipys(  # noqa: PLR0917 - one design
    a1: float, b1: float, n_a: int, n_b: int, offset: float, slope: float
) -> None:
    """The nearest pair on the edge, and nothing inside of the null is nearer."""

    def distance(b0: float, a0: float) -> float:
        return n_a * float(divergence(a1, np.array(a0))) + n_b * float(divergence(b1, np.array(b0)))

    top = min(1.0, (1 - offset) / slope)
    best = optimize.minimize_scalar(
        lambda b0: distance(b0, slope * b0 + offset),
        bounds=(1e-9, top - 1e-9),
        method="bounded",
        options={"xatol": 1e-13},
    )
    a0, b0 = project(a1, b1, n_a, n_b, offset, slope)
    assert b0 == pytest.approx(best.x, rel=1e-6)
    assert a0 == pytest.approx(slope * best.x + offset, rel=1e-6)
    grid = np.linspace(0.001, 0.999, 400)
    inside = [(a, b) for a, b in itertools.product(grid, grid) if a - slope * b <= offset]
    a, b = (np.array(x) for x in zip(*inside, strict=True))
    least = (n_a * divergence(a1, a) + n_b * divergence(b1, b)).min()
    assert distance(float(b0), float(a0)) <= least + 1e-9


def test_alternatives_of_a_ratio_keep_the_level_and_stay_below_the_limit() -> None:
    a1, b1 = ratio_alternatives(pairs(30, 0, 10, 0), np.array([0.4]), 0.8)
    assert (b1 / a1)[0] == pytest.approx(0.8 * (1 - SHORTFALLS))
    assert ((30 * a1 + 10 * b1) / 40)[0] == pytest.approx(np.full(5, 0.4))


@pytest.mark.parametrize("level", [0.0, 1e-300, 1e-5, 0.003, 0.999, 1.0])
def test_extreme_levels_of_a_ratio_stay_finite(level: float) -> None:
    counts = pairs(np.array([3, 3, 10**6]), np.array([0, 3, 10**6]), 10**6, 500)
    assert np.isfinite(ratio_log_e(counts, np.full(3, level), 0.8)).all()


def test_rare_selection_is_bet_on() -> None:
    """At rates of .003 and .0015: where gaps would need a floor that is above both."""
    found = ratio_log_e(pairs(20_000, 60, 20_000, 30), np.array([0.00225]), 0.8)
    assert found.max() > 1


def test_expected_e_is_one_at_the_projection() -> None:
    """What is bet on costs nothing where the null is nearest."""
    outcomes, level = pairs(6, 0, 4, 0), np.array([0.8])
    a1, b1 = gap_alternatives(outcomes, level, 0.1)
    a0, b0 = project(a1, b1, 6, 4, 0.1)
    e = e_values(6, 4, 0.8, 0.1)
    for m in range(len(EXCESSES)):
        found = expectation(e, np.full(6, a0[0, m]), np.full(4, b0[0, m]))
        assert found[m] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_expected_e_is_at_most_one_when_both_rates_drift_in_the_null(seed: int) -> None:
    """Each hour has its own pair of rates with a gap of at most the limit, and as many of both."""
    rng = np.random.default_rng(seed)
    limit, hours, share = rng.uniform(0, 0.3), int(rng.integers(2, 6)), int(rng.integers(1, 3))
    b = rng.uniform(0, 1 - limit, hours)
    a = b + limit * rng.choice([1.0, 1.0, rng.uniform(-1, 1)], hours).clip(-b / max(limit, 1e-9))
    e = e_values(share * hours, hours, rng.uniform(), limit)
    assert expectation(e, np.repeat(a, share), b).max() <= 1 + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_two_bets_with_a_learned_level_are_one_e_value(seed: int) -> None:
    """Hour by hour the rates jump at the edge of the null, and the level follows them."""
    rng = np.random.default_rng(seed)
    limit, total = 0.1, np.zeros(len(EXCESSES))
    rates = [(b + limit, b) for b in rng.uniform(0, 0.9, 2)]
    first = all_outcomes(4, 3)
    level = PairLevel.start(len(first.n_a), 0.85)
    e_first = np.exp(gap_log_e(first, level.rate, limit))
    p_first = np.outer(hits_pmf(np.full(4, rates[0][0])), hits_pmf(np.full(3, rates[0][1])))
    for probability, e, rate in zip(
        p_first.ravel(), e_first, level.learned(first).rate, strict=True
    ):
        a, b = np.full(3, rates[1][0]), np.full(4, rates[1][1])
        total += probability * e * expectation(e_values(3, 4, float(rate), limit), a, b)
    assert total.max() <= 1 + 1e-12


def test_a_violation_gains_what_theory_says() -> None:
    """ln e per trial at the alternative itself is its distance from the projection."""
    n_a, n_b = 600_000, 200_000
    level = np.array([0.8])
    a1, b1 = gap_alternatives(pairs(n_a, 0, n_b, 0), level, 0.1)
    counts = pairs(n_a, round(n_a * a1[0, 2]), n_b, round(n_b * b1[0, 2]))
    a0, b0 = project(a1, b1, n_a, n_b, 0.1)
    gain = n_a * divergence(a1, a0) + n_b * divergence(b1, b0)
    assert gap_log_e(counts, level, 0.1)[0, 2] == pytest.approx(gain[0, 2], rel=1e-5)
    assert gap_log_e(counts, level, 0.1)[0].argmax() == 2


def test_no_violation_fits_a_limit_near_one() -> None:
    assert gap_log_e(pairs(9, 9, 9, 0), np.array([0.5]), 0.99).tolist() == [[0.0] * 5]


@pytest.mark.parametrize("level", [0.0, 1.0, 1e-300])
def test_extreme_levels_stay_finite(level: float) -> None:
    counts = pairs(np.array([3, 3, 10**6]), np.array([0, 3, 10**6]), 10**6, 500)
    assert np.isfinite(gap_log_e(counts, np.full(3, level), 0.1)).all()


def test_both_directions_of_a_pair() -> None:
    block = pairs(3, 1, 7, 2)
    assert [x.item() for x in (block.swapped.n_a, block.swapped.k_a)] == [7, 2]
    assert [x.item() for x in (block.swapped.n_b, block.swapped.k_b)] == [3, 1]
    both = PairCounts.joined([block, block.swapped])
    assert [both.n_a.tolist(), both.k_a.tolist()] == [[3, 7], [1, 2]]
    assert [both.n_b.tolist(), both.k_b.tolist()] == [[7, 3], [2, 1]]


COHORT = SliceCohort(
    decisions=np.full((2, 2, 1, 2), 50),
    labelled=np.arange(8).reshape(2, 2, 1, 2) + 10,
    ready=np.arange(8).reshape(2, 2, 1, 2),
    routed=np.array([[5, 3, 2], [4, 4, 0]]),
    requested=np.zeros((2, 2), np.int64),
    received=np.zeros((2, 2), np.int64),
)


def test_other_metrics_have_no_trials() -> None:
    with pytest.raises(ValueError, match="ready has no two-sample test"):
        trials(COHORT, Metric.READY)


CELLS = np.array(sorted(content_id(f"cell {i}") for i in range(40_000)), np.int64)


def p_value(draws: npt.NDArray[np.int64], n: int, keep: float) -> float:
    """Chi-square of draws against Binomial(n, keep), tails pooled until 5 are expected."""
    expected = stats.binom.pmf(np.arange(n + 1), n, keep) * len(draws)
    seen = np.bincount(draws, minlength=n + 1)
    tail_low = np.searchsorted(expected.cumsum(), 5) + 1
    tail_high = n + 1 - np.searchsorted(expected[::-1].cumsum(), 5) - 1
    edges = [0, *range(tail_low, tail_high + 1)]
    found = stats.chisquare(np.add.reduceat(seen, edges), np.add.reduceat(expected, edges))
    return float(found.pvalue)


def test_thinning_in_bounded_memory_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, keep = np.arange(300) % 40, np.linspace(0.05, 0.99, 300)
    whole = thin(7, CELLS[:300], 1, counts, keep)
    monkeypatch.setattr(projection, "_LABELS_AT_ONCE", 17)
    assert thin(7, CELLS[:300], 1, counts, keep).tolist() == whole.tolist()


def test_the_hash_is_splitmix64() -> None:
    """The first outputs from the seeds 0 and 1234567, as published with the algorithm."""
    seeds = np.array([0, 1_234_567], np.uint64)
    expected = [0xE220A8397B1DCDAF, 6_457_827_717_110_365_317]
    assert projection._mix(seeds).tolist() == expected


def test_thinning_does_not_change_between_releases() -> None:
    """Else a cohort that is read again would not give what the detectors have consumed."""
    cells = np.array([1, 2, 3, 2**62], np.int64)
    found = thin(482_000, cells, 1, np.full(4, 1000), np.full(4, 0.3))
    assert found.tolist() == [285, 306, 298, 314]


def test_a_larger_count_keeps_what_was_kept() -> None:
    keep = np.full(500, 0.4)
    draws = [thin(3, CELLS[:500], 1, np.full(500, n), keep) for n in range(12)]
    steps = np.diff(draws, axis=0)
    assert set(np.unique(steps)) == {0, 1}


def test_thinning_with_probability_one_is_the_identity() -> None:
    counts = np.arange(100)
    assert thin(3, CELLS[:100], 1, counts, np.ones(100)).tolist() == counts.tolist()
    assert thin(3, CELLS[:0], 1, counts[:0], np.ones(0)).tolist() == []


def labels(labelled: list[int], ready: list[int]) -> HourlyCounts:
    values = np.zeros((len(labelled), COUNTERS), np.int64)
    values[:, Counter.N] = 1000
    values[:, Counter.LABELLED], values[:, Counter.READY] = labelled, ready
    return HourlyCounts.from_tables([Counts(CELLS[: len(labelled)], values)])


def test_labels_of_the_least_rate_are_all_kept() -> None:
    counts = labels([40, 30, 500], [10, 30, 200])
    thinned = thin_labels(5, counts, np.array([0.05, 0.05, 1.0]), 0.05)
    assert thinned.values[:2].tolist() == counts.values[:2].tolist()
    kept, ready = thinned.values[2, [Counter.LABELLED, Counter.READY]]
    assert 0 <= ready <= kept < 100
    assert thinned.values[2, Counter.N] == 1000


def test_an_hour_is_thinned_alike_alone_and_with_others() -> None:
    """Each row by the least rate of its own hour."""
    counts = [labels([40 + at, 30, 500], [10, 30, 200 + at]) for at in range(4)]
    audit, least = np.array([0.2, 0.5, 1.0]), [0.2, 0.2, 0.05, 0.1]
    alone = [thin_labels(5 + at, counts[at], audit, least[at]) for at in range(4)]
    together = thin_labels(
        np.repeat(np.arange(5, 9), 3),
        HourlyCounts.from_tables([one.at(0) for one in counts]),
        np.tile(audit, 4),
        np.repeat(least, 3),
    )
    for at, one in enumerate(alone):
        assert together.at(at).values.tolist() == one.values.tolist()


def test_ready_and_not_ready_labels_are_thinned_apart() -> None:
    """The number of labels kept tells nothing about how many of them are ready."""
    size = 20_000
    counts = labels([16] * size, [8] * size)
    thinned = thin_labels(5, counts, np.full(size, 0.5), 0.25).values
    ready = thinned[:, Counter.READY]
    other = thinned[:, Counter.LABELLED] - ready
    assert p_value(ready, 8, 0.5) > 1e-3
    assert p_value(other, 8, 0.5) > 1e-3
    assert abs(stats.pearsonr(ready, other).statistic) < 4 / math.sqrt(size)


def test_counts_of_shards_out_of_step_are_cut_to_size() -> None:
    """More ready than labelled, or less than none: as cohorts cut them."""
    thinned = thin_labels(5, labels([-2, 3], [1, 9]), np.ones(2), 1.0).values
    assert thinned[:, [Counter.LABELLED, Counter.READY]].tolist() == [[0, 0], [3, 3]]


def test_a_least_rate_above_a_used_one_is_refused() -> None:
    with pytest.raises(ValueError, match="less than the least rate"):
        thin_labels(5, labels([4], [2]), np.array([0.05]), 0.1)
    assert thin_labels(5, labels([0], [0]), np.array([0.05]), 0.1).values[0, Counter.N] == 1000
