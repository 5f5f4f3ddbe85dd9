"""Context of the gaps: other criteria, similar requests, representation."""

from __future__ import annotations

from monitor.core.publish.words import NONE, bounds, gap_bounds, percent, points
from monitor.present.document import Section, TableCell, Tone
from monitor.reports.planned import planned
from monitor.reports.planners.criteria import CriteriaLine
from monitor.reports.planners.representation import RepresentationLine
from monitor.reports.planners.standardised import StandardisedLine
from monitor.reports.sections.names import listed, name_of
from monitor.reports.weekly_report import WeeklyReport


def criteria(report: WeeklyReport) -> Section:
    """Return a section on criteria that cannot hold together, slice by slice."""
    sentence = (
        "Where shares of ready replies differ, equal TPR, FPR and precision cannot all hold"
        " (Chouldechova 2017). The last column is the FPR that a slice would have with the TPR and"
        " precision of all decisions."
    )
    columns = "slice|ready|precision|fpr|fpr that would follow"
    rows = (_criteria(report, line) for line in planned(report).criteria)
    return listed(columns, rows, sentence, "criteria")


def _criteria(report: WeeklyReport, line: CriteriaLine) -> tuple[str, ...]:
    numbers = (line.ready, line.precision, line.fpr)
    forced_fpr = (
        percent(line.fpr_forced) if line.fpr_forced <= 1 else "none: it would be above 100 %"
    )
    return (name_of(report, line.of), *map(percent, numbers), forced_fpr)


def standardised(report: WeeklyReport) -> Section:
    """Return a section that lists raw gaps, and gaps standardised over another attribute."""
    sentence = (
        "The standardised gap compares a slice within each value of another attribute, with equal"
        " weights for both sides. It says what is left among alike requests, not that the rest has"
        " a good reason. Its 95 % interval is for it alone."
    )
    columns = "slice|rate|over|raw gap, points|standardised, points|95 % interval, points"
    rows = (_standardised(report, line) for line in planned(report).standardised)
    return listed(columns, rows, sentence, "standardised")


def _standardised(report: WeeklyReport, line: StandardisedLine) -> tuple[str | TableCell, ...]:
    head = (name_of(report, line.of), line.metric.value, line.over, points(line.raw))
    if line.value is None:
        why = f"not known: {line.hidden} of the {line.cells} cells it needs are hidden"
        return (*head, TableCell(why, Tone.UNSURE), NONE)
    return (*head, points(line.value), gap_bounds(line.lower, line.upper))


def representation(report: WeeklyReport) -> Section:
    """Return a section that compares shares of slices with a population from the settings."""
    sentence = (
        "Shares among the decisions of the shown slices with a target. They lie between bounds,"
        " since counts are shown in bands."
    )
    columns = "slice|share of the population|share of decisions|compared"
    rows = (_represented(report, line) for line in planned(report).representation)
    return listed(columns, rows, sentence, "representation")


def _represented(report: WeeklyReport, line: RepresentationLine) -> tuple[str | TableCell, ...]:
    comparison = TableCell("as the population, as far as bands tell")
    if line.most < line.target:
        comparison = TableCell("fewer than in the population", Tone.UNSURE)
    elif line.least > line.target:
        comparison = TableCell("more than in the population", Tone.UNSURE)
    share = bounds(line.least, line.most)
    return name_of(report, line.of), percent(line.target), share, comparison
