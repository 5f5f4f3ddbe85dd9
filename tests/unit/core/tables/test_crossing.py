"""Slices that cross: which rows they are, and that labels of them are not pinned together."""

from __future__ import annotations

import numpy as np

from monitor.core.tables.bands import Detail
from monitor.core.tables.label_tables import label_tables
from monitor.core.tables.layout import TOTAL, Layout, Row
from monitor.core.tables.reader import Frame, Measure
from monitor.core.tables.spans import Span, SpanKind
from monitor.core.tables.table_rule import Draft, publish

VALUES = {"city": ("oslo", "rome"), "tier": ("a", "b")}
LAYOUT = Layout.for_group_bys(VALUES, [("city",), ("tier",), ("city", "tier")], complements=True)
ATOMS = ["city=oslo,tier=a", "city=oslo,tier=b", "city=rome,tier=a", "city=rome,tier=b"]
FRAME = Frame(Span(SpanKind.DAY, 0), LAYOUT, ("review",))


def test_each_pair_of_slices_crosses_in_either_order() -> None:
    names = {
        tuple(str(LAYOUT.rows[row]) for row in crossing[:4]) for crossing in LAYOUT.crossings.T
    }
    assert ("city=oslo,tier=a", "city=oslo", "tier=a", "") in names
    assert ("city=oslo,tier=a", "tier=a", "city=oslo", "") in names
    assert len(names) == len(LAYOUT.crossings.T) == 8


def test_slices_of_one_attribute_never_cross() -> None:
    alone = Layout.for_group_bys(VALUES, [("city",), ("tier",)])
    assert alone.crossings.shape == (6, 0)


def test_the_sums_of_a_crossing_hold_its_slices() -> None:
    for _, one, other, over, number, other_number in LAYOUT.crossings.T.tolist():
        for row, place in ((one, number), (other, other_number)):
            whole, parts = LAYOUT.sums[place]
            assert whole == over
            assert row in parts


def shown(ready: list[int], not_ready: list[int]) -> dict[tuple[Measure, Row], Detail]:
    counts = np.array([ready, not_ready])[:, :, None]
    rows = np.stack([LAYOUT.count(ATOMS, column[:, None]) for column in counts])
    (decisions,) = publish([Draft(FRAME, Measure.DECISIONS, rows.sum(axis=0))], [], 11)
    return {
        (table.measure, row): Detail(detail)
        for table in label_tables(FRAME, rows, [decisions], 11)
        for row, detail in zip(LAYOUT.rows, table.bands.detail.tolist(), strict=True)
    }


def test_a_label_in_a_higher_band_of_a_slice_nearly_the_same_is_not_told() -> None:
    """40 decisions are in oslo and a, 2 beside: 10 labels say ready in oslo, 11 in a."""
    told = shown([10, 0, 1, 0], [30, 1, 0, 0])
    ready = [told[Measure.READY, Row(name)] for name in ("city=oslo", "tier=a")]
    assert Detail.HIDDEN in ready
    apart = shown([60, 40, 45, 50], [50, 40, 60, 45])
    assert {apart[Measure.READY, Row(name)] for name in ("city=oslo", "tier=a")} == {Detail.COUNTS}
    assert apart[Measure.READY, TOTAL] is Detail.COUNTS
