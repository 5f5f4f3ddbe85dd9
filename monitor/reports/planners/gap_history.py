"""Weekly gaps of the slices with the largest gaps, from the newest Release per week."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.core.contract import Metric
from monitor.core.publish.conclusion import limited
from monitor.core.publish.lines import cell, places
from monitor.core.publish.reasons import Place
from monitor.core.publish.release import Revision, decode_slices
from monitor.core.publish.sides import BAD
from monitor.reports.planners.published_rates import Named, group_by_of
from monitor.reports.weekly_report import WeeklyReport, of_release

MOST_SLICES = 6
"""Slices of a contract whose history is shown."""


@dataclass(frozen=True, slots=True)
class GapPoint:
    """Gap of a slice in one week, with bounds and limit; point of a GapHistory.

    Attributes:
        week: ISO week, such as ``2026-W47``.
        revision: revision of the week's Release.
        value: gap in rate units, positive if the slice is worse off; None if it is coded.
        lower: lower bound of the gap.
        upper: upper bound of the gap.
        limit: limit of that week; None without one.
    """

    week: str
    revision: int
    value: float | None
    lower: float
    upper: float
    limit: float | None


@dataclass(frozen=True, slots=True)
class GapHistory:
    """Weekly gaps of one slice and metric, oldest first.

    Attributes:
        metric: first metric that the contract limits.
        points: weeks that show the gap.
    """

    of: Named
    metric: Metric
    points: tuple[GapPoint, ...]


def gap_histories(report: WeeklyReport) -> tuple[GapHistory, ...]:
    """Return a GapHistory for each contract's slices with the largest gaps this week."""
    wanted_metrics = dict(_wanted(report))
    points_by_slice: dict[Named, list[GapPoint]] = {row_name: [] for row_name in wanted_metrics}
    for revision in (*report.history, report.revision) if wanted_metrics else ():
        for row_name, point in _points(revision, wanted_metrics):
            points_by_slice[row_name].append(point)
    return tuple(
        GapHistory(row_name, metric, tuple(points_by_slice[row_name]))
        for row_name, metric in wanted_metrics.items()
    )


def _wanted(report: WeeklyReport) -> Iterator[tuple[Named, Metric]]:
    for contract, window in report.windows():
        metric = next(iter(limited(contract)), None)
        if metric is None:
            continue
        single_places = [
            place for place in places(contract, window) if "+" not in group_by_of(place)
        ]
        gap_places = [place for place in single_places if metric in place.row.gaps]
        for place in sorted(gap_places, key=lambda place: _rank(place, metric))[:MOST_SLICES]:
            yield Named.for_place(place), metric


def _rank(place: Place, metric: Metric) -> tuple[bool, float, str]:
    value = place.row.gaps[metric].value
    return place.row.states[metric] not in BAD, -abs(value or 0.0), place.row.slice


def _points(
    revision: Revision, wanted_metrics: dict[Named, Metric]
) -> Iterator[tuple[Named, GapPoint]]:
    names = {row_name.slice for row_name in wanted_metrics}
    for contract, window in of_release(decode_slices(revision.body, names)):
        for place in places(contract, window):
            row_name = Named.for_place(place)
            metric = wanted_metrics.get(row_name)
            gap = place.row.gaps.get(metric) if metric is not None else None
            if metric is None or gap is None or gap.lower is None or gap.upper is None:
                continue
            limit = cell(place, metric).max_gap
            numbers = (gap.value, gap.lower, gap.upper, limit)
            yield row_name, GapPoint(revision.week, revision.number, *numbers)
