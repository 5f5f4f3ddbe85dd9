"""Gaps over time, intersections, and that every plot of a report has a table beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from monitor.reports.planners.gap_history import MOST_SLICES, gap_histories
from released_rows import WEEK, facts_of, released, report_of

from monitor.core.contract import Metric, State
from monitor.core.counts.coding import Coding
from monitor.core.publish.release import Release, Revision, encode
from monitor.core.publish.snapshot import ShownGap, ShownRate, SliceRow
from monitor.core.time import IsoWeek
from monitor.reports import WeeklyReport, as_html, as_markdown
from monitor.reports.document import document
from monitor.reports.sections import pictures


def row(name: str, gap: float | None, state: State = State.INCONCLUSIVE) -> SliceRow:
    rates = {Metric.TPR: ShownRate(0.6, 0.5, 0.7, 90)}
    if gap is None:
        return SliceRow(name, dict.fromkeys(Metric, State.SUPPRESSED))
    gaps = {Metric.TPR: ShownGap("complement", gap, gap - 0.1, gap + 0.1)}
    return SliceRow(name, dict.fromkeys(Metric, state), rates, gaps)


def release(week: IsoWeek, *rows: SliceRow) -> Release:
    made = released(rows, row("", 0.0))
    return replace(made, week=week.name, start=week.start, end=week.end)


def revision(week: IsoWeek, number: int, *rows: SliceRow) -> Revision:
    return Revision(week.name, number, week.end, encode(release(week, *rows)))


def report(*rows: SliceRow, history: tuple[Revision, ...] = ()) -> WeeklyReport:
    one = report_of(release(WEEK, *rows), facts_of(Coding(())))
    return replace(one, history=history, before=history[-1] if history else None)


def test_gaps_are_followed_week_by_week_and_a_hidden_week_is_a_hole() -> None:
    older, old = WEEK.before.before, WEEK.before
    earlier = (
        revision(older.before, 2, row("w=a", 0.3)),
        revision(older, 1, row("w=a", None)),
        revision(old, 4, row("w=a", 0.1)),
    )
    one = report(row("w=a", 0.2), row("w=b", -0.05), history=earlier)
    first, second = gap_histories(one)
    assert [(p.week, p.revision, p.value) for p in first.points] == [
        (older.before.name, 2, 0.3),
        (old.name, 4, 0.1),
        (WEEK.name, 1, 0.2),
    ]
    assert [p.limit for p in first.points] == [0.1] * 3
    assert [p.value for p in second.points] == [-0.05]
    section = pictures.over_time(one)
    assert "the 3 weeks before it" in section.sentences[0]
    chart = str(section.tables[0].chart)
    assert chart.count('class="limit"') == 2, "the limit of the contract, in both directions"
    assert chart.count('class="line"') == 2, "interrupted where a week was hidden"
    assert chart.count('class="dot"') == 3
    assert "4 weeks" in chart


def test_those_outside_the_limit_come_first_and_few_are_followed() -> None:
    rows = [row(f"w={n}", n / 100) for n in range(20)]
    rows[3] = row("w=3", 0.03, State.SUSPECTED)
    found = gap_histories(report(*rows))
    assert len(found) == MOST_SLICES
    assert [one.of.slice for one in found[:3]] == ["w=3", "w=19", "w=18"]


def test_without_gaps_and_intersections_a_sentence_says_so() -> None:
    one = report(row("w=a", None))
    for section in (pictures.over_time(one), pictures.intersections(one)):
        assert section.tables == ()
        assert len(section.sentences) == 1


def test_intersections_are_a_heat_map_with_its_table() -> None:
    rows = [row("v=x,w=a", 0.2), row("v=x,w=b", None), row("v=y,w=a", -0.1)]
    one = report(*rows)
    (table,) = one.release.contracts
    (window,) = table.windows
    groups = tuple(replace(group, group_by="v+w") for group in window.groups)
    crossed = replace(table, windows=(replace(window, groups=groups),))
    (found,) = pictures.intersections(
        replace(one, release=replace(one.release, contracts=(crossed,)))
    ).tables
    chart = str(found.chart)
    assert chart.count('class="hatch"') == 2, "one is hidden, one is in no table"
    assert [cells[0].text for cells in found.table.rows] == [
        "v=x, w=a",
        "v=x, w=b",
        "v=y, w=a",
    ]


@pytest.mark.parametrize("earlier", [0, 3])
def test_every_plot_stands_with_a_table_and_says_in_words_what_it_shows(earlier: int) -> None:
    weeks, week = [], WEEK
    for _ in range(earlier):
        week = week.before
        weeks.append(revision(week, 1, row("w=a", 0.1)))
    one = report(row("w=a", 0.2), row("w=b", 0.01), history=tuple(weeks[::-1]))
    drawn = [part for _, section in document(one).sections for part in section.tables if part.chart]
    assert drawn
    assert all(part.table.rows for part in drawn)
    assert all('role="img" aria-label="' in str(part.chart) for part in drawn)
    page = as_html.render(one)
    assert page.count("<svg") > len(drawn)
    assert "<svg" not in as_markdown.render(one)
