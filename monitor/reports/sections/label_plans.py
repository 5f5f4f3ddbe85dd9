"""Plans for labels: the gaps that this week could find, and the audits of the next week."""

from __future__ import annotations

from monitor.core.publish.words import NONE, percent, points
from monitor.drawing.tables import TableCell, Tone
from monitor.reports.layout import Section
from monitor.reports.planned import planned
from monitor.reports.planners.detectable import DetectableLine
from monitor.reports.planners.label_budget import BudgetLine
from monitor.reports.sections.names import listed, name_of, slices_in, without
from monitor.reports.weekly_report import WeeklyReport

_HIDDEN = "a number that it needs is hidden"


def budget(report: WeeklyReport) -> Section:
    """Return a section with the auto-served replies to audit next week, per slice and rate."""
    lines = planned(report).label_budget
    if not lines:
        why = "No slice has all the numbers that a budget needs: TPR, FPR, ready and blocked rate."
        return Section((why,))
    width = points(report.facts.interval_width).lstrip("+")
    sentences = (
        f"For a 95 % interval of at most {width} points from end to end, if next week is like this"
        " one and everything that goes to review is labelled. The share is one of the audit rates"
        " of the settings: the number to send as audit_p.",
        "A plan holds for all rates that this week's intervals leave possible, so it may ask for"
        " more than would have been enough.",
        *without(report, slices_in({line.of for line in lines}), _HIDDEN),
    )
    rows = (
        (
            name_of(report, line.of),
            line.metric.value,
            points(line.width_now).lstrip("+"),
            f"at least {line.served:,}",
            _share(line),
            NONE if line.audits is None else f"about {line.audits:,}",
        )
        for line in lines
    )
    columns = "slice|rate|width now, points|served in a week|audit next week|audits"
    return listed(columns, rows, sentences, "label_budget")


def _share(line: BudgetLine) -> TableCell:
    if line.share is not None:
        return TableCell(percent(line.share))
    narrowest = points(line.narrowest).lstrip("+")
    reason = f"no share is enough: with all audits that the settings allow, {narrowest} points"
    return TableCell(f"{reason}; merge slices, or look at four weeks", Tone.UNSURE)


def detectable_gaps(report: WeeklyReport) -> Section:
    """Return a section with the smallest gaps that this week's labels would find."""
    lines = planned(report).detectable_gaps
    if not lines:
        why = "No gap of a labelled rate is shown, so it is not known what this week could find."
        return Section((why,))
    sentences = (
        "A true gap of this size is found to be beyond its limit in four weeks of five, with as"
        " many labels as in this week. Smaller ones are mostly overlooked: that nothing was found"
        " does not say that there is none.",
        *without(report, slices_in({line.of for line in lines}), _HIDDEN),
    )
    rows = (
        (
            name_of(report, line.of),
            line.metric.value,
            points(line.limit).lstrip("+"),
            _gap(line),
        )
        for line in lines
    )
    columns = "slice|rate|limit, points|smallest gap that is found, points"
    return listed(columns, rows, sentences, "detectable_gaps")


def _gap(line: DetectableLine) -> TableCell:
    if line.gap is None:
        return TableCell("none that there can be", Tone.UNSURE)
    return TableCell(points(line.gap).lstrip("+"))
