"""Page one: every slice against its limit, what changed, what is open now; and heat maps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from released_rows import WEEK, facts_of, released, report_of

from monitor.core.contract import Severity, Verdict
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.publish.annotations import IncidentKind
from monitor.core.publish.release import Release, Revision, encode, open_incidents
from monitor.core.publish.snapshot import ShownGap, ShownIncident, ShownRate, SliceRow, Snapshot
from monitor.core.state import State
from monitor.core.time import DAY, HOUR, IsoWeek
from monitor.reports import WeeklyReport, as_json, first_page, numbers, since
from monitor.reports.document import document
from monitor.reports.formats import as_html, as_markdown
from monitor.reports.planners.trends import trends


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


def cells(report: WeeklyReport) -> list[list[str]]:
    """The texts of the one table of page one."""
    (made,) = first_page.slices(report).tables
    return [[cell.text for cell in row] for row in made.rows]


def test_gaps_of_the_weeks_before_stand_beside_the_slice_and_a_hidden_week_is_a_hole() -> None:
    older, old = WEEK.before.before, WEEK.before
    earlier = (
        revision(older.before, 2, row("w=a", 0.3)),
        revision(older, 1, row("w=a", None)),
        revision(old, 4, row("w=a", 0.1)),
    )
    one = report(row("w=a", 0.2), row("w=b", -0.05), history=earlier)
    assert [[week.value for week in line.weeks] for line in trends(one)] == [
        [0.3, None, 0.1],
        [None] * 3,
    ]
    first, second = cells(one)
    assert first[0] == "w=a"
    assert first[-1] == "+30, \N{EN DASH}, +10"
    assert second[-1] == "\N{EN DASH}"
    (made,) = first_page.slices(one).tables
    assert made.columns[-1] == "gap in W20, W21, W22"


def test_the_reference_has_its_rate_by_its_row_or_by_the_gap() -> None:
    named = ShownGap("w=b", 0.2, 0.1, 0.3)
    behind = replace(row("w=a", 0.2), gaps={Metric.TPR: named})
    ahead = SliceRow(
        "w=b", dict.fromkeys(Metric, State.INCONCLUSIVE), {Metric.TPR: ShownRate(0.8, 0.7, 0.9, 90)}
    )
    assert [line.reference_rate for line in trends(report(behind, ahead))] == [0.8, None]
    assert [line.reference_rate for line in trends(report(row("w=a", 0.2)))] == [0.8]
    assert cells(report(behind, ahead))[0][3] == "80 %, b"


def test_broken_limits_come_first_also_of_guardrails() -> None:
    good = row("w=a", 0.0, State.WITHIN_CONTRACT)
    gaps = {**good.gaps, Metric.FPR: ShownGap("complement", 0.3, 0.2, 0.4)}
    bad = replace(good, slice="w=b", states={**good.states, Metric.FPR: State.SUSPECTED}, gaps=gaps)
    listed = cells(report(good, bad, row("w=c", None)))
    assert [(line[0], line[1], line[6]) for line in listed][:3] == [
        ("w=b", "fpr", "over the limit"),
        ("w=a", "tpr", "within the limit"),
        ("w=b", "tpr", "within the limit"),
    ]
    assert listed[3][0] == "w=c"
    said = " ".join(first_page.slices(report(good, bad)).notes)
    assert "within their limits: Unready replies served (FPR), 1 slice." in said


def test_a_slice_that_all_others_are_worse_off_than_is_told_as_their_harm() -> None:
    gap = ShownGap("complement", -0.33, -0.45, -0.2, verdict=Verdict.BETTER_OFF)
    states = dict.fromkeys(Metric, State.NO_LIMIT) | {Metric.TPR: State.BETTER_OFF}
    ahead = replace(row("w=a", -0.33), states=states, gaps={Metric.TPR: gap})
    ((name, *_, verdict),) = cells(report(ahead))
    assert (name, verdict) == ("all but w=a", "over the limit")


def test_a_hidden_slice_is_not_measured_and_no_breach() -> None:
    one = report(row("w=a", 0.0, State.WITHIN_CONTRACT), row("w=b", None))
    (made,) = first_page.not_measured(one).tables
    assert {line[1].text for line in made.rows} == {"tpr of w=b; fpr of w=b"}
    assert document(one).word == "UNDECIDED"
    assert document(one).tone == "unsure"
    (listed,) = first_page.slices(one).tables
    assert [cell.tone for cell in listed.rows[1] if cell.tone != "plain"] == ["unsure"]


def test_changes_are_told_against_last_week_and_the_last_signed_report() -> None:
    good, bad = row("w=a", 0.0, State.WITHIN_CONTRACT), row("w=a", 0.3, State.SUSPECTED)
    last_week, signed = revision(WEEK.before, 2, bad), revision(WEEK.before.before, 1, good)
    one = replace(report(good), before=last_week, last_signed=signed)
    (said,) = since.change(one).notes
    first, second = said.split(" Last signed report ")
    assert first.startswith(f"Last week's report ({WEEK.before.name}, revision 2): BLOCKED.")
    assert "No longer over the limit: tpr of w=a; fpr of w=a." in first
    assert second == f"({signed.week}, revision 1): APPROVED. No verdict has changed."
    worse = replace(report(bad), before=revision(WEEK.before, 1, good))
    assert "Newly over the limit: tpr of w=a" in since.change(worse).notes[0]
    assert since.change(worse).notes[0].endswith("Last signed report: none.")
    gone = replace(report(row("w=a", None)), before=revision(WEEK.before, 1, good))
    assert "No longer decided: tpr of w=a" in since.change(gone).notes[0]
    same = since.change(replace(gone, last_signed=gone.before)).notes[0]
    assert same.endswith("Last week's report is the last signed one.")
    assert f'"last_signed":["{signed.week}",1]' in as_json.render(one).decode()


def test_another_version_of_the_contract_is_told() -> None:
    made = release(WEEK.before, row("w=a", 0.0))
    (table,) = made.contracts
    older = replace(made, contracts=(replace(table, version="0"),))
    before = Revision(WEEK.before.name, 1, WEEK.start, encode(older))
    said = since.change(replace(report(row("w=a", 0.0)), before=before)).notes[0]
    assert "Contract lesson: version 1, was 0." in said


def incident(number: int, **changed: object) -> ShownIncident:
    made = ShownIncident(
        number, IncidentKind.BREACH, Severity.PAGE, Metric.TPR, WEEK.end, "w", "w=a"
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def test_incidents_open_now_are_those_of_the_newest_snapshot() -> None:
    one = report(row("w=a", 0.0))
    assert first_page.open_now(one).notes == ("Not known: no Snapshot is stored.",)
    (table,) = one.release.contracts
    made = (incident(9, acknowledged=True), incident(8), incident(10, accepted_until=WEEK.end))
    now = WEEK.end + 9 * DAY
    snapshot = Snapshot(now + HOUR, now, (replace(table, incidents=made),))
    opened = replace(one, open_now=open_incidents(snapshot))
    (listed,) = first_page.open_now(opened).tables
    assert [(line[0].text, line[-1].text) for line in listed.rows] == [
        ("8", "open"),
        ("9", "acknowledged"),
        ("10", "accepted"),
    ]
    assert first_page.open_now(opened).notes == ("3 on 2026-06-17.",)
    quiet = replace(one, open_now=open_incidents(replace(snapshot, contracts=(table,))))
    assert first_page.open_now(quiet).notes == ("None on 2026-06-17.",)


def test_intersections_are_a_heat_map_with_its_table() -> None:
    rows = [row("v=x,w=a", 0.2), row("v=x,w=b", None), row("v=y,w=a", -0.1)]
    one = report(*rows)
    (table,) = one.release.contracts
    (window,) = table.windows
    groups = tuple(replace(group, group_by="v+w") for group in window.groups)
    crossed = replace(table, windows=(replace(window, groups=groups),))
    found = numbers.gaps(replace(one, release=replace(one.release, contracts=(crossed,)))).tables
    chart = str(found[-1].chart)
    assert chart.count('class="hatch"') == 2, "one is hidden, one is in no table"
    assert [[cell.text for cell in line] for line in found[-1].rows] == [
        ["x", "+20", "\N{EN DASH}"],
        ["y", "-10", "\N{EN DASH}"],
    ]


@pytest.mark.parametrize("earlier", [0, 3])
def test_every_chart_stands_in_a_table_and_says_in_words_what_it_shows(earlier: int) -> None:
    weeks, week = [], WEEK
    for _ in range(earlier):
        week = week.before
        weeks.append(revision(week, 1, row("w=a", 0.1)))
    one = report(row("w=a", 0.2), row("w=b", 0.01), history=tuple(weeks[::-1]))
    (made,) = first_page.slices(one).tables
    drawn = [str(cell.chart) for line in made.rows for cell in line if cell.chart]
    assert len(drawn) == 2
    assert all('role="img" aria-label="' in chart for chart in drawn)
    assert "<svg" in as_html(one)
    assert "<svg" not in as_markdown(one)
