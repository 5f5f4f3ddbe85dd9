"""Shares of missing or wrong labels that would turn verdicts."""

from __future__ import annotations

from monitor.core.contract import Verdict
from monitor.core.publish.words import percent
from monitor.drawing.tables import TableCell, Tone
from monitor.reports.layout import Section
from monitor.reports.planned import planned
from monitor.reports.sections.names import listed, name_of
from monitor.reports.weekly_report import WeeklyReport

_TONES = {Verdict.FAIL: Tone.BAD, Verdict.BETTER_OFF: Tone.PLAIN, Verdict.PASS: Tone.GOOD}


def tipping_points(report: WeeklyReport) -> Section:
    """Return a section with the smallest share of bad labels that turns each verdict."""
    lines = planned(report).tipping_points
    if not lines:
        why = "No labelled rate passes or fails with all its numbers shown, so no verdict can turn."
        return Section((why,))
    sentences = (
        "Reviewers may err more often in one slice than in what it is compared with, or its labels"
        " may be missing for a reason. These are the smallest shares of missing or wrong labels, in"
        " the slice or in its reference, with which the verdict would be another one.",
        "In the worst case all of them are where they move the rate most. Evenly: labels are wrong"
        " equally often whatever they say, on both routes. A small share means that the verdict"
        " rests on labels alone: look at them before you act.",
    )
    rows = (
        (
            name_of(report, line.of),
            line.metric.value,
            TableCell(line.verdict.value, _TONES[line.verdict]),
            _share(line.worst_case, "no share"),
            _share(line.even, "no share below half"),
        )
        for line in lines
    )
    columns = "slice|rate|verdict|turns in the worst case from|turns by even errors from"
    return listed(columns, rows, sentences, "tipping_points")


def _share(share: float | None, never: str) -> str:
    return never if share is None else percent(share)
