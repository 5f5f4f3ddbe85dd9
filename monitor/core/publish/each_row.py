"""What is made of every row of a Snapshot: again only of rows that say something else.

Most rows are the same from one Snapshot to the next, and whatever is made of a row (its lines on
the page, its bytes) is made of nothing but the row and its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from monitor.core.publish.snapshot import SliceRow, Snapshot

_T = TypeVar("_T")


class RowPlace(NamedTuple):
    """Where a row stands; the total has neither a group-by nor a slice.

    Attributes:
        contract: its name.
        group_by: the attributes of the slice.
        slice: which.
        window: its name.
        decides: whether the window is the one that decides.
    """

    contract: str
    group_by: str
    slice: str
    window: str
    decides: bool

    @property
    def cell(self) -> tuple[str, str, str, str]:
        """Contract, group-by, slice, window."""
        return self[:4]

    @property
    def where(self) -> tuple[str, str, str]:
        """The same without the contract."""
        return self[1:4]


Made = Mapping[RowPlace, tuple[SliceRow, _T]]
"""Every row, and what was made of it."""


def each_row(
    snapshot: Snapshot, make: Callable[[RowPlace, SliceRow], _T], before: Made[_T]
) -> Made[_T]:
    """What is made of every row, in their order.

    Args:
        snapshot: with the rows.
        make: of one row.
        before: what was made of those of another Snapshot, taken where a row is the same.
    """
    made = {}
    for place, row in rows_in_place(snapshot):
        known = before.get(place)
        same = known is not None and (known[0] is row or known[0] == row)
        made[place] = row, known[1] if known is not None and same else make(place, row)
    return made


def rows_in_place(snapshot: Snapshot) -> Iterator[tuple[RowPlace, SliceRow]]:
    """Every row, the total of a window before its groups."""
    for contract in snapshot.contracts:
        for window in contract.windows:
            name, decides = window.window, window.window == contract.window
            total = window.total
            yield RowPlace(contract.contract, "", total.slice, name, decides), total
            for group in window.groups:
                for row in group.rows:
                    yield RowPlace(contract.contract, group.group_by, row.slice, name, decides), row
