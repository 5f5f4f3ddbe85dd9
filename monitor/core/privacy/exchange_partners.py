"""Cells to exchange with, and in which order: all of them, or those that promise most.

They have no crossed value in common with the cell that they exchange with.
"""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.privacy.exchange_tables import ExchangeTable

_FEW = 32
"""Cells to exchange with that are put in order at first: hardly ever are more needed."""
_ROUNDS = 5
"""Times that each value has its turn, if only some are tried: nearly always enough."""


class Partners(Protocol):
    """Cells to exchange with.

    Attributes:
        count: how many each cell has.
    """

    count: int

    def of(self, turn: int, still: Int64s) -> Int64s:
        """Values of the partner that has its turn, by attribute, of some questions."""
        ...


class AllPartners:
    """Cells to exchange with: they have no crossed value in common with a cell.

    Attributes:
        count: how many each cell has.
    """

    def __init__(self, table: ExchangeTable, axis: int, cells: Int64s) -> None:
        self.count = prod(size - 1 for size in table.sizes)
        self._table = table
        self._axis = axis
        self._known, self._of = np.unique(cells, return_inverse=True)
        self._order = np.empty((len(self._known), 0), np.int64)

    def of(self, turn: int, still: Int64s) -> Int64s:
        """Values of the partner that has its turn: those that can exchange most first."""
        if turn >= self._order.shape[1]:
            self._order = self._fullest_first(self.count if turn else _FEW)
        return np.asarray(self._table.values[:, self._order[self._of[still], turn]])

    def _fullest_first(self, count: int) -> Int64s:
        """So many partners of each cell; of equally full ones, the first."""
        table, axis, cells = self._table, self._axis, self._known
        values, full = table.values, table.full
        flipped = (
            cells[:, None] + (values[axis] - values[axis, cells][:, None]) * table.strides[axis]
        )
        place = np.arange(len(full))
        rank = place - np.minimum(full, full[flipped]) * len(full)
        for one in values:
            rank[one == one[cells][:, None]] = np.iinfo(np.int64).max
        if count < self.count:
            first = np.argpartition(rank, count, axis=1)[:, :count]
            rank = np.take_along_axis(rank, first, axis=1)
            return np.take_along_axis(first, np.argsort(rank, axis=1), axis=1)
        return np.argsort(rank, axis=1)[:, : self.count]


class Diagonals:
    """Some of the same cells, in another order: successive ones have no value in common either.

    So what one has used up is not missed by the next. Values come first that are frequent in a run
    together with all others of the cell. Of the attribute with most values each has its turn, and
    each time it has another one of every other attribute beside it: no cell comes twice.

    Attributes:
        count: how many cells there are.
    """

    def __init__(self, table: ExchangeTable, cells: Int64s, runs: Int64s) -> None:
        self._sizes = [size - 1 for size in table.sizes]
        self._widest = max(self._sizes)
        self.count = self._widest * min(_ROUNDS, *self._sizes)
        self._order = [self._by_count(table, cells, runs, axis) for axis in range(len(table.sizes))]

    def of(self, turn: int, still: Int64s) -> Int64s:
        """Values of the partner that has its turn, by attribute and question."""
        again, at = divmod(turn, self._widest)
        leads = self._sizes.index(self._widest)
        places = [
            at if axis == leads else (at + again) % size for axis, size in enumerate(self._sizes)
        ]
        return np.stack([order[still, at] for order, at in zip(self._order, places, strict=True)])

    def _by_count(self, table: ExchangeTable, cells: Int64s, runs: Int64s, axis: int) -> Int64s:
        """Other values of an attribute, the most frequent ones first."""
        mine = table.values[axis, cells]
        line = np.arange(table.sizes[axis]) - mine[:, None]
        rows, running = cells[:, None] + line * table.strides[axis], table.running
        counts = running[:, rows, runs[1][:, None]] - running[:, rows, runs[0][:, None]]
        rank = -counts.sum(axis=0)
        rank[line == 0] = 1
        return np.argsort(rank, axis=1, kind="stable")[:, :-1]
