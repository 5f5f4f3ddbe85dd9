"""Bounds of the share that would be served at other thresholds."""

from __future__ import annotations

from monitor.core.publish.words import bounds, percent
from monitor.drawing.tables import TableCell, Tone
from monitor.reports.layout import Section
from monitor.reports.planned import planned
from monitor.reports.planners.threshold_what_if import Bounds, WhatIfLine
from monitor.reports.sections.names import listed, name_of, slices_in, without
from monitor.reports.weekly_report import WeeklyReport


def what_if(report: WeeklyReport) -> Section:
    """Return a section with each slice's rates if the threshold were at or between band edges."""
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
        *without(report, slices_in({line.of for line in lines}), "its calibration is hidden"),
    )
    rows = (
        (
            name_of(report, line.of),
            _threshold(line),
            *(_cell(rate_bounds) for rate_bounds in (line.selection, line.tpr, line.fpr)),
        )
        for line in lines
    )
    columns = "slice|threshold|selection|tpr|fpr"
    return listed(columns, rows, sentences, "threshold_what_if")


def _present(report: WeeklyReport) -> str:
    threshold = report.facts.present_threshold
    if threshold is None:
        return (
            "The settings do not say from which score on the router serves now"
            " (report.present_threshold); with that the bounds would be narrower."
        )
    return f"As the settings say, the router serves from a score of {threshold:.2f} on now."


def _threshold(line: WhatIfLine) -> str:
    if line.below is None:
        return f"{line.threshold:.2f}"
    return f"inside {line.threshold:.2f} to {line.below:.2f}"


def _cell(rate_bounds: Bounds | None) -> str | TableCell:
    if rate_bounds is None:
        return TableCell("not identified", Tone.UNSURE)
    if rate_bounds.lower == rate_bounds.upper:
        return percent(rate_bounds.lower)
    return bounds(rate_bounds.lower, rate_bounds.upper)
