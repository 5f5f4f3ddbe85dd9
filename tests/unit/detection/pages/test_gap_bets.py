"""Bets on gaps: the formula's reference values, validity by enumeration, and power."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from augmented import Stratum, arm, best_stake, gap_log_e
from betting import AUTO, LAYOUT, Arm, chances, cohort, expected, forecast, past, sequences

from monitor.core.metric import Metric
from monitor.detection.pages.bet_sizes import LAST, level
from monitor.detection.pages.gap_bets import GapBets
from monitor.detection.pages.outcomes import Outcomes
from monitor.detection.pages.projection import EXCESSES
from monitor.detection.pages.ready import ReadyRates

AUDIT = (0.05, 1.0)
WORSE, BETTER = 0, 1
ROW = np.array([0])


def counted(t: float, cells: tuple[tuple[float, float, float], ...]) -> list[Stratum]:
    strata = arm(t, 0.6, 0.1, AUDIT)
    return [Stratum(s.auto, s.f, s.audit, c) for s, c in zip(strata, cells, strict=True)]


def test_reference_values() -> None:
    a, b = arm(0.9, 0.6, 0.1, AUDIT), arm(0.7, 0.6, 0.1, AUDIT)
    assert best_stake(a, 0.85, 1) == pytest.approx(0.261101, abs=5e-7)
    assert best_stake(b, 0.75, -1) == pytest.approx(0.211797, abs=5e-7)
    assert best_stake(a, 0.90, 1) == pytest.approx(0, abs=1e-6)
    assert best_stake(b, 0.80, -1) == pytest.approx(0.526880, abs=5e-7)
    seen_a = counted(0.9, ((551, 27, 2), (0, 60, 360)))
    seen_b = counted(0.7, ((437, 21, 2), (0, 180, 360)))
    levels = [round(0.02 + 0.01 * i, 2) for i in range(87)]
    value, at = gap_log_e((seen_a, a), (seen_b, b), levels, 0.01, 0.1)
    assert value == pytest.approx(6.324459, abs=5e-7)
    assert at == 0.75


@pytest.mark.parametrize("excess", range(5))
def test_the_tables_reach_what_the_formula_does(excess: int) -> None:
    """Exact stakes about levels 0.002 apart gain at most some hundredths over the tables."""
    gap = 0.1 + EXCESSES[excess]
    a, b = Arm(0.9, v=0.1), Arm(0.9 - gap, v=0.1)
    outcomes = Outcomes.from_forecast(past(b, Arm(0.9, v=0.1)))
    seen = [expected(outcomes, row, truth, 1000) for row, truth in enumerate((b, a))]
    found = GapBets(Metric.TPR, 0.1).plan(outcomes, reference=1).log_e(ROW, *seen)
    exact = [arm(truth.t, 0.6, 0.1, (0.25, 1.0)) for truth in (a, b)]
    grown = [
        [Stratum(s.auto, s.f, s.audit, thousandfold(s.counts)) for s in strata] for strata in exact
    ]
    levels = np.arange(0.02, 0.88, 0.002)
    best, _ = gap_log_e((grown[0], exact[0]), (grown[1], exact[1]), list(levels), 0.002, 0.1)
    ours = found[WORSE, 0, excess]
    assert 0.93 * best - 0.05 < ours < 1.02 * best + 0.05
    assert np.all(found[BETTER] < 0)


def thousandfold(counts: tuple[float, float, float]) -> tuple[float, float, float]:
    unlabelled, ready, not_ready = counts
    return 1000 * unlabelled, 1000 * ready, 1000 * not_ready


def of_precision(rate: float) -> Arm:
    """Half is served; of that so much is ready."""
    ready = 0.5 * rate + 0.2
    return Arm(0.5 * rate / ready, ready, 0.5 * (1 - rate) / (1 - ready))


FORECASTS = {
    "right": lambda a, b: past(b, a),
    "wrong": lambda a, b: forecast((0.2, 0.8, 0.5), (0.7, 0.6, 0.9)),
    "far": lambda a, b: past(Arm(0.3), Arm(0.5)),
}


def every_e(outcomes: Outcomes, bets: GapBets, decisions: int) -> tuple[np.ndarray, list[Any]]:
    """e of every outcome of a few decisions of slice 0 and of its reference, slice 1.

    Returns:
        Shape (2, ways of the slice, ways of the reference, 5), and the ways.
    """
    slices, ways = sequences(outcomes, 0, decisions)
    references, _ = sequences(outcomes, 1, decisions)
    n = len(ways)
    log_e = bets.plan(outcomes, reference=1).log_e(
        np.zeros(n * n, np.int64), np.repeat(slices, n, axis=0), np.tile(references, (n, 1))
    )
    assert np.all(np.isfinite(log_e))
    return np.exp(log_e).reshape(2, n, n, 5), ways


PAIRS = [
    (0.95, 0.85), (0.85, 0.75), (0.8, 0.75), (0.4, 0.3), (0.1, 0.02), (0.99, 0.89), (0.7, 0.9),
    (0.753, 0.653), (0.05, 0.05), (1.0, 0.9), (0.1, 0.0),
]  # fmt: skip


@pytest.mark.parametrize("name", FORECASTS)
@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR, Metric.PRECISION])
def test_the_mean_is_at_most_one_for_every_pair_within_the_limit(metric: Metric, name: str) -> None:
    def world(rate: float) -> Arm:
        if metric is Metric.PRECISION:
            return of_precision(rate)
        return Arm(rate) if metric is Metric.TPR else Arm(0.7, v=rate)

    outcomes = Outcomes.from_forecast(FORECASTS[name](world(0.85), world(0.7)))
    e, ways = every_e(outcomes, GapBets(metric, 0.1), 2)
    assert e.max() > 1.2
    if metric is Metric.FPR:
        e = e[::-1]
    for high, low in PAIRS:
        # The rates differ between the decisions, never by more than the limit between the arms.
        for highs, lows in (
            ((high, high), (low, low)),
            ((high, high - 0.02), (low, min(low + 0.03, 1))),
        ):
            a, b = (
                chances(ways, *(world(rate).probabilities() for rate in rates))
                for rates in (highs, lows)
            )
            assert np.all(np.einsum("i,ijm,j->m", b, e[WORSE], a) <= 1 + 1e-12)
            assert np.all(np.einsum("i,ijm,j->m", a, e[BETTER], b) <= 1 + 1e-12)


@pytest.mark.parametrize("audit", [(0.05, 0.5), (0.9, 0.3)])
def test_wrong_audit_rates_do_no_harm_if_the_forecast_is_right(audit: tuple[float, float]) -> None:
    rates = ((0.925, 0.275, 0.6), (0.975, 0.225, 0.6))
    arms = [_arm(*each) for each in rates]
    e, ways = every_e(
        Outcomes.from_forecast(forecast(*rates)),
        GapBets(Metric.TPR, arms[1].t - arms[0].t + 1e-9),
        2,
    )
    b, a = (chances(ways, *[x.probabilities(audit)] * 2) for x in arms)
    means = np.einsum("i,ijm,j->m", b, e[WORSE], a)
    assert np.all(means <= 1 + 1e-9)
    assert means.max() > 0.5


def _arm(in_auto: float, in_review: float, share: float) -> Arm:
    """The arm of which this forecast is right."""
    u = share * in_auto + (1 - share) * in_review
    return Arm(share * in_auto / u, u, share * (1 - in_auto) / (1 - u))


@pytest.mark.parametrize("delta", [0.0, 0.05, 0.3])
def test_the_intervals_leave_no_pair_out(delta: float) -> None:
    world = [Arm(x) for x in (0.85, 0.85 - delta)]
    outcomes = Outcomes.from_forecast(past(world[1], world[0]))
    e, ways = every_e(outcomes, GapBets(Metric.TPR, delta), 1)
    for low in np.linspace(0, 1 - delta, 41):
        a, b = (chances(ways, Arm(rate).probabilities()) for rate in (low + delta, low))
        assert np.all(np.einsum("i,ijm,j->m", b, e[WORSE], a) <= 1 + 1e-12)


@pytest.mark.parametrize(
    ("high", "low", "delta", "decisions"),
    [
        (0.995, 0.5, 0.0, (0, 20_000)),  # whatever a is, b may be as high
        (0.35, 0.001, 0.1, (20_000, 0)),  # whatever b is, a may be as low
        (0.995, 0.9, 0.1, (5, 20_000)),  # a above what levels + delta reach
    ],
)
def test_one_arm_alone_is_no_evidence(
    high: float, low: float, delta: float, decisions: tuple[int, int]
) -> None:
    lower, higher = Arm(low), Arm(high)
    outcomes = Outcomes.from_forecast(past(Arm(max(low - 0.1, 0.001)), higher))
    seen = [expected(outcomes, row, x, decisions[row]) for row, x in enumerate((lower, higher))]
    found = GapBets(Metric.TPR, delta).plan(outcomes, reference=1).log_e(ROW, *seen)
    assert found[WORSE].max() <= 0


def test_a_gap_beyond_the_limit_grows_in_its_own_direction_only() -> None:
    for metric, lower, higher in (
        (Metric.TPR, Arm(0.6), Arm(0.9)),
        (Metric.FPR, Arm(0.8, v=0.1), Arm(0.8, v=0.4)),
    ):
        outcomes = Outcomes.from_forecast(past(lower, higher))
        slices, others = (expected(outcomes, row, x, 500) for row, x in enumerate((lower, higher)))
        found = GapBets(metric, 0.1).plan(outcomes, reference=1).log_e(ROW, slices, others)
        own = WORSE if metric is Metric.TPR else BETTER
        assert found[own].max() > 1
        assert found[1 - own].max() < 0


def test_the_complement_is_all_the_others() -> None:
    arms = (Arm(0.6), Arm(0.9), Arm(0.9), Arm(0.85))
    outcomes = Outcomes.from_forecast(past(*arms))
    counts = np.concatenate([expected(outcomes, row, x, 500) for row, x in enumerate(arms)])
    rows = np.arange(4)
    plan = GapBets(Metric.TPR, 0.1).plan(outcomes)
    found = plan.log_e(rows, counts, counts.sum(axis=0) - counts)
    assert found[WORSE, 0].max() > 5
    assert found[WORSE, 1:].max() < 1
    some = plan.log_e(rows[2:], counts[2:], (counts.sum(axis=0) - counts)[2:])
    np.testing.assert_allclose(some, found[:, 2:], atol=1e-9)


def test_without_a_past_or_a_reference_nothing_is_bet() -> None:
    unknown = Outcomes.from_forecast(ReadyRates.start(2, LAYOUT).forecast())
    counts = unknown.bin_counts(cohort({(0, *AUTO): (900, 300, 1)}, 2), LAYOUT)
    plan = GapBets(Metric.TPR, 0.1).plan(unknown)
    assert not plan.log_e(np.arange(2), counts, counts[::-1]).any()
    alone = Outcomes.from_forecast(past(Arm(0.8)))
    counts = expected(alone, 0, Arm(0.2), 900)
    assert np.all(GapBets(Metric.TPR, 0.1).plan(alone).log_e(ROW, counts, 0 * counts) <= 0)


def test_without_decisions_no_evidence() -> None:
    outcomes = Outcomes.from_forecast(past(Arm(0.8), Arm(0.9)))
    nothing = np.zeros((2, outcomes.columns))
    plan = GapBets(Metric.FPR, 0.1).plan(outcomes)
    assert not plan.log_e(np.arange(2), nothing, nothing).any()


def test_levels_reach_far_enough() -> None:
    assert level(0) == 0.5
    assert level(-LAST) < 0.02
    assert level(LAST) > 0.98


@pytest.mark.parametrize(
    "excess", [0, *(pytest.param(excess, marks=pytest.mark.full) for excess in range(1, 5))]
)
def test_precision_is_bet_on_with_the_best_stakes(excess: int) -> None:
    """Against the best stakes on served decisions, found by search over all levels."""
    gap = 0.1 + EXCESSES[excess]
    a, b = of_precision(0.93), of_precision(0.93 - gap)
    outcomes = Outcomes.from_forecast(past(b, of_precision(0.93)))
    seen = [expected(outcomes, row, truth, 1000) for row, truth in enumerate((b, a))]
    found = GapBets(Metric.PRECISION, 0.1).plan(outcomes, reference=1).log_e(ROW, *seen)
    served = 500

    def grown(rate: float, at: float, sign: int) -> float:
        """The best stake's growth by 500 served decisions, a quarter of them labelled."""
        f, pi = rate, 0.25
        z = np.array([f, f + (1 - f) / pi, f - f / pi]) - at
        shares = np.array([1 - pi, pi * rate, pi * (1 - rate)])
        stakes = np.linspace(0, 0.95 / max(-sign * z), 4001)[:, None]
        return float(served * (np.log1p(sign * stakes * z) @ shares).max())

    levels = np.linspace(0.02, 0.88, 1721)
    best = min(grown(0.93, c + 0.1, 1) + grown(0.93 - gap, c, -1) for c in levels)
    ours = found[WORSE, 0, excess]
    assert 0.85 * best - 0.1 < ours < 1.05 * best + 0.05
    assert np.all(found[BETTER] < 0)


def test_what_is_not_served_says_nothing_of_precision() -> None:
    outcomes = Outcomes.from_forecast(past(Arm(0.8), Arm(0.8)))
    plan = GapBets(Metric.PRECISION, 0.1).plan(outcomes, reference=1)
    one, other = expected(outcomes, 0, Arm(0.8), 100), expected(outcomes, 1, Arm(0.9), 100)
    more = one + np.where(outcomes.auto, 0, 50)
    assert np.array_equal(plan.log_e(ROW, one, other), plan.log_e(ROW, more, other))
