"""Sizes of units, and pairs of decisions that repeat each other."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from monitor.core.counts.clusters import (
    MIN_TESTED,
    DayClusters,
    Repetition,
    UnitGroup,
    UnitSizes,
    find_repetition,
    population_id,
    units_in_populations,
)
from monitor.core.time import DAY


def sizes(*decisions: tuple[int, int]) -> UnitSizes | None:
    """Of (unit, day) pairs."""
    units, days = np.array(decisions, np.int64).reshape(-1, 2).T
    return UnitSizes.from_decisions(units, days * DAY + 7, units % 2 == 1)


def test_decisions_are_counted_by_unit_and_day() -> None:
    found = sizes((5, 1), (5, 1), (6, 1), (0, 1), (5, 2))
    assert found is not None
    groups = {group: part.table[1].tolist() for group, part in found.by_group().items()}
    assert groups == {UnitGroup(1, 0): [2, 1], UnitGroup(2, 0): [1]}
    assert found.by_group()[UnitGroup(1, 0)].table[2].tolist() == [2, 0]
    assert sizes((0, 1)) is None


def test_a_unit_is_another_one_in_each_population() -> None:
    shop, chat = (population_id((("use", name),)) for name in ("shop", "chat"))
    hashes = np.array([2**62 + 5, 2**62 + 5, 2**62 + 5, 0])
    units = units_in_populations(hashes, np.array([shop, chat, shop, chat]))
    found = UnitSizes.from_decisions(units, np.full(4, 20_786 * DAY), np.full(4, True))
    assert found is not None
    assert {group: part.table[1].tolist() for group, part in found.by_group().items()} == {
        UnitGroup(20_786, shop): [2],
        UnitGroup(20_786, chat): [1],
    }


def test_parts_add_up_to_the_whole() -> None:
    rng = np.random.default_rng(1)
    units, ts = (
        rng.integers(0, 50, 400) << 32 | rng.integers(1, 9, 400),
        rng.integers(0, 3 * DAY, 400),
    )
    served = rng.random(400) < 0.5
    whole = UnitSizes.from_decisions(units, ts, served)
    columns = ((units[at::3], ts[at::3], served[at::3]) for at in range(3))
    parts = [UnitSizes.from_decisions(*part) for part in columns]
    assert whole is not None
    merged = UnitSizes.merged([part for part in parts if part is not None])
    assert merged.table[0].tolist() == whole.table[0].tolist()
    assert merged.table[1].tolist() == whole.table[1].tolist()
    assert merged.table[2].tolist() == whole.table[2].tolist()


def brute(scores: tuple[int, ...], minutes: list[int]) -> int:
    pairs = itertools.combinations(range(len(scores)), 2)
    return sum(scores[i] == scores[j] and minutes[i] == minutes[j] for i, j in pairs)


@pytest.mark.parametrize(
    ("scores", "minutes"),
    [((1, 1, 2, 3, 4, 5), [0, 0, 0, 1, 1, 2]), ((1, 1, 2, 2, 3, 4, 5), [0, 3, 0, 3, 3, 3, 1])],
)
def test_chance_is_the_mean_over_all_orders_of_the_scores(
    scores: tuple[int, ...], minutes: list[int]
) -> None:
    n = len(scores)
    found = find_repetition(4, np.zeros(n, np.int64), np.array(scores, float), np.array(minutes))
    assert found.alike == brute(scores, minutes)
    orders = [brute(order, minutes) for order in itertools.permutations(scores)]
    mean = Fraction(sum(orders), len(orders))
    assert found == Repetition(4, n, found.alike, -(-mean.numerator // mean.denominator))


def day(
    rng: np.random.Generator, scores: int, bursts: float = 0, atoms: int = 8, size: int = 1
) -> DayClusters:
    """A day of 4,000 decisions; a part of them comes in one minute of every hour."""
    n = 4_000 // size
    atom = rng.integers(0, atoms, n)
    score = rng.random(n) if not scores else rng.integers(0, scores, n) / scores
    minute = rng.integers(0, 1_440, n)
    burst = rng.random(n) < bursts
    minute[burst] = minute[burst] // 60 * 60
    return DayClusters.from_repetition(
        find_repetition(0, *(np.repeat(x, size) for x in (atom, score, minute)))  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("bursts", [0, 0.3, 0.95])
@pytest.mark.parametrize("scores", [0, 1_000, 100, 20, 5, 3, 2, 1])
def test_few_scores_and_bursts_of_traffic_are_no_repetition(scores: int, bursts: float) -> None:
    rng = np.random.default_rng((scores, int(100 * bursts)))
    assert not any(day(rng, scores, bursts).repeats(1) for _ in range(10))


@pytest.mark.parametrize("size", [2, 5, 20, 50])
@pytest.mark.parametrize("scores", [0, 1_000])
def test_clusters_are_found_and_their_size_is_estimated(scores: int, size: int) -> None:
    found = day(np.random.default_rng(size), scores, atoms=3, size=size)
    assert found.repeats(1)
    assert found.implied_size == pytest.approx(size, rel=0.1)
    assert not found.repeats(size), "once the setting is right"


def test_a_few_decisions_decide_nothing() -> None:
    alike = DayClusters(tested=MIN_TESTED - 1, alike=10_000)
    assert not alike.repeats(1)
    assert (alike + DayClusters(tested=1)).repeats(1)
    assert DayClusters().implied_size == 1
    assert not DayClusters().repeats(1)


def test_scores_that_are_few_are_not_tested_and_hide_no_others() -> None:
    rng = np.random.default_rng(3)
    minutes = np.concatenate([np.zeros(3_000, np.int64), np.repeat(rng.integers(0, 1_440, 20), 50)])
    atoms = np.repeat([0, 1], [3_000, 1_000])
    scores = np.concatenate([np.full(3_000, 0.5), np.repeat(rng.random(20), 50)])
    found = DayClusters.from_repetition(find_repetition(0, atoms, scores, minutes))
    assert found.tested == 1_000
    assert found.repeats(1)
