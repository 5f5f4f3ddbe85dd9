"""Smallest gap beyond its limit that the labels of this week would find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from monitor.core.metric import Metric
from monitor.core.publish.snapshot import ContractTable, GroupTable, LimitKind
from monitor.core.rates.gaps import comparisons, simultaneous_z
from monitor.detection.label_power import arms_of, detectable_gaps
from monitor.reports.planners.label_budget import planned_metrics
from monitor.reports.planners.published_rates import Named, weeks_in
from monitor.reports.weekly_report import WeeklyReport


@dataclass(frozen=True, slots=True)
class DetectableLine:
    """Smallest gap that one of this week's comparisons could detect, and its limit.

    Attributes:
        metric: TPR or FPR.
        limit: limit on the gap; 0 if the contract has none.
        gap: smallest gap that four weeks of five would find, if every week were like this one;
            None if no gap would be found.
    """

    of: Named
    metric: Metric
    limit: float
    gap: float | None


def detectable(report: WeeklyReport) -> tuple[DetectableLine, ...]:
    """Return a DetectableLine per comparison of a labelled rate with both sides shown."""
    return tuple(
        line
        for contract, window in report.windows()
        for group in window.groups
        for metric in planned_metrics(contract)
        for line in _group_lines(contract, group, metric)
    )


def reference_of(group: GroupTable) -> str | None:
    """Return the reference shown for a group-by's slices; None if no comparison is shown."""
    return next((gap.reference for row in group.rows for gap in row.gaps.values()), None)


def group_z(group: GroupTable, reference: str) -> tuple[int, float]:
    """Return (number of comparisons, normal quantile of their joint bounds) of a group-by."""
    count = comparisons(sum(bool(row.rates) for row in group.rows), reference)
    return count, simultaneous_z(count)


def _group_lines(
    contract: ContractTable, group: GroupTable, metric: Metric
) -> Iterator[DetectableLine]:
    """Yield the smallest gap that a week's labels can detect, for each slice of a group-by."""
    reference, weeks = reference_of(group), weeks_in(group.labelled)
    if reference is None or not weeks:
        return
    arms, (_, z) = arms_of(metric, group, reference), group_z(group, reference)
    limits = [
        contract.limits_of(group.group_by, row.slice, metric).get(LimitKind.MAX_GAP, 0.0)
        for row in group.rows
    ]
    by_limit = {
        limit: detectable_gaps(arms, Fraction(str(limit)), z, weeks) for limit in set(limits)
    }
    for index, (row, limit) in enumerate(zip(group.rows, limits, strict=True)):
        if metric in row.gaps:
            row_name = Named(contract.contract, group.group_by, row.slice)
            yield DetectableLine(row_name, metric, limit, by_limit[limit][index])
