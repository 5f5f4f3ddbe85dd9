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
    """Every rate with its interval, support, completeness and state."""
    columns = "slice|rate|value|95 % interval|support|labels in|state"
    made = _by_group(report, columns, _rate_rows, _drawn_rates)
    return _section(made, "No rate is released for this week.")


def _drawn_rates(name: str, found: Sequence[Place]) -> Markup:
    """The first limited rate of some slices."""
    metric = all_metrics(found[0].contract)[0]
    shown = [one for one in found if metric in one.row.states]
    cells = [(slice_name(one.row.slice), cell(one, metric)) for one in shown]
    title = f"{name}: {TERMS[metric].name}, with 95 % intervals"
    return plots.rates(title, cells)


def _rate_rows(place: Place) -> Iterator[tuple[str | TableCell, ...]]:
    for one in _cells(place):
        rate = one.rate
        known = place.row.completeness if one.metric.labelled else None
        yield (
            slice_name(place.row.slice),
            one.metric.value,
            TableCell(rate_text(rate), chart=charts.rate_strip(one)),
            bounds(rate.lower, rate.upper) if rate else NONE,
            support_text(rate, place.contract),
            percent(known),
            state_cell(one),
        )


def support_text(rate: ShownRate | None, contract: ContractTable) -> str:
    """The support of a rate: of people the lower edge of a band."""
    if rate is None:
        return NONE
    exact = contract.synthetic and contract.k == 1
    return f"{rate.support:,}" if exact else f"at least {rate.support:,}"


def state_cell(one: Cell) -> TableCell:
    """The state of a metric, and which of its limits decides where it has several."""
    text = ": ".join(filter(None, [state_text(one.state), decides_text(one)]))
    mirror = f"; mirror of {slice_name(one.mirror_of)}" if one.mirror_of else ""
    return TableCell(f"{text}{mirror}", _TONES.get(charts.TONES[one.state], Tone.PLAIN))


def _cells(place: Place) -> list[Cell]:
    return [cell(place, m) for m in all_metrics(place.contract) if m in place.row.states]


def gaps(report: WeeklyReport) -> Section:
    """Every gap and ratio against the contract, with its verdict."""
    found = (one for place in report.places() for one in _cells(place))
    scale = charts.gap_scale(charts.sizes(found))
    columns = "slice|rate|against|gap, points|interval, points|ratio|limit|verdict|state"
    made = _by_group(report, columns, lambda place: _gap_rows(place, scale))
    together = (
        "A gap above 0 means that the slice is worse off. The intervals of a group-by hold together"
        " with 95 % confidence, and a verdict is read from the interval, never from the point."
    )
    return _section(made, "No gap is released for this week.", together)


def _gap_rows(place: Place, scale: float) -> Iterator[tuple[str | TableCell, ...]]:
    for one in _cells(place):
        gap = one.gap
        if gap is None and one.role is None:
            continue
        yield (
            slice_name(place.row.slice),
            one.metric.value,
            slice_name(gap.reference) if gap else NONE,
            TableCell(points(gap.value) if gap else NONE, chart=charts.gap_strip(one, scale)),
            gap_bounds(gap.lower, gap.upper) if gap else NONE,
            ratio_text(gap),
            limits_text(one.limits) or NONE,
            gap.verdict.value.replace("_", " ") if gap and gap.verdict else NONE,
            state_cell(one),
        )


def calibration(report: WeeklyReport) -> Section:
    """P(ready | score band) of all decisions and of every slice."""
    made: list[Titled] = []
    for contract, window in report.windows():
        rows = [
            row
            for place in (total_place(contract, window), *places(contract, window))
            for row in _calibration_rows(place)
        ]
        found = table("slice|score|share of ready|95 % interval|support", rows)
        chart = plots.calibration(f"{contract.contract}: {_CALIBRATION}", _curves(contract, window))
        note = f"Drawn: all decisions, and at most {plots.MOST_SERIES - 1} slices."
        made += titled(found, contract.contract, (note,), chart or None)
    why = "No label is released for this week, so scores cannot be compared with labels."
    return _section(made, why, "Share of ready replies by the judge's score.")


_CALIBRATION = "share of ready replies by score band"


def _curves(
    contract: ContractTable, window: WindowTable
) -> list[tuple[str, tuple[CalibrationCell, ...]]]:
    """Calibration of all decisions and of the slices of single attributes that have all bands."""
    found = [total_place(contract, window), *places(contract, window)]
    return [
        (slice_name(place.row.slice), place.row.calibration)
        for place in found
        if place.row.calibration and "+" not in getattr(place.table, "group_by", "")
    ]


def _calibration_rows(place: Place) -> Iterator[tuple[str, ...]]:
    for one in place.row.calibration:
        rate = one.rate
        yield (
            slice_name(place.row.slice),
            one.band,
            rate_text(rate) if rate else "hidden",
            bounds(rate.lower, rate.upper) if rate else NONE,
            support_text(rate, place.contract),
        )


def _by_group(
    report: WeeklyReport, columns: str, rows: Rows, draw: Drawing | None = None
) -> list[Titled]:
    """A table for all decisions of each contract, and one for each of its group-bys."""
    made: list[Titled] = []
    for contract, window in report.windows():
        total = total_place(contract, window)
        name = f"{contract.contract}: all decisions"
        made += titled(table(columns, rows(total)), name, _periods(report, window))
        for group in window.groups:
            found = _worst_first([p for p in places(contract, window) if p.table is group])
            listed = table(columns, (row for place in found for row in rows(place)))
            name = f"{contract.contract}: {group.group_by}"
            chart = draw(name, found) if draw and found else None
            made += titled(listed, name, _periods(report, group), chart or None)
    return made


def _worst_first(found: list[Place]) -> list[Place]:
    """Slices by name; where they are too many for a page, those with the worst state first."""
    if len(found) <= MOST_ROWS // len(Metric):
        return found
    worst = {one.row.slice: min(RANKS.index(s) for s in one.row.states.values()) for one in found}
    return sorted(found, key=lambda one: (worst[one.row.slice], one.row.slice))


def _periods(report: WeeklyReport, part: WindowTable | GroupTable) -> tuple[str, ...]:
    spans = (
        ("Selection and blocked rates", part.decisions),
        ("Rates that rest on labels", part.labelled),
    )
    return tuple(f"{what}: {_covered(report, period)}" for what, period in spans)


def _covered(report: WeeklyReport, period: Period | None) -> str:
    """Period of a table."""
    if period is None:
        return "no table of this week is published."
    return f"{report.moment(period.start)} to {report.moment(period.end)}."


def _section(made: Iterable[Titled], otherwise: str, *sentences: str) -> Section:
    found = tuple(made)
    return Section(sentences, found) if found else Section((otherwise,))
