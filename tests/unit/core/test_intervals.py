from __future__ import annotations

import math

import numpy as np
import pytest

from monitor.core.intervals import Z95, divide, mover, ratio_interval, wilson, z_value


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(5, 6, 0.436490, 0.969947), (3, 6, 0.187613, 0.812387), (0, 4, 0, 0.489900)],
)
def test_wilson_reference_values(hits: int, n: int, low: float, high: float) -> None:
    lower, upper = wilson(hits / n, n, 1.96)
    assert lower == pytest.approx(low, abs=1e-6)
    assert upper == pytest.approx(high, abs=1e-6)


def test_wilson_without_trials_knows_nothing() -> None:
    lower, upper = wilson([math.nan, 0.3], [0, 0])
    assert lower.tolist() == [0, 0]
    assert upper.tolist() == [1, 1]


def test_wilson_of_nan_over_trials_is_nan() -> None:
    assert np.isnan(wilson(math.nan, 5)).all()


def test_wilson_refuses_negative_trials() -> None:
    with pytest.raises(ValueError, match="negative"):
        wilson(0.5, [3, -1])


def test_wilson_contains_its_point_where_rounding_would_exclude_it() -> None:
    n = np.arange(1, 100_000, dtype=np.float64)
    for point in (0.0, 1.0, 1e-300, 1 - 2**-53):
        lower, upper = wilson(point, n)
        assert (lower <= point).all()
        assert (upper >= point).all()
        assert lower.min() >= 0
        assert upper.max() <= 1


def test_z_value() -> None:
    assert z_value(0.95) == pytest.approx(Z95, abs=1e-14)
    assert z_value(0.99) == pytest.approx(2.5758293035489004)


def test_divide_by_zero_is_undefined_without_a_warning() -> None:
    assert divide([1, 0, 3], [2, 0, 0]).tolist() == pytest.approx(
        [0.5, math.nan, math.nan], nan_ok=True
    )
    assert divide(1, 0, empty=7) == 7


def test_mover_reference_value() -> None:
    """Newcombe (1998), method 10 of 56/70 - 48/80: [.0524, .3339]."""
    first, second = wilson(56 / 70, 70), wilson(48 / 80, 80)
    lower, upper = mover(56 / 70, *first, 48 / 80, *second)
    assert (round(float(lower), 4), round(float(upper), 4)) == (0.0524, 0.3339)


def test_mover_of_a_rate_with_bounds_only() -> None:
    lower, upper = mover(math.nan, 0.2, 0.7, 0.5, 0.4, 0.6)
    assert (float(lower), float(upper)) == pytest.approx((-0.4, 0.3))


def test_ratio_over_what_may_be_zero_has_no_upper_bound() -> None:
    lower, upper = ratio_interval(0.5, 0.4, 0.6, 0.1, 0.0, 0.3)
    assert 0 < lower < 5
    assert np.isnan(upper)


def test_ratio_over_zero_has_a_lower_bound_alone() -> None:
    lower, upper = ratio_interval(0.5, 0.4, 0.6, 0.0, 0.0, 0.3)
    nearly, _ = ratio_interval(0.5, 0.4, 0.6, 1e-9, 0.0, 0.3)
    assert lower == pytest.approx(nearly)
    assert np.isnan(upper)
    assert ratio_interval(0.0, 0.0, 0.6, 0.0, 0.0, 0.3)[0] == 0


def test_ratio_of_a_rate_with_bounds_only() -> None:
    lower, upper = ratio_interval(math.nan, 0.0, 0.1, 0.5, 0.4, 0.6)
    assert (float(lower), float(upper)) == pytest.approx((0, 0.25))
    assert np.isnan(ratio_interval(math.nan, 0.0, 0.1, 0.5, 0.0, 0.6)[1])
    assert np.isnan(ratio_interval(math.nan, math.nan, math.nan, 0.5, 0.4, 0.6)).all()


def test_ratio_of_zero_begins_at_zero() -> None:
    lower, upper = ratio_interval(0.0, 0.0, 0.1, 0.5, 0.4, 0.6)
    assert lower == 0
    assert 0.1 < upper < 0.3


def test_ratio_where_the_published_formula_divides_zero_by_zero() -> None:
    ends = (0.6 - 1e-9, 0.6, 0.6 + 1e-9)
    around = [float(ratio_interval(0.5, 0.4, 0.6, 0.3, 0.2, u)[0]) for u in ends]
    assert around == pytest.approx([around[1]] * 3, rel=1e-6)
