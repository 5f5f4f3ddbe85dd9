"""Label needs: the labels still missing for a verdict, from published group-bys alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from monitor.core.contract import COMPLEMENT, USUAL_METRICS, Contract, GroupBy, Metric
from monitor.core.intervals import Floats, divide
from monitor.core.publish.snapshot import GroupTable, ShownRate
from monitor.core.rates.gaps import comparisons, simultaneous_z
from monitor.core.time import DAY
from monitor.detection.label_power import (
    LabelNeed,
    PowerDesign,
    detectable_gaps,
    label_needs,
)

WEEK = 7 * DAY

AT_LEAST: Mapping[LabelNeed, int] = {
    LabelNeed.LESS_THAN_ONE_WEEK: 0,
    LabelNeed.ONE_TO_FOUR_WEEKS: 1,
    LabelNeed.MORE_THAN_FOUR_WEEKS: 4,
}
"""Weeks that each class stands for: at least so many."""


def with_label_needs(contract: Contract, group: GroupBy, table: GroupTable) -> GroupTable:
    """The table with the needs and the detectable gaps of its labelled metrics.

    Precision has none of its own: it needs what TPR and FPR do.
    """
    if table.labelled is None:
        return table
    shown = sum(bool(row.rates) for row in table.rows)
    z = simultaneous_z(comparisons(shown, group.reference))
    needs: list[dict[Metric, int]] = [{} for _ in table.rows]
    gaps: list[dict[Metric, float]] = [{} for _ in table.rows]
    for metric in (metric for metric in USUAL_METRICS if metric.labelled):
        arms = arms_of(metric, table, group.reference)
        its = [contract.limits_of(group.name, row.slice).max_gap(metric) for row in table.rows]
        for limit in {limit for limit in its if limit is not None}:
            found = zip(label_needs(arms, limit, z), detectable_gaps(arms, limit, z), strict=True)
            for at, (need, gap) in enumerate(found):
                if need is not None and its[at] == limit:
                    needs[at][metric] = AT_LEAST[need]
                if gap is not None and its[at] == limit:
                    gaps[at][metric] = gap
    rows = (
        replace(row, detectable_gaps=found, label_needs=need)
        for row, found, need in zip(table.rows, gaps, needs, strict=True)
    )
    return replace(table, rows=tuple(rows))


def arms_of(metric: Metric, table: GroupTable, reference: str) -> PowerDesign:
    """Every row and what it is compared with, as far as both are shown.

    What is shown of the rows is all that is known of a complement: their mean, weighted by support.

    Args:
        metric: that rests on labels.
        table: with a period of labels.
        reference: slice text, or ``complement``.
    """
    period, rows = table.labelled, table.rows
    weeks = ((period.end - period.start) / WEEK if period else 0) or 1  # of an empty one: nothing
    rates = [row.rates.get(metric) for row in rows]
    points = np.array([_point(rate) for rate in rates])
    supports = np.array([0 if rate is None else rate.support for rate in rates], np.float64)
    supports[np.isnan(points)] = 0
    mine, hits = supports, np.nan_to_num(points) * supports
    if reference == COMPLEMENT:
        others, hits = supports.sum() - supports, hits.sum() - hits
    else:
        named = np.array([row.slice == reference for row in rows], bool)
        mine = np.where(named, 0, supports)
        others, hits = (np.full(len(rows), x[named].sum()) for x in (supports, hits))
    compared: Floats = divide(hits, others)
    return PowerDesign(metric, compared, mine / weeks, others / weeks)


def _point(rate: ShownRate | None) -> float:
    """The rounded rate, or the bound in its place; NaN where there is neither."""
    told = (rate.value, rate.at_least, rate.at_most) if rate is not None else ()
    return next((x for x in told if x is not None), np.nan)
