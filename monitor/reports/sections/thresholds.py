"""Bounds of the share that would be served at other thresholds."""

from __future__ import annotations

from monitor.core.publish.words import bounds, percent
from monitor.present.document import Section, TableCell, Tone
from monitor.reports.planned import planned
from monitor.reports.planners.threshold_what_if import Bounds
from monitor.reports.sections.names import listed, name_of
from monitor.reports.weekly_report import WeeklyReport


def what_if(report: WeeklyReport) -> Section:
    """Return a section with each slice's rates if the threshold were at an edge of a band."""
    threshold = report.facts.present_threshold
    now = "" if threshold is None else f" The router serves from {threshold:.2f} on now."
    sentence = (
        "If the score alone routed every reply that is not blocked, at one threshold. Each cell"
        f" holds what the published numbers allow.{now} The JSON file has thresholds between the"
        " edges, too."
    )
    rows = (
        (
            name_of(report, line.of),
            f"{line.threshold:.2f}",
            *(_cell(rate_bounds) for rate_bounds in (line.selection, line.tpr, line.fpr)),
        )
        for line in planned(report).threshold_what_if
        if line.below is None
    )
    return listed("slice|threshold|selection|tpr|fpr", rows, sentence, "threshold_what_if")


def _cell(rate_bounds: Bounds | None) -> str | TableCell:
    if rate_bounds is None:
        return TableCell("not identified", Tone.UNSURE)
    if rate_bounds.lower == rate_bounds.upper:
        return percent(rate_bounds.lower)
    return bounds(rate_bounds.lower, rate_bounds.upper)
