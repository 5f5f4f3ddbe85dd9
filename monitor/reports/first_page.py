"""The first page, in plain words: what was tested, failed, is not known, and is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from monitor.core.contract import Metric, State, Verdict
from monitor.core.publish.conclusion import LimitCheck, checks, limited
from monitor.core.publish.glossary import STATES, TERMS, slice_name
from monitor.core.publish.limit_words import beyond_limit, limit_text
from monitor.core.publish.lines import Cell, cell, places
from monitor.core.publish.reasons import Place
from monitor.core.publish.sides import BAD
from monitor.core.publish.snapshot import ContractTable, Period, WindowTable
from monitor.core.publish.words import NONE
from monitor.core.rates.gap_words import worse_off
from monitor.core.time import WEEK
from monitor.drawing.tables import TableCell, Tone, table
from monitor.reports.decision import decide
from monitor.reports.layout import Section, titled
from monitor.reports.ways_out import ways_out
from monitor.reports.weekly_report import WeeklyReport

_OPEN = (Verdict.INSUFFICIENT_SUPPORT, Verdict.INCONCLUSIVE)


_WORST = 3
"""Broken limits that are named at once; the section on what failed has all of them."""


def in_short(report: WeeklyReport) -> Section:
    """The decision and what it lacks, the verdict on each contract, and what is worst."""
    decision = decide(report.release, report.zone)
    sentences = [f"{decision.word}. {decision.sentence}"]
    sentences += [
        f"Not met: {one.name} ({one.why})." for one in decision.requirements if not one.met
    ]
    for contract, window in report.windows():
        found = Counter(one.verdict for one in checks(contract, window))
        open_ = sum(found[verdict] for verdict in _OPEN)
        tally = (
            f"{found[Verdict.FAIL]} outside the limit, {open_} not decided,"
            f" {found[Verdict.PASS]} within the limit"
        )
        sentences.append(f"{report.named(contract)}{found.total()} checks: {tally}.")
    for place, one in _failed(report)[:_WORST]:
        what = beyond_limit(place.row.slice, one)
        sentences.append(f"{report.named(place.contract)}{what}.")
    return Section(tuple(sentences))


def what_was_tested(report: WeeklyReport) -> Section:
    """Rates that were tested, of which slices and over which time."""
    said = tuple(s for one, window in report.windows() for s in _tested(report, one, window))
    return Section(said or ("The Release has no contract, so nothing was tested.",))


def _tested(report: WeeklyReport, one: ContractTable, window: WindowTable) -> Iterator[str]:
    metrics = "; ".join(TERMS[metric].name for metric in limited(one)) or "no rate"
    groups = ", ".join(group.group_by for group in window.groups) or "no group-by"
    yield (
        f"{report.named(one)}Use case {one.contract}, contract version {one.version}, answered for"
        f" by {one.owner}. Slices by {groups} are compared. Limited: {metrics}."
    )
    decisions, labels = (_span(report, some) for some in (window.decisions, window.labelled))
    yield f"{report.named(one)}Decisions {decisions}; labels {labels}."
    if waiting := [group.group_by for group in window.groups if group.decisions is None]:
        yield f"{report.named(one)}By {', '.join(waiting)} no table of this week is published."


def _span(report: WeeklyReport, period: Period | None) -> str:
    if period is None:
        return "are not released yet"
    return f"from {report.moment(period.start)} to {report.moment(period.end)}"


def checked_cells(report: WeeklyReport) -> Iterator[tuple[Place, Cell, LimitCheck]]:
    """Every check of a limited metric of a slice, with its row."""
    for contract, window in report.windows():
        judged = {(check.metric, check.slice): check for check in checks(contract, window)}
        for place in places(contract, window):
            for metric in limited(contract):
                check = judged.get((metric, place.row.slice))
                if check is not None:
                    yield place, cell(place, metric), check


def _cells_with(report: WeeklyReport, verdicts: Sequence[Verdict]) -> list[tuple[Place, Cell]]:
    cells = checked_cells(report)
    return [(place, one) for place, one, check in cells if check.verdict in verdicts]


def _failed(report: WeeklyReport) -> list[tuple[Place, Cell]]:
    return _cells_with(report, (Verdict.FAIL,))


def what_failed(report: WeeklyReport) -> Section:
    """Slices that are worse off, by how much, and the limit."""
    found = _failed(report)
    if not found:
        return Section(("No limit is broken by what could be measured.",))
    rows = (
        (
            TableCell(f"{report.named(place.contract)}{slice_name(place.row.slice)}", Tone.BAD),
            TERMS[one.metric].name,
            beyond_limit(place.row.slice, one),
            _worse_off(place, one),
            limit_text(one.decided_by) if one.decided_by else NONE,
        )
        for place, one in found
    )
    made = table("slice|rate|what, by how much|worse off|limit", rows)
    sentence = f"{len(found)} {'limit is' if len(found) == 1 else 'limits are'} broken."
    return Section((sentence,), titled(made))


def _worse_off(place: Place, one: Cell) -> str:
    """The side that is harmed; of a level, the slice."""
    if one.gap is None or not one.gap.value:
        return slice_name(place.row.slice)
    return worse_off(slice_name(place.row.slice), slice_name(one.gap.reference), one.gap.value)


def state_text(state: State) -> str:
    """A state in words; what the sequential tests say is among the incidents."""
    return "outside the limit" if state in BAD else STATES[state]


def _undecided(report: WeeklyReport) -> list[tuple[Place, Cell]]:
    return _cells_with(report, _OPEN)


def what_is_not_known(report: WeeklyReport) -> Section:
    """Rates that could not be measured or decided, and why."""
    found = _undecided(report)
    if not found:
        return Section(("Every limited rate of every slice could be measured and decided.",))
    rows = (
        (
            f"{report.named(place.contract)}{slice_name(place.row.slice)}",
            TERMS[one.metric].name,
            TableCell(state_text(one.state), Tone.UNSURE),
            one.why or "Its interval does not say.",
        )
        for place, one in found
    )
    made = table("slice|rate|state|why", rows)
    return Section((f"{len(found)} checks could not be decided.",), titled(made))


def what_is_needed(report: WeeklyReport) -> Section:
    """The three ways out of each check that lacks support."""
    found = _undecided(report)
    if not found:
        return Section(("Nothing more is needed: every check is decided.",))
    rows = (_needed(report, place, one.metric) for place, one in found)
    made = table("slice|rate|audit more|wait|merge, or a longer window", rows)
    sentence = (
        "Each undecided check has three ways to a decision; none of them is to raise a limit."
    )
    return Section((sentence,), titled(made))


def _needed(report: WeeklyReport, place: Place, metric: Metric) -> tuple[str, ...]:
    ways = ways_out(place, metric, lambda weeks: report.day(report.release.end + weeks * WEEK))
    name = f"{report.named(place.contract)}{slice_name(place.row.slice)}"
    return name, TERMS[metric].name, ways.audit, ways.wait, ways.merge
