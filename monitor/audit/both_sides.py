"""Which pairs hold variants of a slice and of its reference: a gap is over those.

Other pairs are other requests, and a difference to them may be one between requests. A set that
varies several things has pairs along one axis that say nothing of another; an intersection is held
by the pairs that are alike in the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from monitor.audit.counting import slice_of
from monitor.audit.model import Row
from monitor.audit.slices import GroupSlices, slices_within
from monitor.core.coding import Coding
from monitor.core.contract import COMPLEMENT, Contract

Held = Mapping[frozenset[str], Sequence[Row]]
"""The rows of all pairs that hold variants of the same slices, by those slices."""


def held_slices(pairs: Iterable[Sequence[Row]], table: GroupSlices, coding: Coding) -> Held:
    """What slices of a group-by the pairs hold variants of."""
    attributes = table.group.attributes
    held: dict[frozenset[str], list[Row]] = defaultdict(list)
    for rows in pairs:
        held[frozenset(slice_of(row, attributes, coding) for row in rows)] += rows
    return held


def same_pairs(held: Held, text: str, reference: str) -> bool:
    """Whether a slice and its reference are held by the very same pairs."""
    both = [(text in slices, _has_reference(slices, text, reference)) for slices in held]
    return (True, True) in both and (True, False) not in both and (False, True) not in both


def tables_of_both(
    table: GroupSlices, held: Held, contract: Contract, coding: Coding
) -> dict[str, GroupSlices]:
    """By slice of a synthetic set, the table over the pairs that hold its reference too.

    A slice is absent if no pair holds both. Slices that are held by the same pairs share a table.
    """
    found: dict[tuple[frozenset[str], ...], list[str]] = defaultdict(list)
    for row in table.rows:
        both = tuple(slices for slices in held if _holds_both(slices, row.slice, table))
        if both and row.slice != table.group.reference:
            found[both].append(row.slice)
    return {
        text: its
        for both, texts in found.items()
        for its in (_over(both, held, table, contract, coding),)
        for text in texts
    }


def _over(
    both: Sequence[frozenset[str]],
    held: Held,
    table: GroupSlices,
    contract: Contract,
    coding: Coding,
) -> GroupSlices:
    if len(both) == len(held):
        return table
    rows = [row for slices in both for row in held[slices]]
    return slices_within(table, rows, contract, coding)


def _holds_both(slices: frozenset[str], text: str, table: GroupSlices) -> bool:
    return text in slices and _has_reference(slices, text, table.group.reference)


def _has_reference(slices: frozenset[str], text: str, reference: str) -> bool:
    return bool(slices - {text}) if reference == COMPLEMENT else reference in slices
