from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from betting import level_alternatives
from scipy import stats

from monitor.detection.pages.mixture import SrMixture
from monitor.detection.pages.projection import log_likelihood_ratio

Floats = npt.NDArray[np.float64]

FLOOR = 0.8
SIX = level_alternatives(FLOOR, -1)
SIXTHS = np.full(6, 1 / 6)


def level_log_e(n: npt.ArrayLike, k: npt.ArrayLike, alternatives: Floats = SIX) -> Floats:
    """Of alternatives below the floor, shape (..., K)."""
    trials, hits = (np.asarray(x)[..., None] for x in (n, k))
    return log_likelihood_ratio(trials, hits, FLOOR, alternatives)


def expected_r(batches: list[int], rate: float, alternatives: Floats) -> float:
    """E[R] after these batches, the clock counting events, over all outcomes."""
    hits = [grid.ravel() for grid in np.indices([n + 1 for n in batches])]
    mixture = SrMixture.empty(len(hits[0]), len(alternatives))
    weights = np.full(len(alternatives), 1 / len(alternatives))
    probability = np.ones(len(hits[0]))
    for n, k in zip(batches, hits, strict=True):
        probability *= stats.binom.pmf(k, n, rate)
        mixture.add_clock(n)
        mixture.bet(np.arange(len(k)), level_log_e(n, k, alternatives), weights)
    return float(probability @ np.exp(mixture.statistic()))


def test_alternatives_reference_values() -> None:
    below, above = level_alternatives(0.8, -1), level_alternatives(0.1, 1)
    assert below == pytest.approx([0.78, 0.765, 0.74, 0.70, 0.63, 0.50])
    assert above == pytest.approx([0.12, 0.135, 0.16, 0.20, 0.27, 0.40])


@pytest.mark.parametrize("boundary", [1e-6, 0.004, 0.15, 0.85, 0.996, 1 - 1e-6])
@pytest.mark.parametrize("sign", [-1, 1])
def test_alternatives_lie_beyond_the_boundary_and_inside_0_1(boundary: float, sign: int) -> None:
    found = level_alternatives(boundary, sign)
    assert (sign * (found - boundary) > 0).all()
    assert ((found > 0) & (found < 1)).all()


@pytest.mark.parametrize(
    ("counts", "p0", "p1", "expected"),
    [((10, 7), 0.80, 0.70, 0.2816755760), ((20, 5), 0.10, 0.20, 1.6989903680)],
)
def test_log_likelihood_ratio_reference_values(
    counts: tuple[int, int], p0: float, p1: float, expected: float
) -> None:
    assert log_likelihood_ratio(*counts, p0, p1) == pytest.approx(expected, abs=1e-10)


def test_log_likelihood_ratio_against_scipy() -> None:
    n, k = 37, np.arange(38)
    expected = stats.binom.logpmf(k, n, 0.61) - stats.binom.logpmf(k, n, 0.83)
    assert log_likelihood_ratio(n, k, 0.83, 0.61) == pytest.approx(expected)


def test_statistic_reference_values() -> None:
    """After (10, 7), after an hour without labels, after (5, 2); the clock counts events."""
    mixture, found = SrMixture.empty(1, 6), []
    for n, k in ((10, 7), (0, 0), (5, 2)):
        mixture.add_clock(n)
        mixture.bet(np.array([0]), level_log_e(n, k), SIXTHS)
        found.append(mixture.statistic().item())
    assert found == pytest.approx([2.4085293996, 2.4085293996, 3.7624129573], abs=1e-10)


def test_expected_r_is_the_clock_at_the_boundary() -> None:
    """And less inside the null: the bound of E[false alarms]."""
    two = np.array([0.7, 0.5])
    assert expected_r([3, 2, 4], 0.80, two) == pytest.approx(9, abs=1e-12)
    assert expected_r([3, 2, 4], 0.90, two) == pytest.approx(4.453810, abs=1e-6)
    assert expected_r([3, 2, 4], 0.80, SIX) == pytest.approx(9, abs=1e-12)
    assert expected_r([3, 2, 4], 0.90, SIX) < 9 < expected_r([3, 2, 4], 0.70, SIX)


def test_weights_may_differ_from_stream_to_stream() -> None:
    """A weight of 0 leaves an alternative without evidence."""
    mixture = SrMixture.empty(2, 2)
    mixture.add_clock(1)
    mixture.bet(np.arange(2), np.zeros((2, 2)), [[0.5, 0.5], [0.25, 0.0]])
    assert np.exp(mixture.log_r).tolist() == [[0.5, 0.5], [0.25, 0.0]]


def test_what_cannot_be_is_refused() -> None:
    mixture = SrMixture.empty(1, 6)
    with pytest.raises(ValueError, match="backwards"):
        mixture.add_clock(-1)
    with pytest.raises(ValueError, match="at least 1"):
        mixture.bet(np.array([0]), level_log_e(5, 2), SIXTHS, cluster_size=0.5)


def test_a_long_life_neither_overflows_nor_warns() -> None:
    mixture = SrMixture.empty(2, 6)
    for _ in range(2000):
        mixture.add_clock(1 / 24)
        mixture.bet(np.arange(2), level_log_e([1000, 1000], [0, 1000]), SIXTHS)
    low, high = mixture.statistic()
    assert 1e5 < low < math.inf
    assert high < math.log(1 / 24)


def moved() -> SrMixture:
    """Three streams, of which the last has no evidence yet."""
    mixture = SrMixture.empty(3, 6)
    mixture.add_clock(1)
    mixture.bet(np.array([0, 1]), level_log_e([5, 6], [1, 6]), SIXTHS)
    mixture.add_clock(0.5)
    return mixture


def test_rows_follow_their_keys() -> None:
    mixture = moved()
    aligned = mixture.aligned(["a", "b", "c"], ["new", "b", "a"])
    s = mixture.statistic()
    assert aligned.statistic().tolist() == [-np.inf, s[1], s[0]]
    assert aligned.pending.tolist() == [0, 0.5, 0.5]
    aligned.add_clock(1)
    assert mixture.pending.tolist() == [0.5, 0.5, 1.5]


def test_aligning_to_nothing_or_to_strangers() -> None:
    assert moved().aligned(["a", "b", "c"], []).log_r.shape == (0, 6)
    strangers = moved().aligned(["a", "b", "c"], ["d"])
    assert strangers.statistic().tolist() == [-np.inf]
    assert SrMixture.empty(0, 6).aligned([], ["a"]).pending.tolist() == [0]


def test_stored_arrays_are_copies_and_must_fit() -> None:
    mixture = moved()
    arrays = mixture.to_arrays()
    mixture.add_clock(9)
    assert arrays["pending"].tolist() == [0.5, 0.5, 1.5]
    with pytest.raises(ValueError, match="one pending clock for each row"):
        SrMixture.from_arrays(arrays | {"pending": np.zeros(2)})
