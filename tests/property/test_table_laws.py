"""Laws of the guard of published tables: what it may depend on, and what it must leave."""

from __future__ import annotations

import numpy as np
import pytest
from adversary.table_worlds import (
    NONE,
    READY,
    Ints,
    K,
    TableWorld,
    Traffic,
    closed_span,
    published,
    random_world,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.tables.bands import Detail, row_rule
from monitor.core.tables.narrowing import ANY, Sums, narrowed
from monitor.core.tables.reader import Measure, Reader, Table
from monitor.core.tables.row_counts import Column
from monitor.core.tables.spans import SpanKind
from monitor.core.tables.table_rule import values_left

HOUR, DAY, WEEK, FOUR_WEEKS = SpanKind


def world(seed: int, **changes: object) -> TableWorld:
    traffic = {"daily": 120, "sizes": (3, 2), "days": 7, "late": 0.02} | changes
    return random_world("law", seed, Traffic(**traffic))  # type: ignore[arg-type]


def told(tables: list[Table]) -> list[object]:
    return [
        (t.key, t.bands.detail.tolist(), t.bands.low.tolist(), t.bands.high.tolist())
        for t in tables
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_past_makes_no_difference(seed: int) -> None:
    one = world(seed)
    days = [table for table in published(one) if table.span.kind is DAY]
    (span,) = (span for span in one.spans if span.kind is WEEK)
    other = [days[i] for i in np.random.default_rng(seed).permutation(len(days))]
    weeks = [closed_span(one, span, None, past).decision_table() for past in (days, other)]
    assert told(list(weeks[0])) == told(list(weeks[1]))


def moved(counts: Ints, day: int, other: int, atom: int) -> Ints:
    """One served decision of a day happens on another day."""
    changed = counts.copy()
    changed[day, atom, 0, NONE, NONE, 0] -= 1
    changed[other, atom, 0, NONE, NONE, 0] += 1
    return changed


def test_worlds_that_show_the_same_days_show_the_same_week() -> None:
    found = 0
    for seed in range(5):
        one = world(seed, late=0)
        rng = np.random.default_rng(seed)
        for _ in range(4):
            day, other = rng.choice(7, 2, replace=False)
            atom = int(np.argmax(one.counts[day, :, 0, NONE, NONE, 0]))
            counts = moved(one.counts, day, other, atom)
            two = TableWorld("moved", one.sizes, counts, one.kinds, one.group_bys)
            before, after = published(one), published(two)
            if told(before[:-1]) == told(after[:-1]):
                found += 1
                assert told(before) == told(after)
    assert found >= 3


@pytest.mark.parametrize("seed", range(3))
def test_bulk_is_as_live(seed: int) -> None:
    """Each table made alone from its own past, and all in one go."""
    live = world(seed, audits=(0.6,), missing=0.05, corrected=0.05, daily=200)
    at_once = published(live)
    half = TableWorld("half", live.sizes, live.counts[:4], live.kinds, live.group_bys, labels=True)
    first = {table.key: told([table]) for table in published(half)}
    assert first == {t.key: told([t]) for t in at_once if t.key in first}


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_intervals_leave_enough_and_hold_the_truth(seed: int) -> None:
    """In worlds in which no row is withheld: a reader takes such a row for one below k."""
    made = world(seed, audits=(0.8,), missing=0.05, corrected=0.03, late=0)
    tables = [t for t in published(made) if t.measure is Measure.DECISIONS]
    low, high = Reader(tables).before
    truth = np.concatenate(
        [_cells(made.rows_of(table.span, None)[Column.DECISIONS]).ravel() for table in tables]
    )
    assert ((low <= truth) & (truth <= high)).all()
    assert (high - low + 1)[truth < K].min() >= values_left(K)


def _cells(counts: Ints) -> Ints:
    return np.concatenate([counts.sum(axis=1, keepdims=True), counts], axis=1)


@pytest.mark.parametrize("late", [0.02, 0.3])
def test_late_counts_never_stop_the_guard(late: float) -> None:
    made = world(1, daily=600, late=late)
    tables = published(made)
    assert any((t.bands.detail == Detail.COUNTS).any() for t in tables if t.span.kind is WEEK)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_narrowing_keeps_the_truth_and_only_narrows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = rng.integers(0, 60, (4, 3))
    rows = np.concatenate([parts.sum(axis=0, keepdims=True), parts])
    cells = np.concatenate([rows.sum(axis=1, keepdims=True), rows], axis=1)
    bands = row_rule(rows, K)
    number = np.arange(cells.size).reshape(cells.shape)
    sums = [Sums.from_cells(number[:, 0], number[:, 1:]), Sums.from_cells(number[0], number[1:].T)]
    low, high = narrowed(bands.low.ravel(), bands.high.ravel(), Sums.join(sums))
    assert ((low >= bands.low.ravel()) & (high <= bands.high.ravel())).all()
    assert ((low <= cells.ravel()) & (cells.ravel() <= high)).all()


def test_a_guess_that_is_refuted_is_given_up() -> None:
    """The parts are more than the whole: somebody corrected, and nobody learns from it."""
    low, high = np.array([11, 22, 22]), np.array([21, 32, 32])
    doubted = Sums.from_cells(0, [[1, 2]], doubtful=True)
    for found, before in zip(narrowed(low, high, doubted), (low, high), strict=True):
        np.testing.assert_array_equal(found, before)


def test_more_than_the_parts_is_late_counts() -> None:
    low, high = np.array([77, 22, 22]), np.array([87, 32, 32])
    doubted = Sums.from_cells(0, [[1, 2]], doubtful=True)
    for found, before in zip(narrowed(low, high, doubted), (low, high), strict=True):
        np.testing.assert_array_equal(found, before)


def test_a_part_that_no_table_has_leaves_the_whole_at_least_the_sum() -> None:
    cells = [np.array([1]), None]
    sums = Sums.tied(np.array([0]), cells)
    low, high = narrowed(np.array([0, 33]), np.array([ANY, 43]), sums)
    assert (low.tolist(), high.tolist()) == ([33, 33], [ANY, 43])
    low, high = narrowed(np.array([0, 0]), np.array([20, 43]), sums)
    assert high.tolist() == [20, 20]


def test_a_single_late_label_changes_no_final_edition() -> None:
    made = world(2, audits=(1.0,))
    one = made.counts.copy()
    spot = np.argwhere(one[:, :, :, READY, READY, 0] > 0)[0]
    place = tuple(int(i) for i in spot)
    one[(*place, READY, READY, 0)] -= 1
    one[(*place, NONE, READY, 0)] += 1
    tables = published(TableWorld("late", made.sizes, one, made.kinds, made.group_bys, labels=True))
    weeks = [t for t in tables if t.span.kind is WEEK and t.measure is not Measure.DECISIONS]
    by_edition = {edition: told_of(weeks, edition) for edition in ("first", "final")}
    assert by_edition["first"] == by_edition["final"]


def told_of(tables: list[Table], edition: str) -> list[object]:
    return [(t.measure, t.bands.low.tolist()) for t in tables if t.edition == edition]
