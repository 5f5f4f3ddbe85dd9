"""McNemar's exact test against statsmodels and scipy's binomial test."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from monitor.audit.flip_counts import mcnemar

TABLES = [(a, b) for a in range(30) for b in range(30)]
LARGE = [(400, 520), (0, 1_000), (2_000, 2_150), (4_999, 5_001), (30_000, 30_900)]


@pytest.mark.parametrize("table", LARGE)
def test_large_numbers_of_flips(table: tuple[int, int]) -> None:
    one_way, other_way = table
    expected = binomtest(one_way, one_way + other_way, 0.5).pvalue
    assert mcnemar(one_way, other_way) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_is_statsmodels_exact_test() -> None:
    for one_way, other_way in TABLES:
        expected = statsmodels_mcnemar([[7, one_way], [other_way, 5]], exact=True).pvalue
        assert mcnemar(one_way, other_way) == pytest.approx(expected, rel=1e-12)


def test_is_a_two_sided_binomial_test() -> None:
    for one_way, other_way in TABLES:
        n = one_way + other_way
        expected = binomtest(one_way, n, 0.5).pvalue if n else 1.0
        assert mcnemar(one_way, other_way) == pytest.approx(expected, rel=1e-12)


def test_three_of_three_one_way_prove_little() -> None:
    assert mcnemar(3, 0) == mcnemar(0, 3) == 0.25


def test_no_flip_speaks_for_nothing() -> None:
    assert mcnemar(0, 0) == 1.0


def test_a_million_flips_are_no_work() -> None:
    assert mcnemar(1_000_000, 0) == 0.0
    assert mcnemar(500, 999_500) == 0.0
