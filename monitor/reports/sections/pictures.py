"""Plots with sections of their own: gaps over time and intersections, each with its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from monitor.core.contract import State
from monitor.core.publish.conclusion import limited
from monitor.core.publish.glossary import TERMS, attribute_values, slice_name
from monitor.core.publish.history import HistoryPoint
from monitor.core.publish.lines import Cell, cell, places
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import ContractTable, GroupTable, WindowTable
from monitor.core.publish.words import NONE, gap_bounds, points
from monitor.core.time import IsoWeek, to_datetime
from monitor.drawing import charts, plots
from monitor.drawing.tables import TableCell, table
from monitor.reports.layout import Section, Titled, titled
from monitor.reports.numbers import state_cell
from monitor.reports.planned import planned
from monitor.reports.planners.gap_history import GapHistory, GapPoint
from monitor.reports.sections.names import name_of
from monitor.reports.weekly_report import WeeklyReport

_WEEKS = "week|revision|gap, points|interval, points|limit, points"
_PAIR = 2


def over_time(report: WeeklyReport) -> Section:
    """Return a section with charts of weekly gaps in the first limited rate, with the limit."""
    lines = planned(report).gap_history
    if not lines:
        return Section(("No gap of a single attribute is shown, so none can be followed.",))
    weeks_before = len(report.history)
    sentences = (
        f"This week and the {weeks_before} weeks before it of which a Release is stored,"
        " each by its newest revision, of the slices whose gaps are now the largest. A gap above 0"
        " means that the slice is worse off; the dashed lines are the limit. A week that is missing"
        " was hidden.",
    )
    tables = [history_table for line in lines for history_table in _history(report, line)]
    return Section(sentences, tuple(tables))


def _history(report: WeeklyReport, line: GapHistory) -> tuple[Titled, ...]:
    rows = (
        (
            point.week,
            f"{point.revision}",
            points(point.value),
            gap_bounds(point.lower, point.upper),
            points(point.limit).lstrip("+"),
        )
        for point in line.points
    )
    chart = charts.gap_history(list(_chart_points(line.points)), (), "weeks")
    name = f"{name_of(report, line.of)}: {TERMS[line.metric].name}"
    return titled(table(_WEEKS, rows), name, chart=chart or None)


def _chart_points(week_points: Sequence[GapPoint]) -> Iterator[HistoryPoint]:
    """Yield a HistoryPoint per week from first to last; a hidden week has no numbers."""
    points_by_week = {point.week: point for point in week_points}
    week, last = IsoWeek.named(week_points[0].week), IsoWeek.named(week_points[-1].week)
    while week.start <= last.start:
        yield _point(week, points_by_week.get(week.name))
        week = IsoWeek.containing(week.end)


def _point(week: IsoWeek, point: GapPoint | None) -> HistoryPoint:
    ends = to_datetime(week.end)
    day = (ends - timedelta(days=1)).date()
    rate = (None,) * 6
    limit = point.limit if point else None
    gap = (None, point.value, point.lower, point.upper, None) if point else (None,) * 5
    return HistoryPoint(day, ends, "", limit, State.NO_LIMIT, *rate, *gap)


def intersections(report: WeeklyReport) -> Section:
    """Return a section with a heat map of gaps per group-by of two attributes."""
    heat_maps = [
        heat_map
        for contract, window in report.windows()
        for group in window.groups
        if len(group.group_by.split("+")) == _PAIR
        for heat_map in _heat_map(report, contract, window, group)
    ]
    if not heat_maps:
        return Section(
            ("No group-by crosses two attributes, so there is no intersection to draw.",)
        )
    sentences = (
        "The stronger the colour, the larger the gap: red where the intersection is worse off, blue"
        " where its reference is. Hatched: hidden, or too little support to judge.",
    )
    return Section(sentences, tuple(heat_maps))


def _heat_map(
    report: WeeklyReport, contract: ContractTable, window: WindowTable, group: GroupTable
) -> Iterator[Titled]:
    metric = next(iter(limited(contract)), None)
    group_places = [place for place in places(contract, window) if place.table is group]
    if metric is None or not group_places:
        return
    first, second = group.group_by.split("+")
    cells = {_values(place, first, second): cell(place, metric) for place in group_places}
    rows, columns = (sorted({pair[axis] for pair in cells}) for axis in (0, 1))
    title = f"{TERMS[metric].name}: gaps by {first} and {second}, in points"
    chart = plots.heat_map(title, rows, columns, cells)
    listed = table(
        "slice|gap, points|interval, points|state", map(_row, group_places, cells.values())
    )
    yield from titled(listed, f"{report.named(contract)}{title}", chart=chart)


def _values(place: Place, first: str, second: str) -> tuple[str, str]:
    values = attribute_values(place.row.slice)
    return values[first], values[second]


def _row(place: Place, metric_cell: Cell) -> tuple[str | TableCell, ...]:
    gap = metric_cell.gap
    gap_texts = (points(gap.value), gap_bounds(gap.lower, gap.upper)) if gap else (NONE, NONE)
    return (slice_name(place.row.slice), *gap_texts, state_cell(metric_cell))
