"""The grid of audit rates: what is sent, what is counted, what is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.audit_grid import AUDIT_RATES, rate_index
from monitor.core.counts.cells import MAX_RATES
from monitor.core.counts.coding import Coding

COMMON = (
    *(1.0, 0.75, 0.5, 0.33, 0.30, 0.25, 0.20, 0.15, 0.10),
    *(0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0.005, 0.001),
)
grids = st.lists(st.floats(1e-3, 1), min_size=1, max_size=20, unique=True).map(
    lambda rates: tuple(sorted(rates, reverse=True))
)


def lost(sent: float) -> float:
    """The share of the labels requested at a rate that the grid discards."""
    return 1 - min(1.0, AUDIT_RATES[rate_index(AUDIT_RATES, sent)] / sent)


def test_the_grid_has_every_rate_that_people_choose_and_fits() -> None:
    assert set(COMMON) <= set(AUDIT_RATES)
    assert len(AUDIT_RATES) <= MAX_RATES
    assert all(high > low > 0 for high, low in pairwise(AUDIT_RATES))


def test_no_probability_loses_more_than_a_fifth_and_whole_per_cents_less() -> None:
    assert all(1 - low / high <= 0.2 + 1e-12 for high, low in pairwise((1.0, *AUDIT_RATES)))
    per_cents = [lost(n / 100) for n in range(1, 101)]
    assert max(per_cents) < 0.19
    assert sum(per_cents) / 100 < 0.06


def test_fractions_sent_with_many_digits_lose_little() -> None:
    assert max(lost(1 / n) for n in (3, 6, 8, 12, 16, 30)) < 0.1
    assert lost(1 / 3) < 0.011


@given(grids, st.floats(1e-4, 1))
def test_the_rate_is_the_largest_that_is_not_above(grid: tuple[float, ...], sent: float) -> None:
    below = [rate for rate in grid if rate <= sent * (1 + 1e-4)]
    assert grid[rate_index(grid, sent)] == (max(below) if below else min(grid))


@pytest.mark.parametrize("sent", [*COMMON, 0.037, 0.99, 1e-5])
def test_the_coding_counts_at_the_same_rate(sent: float) -> None:
    assert Coding(()).rate_index(sent) == rate_index(AUDIT_RATES, sent)
