"""Words for limits, and for numbers beyond them.

Example:
    >>> limits_text({LimitKind.MAX_GAP: 0.1, LimitKind.MIN_RATIO: 0.8})
    'gap at most 10 points; the lower rate at least 0.8 times the higher'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from monitor.core.metric import Metric
from monitor.core.publish.deciding_limit import allowed
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.lines import Cell
from monitor.core.publish.snapshot import ContractTable, LimitKind, ShownGap, ShownLimit
from monitor.core.publish.words import distance, gap_text, percent, rate_text, ratio_text
from monitor.core.rates.gap_words import said_of_slice
from monitor.core.state import State

_TEXTS = {
    LimitKind.MAX_GAP: ("gap at most {:g} points", 100),
    LimitKind.MIN_RATIO: ("the lower rate at least {:g} times the higher", 1),
    LimitKind.MIN_LEVEL: ("at least {:g} %", 100),
    LimitKind.MAX_LEVEL: ("at most {:g} %", 100),
}
_LEVELS = {LimitKind.MIN_LEVEL: "too rarely", LimitKind.MAX_LEVEL: "too often"}
DAY_BY_DAY = "found day by day"


def limit_text(limit: ShownLimit) -> str:
    """Return a limit in words, such as ``gap at most 10 points``."""
    text, times = _TEXTS[limit.kind]
    return text.format(round(times * limit.value, 6))


def limits_text(limits: Mapping[LimitKind, float]) -> str:
    """Return the limits of a slice and metric in words; empty without any."""
    return "; ".join(limit_text(ShownLimit(kind, value)) for kind, value in limits.items())


def own_limits_text(table: ContractTable, metric: Metric) -> Iterator[tuple[str, str]]:
    """Yield each group-by or slice with its own limits on a metric, and the limits in words."""
    for own_limit in table.own_limits:
        if own_limit.metric is metric:
            yield (
                slice_name(own_limit.slice) if own_limit.slice else own_limit.group_by,
                limit_text(ShownLimit(own_limit.kind, own_limit.value)),
            )


def needed_text(table: ContractTable, metric: Metric) -> str:
    """Return in words the support that a contract asks for in one metric."""
    if metric not in table.min_supports:
        return "the support of TPR and FPR"
    return f"a support of {table.min_supports[metric]}"


def relative_rate(gap: ShownGap) -> float | None:
    """Return the lower of two rates over the higher one, to two decimals; None if hidden."""
    if gap.ratio is None:
        return None
    return gap.ratio if gap.ratio <= 1 else round(1 / gap.ratio, 2)


def numbers_text(cell: Cell) -> str:
    """Return both rates, gap and ratio of a cell with their limits, in words."""
    levels = {kind: limit for kind, limit in cell.limits.items() if kind in _LEVELS}
    text = f"{rate_text(cell.rate)} here" + (f" (limit {limits_text(levels)})" if levels else "")
    if cell.reference_rate is not None:
        text += f", {rate_text(cell.reference_rate)} for the reference"
    return "; ".join(filter(None, [text, compared_text(cell)]))


def compared_text(cell: Cell) -> str:
    """Return the gap and limited ratio of a cell with their limits, in words; empty if hidden."""
    if cell.gap is None:
        return ""
    parts = [f"gap {gap_text(cell.gap)} points{_in_brackets(cell, LimitKind.MAX_GAP)}"]
    if cell.min_ratio is not None:
        parts.append(f"ratio {ratio_text(cell.gap)}{_in_brackets(cell, LimitKind.MIN_RATIO)}")
    return ", ".join([*parts, f"against {slice_name(cell.gap.reference)}"])


def _in_brackets(cell: Cell, kind: LimitKind) -> str:
    limit = cell.limits.get(kind)
    return "" if limit is None else f" (limit {_limit_number(ShownLimit(kind, limit))})"


def decides_text(cell: Cell) -> str:
    """Return the deciding limit in words if there are several limits; else empty."""
    several = len(cell.limits) > 1
    return limit_text(cell.decided_by) if cell.decided_by and several else ""


def breach_text(slice_: str, cell: Cell) -> str:
    """Return a phrase on how a failing cell of a slice breaks its limit, and by how much."""
    name, limit = slice_name(slice_), cell.decided_by
    if limit is not None and limit.kind in _LEVELS:
        failure = f"{name}: {cell.metric.row.event} {_LEVELS[limit.kind]}"
    elif cell.state is State.BETTER_OFF:
        failure = f"all but {name}: {said_of_slice(cell.metric, 1.0)} than for {name}"
    elif cell.gap is None or not cell.gap.value:
        failure = f"{name}: {cell.metric.row.event}, outside the limit"
    else:
        comparison = said_of_slice(cell.metric, cell.gap.value)
        failure = f"{name}: {comparison} than for {slice_name(cell.gap.reference)}"
    if limit is None:
        return failure
    return f"{failure} ({', '.join(_breach_parts(cell, limit))})"


def _breach_parts(cell: Cell, limit: ShownLimit) -> Iterator[str]:
    """Yield the limited number, the limit, and why a number within it is a breach."""
    text, limited = _limited_number(cell, limit)
    if limited is None:
        yield f"limit: {limit_text(limit)}"
        return
    yield text
    yield f"limit {_limit_number(limit)}"
    if cell.state is State.BREACH and allowed(limit).holds(limited):
        yield DAY_BY_DAY


def _limited_number(cell: Cell, limit: ShownLimit) -> tuple[str, float | None]:
    """Return the shown number to which a limit applies, in words and as a number."""
    if limit.kind in _LEVELS:
        rate = cell.rate.value if cell.rate else None
        return percent(rate), rate
    gap = cell.gap
    if gap is None:
        return "", None
    if limit.kind is LimitKind.MIN_RATIO:
        relative = relative_rate(gap)
        return f"the lower rate is {relative:g} of the higher" if relative else "", gap.ratio
    size = "" if gap.value is None else f"{distance(abs(gap.value))} points"
    return size, gap.value


def _limit_number(limit: ShownLimit) -> str:
    """Return the number of a limit as text, without words; levels in per cent, gaps in points."""
    number = f"{round(_TEXTS[limit.kind][1] * limit.value, 6):g}"
    return f"{number} %" if limit.kind in _LEVELS else number
