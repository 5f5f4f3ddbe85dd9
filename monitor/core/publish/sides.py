"""Worse-off sides of comparisons: each harm is told once, in however many rows it shows.

A comparison has two sides, and its harm is told about the side that is worse off:

- a slice that is worse off than its reference has it in its own row (``suspected`` or ``breach``);
- a named reference that is worse off than a slice has it once, in the row of the reference;
- of two slices with complements, which share one comparison, one row has it; the other row is its
  mirror;
- if all others together are worse off than a slice, and none of their rows is bad, a check of the
  rest has it, for the slice that is furthest better off (:func:`better_off_alone`).

A slice that is better off is ``better_off``, which is neither a pass nor a fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import (
    ContractTable,
    GroupTable,
    LimitKind,
    ShownGap,
    ShownRate,
    SliceRow,
)
from monitor.core.state import State

BAD = (State.BREACH, State.SUSPECTED)
"""States of a slice that is worse off beyond the limit."""

_PAIR = 2
_LEVELS = (LimitKind.MIN_LEVEL, LimitKind.MAX_LEVEL)


def listed(group: GroupTable) -> Iterator[SliceRow]:
    """Yield the rows of a group-by, except hidden rows of ``__other__``."""
    for row in group.rows:
        if row.rates or OTHER not in parse_atom(row.slice).values():
            yield row


def mirrored(contract: ContractTable, group: GroupTable, row: SliceRow, metric: Metric) -> str:
    """Return the text of the slice that a row mirrors; empty if the row is judged by itself.

    Of two slices with complements, only the one that is worse off by the shown gap is judged. Both
    are judged if only one row has a problem of its own, such as missing labels.
    """
    rows = list(islice(listed(group), _PAIR + 1))
    if len(rows) != _PAIR or row.slice not in [slice_row.slice for slice_row in rows]:
        return ""
    if not _are_mirrors(contract, group, rows, metric):
        return ""
    judged_row = max(
        rows, key=lambda slice_row: (slice_row.states[metric] in BAD, _gap_size(slice_row, metric))
    )
    state, judged_state = row.states[metric], judged_row.states[metric]
    is_mirror = state is judged_state or state is State.BETTER_OFF or judged_state in BAD
    return judged_row.slice if is_mirror and judged_row.slice != row.slice else ""


def _are_mirrors(
    contract: ContractTable, group: GroupTable, rows: Sequence[SliceRow], metric: Metric
) -> bool:
    """Return True when two rows mirror each other: one gap with two signs, one limit."""
    limits = [contract.limits_of(group.group_by, row.slice, metric) for row in rows]
    if limits[0] != limits[1] or {LimitKind.MIN_LEVEL, LimitKind.MAX_LEVEL} & limits[0].keys():
        return False
    if {gap.reference for row in rows for gap in row.gaps.values()} != {COMPLEMENT}:
        return False
    first, second = (row.gaps.get(metric) for row in rows)
    if first is None or second is None:
        return first is second
    return _bounds(first) == _bounds(turned(second, COMPLEMENT))


def better_off_alone(group: GroupTable, metric: Metric) -> SliceRow | None:
    """Return the row furthest better off, if no row of the group-by is worse off; else None.

    Each of the others is within the limit or too small to be judged, but together they are not.
    """
    ahead = [row for row in group.rows if row.states.get(metric) is State.BETTER_OFF]
    if not ahead or any(row.states.get(metric) in BAD for row in group.rows):
        return None
    return min(ahead, key=lambda row: _gap_size(row, metric))


def gap_of(group: GroupTable, row: SliceRow, metric: Metric) -> ShownGap | None:
    """Return a row's gap; for a worse-off named reference, the gap to the slice most ahead."""
    if metric in row.gaps or row.states.get(metric) not in BAD:
        return row.gaps.get(metric)
    ahead = [
        ahead_row for ahead_row in group.rows if ahead_row.states.get(metric) is State.BETTER_OFF
    ]
    against = [ahead_row for ahead_row in ahead if metric in ahead_row.gaps]
    against = [ahead_row for ahead_row in against if ahead_row.gaps[metric].reference == row.slice]
    if not against:
        return None
    best = min(against, key=lambda ahead_row: _gap_size(ahead_row, metric))
    return turned(best.gaps[metric], best.slice)


def judged_by(
    contract: ContractTable, group: GroupTable, row: SliceRow, metric: Metric
) -> tuple[ShownGap | None, dict[LimitKind, float]]:
    """Return the gap of a row and metric, and the limits by kind that judge the row.

    A named reference that is worse off is judged by the limits of the slice that it is behind,
    because that slice declares the comparison.
    """
    gap = gap_of(group, row, metric)
    limits = contract.limits_of(group.group_by, row.slice, metric)
    if gap is None or metric in row.gaps:
        return gap, limits
    levels = {kind: limits[kind] for kind in _LEVELS if kind in limits}
    compared = contract.limits_of(group.group_by, gap.reference, metric)
    return gap, levels | {kind: x for kind, x in compared.items() if kind not in _LEVELS}


def reference_rate(
    rows: Iterable[SliceRow], row: SliceRow, metric: Metric, gap: ShownGap | None
) -> ShownRate | None:
    """Return the rate that a row is compared with, or its bounds; None if it is not known.

    That of a complement follows from the shown rows.

    Args:
        rows: rows of the group-by.
        row: compared row.
        metric: compared metric.
        gap: shown gap of the row; without it, only the rate of a named reference is known.
    """
    rates = {shown_row.slice: shown_row.rates.get(metric) for shown_row in rows}
    named = gap or next(iter(row.gaps.values()), None)
    if named is not None and named.reference != COMPLEMENT:
        return rates.get(named.reference)
    rate = rates.pop(row.slice, None)
    if gap is None or rate is None:
        return None
    if rate.value is not None and gap.value is not None:
        harm = gap.value if metric.harmed_by_less else -gap.value
        return ShownRate(round(min(1.0, max(0.0, rate.value + harm)), 4), None, None, 0)
    return _common_bounds([*rates.values()])


def _common_bounds(rates: Sequence[ShownRate | None]) -> ShownRate | None:
    """Return bounds of several rows' common rate, the range of their rates; None if unknown."""
    shown_rates = [rate for rate in rates if rate is not None]
    if not shown_rates or len(shown_rates) < len(rates):
        return None
    if len(shown_rates) == 1:
        return shown_rates[0]
    nothing = ShownRate(None, None, None, 0)
    highest = [rate.at_most if rate.value is None else rate.value for rate in shown_rates]
    lowest = [rate.at_least if rate.value is None else rate.value for rate in shown_rates]
    if None not in highest:
        return replace(nothing, at_most=max(high for high in highest if high is not None))
    if None not in lowest:
        return replace(nothing, at_least=min(low for low in lowest if low is not None))
    return None


def turned(gap: ShownGap, reference: str) -> ShownGap:
    """Return a gap from the other side, against ``reference``: signs and ratios are inverted."""
    value, lower, upper = (
        None if number is None else -number for number in (gap.value, gap.upper, gap.lower)
    )
    least, most = (None if number is None else -number for number in (gap.most, gap.least))
    shown = ShownGap(reference, value, lower, upper, least=least, most=most)
    if gap.ratio_lower is None:
        return shown
    ratio, ratio_upper = _inverse(gap.ratio), _inverse(gap.ratio_lower)
    ratio_lower = _inverse(gap.ratio_upper) or 0.0
    return replace(shown, ratio=ratio, ratio_lower=ratio_lower, ratio_upper=ratio_upper)


def _inverse(ratio: float | None) -> float | None:
    """Return 1 / ratio to four decimals; None for 0 or None.

    With two decimals, a bound just beyond a limit could equal the limit.
    """
    return round(1 / ratio, 4) if ratio else None


def _bounds(gap: ShownGap) -> tuple[float | None, float | None, float | None]:
    return gap.value, gap.lower, gap.upper


def _gap_size(row: SliceRow, metric: Metric) -> float:
    """Return the gap of a row; the middle of its bounds if the gap is coded, 0 without a gap."""
    gap = row.gaps.get(metric)
    if gap is None:
        return 0.0
    if gap.value is not None:
        return gap.value
    return ((gap.lower or 0.0) + (gap.upper or 0.0)) / 2
