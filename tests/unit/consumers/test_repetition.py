"""The decisions of a shard that are compared: a UTC day at a time, within a bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from consumers.repetition import MAX_ROWS, RepetitionBlock
from monitor.core.counts.cells import Int64s
from monitor.core.counts.clusters import DayClusters, Repetition, find_repetition
from monitor.core.intervals import Floats
from monitor.core.time import DAY, MINUTE

Columns = tuple[Int64s, Floats, Int64s]


def decisions(seed: int, day: int, clusters: int, size: int) -> Columns:
    """Clusters in order of time."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 1_440, clusters)) * MINUTE + day * DAY
    atoms, scores = rng.integers(0, 2, clusters), rng.random(clusters)
    return np.repeat(atoms, size), np.repeat(scores, size), np.repeat(ts, size)


NEXT = (np.array([0]), np.array([0.5]), np.array([9 * DAY]))


def ended(block: RepetitionBlock, columns: Columns, step: int) -> list[Repetition]:
    found: list[Repetition] = []
    atoms, scores, ts = columns
    for first in range(0, len(atoms), step):
        part = slice(first, first + step)
        found += block.add(atoms[part], scores[part], ts[part])
    return found + block.add(*NEXT)


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_a_day_is_compared_when_the_next_begins_however_it_came(step: int) -> None:
    atoms, scores, ts = columns = decisions(1, 3, 40, 5)
    expected = find_repetition(3, atoms, scores, ts // MINUTE)
    assert expected.alike >= 400
    assert ended(RepetitionBlock(), columns, step) == [expected]


def test_days_in_one_batch_are_apart_and_late_ones_are_not_compared() -> None:
    first, second = decisions(1, 3, 40, 5), decisions(2, 4, 30, 5)
    late = decisions(3, 3, 10, 5)
    joined = tuple(np.concatenate(parts) for parts in zip(first, second, late, strict=True))
    block = RepetitionBlock()
    found = block.add(*joined) + block.add(*late) + block.add(*NEXT)
    assert [one.day for one in found] == [3, 4]
    assert [one.tested for one in found] == [200 + 50, 150]


def test_decisions_without_a_score_are_not_compared() -> None:
    atoms, scores, ts = decisions(1, 3, 40, 5)
    assert ended(RepetitionBlock(), (atoms, np.full_like(scores, np.nan), ts), 50) == []


@pytest.mark.parametrize("size", [1, 50])
def test_memory_is_bounded_and_the_size_of_clusters_is_still_seen(size: int) -> None:
    block = RepetitionBlock()
    columns = decisions(5, 3, 300_000 // size, size)
    atoms, scores, ts = columns
    for first in range(0, len(atoms), 5_000):
        part = slice(first, first + 5_000)
        block.add(atoms[part], scores[part], ts[part])
        assert sum(len(rows[0]) for rows in block._rows) <= MAX_ROWS
    (found,) = block.add(*NEXT)
    assert MAX_ROWS / 4 < found.tested <= MAX_ROWS
    assert DayClusters.from_repetition(found).implied_size == pytest.approx(size, rel=0.02)
    assert DayClusters.from_repetition(found).repeats(1) == (size > 1)


def test_one_score_without_end_is_dropped_rather_than_kept() -> None:
    block = RepetitionBlock()
    n = 3 * MAX_ROWS
    block.add(np.zeros(n, np.int64), np.full(n, 0.25), np.full(n, DAY))
    assert block.add(*NEXT) == []
