"""The threshold what-if against routing the rows of the census anew, one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from census import History
from released_rows import facts_of, released, report_of, rows_of

from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.reports.planners.threshold_what_if import Bounds, WhatIfLine, what_if
from monitor.reports.weekly_report import WeeklyReport

PRESENT, EDGES = 0.5, (0.25, 0.5, 0.75)
AUDIT, WEEKS, ROWS = 0.2, 120, 7_000
NAMES = ("selection", "tpr", "fpr")


def coding(audit: float) -> Coding:
    return Coding((), EDGES, (1.0, audit))


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return History("28d", 1.0).frame[["sex", "rac1p", "score", "auto", "ready"]]


def counts_of(frame: pd.DataFrame, by: pd.Series, audit: float) -> SliceCounts:
    """Rows as strata; all reviews are labelled, and a share of what is served."""
    rng = np.random.default_rng(5)
    labelled = ~frame["auto"] | (rng.random(len(frame)) < audit)
    band = np.searchsorted(EDGES, frame["score"], side="right")
    rate = np.where(frame["auto"] & (audit < 1), 1, 0)
    route = np.where(frame["auto"], Route.AUTO_SERVE, Route.HUMAN_REVIEW)
    made = pd.DataFrame(
        {"slice": by, "route": route, "band": band, "rate": rate, "n": 1, "labelled": labelled}
    )
    made["ready"] = frame["ready"] & labelled
    keys = ["route", "band", "rate"]
    sums = made.groupby(["slice", *keys])[["n", "labelled", "ready"]].sum().reset_index()
    strata = sums[keys].drop_duplicates().to_numpy(np.int64).tolist()
    codes = {(r, band, rate): Stratum(Route(r), band, rate).code for r, band, rate in strata}
    order = sorted(codes.values())
    slices = tuple(sorted(sums["slice"].unique()))
    values = np.zeros((len(slices), len(order), COUNTERS), np.int64)
    columns = [Counter.N, Counter.LABELLED, Counter.READY]
    for name, its in sums.groupby("slice"):
        for row in its[[*keys, "n", "labelled", "ready"]].to_numpy(np.int64).tolist():
            at = slices.index(str(name)), order.index(codes[row[0], row[1], row[2]])
            values[at[0], at[1], columns] = row[3:]
    return SliceCounts(slices, np.array(order, np.int64), values)


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
    rows = rows_of(counts, made, exact=exact)
    facts = facts_of(made, present_threshold=present)
    return report_of(released(rows, rows[0], exact=exact), facts)


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


@pytest.mark.parametrize("present", [PRESENT, None])
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
