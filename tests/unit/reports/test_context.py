"""Criteria, alike requests, representation: against counts, and where all is hidden."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from published_lesson import hidden
from released_rows import WEEK, facts_of, released, report_of

from monitor.core.contract import Verdict
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import GroupTable, Period, ShownGap, ShownRate, SliceRow
from monitor.core.state import State
from monitor.reports import AttributeFacts
from monitor.reports.planners.criteria import criteria, forced_fpr, precision
from monitor.reports.planners.representation import representation
from monitor.reports.planners.standardised import standardised
from monitor.reports.sections import context
from monitor.reports.weekly_report import WeeklyReport

CODING = Coding(())
PERIOD = Period(WEEK.start, WEEK.end)


def rate(value: float, support: int = 5_000) -> ShownRate:
    return ShownRate(value, max(value - 0.02, 0), min(value + 0.02, 1), support)


def row(name: str, **values: float) -> SliceRow:
    rates = {Metric(metric): rate(value) for metric, value in values.items()}
    return SliceRow(name, dict.fromkeys(Metric, State.INCONCLUSIVE), rates)


def with_groups(*groups: GroupTable, total: SliceRow) -> Release:
    made = released([], total)
    (table,) = made.contracts
    (window,) = table.windows
    return replace(made, contracts=(replace(table, windows=(replace(window, groups=groups),)),))


def report(release: Release, **facts: object) -> WeeklyReport:
    return report_of(release, facts_of(CODING, **facts))


@pytest.mark.parametrize("seed", range(5))
def test_the_identity_of_criteria_holds_for_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    served, held, served_rest, held_rest = rng.integers(1, 1_000, 4).tolist()
    tpr, fpr = served / (served + held), served_rest / (served_rest + held_rest)
    ready = (served + held) / (served + held + served_rest + held_rest)
    precise = precision(tpr, fpr, ready)
    assert precise == pytest.approx(served / (served + served_rest))
    assert forced_fpr(tpr, precise or 0, ready) == pytest.approx(fpr)


def test_a_slice_with_more_ready_replies_would_need_another_fpr() -> None:
    total = row("", tpr=0.8, fpr=0.2, ready=0.5)
    same, more = (row(f"w={x}", tpr=0.8, fpr=0.2, ready=x) for x in (0.5, 0.8))
    lines = criteria(report(released([same, more], total)))
    assert [one.fpr_forced for one in lines] == [0.2, pytest.approx(0.8)]
    assert lines[1].precision == pytest.approx(0.941)
    section = context.criteria(report(released([hidden("w=1")], hidden(""))))
    assert section.tables == ()


def crossed(frame: pd.DataFrame, by: list[str]) -> GroupTable:
    """TPRs of counts, exactly, as a group-by without gaps."""
    rows = []
    for key, its in frame.groupby(by):
        names = ",".join(f"{n}={v}" for n, v in zip(by, key, strict=True))
        hits, ready = int(its["served"].sum()), int(its["ready"].sum())
        rows.append(replace(row(names), rates={Metric.TPR: rate(hits / ready, ready)}))
    return GroupTable("+".join(by), tuple(rows), decisions=PERIOD, labelled=PERIOD)


def test_a_gap_that_is_all_due_to_other_requests_is_gone_among_alike_ones() -> None:
    """TPR is .9 for easy and .5 for hard requests, whoever asks; a asks for more hard ones."""
    frame = pd.DataFrame(
        [("a", "easy", 180, 200), ("a", "hard", 400, 800), ("b", "easy", 720, 800),
         ("b", "hard", 100, 200)],
        columns=["who", "what", "served", "ready"],
    )  # fmt: skip
    pairs = crossed(frame, ["what", "who"])
    single = crossed(frame, ["who"])
    raw = 820 / 1000 - 580 / 1000
    gap = ShownGap("complement", raw, raw - 0.05, raw + 0.05, verdict=Verdict.FAIL)
    rows = tuple(replace(one, gaps={Metric.TPR: gap}) for one in single.rows[:1])
    release = with_groups(
        replace(single, rows=(*rows, *single.rows[1:])), pairs, total=row("", tpr=0.7)
    )
    (line,) = standardised(report(release))
    assert (line.of.slice, line.over) == ("who=a", "what")
    assert line.raw == pytest.approx(0.24)
    assert line.value == pytest.approx(0.0, abs=1e-9)
    assert line.lower is not None
    assert line.upper is not None
    assert line.lower < 0 < line.upper
    assert line.cells == 4


def test_weights_are_the_same_for_both_sides() -> None:
    frame = pd.DataFrame(
        [("a", "x", 50, 100), ("a", "y", 90, 300), ("b", "x", 160, 200), ("b", "y", 240, 400)],
        columns=["who", "what", "served", "ready"],
    )
    single = crossed(frame, ["who"])
    gap = ShownGap("who=b", 0.3, 0.2, 0.4)
    rows = (replace(single.rows[0], gaps={Metric.TPR: gap}), single.rows[1])
    release = with_groups(
        replace(single, rows=rows), crossed(frame, ["what", "who"]), total=row("", tpr=0.5)
    )
    (line,) = standardised(report(release))
    assert line.value == pytest.approx(0.3 * (0.8 - 0.5) + 0.7 * (0.6 - 0.3), abs=0.001)


def test_one_hidden_cell_and_there_is_no_standardised_gap() -> None:
    frame = pd.DataFrame(
        [("a", "x", 50, 100), ("a", "y", 90, 300), ("b", "x", 160, 200), ("b", "y", 240, 400)],
        columns=["who", "what", "served", "ready"],
    )
    single, pairs = crossed(frame, ["who"]), crossed(frame, ["what", "who"])
    rows = (replace(single.rows[0], gaps={Metric.TPR: ShownGap("who=b", 0.3, 0.2, 0.4)}),)
    fewer = replace(pairs, rows=(hidden(pairs.rows[0].slice), *pairs.rows[1:]))
    release = with_groups(replace(single, rows=rows), fewer, total=row("", tpr=0.5))
    (line,) = standardised(report(release))
    assert (line.value, line.hidden, line.cells) == (None, 1, 4)
    (made,) = context.standardised(report(release)).tables
    assert made.rows[0][4].text == "not known: 1 of the 4 cells it needs are hidden"


def test_shares_are_bounded_by_the_bands_of_decisions() -> None:
    rows = [
        replace(row(f"w={name}"), rates={Metric.SELECTION: rate(0.5, support)})
        for name, support in (("a", 210), ("b", 644))
    ]
    target = AttributeFacts(
        "w", ("a", "b", "c"), "", "declared", "", "", False, (("a", 0.5), ("b", 0.3))
    )
    one = report(released([*rows, hidden("w=c")], row("")), attributes=(target,))
    first, second = representation(one)
    assert first.target == pytest.approx(0.62)
    for a in (210 - 54, 210 + 54):  # a twentieth, and four times k
        for b in (644 - 76, 644 + 76):
            assert first.least <= a / (a + b) <= first.most
            assert second.least <= b / (a + b) <= second.most
    (made,) = context.representation(one).tables
    assert [cells[3].text for cells in made.rows] == [
        "fewer than in the population",
        "more than in the population",
    ]
    assert context.representation(report(released([], row("")))).tables == ()
