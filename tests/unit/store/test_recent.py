"""Decisions in memory: what is found is what was added, and memory is bounded."""

from __future__ import annotations

import numpy as np

from monitor.core.time import HOUR
from monitor.store.ingest.recent import RecentDecisions

EVER = -(1 << 62)


def added(recent: RecentDecisions, ids: np.ndarray, hours: np.ndarray) -> None:
    recent.add(hours, ids, hours * HOUR + ids % HOUR, ids * 3, ids % 3)


def test_finds_all_that_was_added_and_nothing_else() -> None:
    recent, rng = RecentDecisions(), np.random.default_rng(1)
    known: set[tuple[int, int]] = set()
    for _ in range(30):
        ids = np.unique(rng.integers(1, 2**62, size=rng.integers(1, 200)))
        hours = rng.integers(480_000, 480_004, size=len(ids))
        added(recent, ids, hours)
        known |= set(zip(hours.tolist(), ids.tolist(), strict=True))
    assert len(recent) == len(known)
    there = np.array(sorted(known))
    hours = np.concatenate([there[:, 0], there[:, 0] + 1])
    found = recent.find(hours, np.tile(there[:, 1], 2), EVER)
    wanted = zip(hours.tolist(), np.tile(there[:, 1], 2).tolist(), strict=True)
    hit = np.array([key in known for key in wanted])
    assert (found.hour[hit] == hours[hit]).all()
    assert (found.hour[~hit] == -1).all()
    ids = found.id[hit]
    assert (ids == np.tile(there[:, 1], 2)[hit]).all()
    assert (found.ts[hit] == hours[hit] * HOUR + ids % HOUR).all()
    assert (found.cell[hit] == ids * 3).all()
    assert (found.request[hit] == ids % 3).all()


def test_a_decision_counts_as_labelled_from_the_second_time_it_is_found() -> None:
    recent, hour, one = RecentDecisions(), np.array([480_000]), np.array([7])
    added(recent, one, hour)
    added(recent, one + 1, hour)
    assert recent.find(hour, one, EVER).labelled.tolist() == [0]
    added(recent, one + 2, hour)
    assert recent.find(hour, one, EVER).labelled.tolist() == [1]
    assert recent.find(hour, one + 1, EVER).labelled.tolist() == [0]


def test_hours_that_were_dropped_are_not_found() -> None:
    recent, hours, ids = RecentDecisions(), np.array([10, 11]), np.array([5, 5])
    added(recent, ids, hours)
    assert recent.find(hours, ids, 11).hour.tolist() == [-1, 11]
    recent.clear()
    assert recent.find(hours, ids, EVER).hour.tolist() == [-1, -1]


def test_the_newest_are_kept_when_there_are_too_many() -> None:
    recent = RecentDecisions(most=100)
    for hour in range(480_000, 480_020):
        added(recent, np.arange(1, 21), np.full(20, hour))
        assert len(recent) <= 100
    hours = np.repeat(np.arange(480_000, 480_020), 20)
    there = recent.find(hours, np.tile(np.arange(1, 21), 20), EVER).hour >= 0
    assert there[-60:].all()
    assert not there[:300].any()
