"""All rows of the planners, as the JSON file has them: sections show no other numbers."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.reports.planners.detectable import DetectableLine, detectable
from monitor.reports.planners.label_budget import BudgetLine, label_budget
from monitor.reports.weekly_report import WeeklyReport


@dataclass(frozen=True, slots=True)
class Planned:
    """What follows from the Release, and is not in it.

    Attributes:
        label_budget: audits of next week.
        detectable_gaps: what this week can find.
    """

    label_budget: tuple[BudgetLine, ...]
    detectable_gaps: tuple[DetectableLine, ...]


def planned(report: WeeklyReport) -> Planned:
    """The rows of all planners."""
    return Planned(label_budget(report), detectable(report))
