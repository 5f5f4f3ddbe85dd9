"""The size that bets are divided by: an upper bound on the largest unit of a day."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from monitor.core.counts.cells import COUNTERS
from monitor.core.counts.clusters import (
    DayClusters,
    Repetition,
    UnitGroup,
    UnitSizes,
    units_in_populations,
)
from monitor.core.time import DAY
from monitor.evaluate import clusters
from monitor.evaluate.clusters import ClusterDays
from monitor.records import Shard
from monitor.store.deltas import Payload, StoredDelta

_NONE = np.zeros(0, np.int64)
SHOP, CHAT = 1, 2
FIRST = UnitGroup(1, SHOP)


def delta(
    units: list[int],
    day: int = 1,
    repetition: tuple[Repetition, ...] = (),
    served: bool = False,
    population: int = SHOP,
) -> StoredDelta:
    coded = units_in_populations(np.array(units, np.int64), np.full(len(units), population))
    days, routes = np.full(len(units), day * DAY), np.full(len(units), served)
    sizes = UnitSizes.from_decisions(coded, days, routes)
    counts = _NONE, _NONE, np.zeros((0, COUNTERS), np.int64)
    payload = Payload(*counts, _NONE, _NONE, sizes=sizes, repetition=repetition)
    return StoredDelta(Shard("d", 0), 1, payload)


def test_a_unit_is_counted_over_all_deltas_and_shards() -> None:
    days = ClusterDays()
    assert days.largest_unit(24) == 1
    added = [days.take([delta([7, 8]), delta([7])]), days.take([delta([8, 8, 9], served=True)])]
    assert [one[FIRST].largest for one in added] == [2, 1]
    assert days.groups[FIRST] == DayClusters(
        named=6, largest=3, served=3, size_squares=4 + 9 + 1, size_times_served=2 * 3 + 1,
        served_squares=4 + 1,
    )  # fmt: skip
    assert [days.largest_unit(hour) for hour in (23, 24, 47, 48)] == [1, 3, 3, 1]


@pytest.mark.parametrize("restart", [False, True], ids=["by memory", "by restarts"])
def test_what_is_forgotten_makes_the_bound_larger_and_never_too_small(
    restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    monkeypatch.setattr(clusters, "MAX_UNITS", 10**9 if restart else 20)
    days, stored, true = ClusterDays(), dict[UnitGroup, DayClusters](), np.zeros(40, np.int64)
    seen = []
    for cycle in range(60):
        units = rng.integers(1, 40, 5)
        np.add.at(true, units, 1)
        for group, more in days.take([delta(units.tolist())]).items():
            stored[group] = stored.get(group, DayClusters()) + more
        assert days.groups == stored
        seen.append(days.largest_unit(24))
        assert seen[-1] >= true.max()
        if restart and cycle % 20 == 19:
            days = ClusterDays(dict(stored))
    assert all(before <= after for before, after in pairwise(seen))
    assert stored[FIRST].named == true.sum()
    assert stored[FIRST].size_squares <= (true**2).sum()


def test_units_of_two_use_cases_are_counted_apart() -> None:
    days = ClusterDays()
    days.take([delta([7, 7, 7]), delta([7, 8], population=CHAT, served=True)])
    assert {group: facts.named for group, facts in days.groups.items()} == {
        FIRST: 3,
        UnitGroup(1, CHAT): 2,
    }
    assert days.groups[UnitGroup(1, CHAT)].served_squares == 2
    assert days.largest_unit(24) == 3


def test_repetition_is_judged_by_the_last_two_days_that_were_compared() -> None:
    def found(day: int, alike: int) -> DayClusters:
        days.take([delta([], day, (Repetition(day, 1_000, alike, 10),))])
        return days.recent

    days = ClusterDays()
    assert not days.repeats(1)
    found(3, 5_000)
    assert days.repeats(1)
    assert found(5, 0).tested == 2_000
    assert days.repeats(1)
    assert found(6, 0).alike == 0
    assert not days.repeats(1)


def test_days_that_no_cohort_needs_are_forgotten() -> None:
    days = ClusterDays()
    days.take([delta([7], 1), delta([7, 7], 2)])
    days.forget(2 * 24 + 5)
    assert {group.day for group in days.groups} == {2}
    assert days.largest_unit(24) == 1
    assert days.largest_unit(48) == 2
