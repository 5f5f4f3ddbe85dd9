"""Label needs: the labels still missing for a verdict, from published group-bys alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monitor.core.contract import Contract, GroupBy
from monitor.core.metric import USUAL_METRICS, Metric
from monitor.core.publish.snapshot import GroupTable
from monitor.core.rates.gaps import comparisons, simultaneous_z
from monitor.detection.label_power import LabelNeed, arms_of, detectable_gaps, label_needs

AT_LEAST: Mapping[LabelNeed, int] = {
    LabelNeed.LESS_THAN_ONE_WEEK: 0,
    LabelNeed.ONE_TO_FOUR_WEEKS: 1,
    LabelNeed.MORE_THAN_FOUR_WEEKS: 4,
}
"""Smallest number of weeks in each class."""


def with_label_needs(contract: Contract, group: GroupBy, table: GroupTable) -> GroupTable:
    """Return the table with label needs and detectable gaps of labelled metrics in its rows.

    Precision has no need of its own: it needs the labels of TPR and FPR.
    """
    if table.labelled is None:
        return table
    shown = sum(bool(row.rates) for row in table.rows)
    z = simultaneous_z(comparisons(shown, group.reference))
    needs: list[dict[Metric, int]] = [{} for _ in table.rows]
    gaps: list[dict[Metric, float]] = [{} for _ in table.rows]
    limits = [contract.limits_of(group.name, row.slice) for row in table.rows]
    for metric in (metric for metric in USUAL_METRICS if metric.labelled):
        max_gaps = [row_limits.max_gap(metric) for row_limits in limits]
        arms = arms_of(metric, table, group.reference)
        for limit in {limit for limit in max_gaps if limit is not None}:
            needs_and_gaps = zip(
                label_needs(arms, limit, z), detectable_gaps(arms, limit, z), strict=True
            )
            for position, (need, gap) in enumerate(needs_and_gaps):
                if need is not None and max_gaps[position] == limit:
                    needs[position][metric] = AT_LEAST[need]
                if gap is not None and max_gaps[position] == limit:
                    gaps[position][metric] = gap
    rows = (
        replace(row, detectable_gaps=row_gaps, label_needs=row_needs)
        for row, row_gaps, row_needs in zip(table.rows, gaps, needs, strict=True)
    )
    return replace(table, rows=tuple(rows))
