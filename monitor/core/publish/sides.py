"""Who is worse off: each harm is told once, whatever number of rows its comparison shows it in.

A comparison has two sides, and a harm is told of the side that is worse off:

- of a slice that is worse off than its reference, in its own row (``suspected`` or ``breach``);
- of a named reference that is worse off than a slice, in the row of the reference, once;
- of two slices with complements, whose comparison is one and the same, in one of the two rows. The
  other is its mirror;
- of all others together, where they are worse off than one slice and no row of theirs is bad: of
  the slice that is furthest better off, as a check of the rest (:func:`better_off_alone`).

A slice that is better off is ``better_off``, which is neither a pass nor a fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from monitor.core.contract import COMPLEMENT, Metric, State
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.publish.snapshot import ContractTable, GroupTable, LimitKind, ShownGap, SliceRow

BAD = (State.BREACH, State.SUSPECTED)
"""States of a slice that is worse off beyond the limit."""

_PAIR = 2
_LEVELS = (LimitKind.MIN_LEVEL, LimitKind.MAX_LEVEL)


def listed(group: GroupTable) -> Iterator[SliceRow]:
    """The rows that say something: a hidden ``__other__`` is there whether or not it has any."""
    for row in group.rows:
        if row.rates or OTHER not in parse_atom(row.slice).values():
            yield row


def mirrored(contract: ContractTable, group: GroupTable, row: SliceRow, metric: Metric) -> str:
    """The slice of which a row is only the other side; empty where it is judged by itself.

    Of two slices with complements one is judged: the one that is worse off, by the shown gap. What
    is known of one row alone (labels that are missing, say) is not lost: then both are judged.
    """
    rows = list(islice(listed(group), _PAIR + 1))
    if len(rows) != _PAIR or row.slice not in [one.slice for one in rows]:
        return ""
    if not _are_mirrors(contract, group, rows, metric):
        return ""
    judged = max(rows, key=lambda one: (one.states[metric] in BAD, _size(one, metric)))
    state, other = row.states[metric], judged.states[metric]
    same = state is other or state is State.BETTER_OFF or other in BAD
    return judged.slice if same and judged.slice != row.slice else ""


def _are_mirrors(
    contract: ContractTable, group: GroupTable, rows: Sequence[SliceRow], metric: Metric
) -> bool:
    """Return True when two rows say the same of each other: one gap with two signs, one limit."""
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
    """The slice that all others together are worse off than, where no row of theirs says so.

    Such others are each within the limit, or too small to be judged: together they are not.
    """
    ahead = [row for row in group.rows if row.states.get(metric) is State.BETTER_OFF]
    if not ahead or any(row.states.get(metric) in BAD for row in group.rows):
        return None
    return min(ahead, key=lambda row: _size(row, metric))


def gap_of(group: GroupTable, row: SliceRow, metric: Metric) -> ShownGap | None:
    """The gap of a row; of a named reference that is worse off, its largest to a better slice."""
    if metric in row.gaps or row.states.get(metric) not in BAD:
        return row.gaps.get(metric)
    ahead = [one for one in group.rows if one.states.get(metric) is State.BETTER_OFF]
    against = [one for one in ahead if metric in one.gaps]
    against = [one for one in against if one.gaps[metric].reference == row.slice]
    if not against:
        return None
    best = min(against, key=lambda one: _size(one, metric))
    return turned(best.gaps[metric], best.slice)


def judged_by(
    contract: ContractTable, group: GroupTable, row: SliceRow, metric: Metric
) -> tuple[ShownGap | None, dict[LimitKind, float]]:
    """Return the gap of a row, and the limits by which the row is judged.

    A named reference that is worse off is judged by the limits of the slice that it is behind: the
    comparison is declared there.
    """
    gap = gap_of(group, row, metric)
    limits = contract.limits_of(group.group_by, row.slice, metric)
    if gap is None or metric in row.gaps:
        return gap, limits
    levels = {kind: limits[kind] for kind in _LEVELS if kind in limits}
    compared = contract.limits_of(group.group_by, gap.reference, metric)
    return gap, levels | {kind: x for kind, x in compared.items() if kind not in _LEVELS}


def turned(gap: ShownGap, reference: str) -> ShownGap:
    """The gap as its other side sees it."""
    value, lower, upper = (
        None if number is None else -number for number in (gap.value, gap.upper, gap.lower)
    )
    if gap.ratio_lower is None:
        return ShownGap(reference, value, lower, upper)
    least = _inverse(gap.ratio_upper) or 0.0
    return ShownGap(
        *(reference, value, lower, upper),
        *(_inverse(gap.ratio), least, _inverse(gap.ratio_lower)),
    )


def _inverse(ratio: float | None) -> float | None:
    """Return the ratio as the other side sees it; None over zero, or where there is no bound.

    Four decimals: with two, a bound just beyond a limit could be the limit itself.
    """
    return round(1 / ratio, 4) if ratio else None


def _bounds(gap: ShownGap) -> tuple[float | None, float | None, float | None]:
    return gap.value, gap.lower, gap.upper


def _size(row: SliceRow, metric: Metric) -> float:
    """How much worse off a slice is; of a coded gap by the middle of its bounds."""
    gap = row.gaps.get(metric)
    if gap is None:
        return 0.0
    if gap.value is not None:
        return gap.value
    return ((gap.lower or 0.0) + (gap.upper or 0.0)) / 2
