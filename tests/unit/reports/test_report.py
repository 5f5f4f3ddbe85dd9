"""Reports of Releases that are hard to render: everything, nothing, and what must stay hidden."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Hashable
from dataclasses import replace
from datetime import date
from typing import Any

import msgspec
import pandas as pd
import pytest
from published_lesson import BOTH, full, hidden, lesson

from monitor.core.contract import Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation, IncidentKind, Outcome
from monitor.core.publish.incidents import Stand
from monitor.core.publish.limitations import Limitation
from monitor.core.publish.release import (
    Release,
    ReleasedFinding,
    ReleasedIncident,
    Revision,
    Signature,
    decode_slices,
    encode,
    kept_tables,
)
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ShownAgreement,
    ShownGap,
    ShownRate,
    SliceRow,
)
from monitor.core.state import State
from monitor.core.time import DAY, IsoWeek
from monitor.reports import AttributeFacts, ReportFacts, UseCaseFacts, WeeklyReport, as_json
from monitor.reports.decision import Finding, Word, decide
from monitor.reports.document import ANNEX, CANNOT_SAY, PAGE_ONE, document
from monitor.reports.formats import as_csv, as_html, as_markdown
from monitor.reports.frames import COLUMNS, weekly

WEEK = IsoWeek.named("2024-W40")
VERDICTS = re.compile(
    r"\b(is|are|was|were)\s+(not\s+)?(fair|unfair|unbiased|biased|compliant|certified)\b"
    r"|\b(unbiased|compliant|compliance|certified|certificate|certifies|guaranteed fair)\b",
    re.IGNORECASE,
)
FACTS = ReportFacts(
    program="slicewatch 1",
    use_cases=(
        UseCaseFacts(
            name="lesson",
            owner="triage team",
            context="<b>help</b>",
            version="3",
            effective=date(2024, 1, 1),
            reason="first numbers",
            where="",
            compared=(("channel", "complement"),),
        ),
    ),
    attributes=(
        AttributeFacts("channel", ("chat", "email"), "way in", "declared", "t", "x", False),
    ),
    audit_rates=(1.0, 0.05),
    score_bands=("below 0.70", "no score"),
    horizon_days=30,
    limitations=(Limitation("=one office", "tests"),),
)


def release(*rows: SliceRow, **changed: object) -> Release:
    (table,) = lesson(*rows, at=WEEK.end).contracts
    (window,) = table.windows
    named = replace(table, window=WEEK.name, windows=(replace(window, window=WEEK.name),))
    made = Release(WEEK.name, WEEK.start, WEEK.end, (named,))
    return replace(made, **changed)  # type: ignore[arg-type]


INCIDENT = ReleasedIncident(
    *(7, IncidentKind.BREACH, Severity.PAGE, "lesson", Metric.TPR, "", "withheld", WEEK.start),
    *(Stand.OPEN, None, None),
)
FINDING = ReleasedFinding(
    "lesson", "channel", "channel=chat", Annotation.DRIFT, Metric.TPR, WEEK.end - DAY
)


def report(made: Release, number: int = 1, before: Release | None = None) -> WeeklyReport:
    revision = Revision(made.week, number, WEEK.end, encode(made))
    earlier = Revision(WEEK.before.name, 2, WEEK.end, encode(before)) if before else None
    return WeeklyReport(revision, number, earlier, release=made, facts=FACTS)


def texts(one: WeeklyReport) -> dict[str, str]:
    made = {"html": as_html(one), "md": as_markdown(one), "json": as_json.render(one).decode()}
    return made | {f"{name}.csv": text for name, text in as_csv(one.release).items()}


RELEASES = {
    "everything": release(*BOTH, incidents=(INCIDENT,), findings=(FINDING,)),
    "hidden": release(hidden("channel=chat"), hidden("channel=email")),
    "no row": release(),
    "no contract": Release(WEEK.name, WEEK.start, WEEK.end, ()),
}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("before", [None, "everything", "hidden"])
def test_every_section_is_there_or_named_as_empty(name: str, before: str | None) -> None:
    one = report(RELEASES[name], before=RELEASES[before] if before else None)
    page, text = as_html(one), as_markdown(one)
    found = {section.title: section for section in document(one).sections}
    assert list(found)[: len(PAGE_ONE) + 1] == [*(title for title, _ in PAGE_ONE), CANNOT_SAY]
    for title, section in found.items():
        rows = sum(len(part.rows) for part in section.tables)
        assert rows or any(len(s.split()) > 2 for s in section.notes), title
        assert f">{html.escape(title)}</h2>" in page
        assert f"\n## {title}\n" in text
    for title, _ in ANNEX:
        left_out = title.lower() in found[CANNOT_SAY].notes[-1]
        assert left_out != (f"Annex: {title}" in found), title


def test_a_group_by_without_a_table_of_the_week_is_named() -> None:
    made = release(*BOTH)
    (table,) = made.contracts
    (window,) = table.windows
    waiting = replace(window.groups[0], rows=(), decisions=None, labelled=None)
    one = replace(table, windows=(replace(window, groups=(waiting,)),))
    text = as_markdown(report(replace(made, contracts=(one,))))
    assert "No table by channel is published yet." in text


def test_the_agreement_of_two_reviewers_has_its_interval() -> None:
    tpr = replace(BOTH[0].rates[Metric.TPR], if_wrong=(0.412, 0.907))
    rates = {**BOTH[0].rates, Metric.TPR: tpr}
    agreement = ShownAgreement(0.83, None, 0.65, 0.96, 0.06)
    rows = [replace(BOTH[0], rates=rates, agreement=agreement), *BOTH[1:]]
    sections = document(report(release(*rows))).sections
    (found,) = (section for section in sections if section.title == "Annex: Rates")
    cells = [cell.text for row in found.tables[0].rows for cell in row]
    assert "0.83 (0.65 to 0.96)" in cells
    assert [cell for cell in cells if cell.endswith("; 41.2 to 90.7 % if labels err")]


def test_the_rows_of_some_slices_are_read_without_the_others() -> None:
    made = release(*BOTH)
    some = decode_slices(encode(made), {"channel=chat"})
    assert [r.slice for r in some.contracts[0].windows[0].groups[0].rows] == ["channel=chat"]
    assert decode_slices(encode(made), {row.slice for row in BOTH}) == made


@pytest.mark.parametrize("name", RELEASES)
def test_no_text_claims_that_anybody_is_treated_well(name: str) -> None:
    for form, text in texts(report(RELEASES[name], before=RELEASES["everything"])).items():
        assert VERDICTS.findall(text) == [], form


def test_the_search_for_claims_finds_them() -> None:
    for claim in ("The router is fair.", "unbiased rates", "certified", "It was not biased"):
        assert VERDICTS.search(claim), claim


def share(number: int) -> float:
    return number / 100


def numbered(name: str, first: int) -> SliceRow:
    """A row none of whose numbers stands in another one."""
    at = iter(range(first, first + 90))
    rate = ShownRate(share(next(at)), share(next(at)), share(next(at)), 1000 + next(at))
    gap = ShownGap("complement", share(next(at)), share(next(at)), share(next(at)))
    bands = (CalibrationCell("below 0.70", None),)
    states = dict.fromkeys(Metric, State.INCONCLUSIVE)
    return SliceRow(name, states, {Metric.TPR: rate}, {Metric.TPR: gap}, calibration=bands)


def test_hidden_cells_have_no_number_in_any_format() -> None:
    made = release(numbered("channel=chat", 10), hidden("channel=email"))
    one = report(made)
    for row in csv.DictReader(io.StringIO(as_csv(made)["rates"])):
        if row["slice"] == "channel=email":
            numbers = ("value", "lower", "upper", "at_least", "at_most", "support")
            assert row["state"] == "suppressed"
            assert [row[name] for name in (*numbers, "completeness", "as_labelled")] == [""] * 8
    for row in csv.DictReader(io.StringIO(as_csv(made)["gaps"])):
        if row["slice"] == "channel=email":
            assert [row[n] for n in ("value", "lower", "upper", "ratio", "verdict")] == [""] * 5
    for section in document(one).sections:
        for cells in (cells for part in section.tables for cells in part.rows):
            if cells[0].text == "channel=email":
                said = "".join(c.text for c in cells[1:] if "gap" not in c.text)
                assert not re.search(r"\d", said), (section.title, said)
                drawn = "".join(str(c.chart) for c in cells if c.chart)
                assert "range" not in drawn
                assert ("hidden" in drawn) == (section.title == PAGE_ONE[0][0])
    annex = as_markdown(one).partition("## Annex: Rates")[2]
    line = next(x for x in annex.splitlines() if x.startswith("| channel=email"))
    assert "%" not in line


def test_figures_are_those_of_the_release() -> None:
    frames = weekly(release(numbered("channel=chat", 10)))
    (row,) = chat_tpr(frames["rates"])
    assert [row["value"], row["lower"], row["upper"], row["support"]] == [0.10, 0.11, 0.12, 1013]
    (gap,) = chat_tpr(frames["gaps"])
    assert [gap["value"], gap["lower"], gap["upper"], gap["max_gap"]] == [0.14, 0.15, 0.16, 0.1]
    text = as_markdown(report(release(numbered("channel=chat", 10))))
    assert "| channel=chat | 10 % (11 to 12 %), 1,013+ |" in text
    assert "| channel=chat | tpr | 10 % | 24 %, all others | +14 \\[+15 to +16\\] |" in text


def chat_tpr(frame: pd.DataFrame) -> list[dict[Hashable, Any]]:
    found = frame[(frame["slice"] == "channel=chat") & (frame["metric"] == "tpr")]
    return found.to_dict("records")


def test_nan_is_for_what_is_withheld_or_coded_alone() -> None:
    frames = weekly(release(full("channel=chat"), hidden("channel=email")))
    assert {name: tuple(frame.columns) for name, frame in frames.items()} == COLUMNS
    rates = frames["rates"]
    coded = rates["at_least"].notna() | rates["at_most"].notna()
    assert (rates["support"].isna() == (rates["value"].isna() & ~coded)).all()
    assert rates["state"].notna().all()
    assert isinstance(rates["ends_at"].dtype, pd.DatetimeTZDtype)


def test_equal_inputs_give_equal_bytes() -> None:
    made = RELEASES["everything"]
    assert texts(report(made)) == texts(report(msgspec.json.decode(encode(made), type=Release)))
    found = re.fullmatch(rb'.*"release":(.*)}\n', as_json.render(report(made)))
    assert found
    assert found[1] == encode(made), "whoever has the file can check the digest"


def test_texts_of_the_settings_are_escaped_and_no_formula() -> None:
    one = report(release(full("channel==cmd")))
    page = as_html(one)
    assert "<b>help</b>" not in page
    assert "&lt;b&gt;help&lt;/b&gt;" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    lines = as_csv(release(SliceRow("=1+1", dict.fromkeys(Metric, State.SUPPRESSED))))
    assert "'=1+1" in lines["rates"]


def decided(state: State, **changed: object) -> Release:
    rows = [
        replace(numbered(f"channel={name}", 10), states=dict.fromkeys(Metric, state))
        for name in ("chat", "email")
    ]
    made = release(*rows, **changed)
    (table,) = made.contracts
    (window,) = table.windows
    (group,) = window.groups
    assert window.decisions is not None
    whole = replace(window.decisions, data_lost=False)
    group = replace(group, decisions=whole, labelled=whole)
    window = replace(window, decisions=whole, labelled=whole, groups=(group,))
    return replace(made, contracts=(replace(table, windows=(window,)),))


BROKEN = (State.SUSPECTED, State.BREACH, State.BETTER_OFF)


@pytest.mark.parametrize("state", State)
def test_a_broken_limit_blocks_and_what_is_not_measured_is_undecided(state: State) -> None:
    made = decided(state)
    word = Word.BLOCKED if state in BROKEN else Word.UNDECIDED
    word = Word.APPROVED if state is State.WITHIN_CONTRACT else word
    assert decide(made).word is word
    assert decide(made).sentence
    page = as_html(report(made))
    tone = {Word.APPROVED: "good", Word.BLOCKED: "bad", Word.UNDECIDED: "unsure"}[word]
    assert f'<strong class="badge {tone}">{word}</strong> {html.escape(decide(made).sentence)}' in (
        page
    ), "the reason stands beside the word"


@pytest.mark.parametrize("flag", ["data_lost", "excluded"])
def test_a_week_with_lost_or_excluded_data_is_undecided(flag: str) -> None:
    made = decided(State.WITHIN_CONTRACT)
    (table,) = made.contracts
    (window,) = table.windows
    assert window.decisions
    faulty = replace(window.decisions, **{flag: True})
    window = replace(window, decisions=faulty)
    made = replace(made, contracts=(replace(table, windows=(window,)),))
    assert decide(made).word is Word.UNDECIDED
    assert len(decide(made).reasons(Finding.NOT_MEASURED)) == 1


def test_a_breach_without_an_outcome_blocks_and_missing_labels_leave_undecided() -> None:
    made = decided(State.WITHIN_CONTRACT, incidents=(INCIDENT,))
    assert decide(made).word is Word.BLOCKED
    why = "Breach not closed: incident 7, a hidden slice: Ready replies served at once (TPR)."
    assert decide(made).sentence == why
    over = replace(INCIDENT, state=Stand.CLOSED, outcome=Outcome.NOT_REAL)
    assert decide(replace(made, incidents=(over,))).word is Word.APPROVED
    (table,) = made.contracts
    (window,) = table.windows
    unlabelled = replace(table, windows=(replace(window, labelled=None),))
    unlabelled_week = replace(made, incidents=(), contracts=(unlabelled,))
    assert decide(unlabelled_week).word is Word.UNDECIDED
    assert "No labels of the week are released yet." in decide(unlabelled_week).sentence


def test_nothing_to_check_approves_nothing() -> None:
    assert decide(RELEASES["no contract"]).word is Word.UNDECIDED
    assert "There is nothing to check." in decide(RELEASES["no row"]).sentence


def test_a_signature_of_other_bytes_is_shown_as_such() -> None:
    made = report(RELEASES["everything"], 2)
    mine = Signature(WEEK.name, 1, 2, made.revision.digest, WEEK.end, "A. Person", "yes")
    other = Signature(WEEK.name, 2, 1, "0" * 64, WEEK.end, "B. Person", "")
    text = as_markdown(replace(made, signatures=(mine, other)))
    lines = {line.split(" | ")[0]: line for line in text.splitlines() if "Person |" in line}
    assert "this revision" in lines["| A. Person"]
    assert "NOT" not in lines["| A. Person"]
    assert "NOT this revision" in lines["| B. Person"]


def test_a_revision_keeps_contract_versions_and_is_of_no_part_of_a_week() -> None:
    before = RELEASES["everything"]
    (was,) = before.contracts
    (window,) = was.windows
    assert window.decisions
    assert kept_tables(before, [replace(was, version="4")]) == (was,)
    assert kept_tables(before, []) == (was,)
    cut = replace(window.decisions, start=window.decisions.start + DAY)
    later = replace(was, windows=(replace(window, decisions=cut),))
    assert kept_tables(before, [later]) == (was,), "its first blocks are not kept any more"
    left_out = replace(was, windows=(replace(window, decisions=replace(cut, excluded=True)),))
    assert kept_tables(before, [left_out]) == (was,)
    more = replace(was, owner="others")
    assert kept_tables(before, [more]) == (more,)
    assert kept_tables(None, [more]) == (more,)
