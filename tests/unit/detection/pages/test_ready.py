"""Forecasts of P(ready): shrunk where labels are few, forgotten at the half-life."""

from __future__ import annotations

import numpy as np
import pytest
from betting import AUTO, LAYOUT, REVIEW, cohort

from monitor.detection.pages.cohort import Layout
from monitor.detection.pages.ready import Forecast, ReadyRates

BOTH = cohort({(0, *AUTO): (100, 40, 30), (1, *AUTO): (300, 0, 0), (1, *REVIEW): (50, 50, 20)}, 2)


def learnt(days: float = 1, half_life: float = 7) -> ReadyRates:
    rates = ReadyRates.start(2, LAYOUT, half_life)
    rates.learn(BOTH, days)
    return rates


def test_nothing_is_known_at_first() -> None:
    forecast = ReadyRates.start(3, LAYOUT).forecast()
    assert np.all(forecast.ready == 0.5)
    assert not forecast.decisions.any()


def test_a_slice_is_shrunk_to_its_group_by_to_the_route_to_one_half() -> None:
    ready = learnt().forecast().ready
    route = (30 + 2 * 0.5) / (40 + 2)
    group = (30 + 20 * route) / (40 + 20)
    assert ready[0][AUTO] == pytest.approx((30 + 20 * group) / (40 + 20))
    assert ready[1][AUTO] == pytest.approx(group)
    assert ready[0][0, 0, 0] == pytest.approx(route)  # a stratum that never was


def test_a_new_slice_is_expected_to_divide_as_the_group_by() -> None:
    forecast = learnt().forecast()
    shares = forecast.decisions - learnt().decisions
    assert shares.sum() == pytest.approx(2 * 20)
    assert shares[0][AUTO] == pytest.approx(20 * 400 / 450)


def test_a_count_weighs_half_after_the_half_life() -> None:
    rates = learnt(half_life=7)
    rates.learn(cohort({}, 2), 7)
    np.testing.assert_allclose(rates.labelled, BOTH.labelled / 2)
    rates.learn(BOTH, 0)
    np.testing.assert_allclose(rates.decisions, BOTH.decisions * 1.5)


def test_slices_and_audit_rates_may_be_added_and_leave() -> None:
    wider = Layout((0, 2, 4), np.array([1.0, 0.5, 0.25]), 1)
    moved = learnt().moved(np.array([1, -1, 0]), wider)
    assert moved.layout == wider
    assert moved.labelled[:, 0, 2, 0].tolist() == [0, 0, 40]
    assert moved.decisions[:, 1, 0, 0].tolist() == [50, 0, 0]
    assert moved.decisions.sum() == BOTH.decisions.sum()
    back = moved.moved(np.array([2, 0]), LAYOUT)
    for name, values in learnt().to_arrays().items():
        np.testing.assert_array_equal(back.to_arrays()[name], values, err_msg=name)


def test_other_score_bands_are_refused() -> None:
    with pytest.raises(ValueError, match="score bands"):
        learnt().moved(np.array([0]), Layout((0,), np.array([1.0]), 2))


def test_arrays_continue_to_the_same_bit() -> None:
    rates = learnt(half_life=5)
    again = ReadyRates.from_arrays(rates.to_arrays())
    for each in (rates, again):
        each.learn(BOTH, 0.3)
    first, second = rates.forecast(), again.forecast()
    assert isinstance(second, Forecast)
    assert second.layout.rates == LAYOUT.rates
    np.testing.assert_array_equal(first.ready, second.ready)
    np.testing.assert_array_equal(first.decisions, second.decisions)
