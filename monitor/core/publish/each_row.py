"""Products of the rows of a Snapshot, computed again only for changed rows.

Most rows are the same from one Snapshot to the next. The products of a row (its lines on the page,
its bytes) depend only on the row and its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from monitor.core.publish.snapshot import GroupTable, SliceRow, Snapshot, WindowTable

_T = TypeVar("_T")
_Table = TypeVar("_Table", GroupTable, WindowTable)


class RowPlace(NamedTuple):
    """Place of a row in a Snapshot; the total has neither a group-by nor a slice.

    It is a tuple, so that labels of a sample are a part of it.

    Attributes:
        contract: name of the contract.
        group_by: the attributes of the slice.
        slice: slice text.
        window: name of the window.
        decides: True for the deciding window.
    """

    contract: str
    group_by: str
    slice: str
    window: str
    decides: bool

    @property
    def cell(self) -> tuple[str, str, str, str]:
        """Contract, group-by, slice and window of the row."""
        return self[:4]

    @property
    def where(self) -> tuple[str, str, str]:
        """Group-by, slice and window of the row."""
        return self[1:4]


Made = Mapping[RowPlace, tuple[SliceRow, _T]]
"""Rows and their products, by place."""


def each_row(
    snapshot: Snapshot, make: Callable[[RowPlace, SliceRow], _T], before: Made[_T]
) -> Made[_T]:
    """Return each row with its product of ``make``, by place; products of equal rows are reused.

    Args:
        snapshot: Snapshot with the rows.
        make: computes the product of one row.
        before: products for another Snapshot, reused for equal rows.
    """
    products = {}
    for place, row in rows_in_place(snapshot):
        last = before.get(place)
        is_same = last is not None and (last[0] is row or last[0] == row)
        products[place] = row, last[1] if last is not None and is_same else make(place, row)
    return products


def rows_in_place(snapshot: Snapshot) -> Iterator[tuple[RowPlace, SliceRow]]:
    """Yield every row with its place; the total of a window comes before its groups."""
    for contract in snapshot.contracts:
        for window in contract.windows:
            name, decides = window.window, window.window == contract.window
            total = window.total
            yield RowPlace(contract.contract, "", total.slice, name, decides), total
            for group in window.groups:
                for row in group.rows:
                    yield RowPlace(contract.contract, group.group_by, row.slice, name, decides), row


def with_known_rows(table: _Table, before: _Table) -> _Table:
    """Return a table that reuses the row objects of an earlier table if they are equal.

    Identical rows need no further comparison by functions that cache their products.
    """
    if isinstance(table, WindowTable):
        return replace(table, total=before.total) if table.total == before.total else table
    last_rows = {row.slice: row for row in before.rows}
    pairs = ((row, last_rows.get(row.slice)) for row in table.rows)
    return replace(table, rows=tuple(old if old == row else row for row, old in pairs))
