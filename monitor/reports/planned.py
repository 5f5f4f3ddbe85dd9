"""Rows of all planners, as the JSON file has them: sections show no other numbers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache

from monitor.reports.planners.criteria import CriteriaLine, criteria
from monitor.reports.planners.detectable import DetectableLine, detectable
from monitor.reports.planners.label_budget import BudgetLine, label_budget
from monitor.reports.planners.representation import RepresentationLine, representation
from monitor.reports.planners.standardised import StandardisedLine, standardised
from monitor.reports.planners.threshold_what_if import WhatIfLine, what_if
from monitor.reports.planners.tipping_point import TippingLine, tipping_points
from monitor.reports.planners.trends import TrendLine, trends
from monitor.reports.weekly_report import WeeklyReport


@dataclass(frozen=True, slots=True)
class Planned:
    """Rows of all planners, computed from a Release and not part of it.

    Attributes:
        label_budget: audits of next week.
        detectable_gaps: what this week can find.
        threshold_what_if: rates at other thresholds.
        tipping_points: bad labels that would turn verdicts.
        criteria: FPRs that equal TPR and precision would force.
        standardised: gaps among alike requests.
        representation: shares of slices against a population.
        trends: reference rates, and gaps of the weeks before, of the rows of page one.
    """

    label_budget: tuple[BudgetLine, ...]
    detectable_gaps: tuple[DetectableLine, ...]
    threshold_what_if: tuple[WhatIfLine, ...]
    tipping_points: tuple[TippingLine, ...]
    criteria: tuple[CriteriaLine, ...]
    standardised: tuple[StandardisedLine, ...]
    representation: tuple[RepresentationLine, ...]
    trends: tuple[TrendLine, ...]


def planned(report: WeeklyReport) -> Planned:
    """Return the rows of all planners for a report; the last result is cached."""
    return _planned(KeptReport((report.revision, report.history, report.facts), report))


@dataclass(frozen=True, slots=True)
class KeptReport:
    """Report with a hashable key of its inputs; caches compare the key alone."""

    key: Hashable
    report: WeeklyReport = field(compare=False)


@lru_cache(maxsize=1)
def _planned(kept: KeptReport) -> Planned:
    """Run all planners over a report."""
    report = kept.report
    return Planned(
        label_budget=label_budget(report),
        detectable_gaps=detectable(report),
        threshold_what_if=what_if(report),
        tipping_points=tipping_points(report),
        criteria=criteria(report),
        standardised=standardised(report),
        representation=representation(report),
        trends=trends(report),
    )
