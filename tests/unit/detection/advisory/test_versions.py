from __future__ import annotations

import numpy as np
import pytest

from monitor.detection.advisory.versions import versions_differ


def test_a_version_of_its_own_is_a_difference() -> None:
    slices = [[500, 0], [250, 250], [480, 20], [0, 0]]
    assert versions_differ(slices, [[0, 500]] * 4).tolist() == [True, True, True, False]
    assert versions_differ(slices, [[490, 10]] * 4).tolist() == [False, True, False, False]


def test_equal_mixes_differ_by_chance_in_fewer_than_one_in_twenty() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(6))
    slices, references = rng.multinomial(300, shares, 2000), rng.multinomial(3000, shares, 2000)
    assert versions_differ(slices, references).mean() <= 0.05


def test_a_canary_of_a_tenth_is_found() -> None:
    rng = np.random.default_rng(1)
    slices, references = rng.multinomial(1000, [0.9, 0.1], 100), rng.multinomial(9000, [1, 0], 100)
    assert versions_differ(slices, references).sum() >= 95


def test_which_slice_of_the_two_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    one, other = rng.integers(0, 90, (2, 200, 3))
    forth, back = versions_differ(one, other), versions_differ(other, one)
    assert forth.tolist() == back.tolist()
    assert 20 < forth.sum() < 180


@pytest.mark.parametrize("panes", [np.zeros((5, 3)), np.zeros((0, 2)), [[4, 5]], np.zeros((5, 0))])
def test_nothing_decided_or_all_alike_differs_in_nothing(panes: np.ndarray) -> None:
    assert not versions_differ(panes, panes).any()
