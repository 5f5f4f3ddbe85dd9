"""What a revision says otherwise than an earlier one: all of that, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from published_lesson import SHOWN, full, hidden, lesson

from monitor.core.contract import Metric, State
from monitor.core.publish.release import Release, Revision, encode
from monitor.core.publish.snapshot import SliceRow
from monitor.core.time import DAY, IsoWeek
from monitor.reports import ReportFacts, WeeklyReport, as_html, as_json, as_markdown
from monitor.reports.changes import changes
from monitor.reports.document import document
from monitor.reports.first_page import state_text

WEEK = IsoWeek.named("2024-W40")
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
    for text in (as_html.render(one), as_markdown.render(one)):
        assert f"83 % ({state_text(State.INCONCLUSIVE)})" in text
        assert f"91 % ({state_text(State.INCONCLUSIVE)})" in text
        assert "In 1 cells" not in text
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
def test_without_changes_or_an_earlier_revision_it_says_so(same: bool) -> None:
    earlier = revision(1, CHAT, MAIL) if same else None
    section = dict(document(report(revision(2, CHAT, MAIL), earlier)).sections)[
        "Changed since an earlier revision"
    ]
    assert section.tables == ()
    said = "is another one than in revision 1" if same else "There is no earlier revision"
    assert said in " ".join(section.sentences)


def test_a_page_lists_some_of_very_many_and_says_how_many_there_are() -> None:
    rows = [full(f"channel={i:03}") for i in range(300)]
    one = report(revision(2, *(rated(row, 0.5) for row in rows)), revision(1, *rows))
    section = dict(document(one).sections)["Changed since an earlier revision"]
    assert len(section.tables[0].table.rows) == 200
    assert "the JSON file has 100 more" in " ".join(section.sentences)
