"""Labels of the next weeks: what this week could find, and how many to ask for."""

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
    """Number of auto-served replies to audit next week, slice by slice."""
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
        *without(report, slices_in({one.of for one in lines}), _HIDDEN),
    )
    rows = (
        (
            name_of(report, one.of),
            one.metric.value,
            points(one.width_now).lstrip("+"),
            f"at least {one.served:,}",
            _share(one),
            NONE if one.audits is None else f"about {one.audits:,}",
        )
        for one in lines
    )
    columns = "slice|rate|width now, points|served in a week|audit next week|audits"
    return listed(columns, rows, sentences, "label_budget")


def _share(one: BudgetLine) -> TableCell:
    if one.share is not None:
        return TableCell(percent(one.share))
    narrowest = points(one.narrowest).lstrip("+")
    said = f"no share is enough: with all audits that the settings allow, {narrowest} points"
    return TableCell(f"{said}; merge slices, or look at four weeks", Tone.UNSURE)


def detectable_gaps(report: WeeklyReport) -> Section:
    """The smallest gap beyond the limit that the labels of this week would find."""
    lines = planned(report).detectable_gaps
    if not lines:
        why = "No gap of a labelled rate is shown, so it is not known what this week could find."
        return Section((why,))
    sentences = (
        "A true gap of this size is found to be beyond its limit in four weeks of five, with as"
        " many labels as in this week. Smaller ones are mostly overlooked: that nothing was found"
        " does not say that there is none.",
        *without(report, slices_in({one.of for one in lines}), _HIDDEN),
    )
    rows = (
        (
            name_of(report, one.of),
            one.metric.value,
            points(one.limit).lstrip("+"),
            _gap(one),
        )
        for one in lines
    )
    columns = "slice|rate|limit, points|smallest gap that is found, points"
    return listed(columns, rows, sentences, "detectable_gaps")


def _gap(one: DetectableLine) -> TableCell:
    if one.gap is None:
        return TableCell("none that there can be", Tone.UNSURE)
    return TableCell(points(one.gap).lstrip("+"))
