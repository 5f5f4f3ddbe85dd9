"""Gaps as they are, and between slices of the same requests: direct standardisation.

Two slices may differ because they send other requests. Within each value b of another attribute the
slice is compared with its reference, and the differences are averaged with the same weights for
both, s_b = the share that b has of the trials of the group-by, by their shown supports:

    standardised gap = sum over b of s_b (gap within b)

A standardised gap is no correction of the other: it says how much is left among alike requests, and
hides what is wrong with how requests come to differ. Its interval combines those of the parts.

Source: Zou, Huang and Zhang (2009), Statistics in Medicine 28 (intervals of weighted sums).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot

from monitor.core.contract import COMPLEMENT, Metric
from monitor.core.intervals import mover
from monitor.core.publish.conclusion import limited
from monitor.core.publish.glossary import attribute_values
from monitor.core.publish.sides import listed
from monitor.core.publish.snapshot import ContractTable, GroupTable, ShownRate
from monitor.core.rates.gaps import HARMED_BY_LESS
from monitor.reports.planners.published_rates import Named
from monitor.reports.weekly_report import WeeklyReport

_DIGITS = 3
_METRICS = (Metric.TPR, Metric.FPR, Metric.SELECTION)
_Interval = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class StandardisedLine:
    """A gap, raw and standardised over one other attribute.

    Attributes:
        of: which slice.
        metric: of which rate.
        over: the other attribute.
        raw: as shown.
        value: standardised; None where not all of its cells are shown as numbers.
        lower: 95 % bound of it alone.
        upper: likewise.
        cells: how many it needs.
        hidden: how many of these are withheld or coded.
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
    """Every gap of one attribute, over each attribute that it is crossed with."""
    return tuple(
        line
        for contract, window in report.windows()
        for one in window.groups
        for pair in window.groups
        if _over(one, pair)
        for line in _lines(contract, one, pair)
    )


def _over(one: GroupTable, pair: GroupTable) -> str:
    """The attribute that a pair has beside a single one; empty where it is no such pair."""
    names = pair.group_by.split("+")
    if "+" in one.group_by or len(names) != 2 or one.group_by not in names:  # noqa: PLR2004
        return ""
    return next(name for name in names if name != one.group_by)


def _lines(
    contract: ContractTable, one: GroupTable, pair: GroupTable
) -> Iterator[StandardisedLine]:
    over = _over(one, pair)
    wanted = [m for m in _METRICS if m in limited(contract)] or list(_METRICS[:2])
    for metric in wanted:
        cells = _cells(pair, one.group_by, over, metric)
        for row in listed(one):
            gap = row.gaps.get(metric)
            if gap is None:
                continue
            value = attribute_values(row.slice)[one.group_by]
            others = None
            if gap.reference != COMPLEMENT:
                others = [attribute_values(gap.reference)[one.group_by]]
            named = Named(contract.contract, one.group_by, row.slice)
            found, number, hidden = _compared(cells, value, others, metric)
            std, low, high = found or (None, None, None)
            yield StandardisedLine(named, metric, over, gap.value, std, low, high, number, hidden)


_Cells = Mapping[str, Mapping[str, ShownRate | None]]
"""Rates of one attribute's values within each value of the other."""


def _cells(pair: GroupTable, name: str, over: str, metric: Metric) -> _Cells:
    found: dict[str, dict[str, ShownRate | None]] = {}
    for row in listed(pair):
        values = attribute_values(row.slice)
        found.setdefault(values[over], {})[values[name]] = row.rates.get(metric)
    return found


def _compared(
    cells: _Cells, value: str, others: Sequence[str] | None, metric: Metric
) -> tuple[_Interval | None, int, int]:
    """The standardised gap, how many cells it needs, and how many of them are not shown."""
    parts: list[tuple[float, _Interval]] = []
    number = hidden = 0
    for inside in cells.values():
        rest = [x for x in inside if x != value and (others is None or x in others)]
        needed = [value, *rest]
        rates = [inside.get(name) for name in needed]
        numbers = [_numbers(rate) for rate in rates]
        number += len(needed)
        hidden += sum(one is None for one in numbers)
        weight = sum(rate.support for rate in rates if rate is not None)
        known = [one for one in numbers if one is not None]
        supports = [rate.support for rate in rates if rate is not None]
        if len(known) == len(needed) and len(needed) > 1:
            parts.append((weight, _gap(known[0], _pooled(known[1:], supports[1:]), metric)))
        elif len(needed) == 1:
            hidden += 1
    if hidden or not parts:
        return None, number, hidden
    return _weighted(parts), number, 0


def _numbers(rate: ShownRate | None) -> _Interval | None:
    if rate is None or rate.value is None or rate.lower is None or rate.upper is None:
        return None
    return rate.value, rate.lower, rate.upper


def _pooled(rates: Sequence[_Interval], supports: Sequence[int]) -> _Interval:
    return _weighted(list(zip(supports, rates, strict=True)))


def _gap(mine: _Interval, other: _Interval, metric: Metric) -> _Interval:
    worse, better = (other, mine) if metric in HARMED_BY_LESS else (mine, other)
    lower, upper = mover(*worse, *better)
    return worse[0] - better[0], float(lower), float(upper)


def _weighted(parts: Sequence[tuple[float, _Interval]]) -> _Interval:
    """A weighted mean of independent numbers with its interval."""
    whole = sum(weight for weight, _ in parts)
    shares = [(weight / whole, one) for weight, one in parts]
    value = sum(s * x for s, (x, _, _) in shares)
    below = hypot(*(s * (x - low) for s, (x, low, _) in shares))
    above = hypot(*(s * (high - x) for s, (x, _, high) in shares))
    return round(value, _DIGITS), round(value - below, _DIGITS), round(value + above, _DIGITS)
