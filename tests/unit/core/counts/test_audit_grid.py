"""The grid of audit rates: what is sent, what is counted, what is lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.audit_grid import (
    COMMON_RATES,
    DEFAULT_AUDIT_RATES,
    ROUND_RATES,
    Thinned,
    largest_loss,
    rate_index,
    thinned,
)
from monitor.core.counts.cells import MAX_RATES
from monitor.core.counts.coding import Coding

FORMER = tuple(2.0 ** (-j / 2) for j in range(16))

grids = st.lists(st.floats(1e-3, 1), min_size=1, max_size=20, unique=True).map(
    lambda rates: tuple(sorted(rates, reverse=True))
)


def test_the_default_grid_has_every_rate_that_people_choose_and_fits() -> None:
    assert set(ROUND_RATES) | set(COMMON_RATES) <= set(DEFAULT_AUDIT_RATES)
    assert set(ROUND_RATES) == {0.01, 0.02, 0.05, 0.10, 0.20, 0.25, 0.5, 1}
    assert len(DEFAULT_AUDIT_RATES) <= MAX_RATES
    assert all(high > low > 0 for high, low in pairwise(DEFAULT_AUDIT_RATES))


def test_no_probability_loses_more_than_a_fifth_and_whole_per_cents_less() -> None:
    assert largest_loss(DEFAULT_AUDIT_RATES) <= 0.2 + 1e-12
    per_cents = [thinned(DEFAULT_AUDIT_RATES, n / 100).lost for n in range(1, 101)]
    assert max(per_cents) < 0.19
    assert sum(per_cents) / 100 < 0.06


def test_the_former_grid_lost_an_eighth_of_the_usual_audits_without_a_word() -> None:
    lost = {sent: thinned(FORMER, sent).lost for sent in (0.05, 0.10, 0.06, 0.03)}
    assert lost == pytest.approx({0.05: 0.116, 0.10: 0.116, 0.06: 0.263, 0.03: 0.263}, abs=1e-3)


def test_fractions_sent_with_many_digits_lose_little() -> None:
    lost = [thinned(DEFAULT_AUDIT_RATES, 1 / n).lost for n in (3, 6, 8, 12, 16, 30)]
    assert max(lost) < 0.1
    assert thinned(DEFAULT_AUDIT_RATES, 1 / 3).lost < 0.011


@given(grids, st.floats(1e-4, 1))
def test_the_rate_is_the_largest_that_is_not_above(grid: tuple[float, ...], sent: float) -> None:
    one = thinned(grid, sent)
    below = [rate for rate in grid if rate <= sent * (1 + 1e-4)]
    assert one.counted == (max(below) if below else min(grid))
    assert 0 <= one.lost < 1
    if below:
        assert one.counted == pytest.approx(sent * (1 - one.lost), rel=2e-4)
        assert one.lost <= largest_loss(grid) + 1e-9
    else:
        assert one.lost == 0


@given(grids)
def test_the_largest_loss_is_reached_just_below_a_rate(grid: tuple[float, ...]) -> None:
    just_below = np.array([1.0, *grid[:-1]]) * (1 - 2e-4)
    just_below = just_below[just_below >= grid[-1]]
    found = max([thinned(grid, float(p)).lost for p in just_below], default=0.0)
    assert found == pytest.approx(largest_loss(grid), abs=1e-3)


def test_a_probability_below_the_grid_is_counted_too_high() -> None:
    assert thinned((1.0, 0.05), 0.02) == Thinned(0.02, 0.05, 0.0)


def test_the_coding_counts_at_the_same_rate() -> None:
    coding = Coding(())
    for sent in (*COMMON_RATES, 0.037, 0.99, 1e-5):
        assert coding.rate_index(sent) == rate_index(DEFAULT_AUDIT_RATES, sent)
