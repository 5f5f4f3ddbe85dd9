"""The row rule and the table rule, case by case."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Coarseness, Detail, edges, row_rule
from monitor.core.tables.label_tables import label_tables
from monitor.core.tables.layout import TOTAL, Layout, Row
from monitor.core.tables.narrowing import ANY
from monitor.core.tables.reader import Frame, Measure, Table
from monitor.core.tables.spans import Edition, Span, SpanKind
from monitor.core.tables.table_rule import Draft, publish, values_left

K = 11
DAY = Span(SpanKind.DAY, 0)
ONE_ROW = Layout((TOTAL,), ())
PARTS = ("served", "reviewed")


@dataclass(frozen=True)
class Case:
    """A row and what it shows: (low, high) of its size and of each count."""

    counts: tuple[int, ...]
    detail: Detail
    shown: tuple[tuple[int, int], ...]
    coarseness: Coarseness = Coarseness.FINE
    k: int = K


HIDDEN, SIZE, COUNTS = Detail
ROWS = {
    "empty": Case((0, 0), HIDDEN, ((0, 10), (0, 10), (0, 10))),
    "one below k": Case((6, 4), HIDDEN, ((0, 10), (0, 10), (0, 10))),
    "k": Case((6, 5), SIZE, ((11, 21), (0, 21), (0, 21))),
    "all of one route": Case((21, 0), COUNTS, ((11, 31), (11, 21), (0, 10))),
    "two small parts": Case((10, 10), SIZE, ((11, 21), (0, 21), (0, 21))),
    "never served": Case((0, 300), COUNTS, ((297, 317), (0, 10), (297, 307))),
    "three small parts": Case((9, 9, 9), SIZE, ((22, 32), (0, 32), (0, 32), (0, 32))),
    "three parts": Case((12, 10, 0), COUNTS, ((11, 41), (11, 21), (0, 10), (0, 10))),
    "a twentieth wide": Case((1000, 40), COUNTS, ((1012, 1065), (979, 1022), (33, 43))),
    "coarse": Case((40, 4), COUNTS, ((33, 64), (33, 54), (0, 10)), Coarseness.COARSE),
    "coarser": Case((40, 4), COUNTS, ((11, 64), (11, 54), (0, 10)), Coarseness.COARSER),
    "size alone": Case((40, 4), SIZE, ((44, 54), (0, 54), (0, 54)), Coarseness.SIZE_ALONE),
    "withheld": Case((40, 4), HIDDEN, ((0, 10), (0, 10), (0, 10)), Coarseness.WITHHELD),
    "exact": Case((2, 0), COUNTS, ((2, 2), (2, 2), (0, 0)), k=1),
    "k of 5": Case((6, 4), COUNTS, ((5, 13), (5, 9), (0, 4)), k=5),
}


@pytest.mark.parametrize("name", ROWS)
def test_row_rule(name: str) -> None:
    case = ROWS[name]
    bands = row_rule(np.array([case.counts]), case.k, case.coarseness)
    shown = tuple(zip(bands.low[0].tolist(), bands.high[0].tolist(), strict=True))
    assert (bands.detail[0], shown) == (case.detail, case.shown)


@pytest.mark.parametrize("k", [2, 5, 11, 40])
@pytest.mark.parametrize("step", list(Coarseness)[:3])
def test_a_band_holds_its_count_and_is_k_wide_and_not_much_more(k: int, step: Coarseness) -> None:
    counts = np.unique(np.geomspace(2 * k, 1e7, 400).astype(np.int64))
    bands = row_rule(np.stack([counts, counts], axis=1), k, step)
    low, high = bands.low[:, 1], bands.high[:, 1]
    assert ((low <= counts) & (counts <= high)).all()
    width, share = high - low + 1, (20, 10, 5)[step]
    assert (width >= k).all()
    assert (width[low > 100 * k] <= low[low > 100 * k] / share).all()
    assert ((low % k == 0) & (width % k == 0)).all()


def test_coarser_steps_say_less_and_keep_what_is_below_k() -> None:
    for step in list(Coarseness)[:3]:
        assert edges(K, step)[:2].tolist() == [0, K]
    assert [values_left(k) for k in (1, 11)] == [1, 8]


def decisions(layout: Layout, counts: object, span: Span = DAY) -> Draft:
    return Draft(Frame(span, layout, PARTS), Measure.DECISIONS, np.array(counts, np.int64))


def tier(values: int) -> Layout:
    return Layout.for_group_bys({"tier": [f"v{i}" for i in range(values)]}, [("tier",)])


def members(values: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    atoms = [f"tier=v{i}" for i in range(values)]
    return tier(values).count(atoms, np.eye(values, dtype=np.int64)[:, None])


TABLES = {
    "nothing is tied": ([[40, 4]], [COUNTS, COUNTS]),
    "loose": ([[60, 60], [30, 4], [25, 40]], [COUNTS] * 4),
    "all at their upper ends, so that the total would leave 10 of the last": (
        [[21, 60]] * 8 + [[10, 60]],
        [COUNTS] * 10,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_table_rule(name: str) -> None:
    atoms, detail = TABLES[name]
    rows = members(len(atoms)) @ np.array(atoms)
    (table,) = publish([decisions(tier(len(atoms)), rows)], [], K)
    assert table.bands.detail.tolist() == detail
    low, high = table.bands.low, table.bands.high
    left = high[0, 1] - low[1:, 1].sum() + low[1:, 1], low[0, 1] - high[1:, 1].sum() + high[1:, 1]
    small = rows[1:, 0] < K
    widths = np.minimum(left[0], high[1:, 1]) - np.maximum(left[1], low[1:, 1]) + 1
    assert (widths[small] >= values_left(K)).all()


def test_the_total_is_coarsened_where_it_would_give_a_count_away() -> None:
    atoms = np.array([[21, 60]] * 8 + [[10, 60]])
    rows = members(9) @ atoms
    plain = row_rule(rows, K)
    assert plain.low[0, 1] - plain.high[1:-1, 1].sum() > 2
    (table,) = publish([decisions(tier(9), rows)], [], K)
    assert table.bands.high[0, 1] - table.bands.low[0, 1] > plain.high[0, 1] - plain.low[0, 1]
    np.testing.assert_array_equal(table.bands.low[1:], plain.low[1:])


def test_an_older_table_is_protected_by_the_newer_one() -> None:
    days = Span(SpanKind.WEEK, 0).parts
    counts = [[21, 60]] * 6 + [[10, 60]]
    past = [
        publish([decisions(ONE_ROW, [row], day)], [], K)[0]
        for row, day in zip(counts, days, strict=True)
    ]
    (week,) = publish([decisions(ONE_ROW, np.sum([counts], axis=1), days[0])], [], K)
    alone = week.bands
    made = publish([decisions(ONE_ROW, np.sum([counts], axis=1), Span(SpanKind.WEEK, 0))], past, K)
    low = made[0].bands.low[0, 1] - 6 * 21
    assert alone.low[0, 1] - 6 * 21 > low or low <= 3


def test_a_complement_is_shown_only_where_its_slice_is() -> None:
    layout = Layout.for_group_bys({"tier": ("a", "b", "c")}, [("tier",)], complements=True)
    counts = np.array([[[50, 40]], [[3, 2]], [[70, 80]]])
    rows = layout.count(["tier=a", "tier=b", "tier=c"], counts)
    (table,) = publish([decisions(layout, rows)], [], K)
    detail = dict(zip(layout.rows, table.bands.detail.tolist(), strict=True))
    assert detail[Row("tier=b")] == HIDDEN
    assert detail[Row("tier=b", complement=True)] == HIDDEN
    assert detail[Row("tier=a", complement=True)] == COUNTS


def test_rows_that_nobody_declared_are_never_shown() -> None:
    values = {"a": ("x", "y"), "b": ("x", "y"), "c": ("x", "y")}
    layout = Layout.for_group_bys(values, [("a", "b"), ("b", "c")])
    assert sorted(str(layout.rows[i]) for i in layout.undeclared) == ["b=x", "b=y"]
    atoms = [f"a={a},b={b},c={c}" for a in "xy" for b in "xy" for c in "xy"]
    (table,) = publish([decisions(layout, layout.count(atoms, np.full((8, 1, 2), 90)))], [], K)
    assert set(np.flatnonzero(table.bands.detail == HIDDEN).tolist()) == layout.undeclared


def labels(ready: object, not_ready: object) -> Int64s:
    return np.array([[ready], [not_ready]], np.int64)


LABELS = {
    # (ready, not ready) by route, and what their rows show.
    "all large": ((60, 90), (30, 120), COUNTS),
    "few ready": ((8, 9), (60, 120), COUNTS),
    "a route of few labels": ((6, 90), (4, 120), COUNTS),
    "no count of k": ((8, 9), (10, 3), HIDDEN),
    "none": ((0, 0), (0, 0), HIDDEN),
}


def test_a_hidden_row_of_labels_says_nothing() -> None:
    made = label_tables(Frame(DAY, ONE_ROW, PARTS), labels((6, 9), (4, 9)), [], K)
    assert [table.bands.high.min() for table in made] == [ANY, ANY]


@pytest.mark.parametrize("name", LABELS)
def test_which_rows_show_their_labels(name: str) -> None:
    ready, not_ready, expected = LABELS[name]
    made = label_tables(Frame(DAY, ONE_ROW, PARTS), labels(ready, not_ready), [], K)
    assert [table.bands.detail[0] for table in made] == [expected, expected]


def final(changed: int, first: Int64s, later: Int64s) -> tuple[Table, ...]:
    frame = Frame(Span(SpanKind.WEEK, 0), ONE_ROW, PARTS)
    tables = label_tables(frame, first, [], K)
    return label_tables(frame, later, tables, K, np.array([changed]))


def test_a_final_edition_differs_only_where_k_labels_changed() -> None:
    first = labels((60, 90), (30, 120))
    later = labels((99, 90), (70, 120))
    kept, moved = final(K - 1, first, later), final(K, first, later)
    before = label_tables(Frame(Span(SpanKind.WEEK, 0), ONE_ROW, PARTS), first, [], K)
    assert {table.edition for table in (*kept, *moved)} == {Edition.FINAL}
    np.testing.assert_array_equal(kept[0].bands.low, before[0].bands.low)
    np.testing.assert_array_equal(moved[0].bands.low, row_rule(later[0], K).low)


def test_k_of_one_shows_exact_numbers() -> None:
    (table,) = publish([decisions(tier(2), [[3, 1], [3, 0], [0, 1]])], [], 1)
    np.testing.assert_array_equal(table.bands.low, table.bands.high)
    assert table.bands.low[:, 1:].tolist() == [[3, 1], [3, 0], [0, 1]]
