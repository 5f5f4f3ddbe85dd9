from __future__ import annotations

import numpy as np
import pytest

from monitor.core.publish.snapshot import ComponentChange
from monitor.detection.advisory.versions import COMPONENTS, changed_components, versions_differ


def test_a_version_of_its_own_is_a_difference() -> None:
    slices = [[500, 0], [250, 250], [480, 20], [0, 0]]
    assert versions_differ(slices, [[0, 500]] * 4).tolist() == [True, True, True, False]
    assert versions_differ(slices, [[490, 10]] * 4).tolist() == [False, True, False, False]


def test_equal_mixes_differ_by_chance_in_fewer_than_one_in_twenty() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(6))
    slices, references = rng.multinomial(300, shares, 2000), rng.multinomial(3000, shares, 2000)
    assert versions_differ(slices, references).mean() <= 0.05


@pytest.mark.parametrize(("versions", "looks"), [(10, 24), (4, 168)])
def test_one_in_twenty_is_of_all_versions_and_all_looks_together(versions: int, looks: int) -> None:
    rng, shares, sets = np.random.default_rng(4), np.full(versions, 1 / versions), 300
    slices, references = rng.multinomial(30, shares, (2, sets * looks))
    ever = versions_differ(slices, references, looks).reshape(sets, looks).any(axis=1)
    assert ever.mean() <= 0.05


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


K = 11
OLD, NEW = "judge=j1,policy=p1,threshold=0.7", "judge=j2,policy=p1,threshold=0.75"
JUDGE, THRESHOLD = ComponentChange("judge", "j1", "j2"), ComponentChange("threshold", "0.7", "0.75")


def test_the_parts_that_changed_are_named_and_no_other() -> None:
    assert changed_components({OLD: 500}, {NEW: 500}, K) == (JUDGE, THRESHOLD)
    assert changed_components({OLD: 500}, {OLD: 300, NEW: 200}, K) == (JUDGE, THRESHOLD)
    assert changed_components({OLD: 500}, {OLD: 500}, K) == ()


@pytest.mark.parametrize(("old", "new"), [(400, 10), (10, 400), (0, 400), (400, 0)])
def test_a_version_with_fewer_than_k_decisions_is_never_named(old: int, new: int) -> None:
    """However sure it is that they differ."""
    assert changed_components({OLD: old}, {NEW: new}, K) == ()
    assert changed_components({OLD: max(old, K)}, {NEW: max(new, K)}, K) == (JUDGE, THRESHOLD)


def test_a_rare_version_beside_a_change_is_not_named() -> None:
    rare = "judge=secret,policy=p1,threshold=0.7"
    after = {NEW: 400, rare: K - 1}
    assert changed_components({OLD: 400}, after, K) == (JUDGE, THRESHOLD)
    assert changed_components({OLD: 400, rare: K - 1}, {NEW: 400}, K) == (JUDGE, THRESHOLD)


def test_what_was_not_sent_before_is_nothing_and_others_are_not_named() -> None:
    assert changed_components({"judge=j1": 300}, {"judge=j1,policy=p1": 300}, K) == (
        ComponentChange("policy", "", "p1"),
    )
    assert changed_components({OLD: 300}, {"__other__": 300}, K) == ()
    assert changed_components({"__other__": 300}, {NEW: 300}, K) == ()


def test_every_named_version_has_k_decisions_on_its_side_and_its_shares_moved() -> None:
    rng, told = np.random.default_rng(3), 0
    for _ in range(400):
        sides = []
        for _ in range(2):
            names = [
                ",".join(f"{part}={part[0]}{rng.integers(3)}" for part in COMPONENTS)
                for _ in range(rng.integers(1, 5))
            ]
            sides.append({name: int(rng.integers(0, 40)) for name in names})
        before, after = sides
        for one in changed_components(before, after, K):
            told += 1
            old, new = (
                {v: sum(n for text, n in side.items() if f"{one.component}={v}" in text.split(","))
                 for v in (one.before, one.after)}
                for side in sides
            )  # fmt: skip
            assert old[one.before] >= K
            assert new[one.after] >= K
            lost = old[one.before] / sum(before.values()) - new[one.before] / sum(after.values())
            gain = new[one.after] / sum(after.values()) - old[one.after] / sum(before.values())
            assert min(lost, gain) > 0
    assert told > 100


def test_a_mix_that_stays_names_a_change_in_fewer_than_one_in_twenty() -> None:
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(1000):
        before, after = rng.binomial(300, 0.5, 2).tolist()
        mixes = [{OLD: n, NEW: 300 - n} for n in (before, after)]
        found += bool(changed_components(mixes[0], mixes[1], K))
    assert found <= 50
