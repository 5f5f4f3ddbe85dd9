"""The audit sample: as often as it says, the same whenever it is drawn, tied to nothing else."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from consumers.dead_letters import IdHasher
from consumers.producing import AuditDraw, AuditSampler
from monitor.core.counts.audit_grid import AUDIT_RATES
from monitor.detection.advisory.label_requests import RequestTest, RequestWatch

MILLION = 1_000_000
CHANCE = 1e-6
"""A two-sided test at this level fails by chance once in a million choices of the rate."""


@pytest.fixture(scope="module")
def places() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Where a million decisions lie, in [0, 1)."""
    of = AuditSampler(auto_serve=0.05).uniform
    return np.fromiter((of(f"d-{i}") for i in range(MILLION)), np.float64, MILLION)


@pytest.mark.parametrize("rate", [0.5, 0.05, 0.01, 0.001])
def test_of_a_million_decisions_as_many_are_audited_as_the_rate_says(
    rate: float, places: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> None:
    assert binomtest(int((places < rate).sum()), MILLION, rate).pvalue > CHANCE


@pytest.mark.full
def test_the_places_are_uniform_and_independent_of_order_and_of_the_service_s_own_hash(
    places: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> None:
    assert kstest(places, "uniform").pvalue > CHANCE
    bound = 5 / np.sqrt(MILLION)  # five standard errors of a correlation
    assert abs(np.corrcoef(places[:-1], places[1:])[0, 1]) < bound
    hashed = IdHasher.with_key(b"an id key of the service")(
        (f"d-{i}" for i in range(MILLION)), np.zeros(MILLION, np.int64)
    )
    assert abs(np.corrcoef(places, hashed.astype(np.float64))[0, 1]) < bound


def test_the_draw_of_a_decision_is_whether_its_place_is_below_the_rate(
    places: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> None:
    sampler = AuditSampler(auto_serve=0.05)
    for i in range(2_000):
        drawn = sampler.draw(f"d-{i}", "auto_serve")
        assert drawn == AuditDraw(0.05, bool(places[i] < 0.05))


def test_the_service_s_check_of_the_sampler_agrees_and_finds_a_broken_one(
    places: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> None:
    """The million in 1,000 hours, as the service bets on them; then with one in four lost."""
    rate, hours = 0.05, 1_000
    test = RequestTest.for_audit_rates(AUDIT_RATES)
    row = AUDIT_RATES.index(rate)  # of auto_serve, the first route
    asked = (places < rate).reshape(hours, -1)
    kept = asked & (np.arange(asked.shape[1]) % 4 != 0)
    for requests, finds in ((asked, False), (kept, True)):
        watch = RequestWatch.start(test, 1)
        decisions = np.zeros((hours, len(test.rates)), np.int64)
        requested = np.zeros_like(decisions)
        decisions[:, row], requested[:, row] = asked.shape[1], requests.sum(axis=1)
        for hour in range(hours):
            watch.advance(hour, decisions[hour], requested[hour])
        assert bool(watch.faults) == finds


def test_a_retry_draws_the_same_in_another_process() -> None:
    script = (
        "from consumers.producing import AuditSampler\n"
        "s = AuditSampler(auto_serve=0.3, secret='salt')\n"
        "print([s.draw(i, 'auto_serve').label_requested for i in range(50)])"
    )
    there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    here = AuditSampler(auto_serve=0.3, secret=b"salt")
    assert there.strip() == str([here.draw(i, "auto_serve").label_requested for i in range(50)])


def test_a_whole_number_is_its_digits_as_it_is_to_the_service() -> None:
    sampler = AuditSampler(auto_serve=0.5)
    assert sampler.uniform(7) == sampler.uniform("7")


def test_another_secret_draws_another_sample() -> None:
    plain, secret = AuditSampler(0.5), AuditSampler(0.5, secret="salt")
    draws = np.array([(plain.uniform(i), secret.uniform(i)) for i in range(20_000)])
    assert abs(np.corrcoef(draws.T)[0, 1]) < 5 / np.sqrt(len(draws))


def test_the_sample_of_a_lower_rate_is_a_part_of_the_higher_one_s() -> None:
    low, high = AuditSampler(0.05), AuditSampler(0.10)
    for i in range(2_000):
        if low.draw(i, "auto_serve").label_requested:
            assert high.draw(i, "auto_serve").label_requested


def test_each_route_has_its_rate() -> None:
    sampler = AuditSampler(0.05, human_review=0.5, blocked_by_evidence=0.01)
    rates = [sampler.draw("d", route).audit_p for route in ("auto_serve", "human_review")]
    assert rates == [0.05, 0.5]
    assert sampler.draw("d", "blocked_by_evidence").audit_p == 0.01
    unasked = AuditSampler(0.05)
    assert unasked.draw("d", "blocked_by_evidence") == AuditDraw(1.0, False)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan")])
def test_a_rate_that_is_no_probability_is_refused_at_the_start(rate: float) -> None:
    with pytest.raises(ValueError, match="auto_serve must be above 0 and up to 1"):
        AuditSampler(auto_serve=rate)


def test_a_secret_that_is_too_long_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match=r"^secret has 65 bytes; use at most 64$"):
        AuditSampler(0.5, secret="x" * 65)
    assert AuditSampler(0.5, secret="x" * 64).uniform(1) != AuditSampler(0.5).uniform(1)
