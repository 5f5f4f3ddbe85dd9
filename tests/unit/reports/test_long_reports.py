"""Reports of very many slices: short enough to be read, and nothing is cut without a word."""

from __future__ import annotations

from dataclasses import replace

import pytest
from released_rows import facts_of, released, report_of

from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import ShownGap, ShownRate, SliceRow
from monitor.core.state import State
from monitor.present.document import MOST_ROWS, Section, table
from monitor.reports.document import document
from monitor.reports.formats import as_csv, as_html
from monitor.reports.judged import MOST_LISTED

RATE = ShownRate(0.6, 0.5, 0.7, 90)
SLICES = 400


def section(*sizes: int) -> Section:
    tables = (table("a|b", [("x", "y")] * size, f"t{size}") for size in sizes)
    return Section(notes=("said",), tables=tuple(one for found in tables for one in found))


@pytest.mark.parametrize("sizes", [(), (1,), (MOST_ROWS,), (100, 100, 50)])
def test_what_can_be_read_is_not_cut(sizes: tuple[int, ...]) -> None:
    assert section(*sizes).cut("there") == section(*sizes)


@pytest.mark.parametrize("sizes", [(251,), (1_000, 3), (60,) * 12])
def test_what_is_cut_is_counted(sizes: tuple[int, ...]) -> None:
    made = section(*sizes).cut("there")
    assert made.notes == ("said",)
    for size, one in zip(sizes, made.tables, strict=True):
        shown = len(one.rows)
        assert shown >= min(size, 3)
        note = f"The first {shown} rows; {size - shown} more are in there."
        assert one.notes == ((note,) if shown < size else ())
    assert sum(len(one.rows) for one in made.tables) <= MOST_ROWS


def test_a_report_of_many_slices_shows_the_worst_and_is_no_larger_than_it_may_be() -> None:
    gap = ShownGap("complement", 0.0, -0.1, 0.1)
    good = SliceRow("w=0", dict.fromkeys(Metric, State.WITHIN_CONTRACT))
    good = replace(good, rates=dict.fromkeys(Metric, RATE), gaps={Metric.TPR: gap})
    rows = [replace(good, slice=f"w={n:03}") for n in range(SLICES)]
    rows[-1] = replace(rows[-1], states={**good.states, Metric.TPR: State.SUSPECTED})
    one = report_of(released(rows, good), facts_of(Coding(())))
    assert len(as_html(one).encode()) < 2_000_000
    sections = {section.title: section for section in document(one).sections}
    rates = sections["Annex: Rates"].tables[-1]
    assert rates.rows[1][0].text == f"w={SLICES - 1}"
    page_one = sections["Slices against their limits"]
    leading = page_one.tables[0].rows
    assert f"{SLICES - MOST_LISTED} more rows are in the annex" in page_one.notes[0]
    assert leading[0][0].text == f"w={SLICES - 1}"
    assert len(leading) == MOST_LISTED
    assert "more are in the JSON and CSV files." in rates.notes[-1]
    assert as_csv(one.release)["rates"].count("w=") == SLICES * len(Metric)
