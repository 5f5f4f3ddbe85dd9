"""The design effect of units: brute force, what rounding costs, and what it may not tell."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from monitor.core.counts.cells import Int64s
from monitor.core.counts.clusters import DayClusters, UnitSizes
from monitor.core.tables.bands import at_least
from monitor.core.tables.design_effect import effect_rounded_up, likeness, published_effect
from monitor.core.time import DAY

K = 11


def sums(units: Int64s, served: Int64s) -> DayClusters:
    """Sums over all units of one day; unit 0 is none."""
    sizes = UnitSizes.from_decisions(units, np.full(len(units), DAY), served > 0)
    return DayClusters() if sizes is None else sizes.sums


def effect(units: Int64s, served: Int64s, k: int = K) -> float:
    """The effect of one day alone."""
    day = sums(units, served)
    return published_effect([(day, len(units))], [day], k)


def random_day(seed: int, *, rate: float = 0.6, n: int = 400) -> tuple[Int64s, Int64s]:
    rng = np.random.default_rng(seed)
    units = rng.integers(1, 40, n)
    return units, (rng.random(n) < np.where(units % 3 == 0, rate, rate / 2)).astype(np.int64)


def test_likeness_is_that_of_all_pairs_in_units() -> None:
    """Each day is compared with its own rate: drifting rates are no likeness."""
    days = [random_day(1, rate=0.9), random_day(2, rate=0.3)]
    alike = by_chance = 0.0
    for units, served in days:
        rate = served.mean()
        pairs = [(a, b) for a, b in combinations(range(len(units)), 2) if units[a] == units[b]]
        alike += sum((served[a] - rate) * (served[b] - rate) for a, b in pairs)
        by_chance += len(pairs) * rate * (1 - rate)
    assert likeness([sums(*day) for day in days]) == pytest.approx(alike / by_chance)


def test_of_one_day_the_effect_is_that_of_squares() -> None:
    """As Rao and Scott have it: what each unit has beyond its share, squared."""
    units, served = random_day(3, rate=0.9)
    rate = served.mean()
    beyond = [(served[units == unit] - rate).sum() ** 2 for unit in np.unique(units)]
    found = 1 + likeness([sums(units, served)]) * sum(
        (units == unit).sum() * ((units == unit).sum() - 1) for unit in np.unique(units)
    ) / len(units)
    assert found == pytest.approx(np.sum(beyond) / (len(units) * rate * (1 - rate)))


def test_single_decisions_have_an_effect_of_exactly_one() -> None:
    rng = np.random.default_rng(1)
    alike = sums(np.repeat(np.arange(1, 41), 50), np.repeat(rng.integers(0, 2, 40), 50))
    for units in (np.arange(1, 1_001), np.zeros(1_000, np.int64)):
        day = sums(units, rng.integers(0, 2, 1_000))
        assert published_effect([(day, 1_000)], [alike, day], K) == 1


@pytest.mark.parametrize("size", [2, 48])
def test_units_that_are_alike_have_the_effect_of_their_sizes(size: int) -> None:
    rng = np.random.default_rng(2)
    units = np.repeat(np.arange(1, 41), size)
    served = np.repeat(rng.integers(0, 2, 40), size)
    assert effect(units, served) == size
    half = np.concatenate([units, np.zeros(len(units), np.int64)])
    among_others = np.concatenate([served, rng.integers(0, 2, len(units))])
    assert effect(half, among_others) == effect_rounded_up((size + 1) / 2)


def test_the_effect_is_by_the_sizes_of_the_span_and_the_likeness_of_all_days() -> None:
    alike, single = DayClusters(400, 8, 200, 3_200, 1_600, 1_600), DayClusters(400, 1, 8, 400, 8, 8)
    all_served = DayClusters(400, 8, 400, 3_200, 3_200, 3_200)
    recent = [alike, single, all_served]
    assert published_effect([(alike, 400)], recent, K) == 8
    assert published_effect([(all_served, 400)], recent, K) == 8
    assert published_effect([(single, 400)], recent, K) == 1
    assert published_effect([(alike, 400), (single, 3_600)], recent, K) == 2
    assert published_effect([(all_served, 400)], [all_served], K) == 1, "nothing is known of it"


def test_independent_decisions_of_units_have_no_effect() -> None:
    rng = np.random.default_rng(3)
    units = np.repeat(np.arange(1, 1_001), 3)
    days = [sums(units, (rng.random(3_000) < 0.7).astype(np.int64)) for _ in range(28)]
    assert published_effect([(days[0], 3_000)], days, K) == 1
    alone = [published_effect([(day, 3_000)], [day], K) for day in days]
    assert set(alone) <= {1.0, 1.2}


def test_rounding_adds_at_most_a_half() -> None:
    effects = np.concatenate([np.linspace(1, 4, 500), np.geomspace(4, 10_000, 500)])
    shown = np.array([effect_rounded_up(number) for number in effects])
    assert (shown >= effects / 1.05).all()
    assert (shown[effects > 1.5] / effects[effects > 1.5]).max() <= 1.5
    assert len(set(shown.tolist())) < 30


@pytest.mark.parametrize("n", [10, 21, 60, 300])
@pytest.mark.parametrize("served", [0, 1, 8, 10, 11, 25])
@pytest.mark.parametrize("named", [1.0, 0.5])
def test_the_effect_tells_of_sizes_and_routes_no_more_than_bands(
    n: int, served: int, named: float
) -> None:
    """The largest effect is that of two units, one served and one not.

    So an effect that is not rounded up to more than the lower edges of the bands of both counts
    is possible whatever numbers of these bands the counts are.
    """
    served = min(served, n)
    routes = np.repeat([1, 0], [served, n - served])
    units = np.where(np.arange(n) % 10 < 10 * named, 2 - routes, 0)
    told = effect(units, routes)
    below = max(step for step in (0, *steps()) if step < told) if told > 1 else 0
    assert below < max(at_least(min(served, n - served), K), 1)
    assert below < max(at_least(n, K), 1)


def steps() -> list[float]:
    return sorted({effect_rounded_up(number) for number in np.geomspace(1, 1_000, 5_000).tolist()})
