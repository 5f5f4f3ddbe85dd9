"""Words for limits, and for what is beyond one of them.

Example:
    >>> limits_text({LimitKind.MAX_GAP: 0.1, LimitKind.MIN_RATIO: 0.8})
    'gap at most 10 points; the lower rate at least 0.8 times the higher'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from monitor.core.contract import Metric, State
from monitor.core.publish.deciding_limit import allowed
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.lines import Cell
from monitor.core.publish.snapshot import ContractTable, LimitKind, ShownGap, ShownLimit
from monitor.core.publish.words import gap_text, percent, points, ratio_text
from monitor.core.rates.gap_words import RATED, said_of_slice

_TEXTS = {
    LimitKind.MAX_GAP: ("gap at most {:g} points", 100),
    LimitKind.MIN_RATIO: ("the lower rate at least {:g} times the higher", 1),
    LimitKind.MIN_LEVEL: ("at least {:g} %", 100),
    LimitKind.MAX_LEVEL: ("at most {:g} %", 100),
}
_LEVELS = {LimitKind.MIN_LEVEL: "too seldom", LimitKind.MAX_LEVEL: "too often"}
DAY_BY_DAY = "the sequential test found the breach day by day"


def limit_text(limit: ShownLimit) -> str:
    """A limit in words."""
    text, times = _TEXTS[limit.kind]
    return text.format(round(times * limit.value, 6))


def limits_text(limits: Mapping[LimitKind, float]) -> str:
    """The limits of a slice and metric in words; empty without any."""
    return "; ".join(limit_text(ShownLimit(kind, value)) for kind, value in limits.items())


def own_limits_text(table: ContractTable, metric: Metric) -> Iterator[tuple[str, str]]:
    """Each group-by or slice that has limits of its own on a metric, and these in words."""
    for own in table.own_limits:
        if own.metric is metric:
            yield (
                slice_name(own.slice) if own.slice else own.group_by,
                limit_text(ShownLimit(own.kind, own.value)),
            )


def needed_text(table: ContractTable, metric: Metric) -> str:
    """The support that a metric needs; precision is computed from the other two."""
    if metric is Metric.PRECISION:
        return "the support of TPR and FPR"
    return f"a support of {table.min_supports[metric]}"


def relative_rate(gap: ShownGap) -> float | None:
    """The lower of two rates over the higher one, to two decimals; None where that is not shown."""
    if gap.ratio is None:
        return None
    return gap.ratio if gap.ratio <= 1 else round(1 / gap.ratio, 2)


def compared_text(cell: Cell) -> str:
    """A gap, the ratio where that is limited, and their limits; empty where no gap is shown."""
    if cell.gap is None:
        return ""
    parts = [f"gap {gap_text(cell.gap)} points{_in_brackets(cell, LimitKind.MAX_GAP)}"]
    if cell.min_ratio is not None:
        parts.append(f"ratio {ratio_text(cell.gap)}{_in_brackets(cell, LimitKind.MIN_RATIO)}")
    return ", ".join([*parts, f"against {slice_name(cell.gap.reference)}"])


def _in_brackets(cell: Cell, kind: LimitKind) -> str:
    limit = cell.limits.get(kind)
    return "" if limit is None else f" (limit {_bare(ShownLimit(kind, limit))})"


def decides_text(cell: Cell) -> str:
    """The limit that decides in words, where there are several; else empty."""
    several = len(cell.limits) > 1
    return limit_text(cell.decided_by) if cell.decided_by and several else ""


def beyond_limit(slice_: str, cell: Cell) -> str:
    """What is broken of a slice, by how much, and the limit that decided, in words."""
    name, limit = slice_name(slice_), cell.decided_by
    if limit is not None and limit.kind in _LEVELS:
        what = f"{name}: {RATED[cell.metric]} {_LEVELS[limit.kind]}"
    elif cell.state is State.BETTER_OFF:
        said = said_of_slice(cell.metric, 1.0).replace("its", "their", 1)
        what = f"all but {name}: {said} than those of {name}"
    elif cell.gap is None or not cell.gap.value:
        what = f"{name}: {RATED[cell.metric]} outside the limit"
    else:
        said = said_of_slice(cell.metric, cell.gap.value)
        what = f"{name}: {said} than those of {slice_name(cell.gap.reference)}"
    if limit is None:
        return what
    return f"{what} ({', '.join(_beside(cell, limit))})"


def _beside(cell: Cell, limit: ShownLimit) -> Iterator[str]:
    """The number that is limited, the limit, and why a number within it is a breach."""
    text, limited = _measured(cell, limit)
    if limited is None:
        yield f"limit: {limit_text(limit)}"
        return
    yield text
    yield f"limit {_bare(limit)}"
    if cell.state is State.BREACH and allowed(limit).holds(limited):
        yield DAY_BY_DAY


def _measured(cell: Cell, limit: ShownLimit) -> tuple[str, float | None]:
    """The shown number that a limit is about, in words and as it is limited."""
    if limit.kind in _LEVELS:
        rate = cell.rate.value if cell.rate else None
        return percent(rate), rate
    gap = cell.gap
    if gap is None:
        return "", None
    if limit.kind is LimitKind.MIN_RATIO:
        relative = relative_rate(gap)
        return f"the lower rate is {relative:g} of the higher" if relative else "", gap.ratio
    size = "" if gap.value is None else f"{points(abs(gap.value)).lstrip('+')} points"
    return size, gap.value


def _bare(limit: ShownLimit) -> str:
    """The number of a limit, in the unit of what it is beside."""
    number = f"{round(_TEXTS[limit.kind][1] * limit.value, 6):g}"
    return f"{number} %" if limit.kind in _LEVELS else number
