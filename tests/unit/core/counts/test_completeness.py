from __future__ import annotations

import numpy as np
import pytest
from slice_tables import auto, blocked, by_stratum, completeness, counted, review, slice_counts

from monitor.core.counts.completeness import mature


def test_the_minimum_counts_and_not_the_pooled_figure() -> None:
    """Pooled .968: all of review is back and not one audit is."""
    counts = slice_counts(
        {"a": {review(): counted(600, 600, 150, q=600), auto(): counted(400, 0, 0, q=20)}}
    )
    assert 600 / 620 > 0.967
    assert completeness(counts).tolist() == [0]


def test_bands_are_merged_and_undecidable_is_received() -> None:
    counts = slice_counts(
        {
            "a": {
                auto(1): counted(90, 4, 4, q=5, undecidable=1),
                auto(2): counted(90, 2, 2, q=5, undecidable=1),
                auto(2, 7): counted(50, 9, 9, q=10),
            }
        }
    )
    assert completeness(counts).tolist() == [0.8]


def test_nothing_requested_is_nan() -> None:
    assert np.isnan(completeness(slice_counts({"a": {auto(): counted(90)}, "b": {}}))).all()


def test_blocked_requests_do_not_hold_back_labelled_rates() -> None:
    counts = slice_counts({"a": {blocked(): counted(9, q=9), review(): counted(9, 9, 1, q=9)}})
    assert completeness(counts).tolist() == [1]


def test_unrequested_labels_do_not_stand_in() -> None:
    counts = slice_counts({"a": {review(): counted(9, 9, 1, q=3)}})
    assert completeness(counts).tolist() == [1]


def naive_in_order(received: list[list[int]], requested: list[list[int]], ahead: int) -> list[bool]:
    """Every hour by itself: back to 50 requests, then on and on until it is complete enough."""
    flags = []
    for hour in range(len(requested)):
        flag = True
        for stratum in range(len(requested[hour])):
            got, asked, back = 0, 0, hour
            while back > max(hour - 24, -1) and (back == hour or asked < 50):
                got += received[back][stratum]
                asked += requested[back][stratum]
                back -= 1
            on = hour
            while got * 20 < asked * 19 and on < min(hour + ahead, len(requested) - 1):
                on += 1
                got += received[on][stratum]
                asked += requested[on][stratum]
            flag = flag and got * 20 >= asked * 19
        flags.append(flag)
    return flags


@pytest.mark.parametrize("seed", range(5))
def test_cohorts_against_walking_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    requested = rng.poisson(rng.choice([0.5, 5, 30, 80], (1, 3)), (200, 3))
    received = rng.binomial(requested, rng.choice([0.9, 0.97, 1], (200, 1)))
    expected = naive_in_order(received.tolist(), requested.tolist(), 0)
    assert mature(received, requested).tolist() == expected
    assert len(set(expected)) == 2


def test_a_small_stratum_is_judged_with_the_hours_before() -> None:
    requested = np.array([[40], [10], [10]])
    assert mature(np.array([[40], [8], [10]]), requested).tolist() == [True, True, True]
    assert mature(np.array([[40], [7], [10]]), requested).tolist() == [True, False, True]


def test_hours_without_requests_or_history() -> None:
    assert mature(np.zeros((3, 2), np.int64), np.zeros((3, 2), np.int64)).all()
    assert mature(np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64)).shape == (0,)


def test_hours_with_different_strata_stack() -> None:
    first = by_stratum(slice_counts({"": {auto(): counted(90, 4, 4, q=5)}}))
    second = by_stratum(slice_counts({"": {review(): counted(90, 90, 4, q=90)}}))
    received, requested = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    # Nothing was audited in the second hour: the audits of the first are still waited for.
    assert mature(received, requested).tolist() == [False, False]


def test_an_hour_without_requests_waits_for_the_day_before_and_no_longer() -> None:
    requested = np.zeros((30, 1), np.int64)
    requested[0] = 3
    flags = mature(np.zeros_like(requested), requested).tolist()
    assert flags == [False] * 24 + [True] * 6
    assert all(mature(requested, requested))


# In order


@pytest.mark.parametrize("ahead", [0, 1, 7, 24, 150, 720])
@pytest.mark.parametrize("seed", range(3))
def test_cohorts_in_order_against_walking_on(seed: int, ahead: int) -> None:
    rng = np.random.default_rng(seed)
    requested = rng.poisson(rng.choice([0, 0.5, 5, 30, 80], (1, 4)), (200, 4))
    received = rng.binomial(requested, rng.choice([0.9, 0.95, 0.97, 1], (200, 1)))
    expected = naive_in_order(received.tolist(), requested.tolist(), ahead)
    assert mature(received, requested, ahead=ahead).tolist() == expected
    assert len(set(expected)) == 2


def test_the_farther_a_cohort_may_be_joined_the_more_are_mature() -> None:
    rng = np.random.default_rng(8)
    requested = rng.poisson(5, (300, 30))
    received = rng.binomial(requested, 0.98)
    mature_ones = [set(np.flatnonzero(mature(received, requested, ahead=ahead)).tolist())
                   for ahead in (0, 24, 72, 300)]  # fmt: skip
    assert mature_ones[0] == set(np.flatnonzero(mature(received, requested)).tolist())
    assert mature_ones[0] < mature_ones[1] < mature_ones[2] <= mature_ones[3]
    assert len(mature_ones[0]) < 60
    assert set(range(200)) <= mature_ones[3], "2 % of labels that never come hold nothing back"


def test_younger_hours_only_pull_the_share_down() -> None:
    """No hour is mature by hours that are no more complete than it is itself."""
    requested = np.full((100, 1), 50)
    for tenths in (9, 8, 5):
        received = requested * tenths // 10
        received[50:] = np.linspace(received[0, 0], 0, 50, dtype=np.int64)[:, None]
        assert not mature(received, requested, ahead=100).any()


def test_one_lost_hour_is_carried_by_the_complete_ones_that_follow() -> None:
    requested = np.full((60, 1), 100)
    received = requested.copy()
    received[10] = 0  # 19 complete hours for each that is lost
    assert mature(received, requested, ahead=19).all()
    assert np.flatnonzero(~mature(received, requested, ahead=18)).tolist() == [10]


def test_a_stratum_that_lacks_its_labels_for_good_is_never_mature() -> None:
    requested = np.full((720, 2), 100)
    received = requested - np.array([2, 10])
    assert not mature(received, requested, ahead=720).any()
    assert mature(received[:, :1], requested[:, :1], ahead=720).all()


def test_no_hours_in_order() -> None:
    nothing = np.zeros((0, 2), np.int64)
    assert mature(nothing, nothing, ahead=24).shape == (0,)
