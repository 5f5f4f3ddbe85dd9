"""Page one: every slice against its limit, what was not measured, open incidents, signatures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from monitor.core.contract import Verdict
from monitor.core.publish.conclusion import limited
from monitor.core.publish.glossary import slice_name, slice_names
from monitor.core.publish.incidents import Stand
from monitor.core.publish.limit_words import decides_text
from monitor.core.publish.lines import Cell
from monitor.core.publish.release import ReleasedIncident
from monitor.core.publish.snapshot import LimitKind
from monitor.core.publish.words import NONE, counted, gap_text, points, rate_text, some_text
from monitor.core.state import State
from monitor.core.time import MINUTE
from monitor.present import charts
from monitor.present.document import Section, TableCell, Tone, table
from monitor.reports.decision import NOT_DECIDED, Finding, decide
from monitor.reports.judged import (
    MOST_LISTED,
    Judged,
    judged_cells,
    leading,
    leading_total,
    state_text,
)
from monitor.reports.planned import planned
from monitor.reports.planners.trends import TrendLine
from monitor.reports.weekly_report import WeeklyReport

_COLUMNS = "slice|metric|rate|reference|gap, points (95 % interval)|limit|verdict"


def slices(report: WeeklyReport) -> Section:
    """Return a section with one table: rate, reference, gap, limit and verdict of each slice."""
    rows = leading(report)
    if not rows:
        return Section(notes=("No limited rate of a slice is released.",))
    scale = charts.gap_scale(charts.sizes(judged.cell for judged in rows))
    weeks = [gap.week.partition("-")[2] for gap in planned(report).trends[0].weeks]
    columns = _COLUMNS + (f"|gap in {', '.join(weeks)}" if weeks else "")
    lines = zip(rows, planned(report).trends, strict=True)
    listed = table(columns, (_row(report, judged, trend, scale) for judged, trend in lines))
    return Section(notes=(" ".join(_meanings(report, rows)),), tables=listed)


def _row(
    report: WeeklyReport, judged: Judged, trend: TrendLine, scale: float
) -> Iterator[str | TableCell]:
    """Yield the cells of a row: slice, metric, rate, reference, gap, limits, verdict and trend."""
    metric_cell = judged.cell
    yield f"{report.named(judged.place.contract)}{judged.name}"
    yield metric_cell.metric.value
    yield rate_text(metric_cell.rate)
    yield _reference_text(metric_cell)
    drawn = metric_cell.gap or metric_cell.state is State.SUPPRESSED
    chart = charts.gap_strip(metric_cell, scale) if drawn else None
    yield TableCell(gap_text(metric_cell.gap), chart=chart)
    yield limits_cell(metric_cell)
    yield verdict_cell(judged)
    if trend.weeks:
        yield ", ".join(points(gap.value) for gap in trend.weeks) if _has_gap(trend) else NONE


def _has_gap(trend: TrendLine) -> bool:
    return any(gap.value is not None for gap in trend.weeks)


def _reference_text(metric_cell: Cell) -> str:
    if metric_cell.gap is None:
        return NONE
    return f"{rate_text(metric_cell.reference_rate)}, {_short(metric_cell.gap.reference)}"


def _short(reference: str) -> str:
    """Return the name of a reference; without the attribute if it is a value of only one."""
    name = slice_name(reference)
    return name if name.count("=") != 1 else name.split("=")[1]


_LIMITS = {
    LimitKind.MAX_GAP: ("gap \N{LESS-THAN OR EQUAL TO} {:g}", 100),
    LimitKind.MIN_RATIO: ("ratio \N{GREATER-THAN OR EQUAL TO} {:g}", 1),
    LimitKind.MIN_LEVEL: ("rate \N{GREATER-THAN OR EQUAL TO} {:g} %", 100),
    LimitKind.MAX_LEVEL: ("rate \N{LESS-THAN OR EQUAL TO} {:g} %", 100),
}


def limits_cell(metric_cell: Cell) -> str:
    """Return the limits of a cell as short text, such as ``gap <= 10; rate >= 45 %``."""
    texts = (
        _LIMITS[kind][0].format(round(_LIMITS[kind][1] * limit, 6))
        for kind, limit in metric_cell.limits.items()
    )
    return "; ".join(texts) or NONE


def verdict_cell(judged: Judged) -> TableCell:
    """Return the verdict of a row in words, with its emphasis."""
    if judged.failed:
        words = filter(None, ["over the limit", decides_text(judged.cell)])
        return TableCell(": ".join(words), Tone.BAD)
    if judged.undecided:
        return TableCell(state_text(judged.cell.state), Tone.UNSURE)
    if judged.check is not None and judged.check.verdict is Verdict.PASS:
        return TableCell("within the limit", Tone.GOOD)
    if judged.cell.mirror_of:
        return TableCell(f"judged with {slice_name(judged.cell.mirror_of)}")
    return TableCell("reference" if judged.cell.gap is None else state_text(judged.cell.state))


def _meanings(report: WeeklyReport, rows: Iterable[Judged]) -> Iterator[str]:
    """Yield the sentences below the table: its terms, and how much it leaves out."""
    metrics = dict.fromkeys(judged.cell.metric for judged in rows)
    names = "; ".join(f"{metric.value}: {metric.row.heading}" for metric in metrics)
    yield f"{names}. A gap above 0 means that the slice is worse off."
    more = leading_total(report) - MOST_LISTED
    if more > 0:
        yield f"{more} more rows are in the annex, none of them worse."
    for contract, _ in report.windows():
        rest = Counter(
            judged.cell.metric
            for judged in judged_cells(report)
            if judged.place.contract is contract
            and judged.cell.metric is not limited(contract)[0]
            and judged.check is not None
            and judged.check.verdict is Verdict.PASS
        )
        if rest:
            passed = "; ".join(
                f"{metric.row.heading}, {counted(number, 'slice')}"
                for metric, number in rest.items()
            )
            yield f"{report.named(contract)}Also checked and within their limits: {passed}."


def not_measured(report: WeeklyReport) -> Section:
    """Return a section that groups the undecided checks by their reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for judged in judged_cells(report):
        if judged.undecided:
            named = report.named(judged.place.contract)
            reason = state_text(judged.cell.state), judged.cell.until
            groups.setdefault(reason, []).append(f"{named}{judged.short}")
    rows = (
        (TableCell(why, Tone.UNSURE), some_text(names, _MOST_NAMED), until or NONE)
        for (why, until), names in groups.items()
    )
    tables = table("why|slices|what helps", rows)
    decision = decide(report.release, report.zone)
    reasons = (*decision.reasons(Finding.NOT_MEASURED), *_waiting(report))
    if not reasons:
        return Section(notes=("Everything was measured and decided.",))
    notes = tuple(why for why in reasons if not tables or not why.startswith(NOT_DECIDED))
    return Section(notes=notes, tables=tables)


_MOST_NAMED = 12


def _waiting(report: WeeklyReport) -> Iterator[str]:
    """Yield a sentence on each contract with group-bys that have no table of the week."""
    for contract, window in report.windows():
        waiting = [group.group_by for group in window.groups if group.decisions is None]
        if waiting:
            yield f"{report.named(contract)}No table by {', '.join(waiting)} is published yet."


def open_now(report: WeeklyReport) -> Section:
    """Return a section with the incidents that are not over in the newest Snapshot."""
    if report.open_now is None:
        return Section(notes=("Not known: no Snapshot is stored.",))
    day = report.day(report.open_now.day)
    incidents = report.open_now.incidents
    if not incidents:
        return Section(notes=(f"None on {day}.",))
    rows = (incident_row(report, incident) for incident in incidents)
    listed = table("incident|contract|metric|slice|since|state", rows)
    return Section(notes=(f"{len(incidents)} on {day}.",), tables=listed)


def incident_row(report: WeeklyReport, incident: ReleasedIncident) -> Iterator[str | TableCell]:
    """Yield id, contract, rate, slice, begin and state of an incident."""
    yield TableCell(str(incident.id), link=f"/incidents/{incident.id}")
    yield incident.contract
    yield incident.metric.row.heading
    yield slice_names(incident.slice, incident.further)
    yield report.moment(incident.since)
    open_ = incident.state in (Stand.OPEN, Stand.ACKNOWLEDGED)
    yield TableCell(incident.state.value, Tone.BAD if open_ else Tone.PLAIN)


def signatures(report: WeeklyReport) -> Section:
    """Return a section with the signatures so far, the SHA-256 to sign, and lines to sign on."""
    rows = [
        (
            signature.by,
            report.moment(signature.at - signature.at % MINUTE),
            str(signature.revision),
            _revision_cell(report, signature.digest),
            signature.note or NONE,
        )
        for signature in report.signatures
    ]
    signed = table("signed by|at|revision|which is|note", rows)
    notes = (
        f"Revision {report.revision.number}, SHA-256 {report.revision.digest}."
        f" To sign: slicewatch report sign --week {report.revision.week} --by NAME --note TEXT",
        f"Owner of the use case: {_LINE}",
        f"Fairness or privacy officer: {_LINE}",
    )
    return Section(notes=notes, tables=signed)


_LINE = f"{'.' * 30} Date: {'.' * 12}"


def _revision_cell(report: WeeklyReport, digest: str) -> TableCell:
    if digest == report.revision.digest:
        return TableCell("this revision", Tone.GOOD)
    return TableCell("NOT this revision: other numbers were signed", Tone.BAD)
