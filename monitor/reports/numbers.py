"""Rates, gaps and calibration of the week, slice by slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from markupsafe import Markup

from monitor.core.contract import Metric
from monitor.core.publish.glossary import TERMS, slice_name
from monitor.core.publish.limit_words import decides_text, limits_text
from monitor.core.publish.lines import RANKS, Cell, all_metrics, cell, places, total_place
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ContractTable,
    GroupTable,
    Period,
    ShownRate,
    WindowTable,
)
from monitor.core.publish.words import (
    NONE,
    bounds,
    gap_bounds,
    percent,
    points,
    rate_text,
    ratio_text,
)
from monitor.drawing import charts, plots
from monitor.drawing.tables import TableCell, Tone, table
from monitor.reports.first_page import state_text
from monitor.reports.layout import MOST_ROWS, Section, Titled, titled
from monitor.reports.weekly_report import WeeklyReport

_TONES = {"bad": Tone.BAD, "good": Tone.GOOD, "unsure": Tone.UNSURE, "old": Tone.UNSURE}
Rows = Callable[[Place], Iterator[tuple[str | TableCell, ...]]]
Drawing = Callable[[str, Sequence[Place]], Markup]


def rates(report: WeeklyReport) -> Section:
    """Return a section that tabulates each rate with interval, support, labels and state."""
    columns = "slice|rate|value|95 % interval|support|labels in|state"
    tables = _group_tables(report, columns, _rate_rows, _draw_rates)
    return _section(tables, "No rate is released for this week.")


def _draw_rates(name: str, group_places: Sequence[Place]) -> Markup:
    """Return a chart (SVG) of the first limited rate of a group-by's slices."""
    metric = all_metrics(group_places[0].contract)[0]
    limited_places = [place for place in group_places if metric in place.row.states]
    cells = [(slice_name(place.row.slice), cell(place, metric)) for place in limited_places]
    title = f"{name}: {TERMS[metric].name}, with 95 % intervals"
    return plots.rates(title, cells)


def _rate_rows(place: Place) -> Iterator[tuple[str | TableCell, ...]]:
    for metric_cell in _cells(place):
        rate = metric_cell.rate
        completeness = place.row.completeness if metric_cell.metric.labelled else None
        yield (
            slice_name(place.row.slice),
            metric_cell.metric.value,
            TableCell(rate_text(rate), chart=charts.rate_strip(metric_cell)),
            bounds(rate.lower, rate.upper) if rate else NONE,
            support_text(rate, place.contract),
            percent(completeness),
            state_cell(metric_cell),
        )


def support_text(rate: ShownRate | None, contract: ContractTable) -> str:
    """Return a rate's support as text; for people, ``at least`` the lower edge of its band."""
    if rate is None:
        return NONE
    exact = contract.synthetic and contract.k == 1
    return f"{rate.support:,}" if exact else f"at least {rate.support:,}"


def state_cell(metric_cell: Cell) -> TableCell:
    """Return a table cell with a metric's state, its deciding limit if several, and mirror."""
    text = ": ".join(filter(None, [state_text(metric_cell.state), decides_text(metric_cell)]))
    mirror = f"; mirror of {slice_name(metric_cell.mirror_of)}" if metric_cell.mirror_of else ""
    return TableCell(f"{text}{mirror}", _TONES.get(charts.TONES[metric_cell.state], Tone.PLAIN))


def _cells(place: Place) -> list[Cell]:
    return [
        cell(place, metric) for metric in all_metrics(place.contract) if metric in place.row.states
    ]


def gaps(report: WeeklyReport) -> Section:
    """Return a section that tabulates each gap and ratio against its limit, with verdict."""
    all_cells = (metric_cell for place in report.places() for metric_cell in _cells(place))
    scale = charts.gap_scale(charts.sizes(all_cells))
    columns = "slice|rate|against|gap, points|interval, points|ratio|limit|verdict|state"
    tables = _group_tables(report, columns, lambda place: _gap_rows(place, scale))
    together = (
        "A gap above 0 means that the slice is worse off. The intervals of a group-by hold together"
        " with 95 % confidence, and a verdict is read from the interval, never from the point."
    )
    return _section(tables, "No gap is released for this week.", together)


def _gap_rows(place: Place, scale: float) -> Iterator[tuple[str | TableCell, ...]]:
    for metric_cell in _cells(place):
        gap = metric_cell.gap
        if gap is None and metric_cell.role is None:
            continue
        yield (
            slice_name(place.row.slice),
            metric_cell.metric.value,
            slice_name(gap.reference) if gap else NONE,
            TableCell(
                points(gap.value) if gap else NONE, chart=charts.gap_strip(metric_cell, scale)
            ),
            gap_bounds(gap.lower, gap.upper) if gap else NONE,
            ratio_text(gap),
            limits_text(metric_cell.limits) or NONE,
            gap.verdict.value.replace("_", " ") if gap and gap.verdict else NONE,
            state_cell(metric_cell),
        )


def calibration(report: WeeklyReport) -> Section:
    """Return a section with a table and a chart of P(ready | score band) per contract."""
    tables: list[Titled] = []
    for contract, window in report.windows():
        rows = [
            row
            for place in (total_place(contract, window), *places(contract, window))
            for row in _calibration_rows(place)
        ]
        calibration_table = table("slice|score|share of ready|95 % interval|support", rows)
        chart = plots.calibration(f"{contract.contract}: {_CALIBRATION}", _curves(contract, window))
        note = f"Drawn: all decisions, and at most {plots.MOST_SERIES - 1} slices."
        tables += titled(calibration_table, contract.contract, (note,), chart or None)
    why = "No label is released for this week, so scores cannot be compared with labels."
    return _section(tables, why, "Share of ready replies by the judge's score.")


_CALIBRATION = "share of ready replies by score band"


def _curves(
    contract: ContractTable, window: WindowTable
) -> list[tuple[str, tuple[CalibrationCell, ...]]]:
    """Return (name, calibration) of all decisions, then of single-attribute slices that show it."""
    all_places = [total_place(contract, window), *places(contract, window)]
    return [
        (slice_name(place.row.slice), place.row.calibration)
        for place in all_places
        if place.row.calibration and "+" not in getattr(place.table, "group_by", "")
    ]


def _calibration_rows(place: Place) -> Iterator[tuple[str, ...]]:
    for band_cell in place.row.calibration:
        rate = band_cell.rate
        yield (
            slice_name(place.row.slice),
            band_cell.band,
            rate_text(rate) if rate else "hidden",
            bounds(rate.lower, rate.upper) if rate else NONE,
            support_text(rate, place.contract),
        )


def _group_tables(
    report: WeeklyReport, columns: str, rows: Rows, draw: Drawing | None = None
) -> list[Titled]:
    """Return a table for all decisions of each contract, and one with a chart per group-by."""
    tables: list[Titled] = []
    for contract, window in report.windows():
        total = total_place(contract, window)
        name = f"{contract.contract}: all decisions"
        tables += titled(table(columns, rows(total)), name, _periods(report, window))
        for group in window.groups:
            group_places = _ordered_for_page(
                [place for place in places(contract, window) if place.table is group]
            )
            listed = table(columns, (row for place in group_places for row in rows(place)))
            name = f"{contract.contract}: {group.group_by}"
            chart = draw(name, group_places) if draw and group_places else None
            tables += titled(listed, name, _periods(report, group), chart or None)
    return tables


def _ordered_for_page(group_places: list[Place]) -> list[Place]:
    """Return a group-by's places; worst state first if a page cannot hold them all."""
    if len(group_places) <= MOST_ROWS // len(Metric):
        return group_places
    worst = {
        place.row.slice: min(RANKS.index(state) for state in place.row.states.values())
        for place in group_places
    }
    return sorted(group_places, key=lambda place: (worst[place.row.slice], place.row.slice))


def _periods(report: WeeklyReport, part_table: WindowTable | GroupTable) -> tuple[str, ...]:
    spans = (
        ("Selection and blocked rates", part_table.decisions),
        ("Rates that rest on labels", part_table.labelled),
    )
    return tuple(f"{rates_name}: {_period_text(report, period)}" for rates_name, period in spans)


def _period_text(report: WeeklyReport, period: Period | None) -> str:
    """Return a period as ``START to END.``; a sentence if no table is published."""
    if period is None:
        return "no table of this week is published."
    return f"{report.moment(period.start)} to {report.moment(period.end)}."


def _section(tables: Iterable[Titled], empty_sentence: str, *sentences: str) -> Section:
    listed = tuple(tables)
    return Section(sentences, listed) if listed else Section((empty_sentence,))
