"""Dominance from bucket counts against exact shares: what is dominated is never shown."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.cells import COUNTERS
from monitor.core.privacy.dominance import UNIT_COUNTS, UnitCounts, UnitTally, shared_rows
from monitor.core.privacy.release_blocks import BlockTally
from monitor.core.time import DAY, HOUR
from monitor.store.deltas import Payload, decode, encode, summed

K = 11
Decision = tuple[int, int, int]
"""(row, unit, decided_at); unit 0 is none."""


def stream(seed: int, rows: int, most: int) -> list[Decision]:
    """Decisions over some days in which a few units may have the most, in random order."""
    pick = random.Random(seed)
    units = [pick.randrange(1, 2**63) for _ in range(pick.choice((1, 2, 3, 5, 20, 200)))]
    heavy = pick.random() * pick.choice((0.2, 1, 1))
    named = pick.choice((1.0, 1.0, 0.7, 0.2))
    days = pick.choice((1, 2, 5))
    found = []
    for _ in range(pick.randint(0, most)):
        unit = pick.choice(units[:2]) if pick.random() < heavy else pick.choice(units)
        unit = unit if pick.random() < named else 0
        found.append((pick.randrange(rows), unit, pick.randrange(-DAY, (days - 1) * DAY)))
    return found


def exact(decisions: Sequence[Decision], rows: int) -> npt.NDArray[np.bool_]:
    """Rows of which one unit has more than half, or two have more than four fifths."""
    totals = Counter(row for row, _, _ in decisions)
    units: list[Counter[int]] = [Counter() for _ in range(rows)]
    for row, unit, _ in decisions:
        if unit:
            units[row][unit] += 1
    found = np.zeros(rows, bool)
    for row in range(rows):
        shares = [n for _, n in units[row].most_common(2)] + [0, 0]
        one, two = shares[0], shares[0] + shares[1]
        found[row] = 2 * one > totals[row] or 5 * two > 4 * totals[row]
    return found


def counted(decisions: Sequence[Decision], rows: int) -> npt.NDArray[np.int64]:
    numbers = np.zeros(rows, np.int64)
    for row, _, _ in decisions:
        numbers[row] += 1
    return numbers


def tally(decisions: Sequence[Decision], rows: int) -> UnitTally:
    """One batch: what its decisions say of units, by day."""
    total = UnitTally()
    by_day: dict[int, list[Decision]] = {}
    for decision in decisions:
        by_day.setdefault(decision[2] // DAY, []).append(decision)
    for day, part in by_day.items():
        columns = np.array(part, np.int64).reshape(-1, 3)
        found = UnitCounts.of(columns[:, 0], columns[:, 1], columns[:, 2])
        if found is not None:
            total = total + UnitTally({day: found.table(rows)})
    return total


def equal(one: UnitTally, other: UnitTally) -> bool:
    return one.days.keys() == other.days.keys() and all(
        np.array_equal(one.days[day], other.days[day]) for day in one.days
    )


@given(st.integers(0, 10**9))
def test_a_truly_dominated_row_is_always_found(seed: int) -> None:
    decisions = stream(seed, rows=3, most=120)
    found = tally(decisions, 3).dominated(counted(decisions, 3))
    truly = exact(decisions, 3)
    assert (found | ~truly).all()


@given(st.integers(0, 10**9))
def test_batches_and_the_order_they_are_added_in_make_no_difference(seed: int) -> None:
    decisions, pick = stream(seed, rows=3, most=200), random.Random(seed + 1)
    whole = tally(decisions, 3)
    pick.shuffle(decisions)
    cuts = sorted(pick.randint(0, len(decisions)) for _ in range(pick.randint(0, 8)))
    parts = [
        tally(decisions[a:b], 3) for a, b in zip([0, *cuts], [*cuts, len(decisions)], strict=True)
    ]
    while len(parts) > 1:  # merged in any order, as shards and panes come
        parts.append(parts.pop(pick.randrange(len(parts))) + parts.pop(pick.randrange(len(parts))))
    assert equal(parts[0], whole)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=6))
def test_a_union_of_blocks_without_dominance_has_none(seeds: list[int]) -> None:
    blocks = [stream(seed, rows=1, most=80) for seed in seeds]
    shared = [block for block in blocks if not exact(block, 1).any()]
    together = [decision for block in shared for decision in block]
    assert not exact(together, 1).any()


def test_many_units_are_not_taken_for_one() -> None:
    """Of 2,000 small cells of a unit a decision, none waits."""
    pick = np.random.default_rng(7)
    rows = np.repeat(np.arange(2_000), K)
    units = pick.integers(1, 2**62, len(rows))
    found = UnitCounts.of(rows, units, pick.integers(0, DAY, len(rows)))
    assert found is not None
    shares = UnitTally({0: found.table(2_000)})
    assert not shares.dominated(np.full(2_000, K)).any()


@pytest.mark.parametrize(("units", "at_most"), [(3, 0.03), (4, 0.01), (8, 0.0)])
def test_few_equal_units_are_rarely_taken_for_fewer(units: int, at_most: float) -> None:
    """They share a bucket in both hashings by chance, on single days."""
    pick = np.random.default_rng(11)
    names = pick.integers(1, 2**62, units)
    days = 2_000
    rows = np.repeat(np.arange(days), units)
    found = UnitCounts.of(rows, np.tile(names, days), rows * DAY)
    assert found is not None
    tables = found.table(days)
    waits = [
        UnitTally({0: tables[[day]]}).dominated(np.array([units])).any() for day in range(days)
    ]
    assert np.mean(waits) <= at_most


def test_the_thresholds_are_exceeded_only_beyond_half_and_four_fifths() -> None:
    """Each side of both edges, with units that share no bucket."""
    for numbers, dominated in (
        ((5, 1, 1, 1, 1, 1), False),
        ((6, 1, 1, 1, 1, 1), True),
        ((4, 4, 1, 1), False),
        ((5, 5, 1, 1), True),
    ):
        day = _day_without_collision(len(numbers))
        units = np.repeat(np.arange(1, len(numbers) + 1) * 7919, numbers)
        found = UnitCounts.of(np.zeros_like(units), units, np.full_like(units, day * DAY))
        assert found is not None
        shares = UnitTally({day: found.table(1)})
        assert shares.dominated(np.array([sum(numbers)])).tolist() == [dominated], numbers


def _day_without_collision(units: int) -> int:
    names = np.arange(1, units + 1) * 7919
    for day in range(1_000):
        found = UnitCounts.of(np.zeros_like(names), names, np.full_like(names, day * DAY))
        assert found is not None
        if len(found.places) == UNIT_COUNTS // 32 * units:
            return day
    raise AssertionError("units always share a bucket")


def test_a_unit_is_recognised_across_a_change_of_the_key() -> None:
    """Half before midnight, half after it by another hash: still one unit in the bound."""
    before = [(0, 12345, 23 * HOUR)] * 6 + [(0, unit, 23 * HOUR) for unit in range(1, 5)]
    after = [(0, 98765, 25 * HOUR)] * 6 + [(0, unit, 25 * HOUR) for unit in range(11, 15)]
    assert tally(before + after, 1).dominated(np.array([20])).all()


def test_decisions_without_a_unit_are_of_a_unit_each() -> None:
    decisions = [(0, 5, HOUR)] * 10 + [(0, 0, HOUR)] * 10
    shares = tally(decisions, 1)
    assert not shares.dominated(np.array([20])).any()
    assert shares.dominated(np.array([19])).all()


def test_a_dominated_row_counts_as_too_small_for_decisions_and_labels() -> None:
    decisions = [(0, unit, HOUR) for unit in range(1, 41)] + [(1, 77, HOUR)] * 40
    labels = np.full((2, 2, 2), K)
    by_route = np.zeros((2, 3), np.int64)
    by_route[:, 0] = 40
    assert BlockTally(by_route, labels).decided(K)
    assert BlockTally(by_route, labels).labelled(K)
    open_block = BlockTally(by_route, labels, tally(decisions, 2))
    assert not open_block.decided(K)
    assert not open_block.labelled(K)
    more = [(1, unit, HOUR) for unit in range(1, 45)]
    by_route = np.array([[0, 0, 0], [44, 0, 0]])
    open_block = open_block + BlockTally(by_route, 0 * labels, tally(more, 2))
    assert open_block.decided(K)
    assert open_block.labelled(K)


@given(st.integers(0, 10**9))
def test_rows_that_are_shown_by_themselves_leave_a_rest_without_dominance(seed: int) -> None:
    decisions = stream(seed, rows=6, most=400)
    numbers = counted(decisions, 6)
    units = tally(decisions, 6)
    kept = shared_rows(units, numbers, 2)
    truly = exact(decisions, 6)
    assert 2 not in kept
    assert not truly[kept].any()
    rest = [(0, unit, at) for row, unit, at in decisions if row not in kept]
    if kept:
        assert not exact(rest, 1).any()


def test_the_smallest_rows_join_a_dominated_one_and_no_more_than_it_takes() -> None:
    sizes = {0: 30, 1: 0, 2: 12, 3: 25, 4: 200}  # row 1 takes others in
    decisions = [(row, 1000 * row + i, HOUR) for row, size in sizes.items() for i in range(size)]
    assert shared_rows(tally(decisions, 5), counted(decisions, 5), 1) == [0, 2, 3, 4]
    decisions[:30] = [(0, 7 if i < 20 else i, HOUR) for i in range(30)]
    assert shared_rows(tally(decisions, 5), counted(decisions, 5), 1) == [3, 4]
    decisions[:30] = [(0, 7, HOUR)] * 30
    assert shared_rows(tally(decisions, 5), counted(decisions, 5), 1) == [4]
    decisions[:30] = [(0, 7, HOUR)] * 3000
    assert shared_rows(tally(decisions, 5), counted(decisions, 5), 1) == []


def payload(seed: int) -> tuple[Payload, list[Decision]]:
    decisions, pick = stream(seed, rows=20, most=200), random.Random(seed)
    columns = np.array(decisions, np.int64).reshape(-1, 3)
    values = np.zeros((20, COUNTERS), np.int64)
    values[:, 0] = counted(decisions, 20)
    kept = values[:, 0] > 0
    rows = (np.cumsum(kept) - 1)[columns[:, 0]]
    size = int(kept.sum())
    none = np.empty(0, np.int64)
    body = Payload(
        np.array([pick.randrange(4) for _ in range(size)], np.int64),
        np.array([pick.randrange(4) for _ in range(size)], np.int64),
        values[kept],
        none,
        none,
        UnitCounts.of(rows, columns[:, 1], columns[:, 2]),
    )
    return body, decisions


@given(st.integers(0, 10**9))
def test_a_payload_keeps_its_units(seed: int) -> None:
    before, _ = payload(seed)
    after = decode(encode(before)).units
    if before.units is None:
        assert after is None
        return
    assert after is not None
    assert np.array_equal(before.units.places, after.places)
    assert np.array_equal(before.units.n, after.n)


@given(st.integers(0, 10**9))
def test_summing_rows_adds_their_units(seed: int) -> None:
    before, _ = payload(seed)
    after = summed(before)
    assert _by_cell(before) == _by_cell(after)


def _by_cell(body: Payload) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    if body.units is not None:
        tables = body.units.table(len(body.panes))
        for pane, cell, row in zip(body.panes, body.cells, tables, strict=True):
            known = found.get((int(pane), int(cell)), [0] * UNIT_COUNTS)
            found[int(pane), int(cell)] = (np.array(known) + row).tolist()
    return {key: row for key, row in found.items() if any(row)}
