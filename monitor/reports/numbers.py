"""Annex: rates of every slice, checks that page one only counts, and score bands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from monitor.core.metric import Metric
from monitor.core.publish.conclusion import limited
from monitor.core.publish.glossary import attribute_values, slice_name
from monitor.core.publish.lines import Cell, all_metrics, all_places, cell, places, total_place
from monitor.core.publish.reasons import Place
from monitor.core.publish.snapshot import (
    CalibrationCell,
    ContractTable,
    GroupTable,
    ShownAgreement,
    ShownRate,
    WindowTable,
)
from monitor.core.publish.words import (
    NONE,
    bounded_rate_text,
    bounds,
    gap_text,
    percent,
    points,
    ratio_text,
)
from monitor.core.state import RANKS
from monitor.present import plots
from monitor.present.document import MOST_ROWS, Section, Table, TableCell, table
from monitor.reports.first_page import limits_cell, verdict_cell
from monitor.reports.judged import Judged, cell_key, judged_cells, leading, state_text
from monitor.reports.weekly_report import WeeklyReport

_PAIR = 2


def rates(report: WeeklyReport) -> Section:
    """Return a section with a row per slice: every rate, labels that came, reviewers' agreement."""
    tables = tuple(
        rate_table
        for contract, window in report.windows()
        for rate_table in _rate_table(contract, window, report.named(contract))
    )
    if not tables:
        return Section()
    sentence = (
        "Each rate has its 95 % interval and its support: at least so many independent trials."
        " Kappa says how far two reviewers agree beyond chance: 1 means always."
        " A second range says what the rate may be if labels are wrong as often as this implies."
    )
    return Section(notes=(sentence,), tables=tables)


def _rate_table(contract: ContractTable, window: WindowTable, title: str) -> tuple[Table, ...]:
    metrics = all_metrics(contract)
    columns = "|".join(["slice", *(metric.value for metric in metrics), "labels in", "kappa"])
    listed = [total_place(contract, window), *_worst_first(contract, window)]
    return table(columns, (_rate_row(place, metrics) for place in listed), title)


def _worst_first(contract: ContractTable, window: WindowTable) -> list[Place]:
    """Return all rows in their order; by their worst state if a report cannot hold them all."""
    listed = list(places(contract, window))
    if len(listed) < MOST_ROWS:
        return listed
    return sorted(listed, key=lambda place: min(map(RANKS.index, place.row.states.values())))


def _rate_row(place: Place, metrics: tuple[Metric, ...]) -> Iterator[str]:
    """Yield a slice's rates as texts, with completeness and agreement of reviewers."""
    yield slice_name(place.row.slice)
    for metric in metrics:
        rate, state = place.row.rates.get(metric), place.row.states.get(metric)
        if rate is not None:
            yield rate_cell(rate, place.contract)
        else:
            yield NONE if state is None else state_text(state)
    yield percent(place.row.completeness)
    yield _kappa_text(place.row.agreement)


def rate_cell(rate: ShownRate, contract: ContractTable) -> str:
    """Return a rate with interval and support as text, such as ``83 % (79 to 87 %), 120+``."""
    text = f"{bounded_rate_text(rate)}, {contract.support_text(rate.support)}"
    return f"{text}; {bounds(*rate.if_wrong)} if labels err" if rate.if_wrong else text


def _kappa_text(agreement: ShownAgreement | None) -> str:
    if agreement is None:
        return NONE
    kappa = (
        f"{agreement.kappa}" if agreement.kappa is not None else f"at least {agreement.at_least}"
    )
    return f"{kappa} ({agreement.lower} to {agreement.upper})"


def gaps(report: WeeklyReport) -> Section:
    """Return a section with the limited gaps and levels that page one does not list."""
    shown = {cell_key(judged) for judged in leading(report)}
    rest = [
        judged
        for judged in judged_cells(report)
        if cell_key(judged) not in shown and judged.cell.rate is not None
    ]
    columns = "slice|metric|against|gap, points (95 % interval)|ratio|limit|verdict"
    listed = table(columns, (_gap_row(report, judged) for judged in rest))
    return Section(tables=(*listed, *_heat_maps(report)))


def _gap_row(report: WeeklyReport, judged: Judged) -> Iterator[str | TableCell]:
    gap = judged.cell.gap
    yield f"{report.named(judged.place.contract)}{judged.name}"
    yield judged.cell.metric.value
    yield slice_name(gap.reference) if gap else NONE
    yield gap_text(gap)
    yield ratio_text(gap)
    yield limits_cell(judged.cell)
    yield verdict_cell(judged)


def _heat_maps(report: WeeklyReport) -> Iterator[Table]:
    """Yield a heat map of gaps for each group-by of two attributes, with a table of states."""
    for contract, window in report.windows():
        for group in window.groups:
            if len(group.group_by.split("+")) == _PAIR and limited(contract):
                yield from _heat_map(report, contract, window, group)


def _heat_map(
    report: WeeklyReport, contract: ContractTable, window: WindowTable, group: GroupTable
) -> tuple[Table, ...]:
    """Return the map of gaps by two crossed attributes, and the same as a table."""
    metric = limited(contract)[0]
    first, second = group.group_by.split("+")
    cells = {
        _values(place, first, second): cell(place, metric)
        for place in places(contract, window)
        if place.table is group
    }
    rows, columns = (sorted({pair[axis] for pair in cells}) for axis in (0, 1))
    title = f"{report.named(contract)}{metric.value} gaps by {first} and {second}"
    return table(
        "|".join([first, *columns]),
        ((row, *(_gap_points(cells.get((row, column))) for column in columns)) for row in rows),
        title,
        plots.heat_map(title, rows, columns, cells) or None,
    )


def _values(place: Place, first: str, second: str) -> tuple[str, str]:
    values = attribute_values(place.row.slice)
    return values[first], values[second]


def _gap_points(metric_cell: Cell | None) -> str:
    return NONE if metric_cell is None or metric_cell.gap is None else points(metric_cell.gap.value)


def calibration(report: WeeklyReport) -> Section:
    """Return a section with P(ready | score band) of every slice, a column per band."""
    tables = tuple(
        band_table
        for contract, window in report.windows()
        for band_table in _band_table(contract, window, report.named(contract))
    )
    notes = ("Share of ready replies by the judge's score.",) if tables else ()
    return Section(notes=notes, tables=tables)


def _band_table(contract: ContractTable, window: WindowTable, title: str) -> tuple[Table, ...]:
    """Return ready rates by slice and score band; empty if no slice shows any."""
    listed = [place for place in all_places(contract, window) if place.row.calibration]
    if not listed:
        return ()
    bands = [band_cell.band for band_cell in listed[0].row.calibration]
    rows = (
        (slice_name(place.row.slice), *_band_texts(place.row.calibration, contract))
        for place in listed
    )
    return table("|".join(["slice", *bands]), rows, title)


def _band_texts(band_cells: Iterable[CalibrationCell], contract: ContractTable) -> Iterator[str]:
    for band_cell in band_cells:
        yield "hidden" if band_cell.rate is None else rate_cell(band_cell.rate, contract)
