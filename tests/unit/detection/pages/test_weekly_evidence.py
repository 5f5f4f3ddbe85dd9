from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pytest
from betting import level_alternatives
from scipy import stats

from monitor.core.time import HOUR, to_micros
from monitor.detection.pages.projection import log_likelihood_ratio
from monitor.detection.pages.weekly_evidence import WeekBets, ebh

Floats = npt.NDArray[np.float64]

MONDAY = to_micros(datetime(2026, 3, 2, tzinfo=UTC)) // HOUR
WEEK = 7 * 24
FLOOR = 0.8
SIXTHS = np.full(6, 1 / 6)


def level_log_e(n: int, k: npt.NDArray[np.int64]) -> Floats:
    return log_likelihood_ratio(n, k[..., None], FLOOR, level_alternatives(FLOOR, -1))


def enter(bets: WeekBets, first: int, last: int) -> list[Floats]:
    """Finished weeks while the hours from first to before last begin."""
    finished = [bets.enter(hour) for hour in range(first, last)]
    return [log_e for log_e in finished if log_e is not None]


def weekly(batches: list[int], hits: list[npt.NDArray[np.int64]]) -> Floats:
    """Log e-values of one full week, with a bet at the end of each of these parts of it."""
    bets = WeekBets.begin(MONDAY, len(hits[0]), 6)
    hour = MONDAY
    for part, (n, k) in enumerate(zip(batches, hits, strict=True)):
        until = MONDAY + WEEK * (part + 1) // len(batches)
        assert enter(bets, hour, until) == []
        bets.mixture.bet(np.arange(len(k)), level_log_e(n, k), SIXTHS)
        hour = until
    (log_e,) = enter(bets, hour, hour + 1)
    return log_e


@pytest.mark.parametrize("rate", [0.80, 0.85, 0.95, 1.0])
def test_a_week_is_an_e_value(rate: float) -> None:
    """Over all outcomes: exactly 1 at the boundary, below it inside the contract."""
    batches = [3, 0, 4, 1, 2]
    hits = [grid.ravel() for grid in np.indices([n + 1 for n in batches])]
    probability = np.prod(
        [stats.binom.pmf(k, n, rate) for n, k in zip(batches, hits, strict=True)], axis=0
    )
    expected = float(probability @ np.exp(weekly(batches, hits)))
    assert expected == pytest.approx(1, abs=1e-12) if rate == FLOOR else expected < 1


def test_a_violation_is_evidence() -> None:
    assert weekly([50] * 7, [np.array([30])] * 7).item() > 10


def test_an_earlier_week_is_refused() -> None:
    bets = WeekBets.begin(MONDAY, 1, 6)
    with pytest.raises(ValueError, match="earlier week"):
        bets.enter(MONDAY - 1)


def listed(e: list[float], weights: list[float] | None = None, alpha: float = 0.1) -> list[bool]:
    shares = [1 / len(e)] * len(e) if weights is None else weights
    found: list[bool] = ebh(np.log(e), np.log(shares), alpha).tolist()
    return found


def test_ebh_steps_up() -> None:
    """With four streams the k-th largest e-value must reach 40 / k: 40, 20, 13.3, 10."""
    assert listed([45, 21, 14, 9.9]) == [True, True, True, False]
    assert listed([14, 14, 14, 9.9]) == [True, True, True, False]
    assert listed([10.1, 10.1, 10.1, 10.1]) == [True] * 4
    assert listed([39, 19, 13, 9.9]) == [False] * 4
    assert listed([14, 9.9, 45, 21]) == [True, False, True, True]


def test_ebh_lists_by_weighted_evidence() -> None:
    assert listed([20, 20], [0.5, 0.01]) == [True, False]
    assert listed([20, 2_000], [0.5, 0.01]) == [True, True]


def test_ebh_with_no_evidence_and_with_no_streams() -> None:
    assert ebh(np.full(3, -np.inf), np.log(np.full(3, 1 / 3))).tolist() == [False] * 3
    assert ebh(np.empty(0), np.empty(0)).tolist() == []
    assert ebh(np.array([-np.inf, 9.0]), np.log([0.5, 0.5])).tolist() == [False, True]


def false_share(lists: npt.NDArray[np.bool_], null: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Mean share of nulls on a list, and its standard error."""
    share = (lists & null).sum(axis=1) / np.maximum(lists.sum(axis=1), 1)
    return float(share.mean()), float(share.std() / math.sqrt(len(share)))


def test_false_discoveries_of_weekly_lists_of_dependent_streams() -> None:
    """Intersections repeat the labels of their marginals: 24 streams at the boundary in blocks
    of 8 with the same labels, 6 violations, 2,000 weeks."""
    rng = np.random.default_rng(2)
    weeks, per_day = 2_000, 60
    null = np.arange(30) < 24
    hits = []
    for _ in range(7):
        shared = rng.binomial(per_day, FLOOR, (weeks, 3)).repeat(8, axis=1)
        hits.append(np.hstack([shared, rng.binomial(per_day, 0.66, (weeks, 6))]).ravel())
    log_e = weekly([per_day] * 7, hits).reshape(weeks, 30)
    lists = np.array([ebh(week, np.full(30, -math.log(30))) for week in log_e])
    mean, error = false_share(lists, null)
    assert mean + 3 * error <= 0.10
    assert lists[:, 24:].mean() > 0.8


def test_false_discoveries_of_the_worst_dependence_stay_within_alpha() -> None:
    """No stream violates, and exactly as many e-values as are just enough are large together:
    FDR = P(a list) = alpha is reached, not passed."""
    rng = np.random.default_rng(3)
    weeks, streams, alpha = 20_000, 20, 0.1
    together = rng.integers(1, streams + 1, weeks)
    large = rng.random(weeks) < alpha
    order = rng.permuted(np.tile(np.arange(streams), (weeks, 1)), axis=1)
    chosen = (order < together[:, None]) & large[:, None]
    e = chosen * (streams / (alpha * together[:, None]))
    log_e = np.log(e, out=np.full(e.shape, -np.inf), where=e > 0)
    assert e.mean() == pytest.approx(1, abs=0.1)
    # A hair more than enough, since the e-values are exactly at the step that lists them.
    lists = np.array([ebh(week + 1e-9, np.full(streams, -math.log(streams))) for week in log_e])
    mean, error = false_share(lists, np.ones(streams, bool))
    assert abs(mean - alpha) <= 4 * error
