from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from monitor.core.counts.cells import Route, Stratum
from monitor.core.publish.annotations import Fault
from monitor.detection.advisory.label_requests import (
    ALTERNATIVES,
    FALSE_ALARM_DAYS,
    TOLERANCE,
    RequestTest,
    request_counts,
)
from monitor.detection.pages.mixture import SrMixture

RATES = (1.0, 0.5, 0.05, 0.0055)
EVENLY = np.full(ALTERNATIVES, 1 / ALTERNATIVES)
FEW, MANY = slice(0, ALTERNATIVES // 2), slice(ALTERNATIVES // 2, ALTERNATIVES)


def expected_e(rate: float, decisions: int, true_rate: float) -> np.ndarray:
    """E[e] of every alternative, by all possible numbers of requests."""
    test = RequestTest(np.full(decisions + 1, rate), np.ones(decisions + 1))
    requests = np.arange(decisions + 1)
    log_e = test.log_e(np.full(decisions + 1, decisions), requests)
    return np.asarray(binom.pmf(requests, decisions, true_rate) @ np.exp(log_e))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("decisions", [1, 2, 25])
def test_the_expectation_is_one_at_the_edge_of_what_is_tolerated(
    rate: float, decisions: int
) -> None:
    few = expected_e(rate, decisions, rate * (1 - TOLERANCE))
    many = expected_e(rate, decisions, min(rate * (1 + TOLERANCE), 1))
    assert few[FEW] == pytest.approx(1, abs=1e-12)
    assert many[MANY] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("rate", RATES)
def test_the_expectation_is_at_most_one_inside(rate: float) -> None:
    for off in np.linspace(1 - TOLERANCE, 1 + TOLERANCE, 9):
        assert (expected_e(rate, 40, min(rate * off, 1)) <= 1 + 1e-12).all()


def test_the_log_ratio_against_binomial_probabilities() -> None:
    """The first alternative has odds 1.15 times lower than the edge."""
    edge = 0.05 * (1 - TOLERANCE)
    odds = edge / (1 - edge) / 1.15
    by_hand = binom.logpmf(31, 900, odds / (1 + odds)) - binom.logpmf(31, 900, edge)
    log_e = RequestTest(np.array([0.05]), np.ones(1)).log_e([900], [31])
    assert log_e[0, 0] == pytest.approx(by_hand, abs=1e-9)


def test_nothing_decided_is_no_evidence_and_all_requested_none_at_rate_one() -> None:
    test = RequestTest.for_audit_rates(RATES)
    nothing = np.zeros(len(test.rates))
    assert (test.log_e(nothing, nothing) == 0).all()
    whole = test.log_e([5000] * len(test.rates), [5000] * len(test.rates))[0]
    assert (whole[FEW] < 0).all()
    assert (whole[MANY] == 0).all()


def test_cohorts_add_up() -> None:
    test = RequestTest.for_audit_rates(RATES)
    n = np.arange(1, len(test.rates) + 1) * 10
    halves = test.log_e(n, n // 2) + test.log_e(2 * n, n // 3)
    assert test.log_e(3 * n, n // 2 + n // 3) == pytest.approx(halves)


def decisions_until(
    fault: Fault, rate: float, actual: float, rng: np.random.Generator, hourly: int
) -> int:
    """Decisions of one stratum (of 48 that share the budget) until it is found."""
    test = RequestTest(np.array([rate]), np.array([1 / 48]))
    state = SrMixture.empty(1, ALTERNATIVES)
    for hour in range(1, 24 * 60):
        state.add_clock(1 / 24)
        requests = rng.binomial(hourly, actual, 1)
        state.bet(np.array([0]), test.log_e([hourly], requests), EVENLY)
        (found,) = test.faults(state.log_r)
        if found:
            assert found is fault
            return hour * hourly
    raise AssertionError("never found")


@pytest.mark.parametrize(
    ("rate", "factor", "fault", "within"),
    [
        (1.0, 0.5, Fault.TOO_FEW, 100),
        (1.0, 0.9, Fault.TOO_FEW, 500),
        (0.5, 0.5, Fault.TOO_FEW, 300),
        (0.05, 0.5, Fault.TOO_FEW, 4_000),
        (0.05, 0.0, Fault.TOO_FEW, 800),
        (0.05, 2.0, Fault.TOO_MANY, 2_000),
        (0.0055, 0.5, Fault.TOO_FEW, 40_000),
    ],
)
def test_a_broken_sampler_is_found(rate: float, factor: float, fault: Fault, within: int) -> None:
    """Half of what is promised, at 5 %: within 4,000 decisions, that is 200 requests, in 95 %."""
    rng = np.random.default_rng(round(rate * factor * 10_000))
    hourly = max(within // 40, 1)
    needed = [decisions_until(fault, rate, rate * factor, rng, hourly) for _ in range(40)]
    assert np.quantile(needed, 0.95) <= within


@pytest.mark.parametrize(
    ("off", "at_most"),
    [
        (0.0, 0.25),
        pytest.param(TOLERANCE, 1.0, marks=pytest.mark.full),
        pytest.param(-TOLERANCE, 1.0, marks=pytest.mark.full),
    ],
)
def test_healthy_samplers_alarm_at_most_once_a_year(off: float, at_most: float) -> None:
    """120 fleets of 8 strata through 100 days, also at the edge of what is tolerated."""
    fleets, days = 120, 100
    single = RequestTest.for_audit_rates(RATES)
    test = RequestTest(np.tile(single.rates, fleets), np.tile(single.weights, fleets))
    actual = np.minimum(test.rates * (1 + off), 1)
    rng = np.random.default_rng(int(1000 * (off + 1)))
    state = SrMixture.empty(len(actual), ALTERNATIVES)
    everything = np.arange(len(actual))
    alarms = 0
    for _ in range(days * 4):
        state.add_clock(1 / 4)
        hourly = rng.poisson(rng.choice([3, 300], len(actual)))
        state.bet(everything, test.log_e(hourly, rng.binomial(hourly, actual)), EVENLY)
        crossed = np.array([fault is not None for fault in test.faults(state.log_r)])
        alarms += int(crossed.sum())
        state.reset(np.flatnonzero(crossed))
    assert alarms <= at_most * fleets * days / FALSE_ALARM_DAYS


def test_weights_share_one_budget() -> None:
    assert RequestTest.for_audit_rates(RATES).weights.sum() == pytest.approx(1)
    half = RequestTest.for_audit_rates(RATES, share=0.5)
    assert half.rates.shape == (2 * len(RATES),)
    assert half.weights.sum() == pytest.approx(0.5)


def test_requests_are_counted_by_hour_and_by_what_labelled_rates_rest_on() -> None:
    """Of what is blocked, has no evidence or is a probe nobody has to ask for a label."""
    rows = [
        (0, Stratum(Route.HUMAN_REVIEW, 0, 0), 20, 19),
        (0, Stratum(Route.AUTO_SERVE, 1, 2), 100, 4),
        (0, Stratum(Route.AUTO_SERVE, 2, 2), 200, 11),
        (0, Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0), 30, 0),
        (0, Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0, evidence_passed=False), 30, 0),
        (0, Stratum(Route.HUMAN_REVIEW, 0, 0, evidence_passed=False), 7, 0),
        (0, Stratum(Route.AUTO_SERVE, 0, 2, probe=True), 1000, 0),
        (2, Stratum(Route.AUTO_SERVE, 1, 3), 4, 9),
    ]
    hours, strata, *counted = zip(*rows, strict=True)
    codes = np.array([stratum.code for stratum in strata])
    shape = (3, len(RATES))
    decisions, requests = request_counts(
        np.array(hours), codes, np.array(counted, np.int64).T, shape
    )
    rates = RequestTest.for_audit_rates(RATES).rates
    assert decisions.shape == requests.shape == (3, len(rates))
    found = {
        (hour, row, rates[row]): (decisions[hour, row], requests[hour, row])
        for hour, row in np.argwhere(decisions).tolist()
    }
    assert found == {
        (0, 2, RATES[2]): (300, 15),
        (0, len(RATES), RATES[0]): (20, 19),
        (2, 3, RATES[3]): (4, 4),  # never more requests than decisions
    }


@pytest.mark.parametrize("fault", [Fault.TOO_FEW, Fault.TOO_MANY])
def test_a_stratum_without_a_share_never_alarms(fault: Fault) -> None:
    side: Callable[[Fault], slice] = {Fault.TOO_FEW: FEW, Fault.TOO_MANY: MANY}.__getitem__
    log_r = np.full((3, ALTERNATIVES), -np.inf)
    log_r[:2, side(fault)] = 50.0
    test = RequestTest(np.full(3, 0.5), np.array([0.5, 0.0, 0.5]))
    assert test.faults(log_r) == [fault, None, None]
