"""What a revision says otherwise than an earlier one: all of that, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from published_lesson import SHOWN, full, hidden, lesson

from monitor.core.metric import Metric
from monitor.core.publish.release import Release, Revision, encode
from monitor.core.publish.snapshot import SliceRow
from monitor.core.state import State
from monitor.core.time import DAY, IsoWeek
from monitor.reports import ReportFacts, WeeklyReport, as_json
from monitor.reports.changes import changes
from monitor.reports.document import CANNOT_SAY, document
from monitor.reports.formats import as_html, as_markdown
from monitor.reports.judged import state_text

WEEK = IsoWeek.named("2024-W40")
SECTION = "Annex: Changed since an earlier revision"
CHAT, MAIL = full("channel=chat"), full("channel=mail")


def revision(number: int, *rows: SliceRow) -> Revision:
    (table,) = lesson(*rows, at=WEEK.end).contracts
    made = Release(WEEK.name, WEEK.start, WEEK.end, (replace(table, window=WEEK.name),))
    return Revision(WEEK.name, number, WEEK.end + number * DAY, encode(made))


def report(now: Revision, earlier: Revision | None) -> WeeklyReport:
    facts = ReportFacts("slicewatch 1")
    return WeeklyReport(now, now.number, None, earlier=earlier, release=now.release, facts=facts)


def rated(row: SliceRow, value: float) -> SliceRow:
    return replace(row, rates={**row.rates, Metric.TPR: replace(SHOWN, value=value)})


def test_a_changed_rate_is_the_one_change() -> None:
    one = report(revision(2, rated(CHAT, 0.91), MAIL), revision(1, CHAT, MAIL))
    found = changes(one)
    assert found is not None
    (cell,) = found.cells
    assert (found.since, cell.slice, cell.metric) == (1, "channel=chat", Metric.TPR)
    assert cell.before is not None
    assert cell.after is not None
    assert cell.before.rate == SHOWN
    assert cell.after.rate == replace(SHOWN, value=0.91)
    for text in (as_html(one), as_markdown(one)):
        assert f"83 % ({state_text(State.INCONCLUSIVE)})" in text
        assert f"91 % ({state_text(State.INCONCLUSIVE)})" in text
    assert b'"changes":{"since":1' in as_json.render(one)


def test_what_is_hidden_now_and_what_is_new_are_changes() -> None:
    before = revision(1, CHAT, MAIL)
    found = changes(report(revision(2, hidden("channel=chat"), full("channel=fax")), before))
    assert found is not None
    kinds = {(one.slice, one.before is None, one.after is None) for one in found.cells}
    assert kinds == {
        ("channel=chat", False, False),
        ("channel=fax", True, False),
        ("channel=mail", False, True),
    }
    gone = [one.after for one in found.cells if one.slice == "channel=chat"]
    assert {(one.state, one.rate, one.gap) for one in gone if one} == {
        (State.SUPPRESSED, None, None)
    }


@pytest.mark.parametrize("same", [True, False])
def test_without_changes_or_an_earlier_revision_the_section_is_left_out(same: bool) -> None:
    earlier = revision(1, CHAT, MAIL) if same else None
    sections = {
        section.title: section
        for section in document(report(revision(2, CHAT, MAIL), earlier)).sections
    }
    assert SECTION not in sections
    assert "changed since an earlier revision" in sections[CANNOT_SAY].notes[-1]


def test_a_page_lists_changes_of_shown_rates_and_counts_the_others() -> None:
    rows = [full(f"channel={i:03}") for i in range(300)]
    before = revision(1, *rows, hidden("channel=new"))
    one = report(revision(2, *(rated(row, 0.5) for row in rows), full("channel=new")), before)
    (section,) = (part for part in document(one).sections if part.title == SECTION)
    (listed,) = section.tables
    assert len(listed.rows) == 250
    assert "50 more are in" in listed.notes[-1]
    assert "rates that it did not show are not listed" in section.notes[0]
    assert not [row for row in listed.rows if row[1].text == "channel=new"]
