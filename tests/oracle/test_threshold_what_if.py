"""The threshold what-if against routing the rows of the census anew, one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from census_weeks import EDGES, counts_of, rows
from released_rows import facts_of, released, report_of, rows_of

from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.reports.planners.threshold_what_if import Bounds, WhatIfLine, what_if
from monitor.reports.weekly_report import WeeklyReport

PRESENT = 0.5
AUDIT, WEEKS, ROWS = 0.2, 120, 7_000
NAMES = ("selection", "tpr", "fpr")


def coding(audit: float) -> Coding:
    return Coding((), EDGES, (1.0, audit))


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return rows()


def routed(frame: pd.DataFrame, threshold: float) -> tuple[float, float, float]:
    """Selection rate, TPR and FPR of the rows at a threshold."""
    served, ready = frame["score"] >= threshold, frame["ready"]
    return served.mean(), served[ready].mean(), served[~ready].mean()


def bounds(line: WhatIfLine) -> list[Bounds | None]:
    return [line.selection, line.tpr, line.fpr]


def report(
    counts: SliceCounts, audit: float, present: float | None, *, exact: bool
) -> WeeklyReport:
    made = coding(audit)
    found = rows_of(counts, made, exact=exact)
    facts = facts_of(made, present_threshold=present)
    return report_of(released(found, found[0], exact=exact), facts)


def test_with_complete_labels_edges_are_exact_and_bands_hold_what_is_between(
    people: pd.DataFrame,
) -> None:
    by = "w=" + people["rac1p"]
    lines = what_if(report(counts_of(people, by, 1.0), 1.0, None, exact=True))
    exact = between = 0
    for name, its in people.groupby(by):
        for line in (one for one in lines if one.of.slice == name):
            inside = np.linspace(line.threshold, line.below or 0, 7)[1:-1]
            for threshold in [line.threshold] if line.below is None else inside:
                for ends, truth in zip(bounds(line), routed(its, threshold), strict=True):
                    if ends is None or np.isnan(truth):
                        continue
                    if line.below is None and ends.lower == ends.upper:
                        assert ends.lower == pytest.approx(truth, abs=1e-12)
                        exact += 1
                    else:
                        assert ends.lower - 1e-12 <= truth <= ends.upper + 1e-12
                        between += 1
    assert exact >= 7 * 9, "all slices but those with a band of fewer than ten labels"
    assert between > exact


@pytest.mark.parametrize("present", [pytest.param(PRESENT, marks=pytest.mark.full), None])
def test_under_sampled_labels_the_truth_lies_between_the_bounds(
    people: pd.DataFrame, present: float | None
) -> None:
    rng = np.random.default_rng(11)
    drawn = people.sample(WEEKS * ROWS, replace=True, random_state=rng).reset_index(drop=True)
    week = np.arange(len(drawn)) // ROWS
    by = pd.Series([f"w={one:03d}" for one in week])
    found = report(counts_of(drawn, by, AUDIT), AUDIT, present, exact=False)
    lines = [one for one in what_if(found) if one.of.slice and one.below is None]
    truths = {(name, edge): routed(its, edge) for name, its in drawn.groupby(by) for edge in EDGES}
    keys = [(edge, name) for edge in EDGES for name in NAMES]
    covered: dict[tuple[float, str], list[bool]] = {key: [] for key in keys}
    widths: dict[tuple[float, str], list[float]] = {key: [] for key in keys}
    for line in lines:
        for name, ends, truth in zip(
            NAMES, bounds(line), truths[line.of.slice, line.threshold], strict=True
        ):
            assert ends is not None
            covered[line.threshold, name].append(ends.lower <= truth <= ends.upper)
            widths[line.threshold, name].append(ends.upper - ends.lower)
    for key, found_in in covered.items():
        assert len(found_in) == WEEKS
        assert np.mean(found_in) >= 0.95, key
        assert np.mean(widths[key]) < 0.85, key
    if present is not None:
        assert max(np.mean(widths[PRESENT, name]) for name in NAMES) < 0.12
        assert max(np.mean(widths[0.25, name]) for name in NAMES) < 0.25
