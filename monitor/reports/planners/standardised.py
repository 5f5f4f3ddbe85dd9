"""Gaps among similar requests: direct standardisation.

Two slices may differ because they send different requests. A planner compares the slice with its
reference within each value b of another attribute, and averages the differences with the same
weights for both. With s_b the share of b in the group-by's trials, by their shown supports:

    standardised gap = sum over b of s_b (gap within b)

A standardised gap does not correct the raw one. It says how much is left among similar requests,
and hides causes that make requests differ. Its interval combines the intervals of the parts.

Source: Zou, Huang and Zhang (2009), Statistics in Medicine 28 (intervals of weighted sums).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot

from monitor.core.contract import COMPLEMENT
from monitor.core.intervals import mover
from monitor.core.metric import Metric
from monitor.core.publish.conclusion import limited
from monitor.core.publish.glossary import attribute_values
from monitor.core.publish.sides import listed
from monitor.core.publish.snapshot import ContractTable, GroupTable, ShownRate
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport

_DIGITS = 3
_METRICS = (Metric.TPR, Metric.FPR, Metric.SELECTION)
_Interval = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class StandardisedLine:
    """Gap of one slice and metric, raw and standardised over one other attribute.

    Attributes:
        over: the other attribute.
        raw: gap as shown.
        value: standardised gap; None unless all its cells are shown as numbers.
        lower: lower 95 % bound of this gap alone.
        upper: upper 95 % bound of this gap alone.
        cells: number of cells it needs.
        hidden: number of these cells that are withheld or coded.
    """

    of: Named
    metric: Metric
    over: str
    raw: float | None
    value: float | None
    lower: float | None
    upper: float | None
    cells: int
    hidden: int


def standardised(report: WeeklyReport) -> tuple[StandardisedLine, ...]:
    """Return a StandardisedLine per gap of a single attribute and attribute crossed with it."""
    return tuple(
        line
        for contract, window in report.windows()
        for group in window.groups
        for pair in window.groups
        if _crossed_attribute(group, pair)
        for line in _lines(contract, group, pair)
    )


def _crossed_attribute(group: GroupTable, pair: GroupTable) -> str:
    """Return the attribute that ``pair`` adds to a single-attribute ``group``; else empty."""
    names = pair.group_by.split("+")
    if "+" in group.group_by or len(names) != 2 or group.group_by not in names:  # noqa: PLR2004
        return ""
    return next(name for name in names if name != group.group_by)


def _lines(
    contract: ContractTable, group: GroupTable, pair: GroupTable
) -> Iterator[StandardisedLine]:
    """Yield gaps as if slice and reference had the same mix of the other attribute."""
    over = _crossed_attribute(group, pair)
    metrics = [
        limited_metric for limited_metric in _METRICS if limited_metric in limited(contract)
    ] or list(_METRICS[:2])
    for metric in metrics:
        cells = _cells(pair, group.group_by, over, metric)
        for row in listed(group):
            gap = row.gaps.get(metric)
            if gap is None:
                continue
            value = attribute_values(row.slice)[group.group_by]
            reference_values = None
            if gap.reference != COMPLEMENT:
                reference_values = [attribute_values(gap.reference)[group.group_by]]
            row_name = Named(contract.contract, group.group_by, row.slice)
            interval, cell_count, hidden = _standardised_gap(cells, value, reference_values, metric)
            std, low, high = interval or (None, None, None)
            yield StandardisedLine(
                row_name, metric, over, gap.value, std, low, high, cell_count, hidden
            )


_Cells = Mapping[str, Mapping[str, ShownRate | None]]
"""Rates by value of the other attribute, then by value of the attribute itself."""


def _cells(pair: GroupTable, name: str, over: str, metric: Metric) -> _Cells:
    """Return rates of a crossed group-by, by value of ``over`` and then of ``name``."""
    rates_by_value: dict[str, dict[str, ShownRate | None]] = {}
    for row in listed(pair):
        values = attribute_values(row.slice)
        rates_by_value.setdefault(values[over], {})[values[name]] = row.rates.get(metric)
    return rates_by_value


def _standardised_gap(
    cells: _Cells, value: str, reference_values: Sequence[str] | None, metric: Metric
) -> tuple[_Interval | None, int, int]:
    """Return (gap or None, needed cells, hidden cells) of ``value`` against reference values."""
    parts: list[tuple[float, _Interval]] = []
    cell_count = hidden = 0
    for rates_by_value in cells.values():
        compared_values = [
            name
            for name in rates_by_value
            if name != value and (reference_values is None or name in reference_values)
        ]
        needed = [value, *compared_values]
        rates = [rates_by_value.get(name) for name in needed]
        intervals = [_numbers(rate) for rate in rates]
        cell_count += len(needed)
        hidden += sum(interval is None for interval in intervals)
        weight = sum(rate.support for rate in rates if rate is not None)
        shown_intervals = [interval for interval in intervals if interval is not None]
        supports = [rate.support for rate in rates if rate is not None]
        if len(shown_intervals) == len(needed) and len(needed) > 1:
            pooled = _weighted_mean(list(zip(supports[1:], shown_intervals[1:], strict=True)))
            parts.append((weight, _gap(shown_intervals[0], pooled, metric)))
        elif len(needed) == 1:
            hidden += 1
    if hidden or not parts:
        return None, cell_count, hidden
    return _weighted_mean(parts), cell_count, 0


def _numbers(rate: ShownRate | None) -> _Interval | None:
    if rate is None or rate.value is None or rate.lower is None or rate.upper is None:
        return None
    return rate.value, rate.lower, rate.upper


def _gap(slice_rate: _Interval, reference_rate: _Interval, metric: Metric) -> _Interval:
    """Return the gap (above 0: slice worse off) and its bounds from two rates."""
    worse, better = (
        (reference_rate, slice_rate) if metric.harmed_by_less else (slice_rate, reference_rate)
    )
    lower, upper = mover(*worse, *better)
    return worse[0] - better[0], float(lower), float(upper)


def _weighted_mean(parts: Sequence[tuple[float, _Interval]]) -> _Interval:
    """Return the weighted mean of independent numbers as (mean, lower, upper)."""
    total = sum(weight for weight, _ in parts)
    shares = [(weight / total, interval) for weight, interval in parts]
    value = sum(share * centre for share, (centre, _, _) in shares)
    below = hypot(*(share * (centre - low) for share, (centre, low, _) in shares))
    above = hypot(*(share * (high - centre) for share, (centre, _, high) in shares))
    return round(value, _DIGITS), round(value - below, _DIGITS), round(value + above, _DIGITS)
