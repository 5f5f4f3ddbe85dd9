"""Bets on levels: the formulas' reference values, validity by enumeration, and power."""

from __future__ import annotations

import numpy as np
import pytest
from augmented import FRACTIONS, Stratum, level_log_e, log_e
from betting import AUTO, LAYOUT, REVIEW, Arm, chances, cohort, expected, forecast, past, sequences

from monitor.core.metric import Metric
from monitor.detection.pages import levels
from monitor.detection.pages.levels import STAKES, LevelBets
from monitor.detection.pages.outcomes import Outcomes
from monitor.detection.pages.ready import ReadyRates

REFERENCE = {
    "floor": (
        [Stratum(True, 0.9, 0.05, (475, 20, 5)), Stratum(False, 0.3, 1, (0, 160, 320))],
        (0.8, -1),
        (0.034483, 0.086207, 0.206897, 0.431034, 0.862069, 1.551724),
        (1.549891, 3.508167, 6.597670, 7.816705, -3.168422, -63.293522),
    ),
    "above": (
        [Stratum(True, 0.9, 0.05, (494, 25, 1)), Stratum(False, 0.3, 1, (0, 150, 330))],
        (0.8, 1),
        None,
        (-0.119225, -0.306632, -0.784732, -1.830865, -4.484032, -11.347019),
    ),
    "ceiling of the FPR": (
        [Stratum(True, 0.1, 0.05, (475, 5, 20)), Stratum(False, 0.7, 1, (0, 320, 160))],
        (0.1, 1),
        (0.011696, 0.029240, 0.070175, 0.146199, 0.292398, 0.526316),
        (0.593172, 1.233197, 1.991770, 1.834413, -2.263406, -30.074765),
    ),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_values(name: str) -> None:
    strata, (limit, sign), stakes, logs = REFERENCE[name]
    found = level_log_e(strata, limit, sign)
    if stakes:
        assert [stake for stake, _ in found] == pytest.approx(stakes, abs=5e-7)
    assert [value for _, value in found] == pytest.approx(logs, abs=5e-7)


@pytest.mark.parametrize(("metric", "limit", "sign"), [(Metric.TPR, 0.8, -1), (Metric.FPR, 0.1, 1)])
def test_the_tables_are_the_formulas(metric: Metric, limit: float, sign: int) -> None:
    assert levels.FRACTIONS == FRACTIONS
    outcomes = Outcomes.from_forecast(forecast((0.925, 0.325, 0.5), (0.575, 0.025, 0.3)))
    counted = cohort(
        {
            (0, *AUTO): (500, 130, 110),
            (0, *REVIEW): (480, 480, 160),
            (1, *AUTO): (300, 70, 40),
            (1, *REVIEW): (200, 180, 20),
        },
        2,
    )
    found = LevelBets(metric, limit).plan(outcomes).log_e(outcomes.bin_counts(counted, LAYOUT))
    for row, rates in enumerate(((0.925, 0.325), (0.575, 0.025))):
        strata = []
        for at, f, pi in ((AUTO, rates[0], 0.25), (REVIEW, rates[1], 1.0)):
            n, labelled, ready = (
                int(x[row][at]) for x in (counted.decisions, counted.labelled, counted.ready)
            )
            cells, y = (n - labelled, ready, labelled - ready), f
            if metric is Metric.FPR:
                cells, y = (cells[0], cells[2], cells[1]), 1 - f
            strata.append(Stratum(at == AUTO, y, pi, cells))
        for value, (stake, _) in zip(found[row], level_log_e(strata, limit, sign), strict=True):
            on_grid = STAKES[stake * (1 + 1e-12) >= STAKES].max()
            assert stake / on_grid < 1.07
            assert value == pytest.approx(log_e(strata, limit, sign * on_grid), abs=1e-9)


FORECASTS = {
    "right": (0.925, 0.275, 0.6),
    "wrong": (0.225, 0.775, 0.6),
    "extreme": (0.999, 0.001, 0.2),
}
U = 0.6 * 0.925 + 0.4 * 0.275
RIGHT = Arm(t=0.6 * 0.925 / U, u=U, v=0.6 * 0.075 / (1 - U))
"""The arm of which the forecast "right" is right, to the middle of the bins."""


def mean_e(metric: Metric, limit: float, name: str, *probabilities: np.ndarray) -> np.ndarray:
    """E[e] over a few decisions with these probabilities, for every fraction."""
    outcomes = Outcomes.from_forecast(forecast(FORECASTS[name]))
    counts, ways = sequences(outcomes, 0, len(probabilities))
    plan = LevelBets(metric, limit).plan(outcomes)
    stakes = type(plan)(plan.logs, np.repeat(plan.chosen, len(ways), axis=0))
    e = np.exp(stakes.log_e(counts))
    assert np.all(np.isfinite(e))
    assert np.all(e > 0)
    return chances(ways, *probabilities) @ e


@pytest.mark.parametrize("name", FORECASTS)
def test_the_mean_is_one_at_the_limit_and_below_one_within_it(name: str) -> None:
    for t in (0.3, 0.8, 0.95):
        at = Arm(t).probabilities()
        assert mean_e(Metric.TPR, t, name, at, at, at) == pytest.approx(np.ones(6), abs=1e-12)
        better = [Arm(x).probabilities() for x in (t, t + 0.04, t + 0.01)]
        assert np.all(mean_e(Metric.TPR, t, name, *better) < 1)
    for v in (0.1, 0.5):
        at = Arm(0.8, v=v).probabilities()
        assert mean_e(Metric.FPR, v, name, at, at, at) == pytest.approx(np.ones(6), abs=1e-12)
        better = [Arm(0.8, v=x).probabilities() for x in (v, v - 0.1, v - 0.05)]
        assert np.all(mean_e(Metric.FPR, v, name, *better) < 1)


@pytest.mark.parametrize("audit", [(0.05, 0.5), (0.2, 0.9), (0.9, 0.3)])
def test_wrong_audit_rates_do_no_harm_if_the_forecast_is_right(audit: tuple[float, float]) -> None:
    late = RIGHT.probabilities(audit)
    for metric, limit in ((Metric.TPR, RIGHT.t), (Metric.FPR, RIGHT.v)):
        one = mean_e(metric, limit, "right", late, late, late)
        assert one == pytest.approx(np.ones(6), abs=1e-12)
    assert np.all(mean_e(Metric.TPR, RIGHT.t - 0.05, "right", late, late) < 1)
    assert np.all(mean_e(Metric.FPR, RIGHT.v + 0.05, "right", late, late) < 1)


@pytest.mark.parametrize("route", [0, 1])
def test_decisions_that_were_not_expected_do_no_harm(route: int) -> None:
    """A part of one route is suddenly audited at a rate that the plan does not know."""
    outcomes = Outcomes.from_forecast(forecast(FORECASTS["right"]))
    arm = Arm(0.8)
    usual = arm.probabilities()
    moved = usual.copy()
    moved[3 * route : 3 * route + 3] *= 0.7
    missing = usual.sum() - moved.sum()
    for metric, limit in ((Metric.TPR, arm.t), (Metric.FPR, arm.v)):
        plan = LevelBets(metric, limit).plan(outcomes)
        counts = np.zeros((1, outcomes.columns))
        known, _ = sequences(outcomes, 0, 1)
        unexpected = counts.copy()
        unexpected[0, route - 2] = 1
        e = [np.exp(plan.log_e(row[None])) for row in (*known, *unexpected)]
        assert np.all(np.append(moved, missing) @ np.concatenate(e) <= 1 + 1e-12)


def test_on_a_slice_without_a_past_nothing_is_bet() -> None:
    outcomes = Outcomes.from_forecast(ReadyRates.start(1, LAYOUT).forecast())
    counts = outcomes.bin_counts(cohort({(0, *AUTO): (900, 300, 1)}, 1), LAYOUT)
    assert not LevelBets(Metric.TPR, 0.8).plan(outcomes).log_e(counts).any()


def test_a_table_loses_little_of_the_information() -> None:
    """Floor .80, truth .70: no worse for the bins and the grid than the best exact fraction."""
    was, truth = Arm(0.85, v=0.1), Arm(0.7, v=0.1)
    outcomes = Outcomes.from_forecast(past(was))
    found = LevelBets(Metric.TPR, 0.8).plan(outcomes).log_e(expected(outcomes, 0, truth, 1000))
    p, f = 1000 * truth.probabilities(), truth.ready
    strata = [Stratum(True, f[0], 0.25, tuple(p[:3])), Stratum(False, f[1], 1, tuple(p[3:]))]
    best = max(value for _, value in level_log_e(strata, 0.8, -1))
    assert best * 0.97 < found.max() < best * 1.02
