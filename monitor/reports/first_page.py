"""First page of the report in plain words: checks, failures, open questions, ways out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from monitor.core.contract import Metric, State, Verdict
from monitor.core.publish.conclusion import LimitCheck, checks, limited
from monitor.core.publish.glossary import STATES, TERMS, slice_name
from monitor.core.publish.limit_words import breach_text, limit_text
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
"""Number of broken limits in the summary; :func:`what_failed` lists all of them."""


def in_short(report: WeeklyReport) -> Section:
    """Return a section with decision, missing requirements, checks per contract and worst gaps."""
    decision = decide(report.release, report.zone)
    sentences = [f"{decision.word}. {decision.sentence}"]
    sentences += [
        f"Not met: {requirement.name} ({requirement.why})."
        for requirement in decision.requirements
        if not requirement.met
    ]
    for contract, window in report.windows():
        verdict_counts = Counter(check.verdict for check in checks(contract, window))
        undecided = sum(verdict_counts[verdict] for verdict in _OPEN)
        tally = (
            f"{verdict_counts[Verdict.FAIL]} outside the limit, {undecided} not decided,"
            f" {verdict_counts[Verdict.PASS]} within the limit"
        )
        sentences.append(f"{report.named(contract)}{verdict_counts.total()} checks: {tally}.")
    for place, metric_cell in _failed(report)[:_WORST]:
        failure = breach_text(place.row.slice, metric_cell)
        sentences.append(f"{report.named(place.contract)}{failure}.")
    return Section(tuple(sentences))


def what_was_tested(report: WeeklyReport) -> Section:
    """Return a section that names the rates, slices and periods that were tested."""
    sentences = tuple(
        sentence
        for contract, window in report.windows()
        for sentence in _tested(report, contract, window)
    )
    return Section(sentences or ("The Release has no contract, so nothing was tested.",))


def _tested(report: WeeklyReport, contract: ContractTable, window: WindowTable) -> Iterator[str]:
    metrics = "; ".join(TERMS[metric].name for metric in limited(contract)) or "no rate"
    groups = ", ".join(group.group_by for group in window.groups) or "no group-by"
    yield (
        f"{report.named(contract)}Use case {contract.contract}, contract version"
        f" {contract.version}, answered for by {contract.owner}."
        f" Slices by {groups} are compared. Limited: {metrics}."
    )
    decisions, labels = (_span(report, period) for period in (window.decisions, window.labelled))
    yield f"{report.named(contract)}Decisions {decisions}; labels {labels}."
    if waiting := [group.group_by for group in window.groups if group.decisions is None]:
        yield f"{report.named(contract)}By {', '.join(waiting)} no table of this week is published."


def _span(report: WeeklyReport, period: Period | None) -> str:
    if period is None:
        return "are not released yet"
    return f"from {report.moment(period.start)} to {report.moment(period.end)}"


def checked_cells(report: WeeklyReport) -> Iterator[tuple[Place, Cell, LimitCheck]]:
    """Yield (row, cell, check) for every check of a limited metric of a slice."""
    for contract, window in report.windows():
        judged = {(check.metric, check.slice): check for check in checks(contract, window)}
        for place in places(contract, window):
            for metric in limited(contract):
                check = judged.get((metric, place.row.slice))
                if check is not None:
                    yield place, cell(place, metric), check


def _cells_with(report: WeeklyReport, verdicts: Sequence[Verdict]) -> list[tuple[Place, Cell]]:
    cells = checked_cells(report)
    return [
        (place, metric_cell) for place, metric_cell, check in cells if check.verdict in verdicts
    ]


def _failed(report: WeeklyReport) -> list[tuple[Place, Cell]]:
    return _cells_with(report, (Verdict.FAIL,))


def what_failed(report: WeeklyReport) -> Section:
    """Return a section that lists broken limits: slice, rate, by how much, who is worse off."""
    failed = _failed(report)
    if not failed:
        return Section(("No limit is broken by what could be measured.",))
    rows = (
        (
            TableCell(f"{report.named(place.contract)}{slice_name(place.row.slice)}", Tone.BAD),
            TERMS[metric_cell.metric].name,
            breach_text(place.row.slice, metric_cell),
            _worse_off_name(place, metric_cell),
            limit_text(metric_cell.decided_by) if metric_cell.decided_by else NONE,
        )
        for place, metric_cell in failed
    )
    failed_table = table("slice|rate|what, by how much|worse off|limit", rows)
    sentence = f"{len(failed)} {'limit is' if len(failed) == 1 else 'limits are'} broken."
    return Section((sentence,), titled(failed_table))


def _worse_off_name(place: Place, metric_cell: Cell) -> str:
    """Return the name of the side that a gap harms; for a level, of the slice itself."""
    if metric_cell.gap is None or not metric_cell.gap.value:
        return slice_name(place.row.slice)
    return worse_off(
        slice_name(place.row.slice), slice_name(metric_cell.gap.reference), metric_cell.gap.value
    )


def state_text(state: State) -> str:
    """Return a state in words; each kind of breach reads as outside the limit."""
    return "outside the limit" if state in BAD else STATES[state]


def _undecided(report: WeeklyReport) -> list[tuple[Place, Cell]]:
    return _cells_with(report, _OPEN)


def what_is_not_known(report: WeeklyReport) -> Section:
    """Return a section that lists undecided checks, and why each is undecided."""
    undecided = _undecided(report)
    if not undecided:
        return Section(("Every limited rate of every slice could be measured and decided.",))
    rows = (
        (
            f"{report.named(place.contract)}{slice_name(place.row.slice)}",
            TERMS[metric_cell.metric].name,
            TableCell(state_text(metric_cell.state), Tone.UNSURE),
            metric_cell.why or "Its interval does not say.",
        )
        for place, metric_cell in undecided
    )
    undecided_table = table("slice|rate|state|why", rows)
    return Section((f"{len(undecided)} checks could not be decided.",), titled(undecided_table))


def what_is_needed(report: WeeklyReport) -> Section:
    """Return a section with three ways to a decision for each undecided check."""
    undecided = _undecided(report)
    if not undecided:
        return Section(("Nothing more is needed: every check is decided.",))
    rows = (_needed(report, place, metric_cell.metric) for place, metric_cell in undecided)
    ways_table = table("slice|rate|audit more|wait|merge, or a longer window", rows)
    sentence = (
        "Each undecided check has three ways to a decision; none of them is to raise a limit."
    )
    return Section((sentence,), titled(ways_table))


def _needed(report: WeeklyReport, place: Place, metric: Metric) -> tuple[str, ...]:
    ways = ways_out(place, metric, lambda weeks: report.day(report.release.end + weeks * WEEK))
    name = f"{report.named(place.contract)}{slice_name(place.row.slice)}"
    return name, TERMS[metric].name, ways.audit, ways.wait, ways.merge
