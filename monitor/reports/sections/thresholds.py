"""Share that would be served at other thresholds, between bounds."""

from __future__ import annotations

from monitor.core.publish.words import bounds, percent
from monitor.drawing.tables import TableCell, Tone
from monitor.reports.layout import Section
from monitor.reports.planned import planned
from monitor.reports.planners.threshold_what_if import Bounds, WhatIfLine
from monitor.reports.sections.names import listed, name_of, slices_in, without
from monitor.reports.weekly_report import WeeklyReport


def what_if(report: WeeklyReport) -> Section:
    """The rates of each slice if the threshold were at or between the edges of the score bands."""
    lines = planned(report).threshold_what_if
    if not lines:
        why = "No slice shows its calibration and its ready rate, so nothing is known of other"
        return Section((f"{why} thresholds.",))
    sentences = (
        "If every reply that is not blocked were routed by its score alone, at one threshold: a"
        " look back at this week, no forecast. Selection is the share of these replies that would"
        " be served.",
        "Each cell has the ends of what the published numbers allow, all of which hold together"
        " with 95 % confidence for a slice. Only ends that differ by a few points say much.",
        _present(report),
        *without(report, slices_in({one.of for one in lines}), "its calibration is hidden"),
    )
    rows = (
        (
            name_of(report, one.of),
            _threshold(one),
            *(_cell(ends) for ends in (one.selection, one.tpr, one.fpr)),
        )
        for one in lines
    )
    columns = "slice|threshold|selection|tpr|fpr"
    return listed(columns, rows, sentences, "threshold_what_if")


def _present(report: WeeklyReport) -> str:
    known = report.facts.present_threshold
    if known is None:
        return (
            "The settings do not say from which score on the router serves now"
            " (report.present_threshold); with that the bounds would be narrower."
        )
    return f"As the settings say, the router serves from a score of {known:.2f} on now."


def _threshold(one: WhatIfLine) -> str:
    if one.below is None:
        return f"{one.threshold:.2f}"
    return f"inside {one.threshold:.2f} to {one.below:.2f}"


def _cell(ends: Bounds | None) -> str | TableCell:
    if ends is None:
        return TableCell("not identified", Tone.UNSURE)
    if ends.lower == ends.upper:
        return percent(ends.lower)
    return bounds(ends.lower, ends.upper)
