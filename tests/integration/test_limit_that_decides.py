"""The limit that decides is named, with its value, wherever a broken contract is told."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from cubes import CODING, LIMITS, Cell, auto, build_contract, contract, review, window
from released_rows import WEEK, facts_of, report_of
from rich.console import Console

from monitor.commands.incident_report import details
from monitor.commands.incident_report import table_of as table_of_incidents
from monitor.commands.summary import summary
from monitor.core.contract import COMPLEMENT, GroupBy, Limits, OwnLimits, Severity
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Behind, IncidentKind
from monitor.core.publish.conclusion import checks
from monitor.core.publish.deciding_limit import deciding_limit
from monitor.core.publish.headlines import incident_sentence
from monitor.core.publish.incident_reports import report
from monitor.core.publish.incidents import Incident
from monitor.core.publish.lines import incident_cell
from monitor.core.publish.release import Release
from monitor.core.publish.snapshot import (
    WITHHELD,
    ContractTable,
    GroupTable,
    LimitKind,
    PublishedValue,
    ShownIncident,
    ShownLimit,
    Snapshot,
    WindowTable,
)
from monitor.core.publish.window_says import SURE_ANYWAY
from monitor.core.state import State
from monitor.present.terminal import facts, rendered
from monitor.present.terminal import printed as on_terminal
from monitor.reports.formats import as_csv, as_html, as_markdown
from monitor.web import csv_files
from monitor.web.building import contract_contents
from monitor.web.contents import ContractContent
from monitor.web.links import ViewSubject

CHANNEL = GroupBy(("channel",), "channel=email")
CHAT = "channel=chat"
OF_CHAT = ("channel", CHAT)


def channel(name: str, ready: tuple[int, int], unready: tuple[int, int]) -> Iterable[Cell]:
    """Decisions of a channel, all labelled: how many were served and reviewed."""
    atom = {"channel": name}
    for make, at in ((auto, 0), (review, 1)):
        yield make(atom, ready[at] + unready[at], ready[at] + unready[at], ready[at])


CELLS = [*channel("chat", (400, 600), (500, 4500)), *channel("email", (1120, 1680), (320, 2880))]
"""TPR 40 % and FPR 10 % in both channels; 15 % are served in chat, and 24 % in email."""


@dataclass(frozen=True)
class Case:
    """Limits of a contract, and which of them is broken.

    Attributes:
        limits: changes of the contract's.
        own: of the slice.
        metric: of the limit that decides.
        decides: that limit.
        said: by how much it is broken.
        listed: the limit in words.
    """

    limits: dict[str, Fraction]
    own: tuple[tuple[str, Fraction], ...]
    metric: Metric
    decides: ShownLimit
    said: str
    listed: str


WIDE, RATIO = Fraction("0.15"), Fraction("0.8")
CASES = {
    "ratio": Case(
        {"max_selection_gap": WIDE, "min_selection_ratio": RATIO},
        (),
        Metric.SELECTION,
        ShownLimit(LimitKind.MIN_RATIO, 0.8),
        "the lower rate is 0.625 of the higher, limit 0.8",
        "the lower rate at least 0.8 times the higher",
    ),
    "gap": Case(
        {"max_selection_gap": Fraction("0.05"), "min_selection_ratio": Fraction("0.5")},
        (),
        Metric.SELECTION,
        ShownLimit(LimitKind.MAX_GAP, 0.05),
        "9 points, limit 5",
        "gap at most 5 points",
    ),
    "own ratio": Case(
        {"max_selection_gap": WIDE},
        (("min_selection_ratio", Fraction("0.9")),),
        Metric.SELECTION,
        ShownLimit(LimitKind.MIN_RATIO, 0.9),
        "the lower rate is 0.625 of the higher, limit 0.9",
        "the lower rate at least 0.9 times the higher",
    ),
    "own gap": Case(
        {"max_selection_gap": WIDE, "min_selection_ratio": Fraction("0.5")},
        (("max_selection_gap", Fraction("0.04")),),
        Metric.SELECTION,
        ShownLimit(LimitKind.MAX_GAP, 0.04),
        "9 points, limit 4",
        "gap at most 4 points",
    ),
    "own floor": Case(
        {},
        (("min_tpr", Fraction("0.6")),),
        Metric.TPR,
        ShownLimit(LimitKind.MIN_LEVEL, 0.6),
        "40 %, limit 60 %",
        "at least 60 %",
    ),
    "own ceiling": Case(
        {},
        (("max_fpr", Fraction("0.05")),),
        Metric.FPR,
        ShownLimit(LimitKind.MAX_LEVEL, 0.05),
        "10 %, limit 5 %",
        "at most 5 %",
    ),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def table_of(case: Case, group: GroupBy = CHANNEL) -> ContractTable:
    changed: dict[str, Any] = {"max_blocked_gap": None, **case.limits}
    limits: Limits = replace(LIMITS, **changed)
    own = (OwnLimits(*OF_CHAT, case.own),) if case.own else ()
    made = contract(group, k=1, synthetic=True, limits=limits, own_limits=own)
    return build_contract(made, CODING, [window(CELLS)])


def content_of(table: ContractTable) -> ContractContent:
    (content,) = contract_contents(Snapshot(0, 0, (table,)), ViewSubject())
    return content


def release_of(table: ContractTable) -> Release:
    windows = tuple(replace(one, window=WEEK.name) for one in table.windows)
    weekly = replace(table, window=WEEK.name, windows=windows)
    return Release(WEEK.name, WEEK.start, WEEK.end, (weekly,))


def rows_of(text: str, metric: Metric) -> list[dict[str, str]]:
    """Rows of the slice and metric in a CSV."""
    rows = csv.DictReader(io.StringIO(text))
    return [row for row in rows if (row["slice"], row["metric"]) == (CHAT, metric.value)]


@each_case
def test_the_headline_and_the_cell_of_a_page(case: Case) -> None:
    content = content_of(table_of(case))
    assert f"({case.said})" in content.verdict.sentence
    (line,) = (one for one in content.slices if one.slice == CHAT)
    (cell,) = (one for one in line.cells if one.metric is case.metric)
    assert cell.state is State.SUSPECTED
    assert cell.decided_by == case.decides
    (row,) = rows_of(csv_files.contracts_text(None, [content]), case.metric)
    assert row["decided_by"] == case.decides.kind.value
    assert float(row[row["decided_by"]]) == case.decides.value


@each_case
def test_the_summary_of_a_replay(case: Case) -> None:
    console = Console(file=io.StringIO(), record=True, width=10_000)
    console.print(*map(on_terminal, summary(Snapshot(0, 0, (table_of(case),)))))
    text = console.export_text()
    assert f"of {CHAT} ({case.listed})" in text.strip().splitlines()[-1]
    assert ("0.62 [" in text) is (LimitKind.MIN_RATIO in table_of(case).limit_kinds(case.metric))


@each_case
def test_the_weekly_report_in_each_format(case: Case) -> None:
    release = release_of(table_of(case))
    weekly = report_of(release, facts_of(CODING))
    markdown, page = as_markdown(weekly), as_html(weekly)
    assert f"({case.said})" in markdown
    assert f"({case.said})" in page
    failed = markdown[markdown.index("## Slices against") :]
    assert f"over the limit: {case.listed} |" in failed[: failed.index("\n## ", 1)]
    assert case.listed in markdown[markdown.index("## Annex: Contracts") :]
    for name in ("rates", "gaps"):
        if name == "rates" or case.decides.kind in (LimitKind.MAX_GAP, LimitKind.MIN_RATIO):
            (row,) = rows_of(as_csv(release)[name], case.metric)
            assert row["decided_by"] == case.decides.kind.value
            assert float(row[row["decided_by"]]) == case.decides.value


@each_case
def test_each_check_knows_it(case: Case) -> None:
    table = table_of(case)
    (of_chat,) = (
        one
        for one in checks(table, table.windows[0])
        if (one.slice, one.metric) == (CHAT, case.metric)
    )
    assert of_chat.decided_by == case.decides


def test_a_breach_is_of_the_limit_that_the_sequential_test_crossed() -> None:
    """Whatever the bounds of the window say: they also cover the days before."""
    case = CASES["gap"]
    table = table_of(case)
    (group,) = table.windows[0].groups
    broken = tuple(
        replace(
            row,
            states={**row.states, case.metric: State.BREACH},
            breach_limits={case.metric: LimitKind.MIN_RATIO},
        )
        for row in group.rows
    )
    made = with_rows(table, group, broken)
    limits = made.limits_of(*OF_CHAT, case.metric)
    decides = deciding_limit(broken[0], case.metric, limits, None)
    assert decides == ShownLimit(LimitKind.MIN_RATIO, 0.5)
    said = content_of(made).verdict.sentence
    assert "the lower rate is 0.625 of the higher, limit 0.5" in said
    assert "found day by day" in said


def test_nothing_decides_where_all_is_kept_or_not_judged() -> None:
    (group,) = table_of(CASES["ratio"]).windows[0].groups
    (row,) = (one for one in group.rows if one.slice == CHAT)
    for state in (State.WITHIN_CONTRACT, State.MATURING, State.NO_LIMIT):
        kept = replace(row, states={Metric.SELECTION: state})
        assert deciding_limit(kept, Metric.SELECTION, {LimitKind.MIN_RATIO: 0.8}, None) is None


@each_case
def test_an_incident_shows_both_rates_and_what_is_limited_against_a_complement_too(
    case: Case,
) -> None:
    whole = replace(CHANNEL, reference=COMPLEMENT)
    for group in (CHANNEL, whole):
        table = table_of(case, group)
        kind = IncidentKind.BREACH
        shown = ShownIncident(1, kind, Severity.TICKET, case.metric, 0, *OF_CHAT)
        incident = Incident(1, kind, table.contract, case.metric, 0, 0, *OF_CHAT)
        of_it = report(incident, (), shown, 0, incident_cell(table, shown))
        now = dict(details(of_it))["now"]
        rates = {
            Metric.SELECTION: "15 % here, 24 % for",
            Metric.TPR: "40 % here",
            Metric.FPR: "10 % here",
        }
        assert rates[case.metric] in now
        assert "for the reference; gap " in now
        number = case.said.rpartition(" ")[2] if "%" not in case.said else case.listed
        assert f"(limit {number})" in now


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        (PublishedValue(0.09, 0.04, 0.14, 7), "include days within the limit"),
        (PublishedValue(0.12, 0.04, 0.2, 7), "the evidence of all days"),
        (PublishedValue(0.12, 0.04, 0.2, 4), "in newer data"),
        (PublishedValue(0.2, 0.12, 0.28, 7), ""),
    ],
)
def test_why_the_test_is_sure_is_said_where_the_numbers_are_not(
    evidence: PublishedValue, says: str
) -> None:
    case, kind = CASES["own gap"], IncidentKind.BREACH
    table = table_of(case)
    incident = Incident(1, kind, table.contract, case.metric, 5, 5, *OF_CHAT)
    shown = ShownIncident(1, kind, Severity.TICKET, case.metric, 5, *OF_CHAT, latest=evidence)
    shown = replace(shown, limit=ShownLimit(LimitKind.MAX_GAP, 0.1))
    of_it = report(incident, (), shown, 9, incident_cell(table, shown))
    console = Console(file=io.StringIO(), record=True, width=300)
    console.print(details(of_it))
    assert says in console.export_text()
    assert (of_it.window_says in SURE_ANYWAY) is bool(says)


def test_an_incident_names_the_limit_that_it_broke() -> None:
    metric, limit = Metric.SELECTION, ShownLimit(LimitKind.MIN_RATIO, 0.8)
    incident = Incident(1, IncidentKind.BREACH, "replies", metric, 0, 0, *OF_CHAT)
    shown = ShownIncident(
        1, IncidentKind.BREACH, Severity.TICKET, metric, 0, *OF_CHAT, behind=Behind.SLICE
    )
    of_it = report(incident, (), replace(shown, limit=limit), 0)
    listed = "the lower rate at least 0.8 times the higher"
    assert listed in incident_sentence(metric, CHAT, of_it.behind, of_it.limit)
    console = Console(file=io.StringIO(), record=True, width=200)
    console.print(rendered(*table_of_incidents([of_it])), facts(details(of_it)))
    assert console.export_text().count(listed) == 2
    (row,) = csv.DictReader(io.StringIO(csv_files.incidents_text([of_it])))
    assert (row["limit"], row["limit_value"]) == ("min_ratio", "0.8")
    withheld = replace(shown, group_by="", slice=WITHHELD, behind=None)
    assert listed not in incident_sentence(metric, WITHHELD, None, withheld.limit)


def with_rows(table: ContractTable, group: GroupTable, rows: tuple[object, ...]) -> ContractTable:
    groups = (replace(group, rows=rows),)  # type: ignore[arg-type]  # rows of the group
    (only,) = table.windows
    decides: WindowTable = replace(only, groups=groups)
    return replace(table, windows=(decides,))
