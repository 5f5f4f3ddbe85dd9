"""Threshold what-if: unlabelled bands, impossible numbers, and what the section says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from published_lesson import hidden
from released_rows import facts_of, released, report_of, rows_of
from slice_tables import simulate

from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import CalibrationCell, ShownRate, SliceRow
from monitor.reports.planners.threshold_what_if import WhatIfLine, what_if
from monitor.reports.sections import thresholds
from monitor.reports.weekly_report import WeeklyReport

CODING = Coding((), audit_rates=(*[1.0] * 8, 0.1))
SHARES = np.array([[[0, 0.2], [0.05, 0], [0.02, 0]], [[0, 0.15], [0.3, 0], [0.28, 0]]])


def rows(slices: int = 2) -> tuple[SliceRow, ...]:
    return rows_of(simulate(np.random.default_rng(1), SHARES, 20_000, slices, 0.1), CODING)


def report(*found: SliceRow, **facts: object) -> WeeklyReport:
    return report_of(released(found, found[0]), facts_of(CODING, **facts))


def lines(one: WeeklyReport, name: str) -> dict[tuple[float, float | None], WhatIfLine]:
    return {(x.threshold, x.below): x for x in what_if(one) if x.of.slice == name}


def without_band(row: SliceRow, at: int) -> SliceRow:
    cells = list(row.calibration)
    cells[at] = CalibrationCell(cells[at].band, None)
    return replace(row, calibration=tuple(cells))


def test_a_threshold_inside_a_band_without_labels_is_not_identified() -> None:
    row = without_band(rows()[0], 1)
    found = lines(report(row), row.slice)
    inside = found[0.7, 0.9]
    assert inside.tpr is None
    assert inside.fpr is None
    assert inside.selection is not None
    assert found[0.9, 1.0].tpr is not None
    section = thresholds.what_if(report(row))
    said = [[cell.text for cell in line] for line in section.tables[0].rows]
    assert {line[1] for line in said} == {"0.70", "0.90"}, "the JSON file has the rest"


def test_bounds_of_a_band_are_those_of_its_edges_and_fall_with_the_threshold() -> None:
    found = lines(report(rows()[0], present_threshold=0.7), "w=0")
    assert list(found) == [(0.0, 0.7), (0.7, None), (0.7, 0.9), (0.9, None), (0.9, 1.0)]
    for name in ("selection", "tpr", "fpr"):
        low, inside, high = (
            getattr(found[key], name) for key in ((0.7, None), (0.7, 0.9), (0.9, None))
        )
        assert (inside.lower, inside.upper) == (high.lower, low.upper)
        assert low.lower >= high.lower
        assert low.upper >= high.upper


def test_to_know_the_present_threshold_makes_bounds_narrower() -> None:
    wide, narrow = (lines(report(rows()[0], present_threshold=x), "w=0") for x in (None, 0.7))
    for name in ("tpr", "fpr"):
        one, other = (getattr(found[0.7, None], name) for found in (wide, narrow))
        assert other.upper - other.lower < 0.6 * (one.upper - one.lower)
    assert lines(report(rows()[0], present_threshold=0.8), "w=0") == wide, "it is no edge"


def test_numbers_that_contradict_each_other_change_nobody_elses() -> None:
    good, bad = rows()
    cells = tuple(replace(one, rate=ShownRate(0.1, 0.09, 0.11, 20_000)) for one in bad.calibration)
    ready = ShownRate(0.9, 0.89, 0.91, 20_000)
    found = report(good, replace(bad, calibration=cells, rates={**bad.rates, Metric.READY: ready}))
    assert lines(found, bad.slice)[0.7, None].tpr is None
    assert lines(found, good.slice) == lines(report(good), good.slice)


@pytest.mark.parametrize("present", [None, 0.7])
def test_hidden_slices_have_no_line(present: float | None) -> None:
    one = report(rows()[0], hidden("w=x"), present_threshold=present)
    assert {x.of.slice for x in what_if(one)} == {"", "w=0"}
    said = " ".join(thresholds.what_if(one).notes)
    assert ("0.70 on now" in said) == (present is not None)
    nothing = thresholds.what_if(report(hidden("w=x")))
    assert nothing.tables == ()
