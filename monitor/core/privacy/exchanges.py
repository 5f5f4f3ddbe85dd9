"""Exchanges that can be made, counted for many cells and runs of parts at once.

What an exchange is, and why it matters: :mod:`monitor.core.privacy.exchange`. Every question, one
of a cell and a run, is answered by itself: each has counts of its own to use up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

Bools = npt.NDArray[np.bool_]

_LARGEST = 2_000_000
"""Counts of what is used up by all questions that are answered at once, at most: 16 MB."""
_FEW = 32
"""Cells to exchange with that are put in order at first: hardly ever are more needed."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Successive parts that are published as one: the first part and end (exclusive) of each."""

    starts: Int64s
    ends: Int64s

    @classmethod
    def of(cls, together: Int64s) -> Groups:
        """From a number for each part, not decreasing."""
        starts = np.flatnonzero(np.append(True, np.diff(together) > 0))
        return cls(starts, np.append(starts[1:], len(together)))

    def summed(self, counts: Int64s) -> Int64s:
        """Counts of parts (..., T) by group (..., B)."""
        return np.asarray(np.add.reduceat(counts, self.starts, axis=-1))

    def bounds(self, runs: Int64s) -> tuple[Int64s, Int64s]:
        """What of each group is in runs (2, R): first part and end (exclusive), each (R, B)."""
        first = np.maximum(runs[0][:, None], self.starts)
        return first, np.maximum(np.minimum(runs[1][:, None], self.ends), first)

    def has(self, runs: Int64s) -> bool:
        """Return True when every run is one of whole groups."""
        return bool(np.isin(runs[0], self.starts).all() and np.isin(runs[1], self.ends).all())


@dataclass(frozen=True, slots=True)
class ExchangeBlocks:
    """Successive groups in which two kinds may exchange and exchange back.

    Attributes:
        starts: first group of each block.
        block: of each group.
    """

    starts: Int64s
    block: Int64s

    @classmethod
    def of(cls, numbers: Int64s) -> ExchangeBlocks:
        """From a number for each group, not decreasing."""
        new = np.append(True, np.diff(numbers) > 0)
        return cls(np.flatnonzero(new), np.cumsum(new) - 1)

    def summed(self, counts: Int64s) -> Int64s:
        """Counts of groups (Z, R, B) by block."""
        return np.asarray(np.add.reduceat(counts, self.starts, axis=2))

    def first(self, counts: Int64s, most: Int64s) -> Int64s:
        """The first ``most`` (Z, R, blocks) of the counts (Z, R, B) in each block."""
        running = counts.cumsum(axis=2)
        if len(self.starts) > 1:
            running -= (running[:, :, self.starts] - counts[:, :, self.starts])[:, :, self.block]
            most = most[:, :, self.block]
        taken = np.minimum(running, most)
        found = taken.copy()
        found[:, :, 1:] -= taken[:, :, :-1]
        found[:, :, self.starts] = taken[:, :, self.starts]
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class ExchangeTable:
    """Counts for the exchange of one attribute.

    Attributes:
        sizes: how many values each crossed attribute has; cells are numbered row by row.
        values: of the crossed attributes, of each cell, shape (C, cells).
        strides: how far apart the cells of successive values are, (C,).
        running: counts before each part and after the last, shape (Z, cells, T + 1).
        cells: counts by group, shape (Z, cells, B).
        full: all counts of each cell.
        groups: parts that are published as one by whatever has the attribute.
        blocks: of groups, in which two kinds may exchange and exchange back.
        whole: all groups as one: for a kind by itself.
    """

    sizes: tuple[int, ...]
    values: Int64s
    strides: Int64s
    running: Int64s
    cells: Int64s
    full: Int64s
    groups: Groups
    blocks: ExchangeBlocks
    whole: ExchangeBlocks

    @property
    def kinds(self) -> int:
        """Kinds that exchange with each other: where two attributes are crossed."""
        return len(self.cells) if len(self.sizes) == 2 else 1  # noqa: PLR2004

    @classmethod
    def of(cls, counts: Int64s, together: Int64s, beside: Int64s) -> ExchangeTable:
        """From counts of parts, shape (Z, ..., T), and the numbers of what is published as one."""
        groups = Groups.of(together)
        kinds, *sizes, parts = counts.shape
        flat = counts.reshape(kinds, prod(sizes), parts)
        running = np.zeros((*flat.shape[:2], parts + 1), np.int64)
        flat.cumsum(axis=2, out=running[:, :, 1:])
        values = np.indices(sizes).reshape(len(sizes), -1)
        strides = np.array([prod(sizes[axis + 1 :]) for axis in range(len(sizes))], np.int64)
        blocks, whole = beside[groups.starts], np.zeros_like(groups.starts)
        return cls(
            *(tuple(sizes), values, strides),
            *(running, groups.summed(flat), flat.sum(axis=(0, 2))),
            *(groups, ExchangeBlocks.of(blocks), ExchangeBlocks.of(whole)),
        )


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Exchanges of values of one attribute.

    Decisions inside a run come into a cell (or leave it), and as many outside of the run leave it
    (or come). Each takes part in one exchange.

    Attributes:
        table: counts of all cells.
        axis: the attribute.
        lose: whether cells are to have fewer in the run.
    """

    table: ExchangeTable
    axis: int
    lose: bool

    def up_to(self, wanted: Int64s, cells: Int64s, runs: Int64s) -> Int64s:
        """How many can be made for each of R questions, shape (R,): enough, or all.

        Args:
            wanted: enough of each.
            cells: the cell of each.
            runs: first part and end (exclusive) of each, shape (2, R).
        """
        flips = _Flips.of(self.table, self.axis)
        at_once = max(1, _LARGEST // max(1, flips.size))
        total = np.zeros(len(wanted), np.int64)
        for start in range(0, len(wanted), at_once):
            some = slice(start, start + at_once)
            total[some] = _Round(self, flips, cells[some], runs[:, some]).up_to(wanted[some])
        return total


Flip = tuple[bool, ...]
"""For each crossed attribute, whether the value is that of the cell to exchange with."""


@dataclass(frozen=True, slots=True)
class _Flips:
    """All cells that an exchange with another one touches.

    Attributes:
        mine: the one that comes into the cell.
        own: the cell itself.
        there: those that gain where it loses.
        back: those that lose there.
        slots: how many cells each flip may mean, for one question.
        size: counts to be kept for one question.
    """

    mine: Flip
    own: Flip
    there: tuple[Flip, ...]
    back: tuple[Flip, ...]
    slots: Mapping[Flip, int]
    size: int

    @classmethod
    def of(cls, table: ExchangeTable, axis: int) -> _Flips:
        """Those of the exchange of an attribute."""
        own, *rest = product((False, True), repeat=len(table.sizes))
        mine = tuple(i == axis for i in range(len(table.sizes)))
        beside = [flip for flip in rest if flip != mine]
        slots = {flip: _slots(table.sizes, flip) for flip in (own, *rest)}
        if table.kinds == 1:
            del slots[rest[-1]]  # each of these has one turn: nobody asks what is left
        return cls(
            mine=mine,
            own=own,
            there=tuple(flip for flip in beside if sum(flip) % 2),
            back=tuple(flip for flip in beside if not sum(flip) % 2),
            slots=slots,
            size=sum(slots.values()) * table.cells.shape[0] * table.cells.shape[2],
        )


def _slots(sizes: Sequence[int], flip: Flip) -> int:
    return prod(size for size, one in zip(sizes, flip, strict=True) if one)


class _Round:
    """Some questions, and what was used up by the exchanges that were made for each."""

    def __init__(self, asked: Exchanges, flips: _Flips, cells: Int64s, runs: Int64s) -> None:
        table = asked.table
        self._table, self._axis, self._lose, self._flips = table, asked.axis, asked.lose, flips
        self._cells, self._values = cells, table.values[:, cells]
        self._first, self._end = table.groups.bounds(runs)
        self._whole_groups = table.groups.has(runs)
        self._partners = _Partners(table, asked.axis, cells)
        kinds, _, groups = table.cells.shape
        self._used = {
            flip: np.zeros((kinds, len(cells), slots, groups), np.int64)
            for flip, slots in flips.slots.items()
        }
        self._leaving = self._counted(self._own(np.arange(len(cells))), outside=not self._lose)

    def up_to(self, wanted: Int64s) -> Int64s:
        """See :meth:`Exchanges.up_to`."""
        total, still = np.zeros(len(wanted), np.int64), np.arange(len(wanted))
        for exchange in self._steps():
            total[still] += exchange(still)
            still = still[total[still] < wanted[still]]
            if not len(still):
                break
        return total

    def _steps(self) -> Iterator[Callable[[Int64s], Int64s]]:
        """What is tried, one after the other, each for the questions that still want exchanges."""
        if not self._whole_groups:
            for turn in range(self._table.sizes[self._axis] - 1):
                yield partial(self._of_instants, turn)
        for shift in range(self._table.kinds):
            for turn in range(self._partners.count):
                yield partial(self._crossed, turn, shift)

    def _of_instants(self, turn: int, still: Int64s) -> Int64s:
        """Exchange within a group, one inside the run with one outside of it.

        As if the two had come at each other's instants.
        """
        other = self._values[:, still]
        other[self._axis] = turn + (other[self._axis] <= turn)
        mine, own = self._touched(self._flips.mine, other, still), self._own(still)
        made = np.minimum(self._come(mine), self._go(own))
        self._use(mine, made)
        self._use(own, made)
        return np.asarray(made.sum(axis=(0, 2)))

    def _crossed(self, turn: int, shift: int, still: Int64s) -> Int64s:
        """Exchange with other cells, and back: all places where values are one or the other's.

        Those of the cell and with its values but one are of one kind, the others of the kind that
        comes ``shift`` later.
        """
        other = self._table.values[:, self._partners.of(turn, still)]
        mine, own = self._touched(self._flips.mine, other, still), self._own(still)
        there = [self._touched(flip, other, still) for flip in self._flips.there]
        back = [self._touched(flip, other, still) for flip in self._flips.back]
        come = reduce(np.minimum, (_later(self._anywhere(one), shift) for one in there))
        go = reduce(np.minimum, (_later(self._anywhere(one), shift) for one in back))
        come, go = np.minimum(come, self._come(mine)), np.minimum(go, self._go(own))
        blocks = self._table.blocks if shift else self._table.whole
        made = np.minimum(blocks.summed(come), blocks.summed(go))
        come, go = blocks.first(come, made), blocks.first(go, made)
        self._use(mine, come)
        self._use(own, go)
        for one in there:
            self._use(one, _later(come, -shift))
        for one in back:
            self._use(one, _later(go, -shift))
        return np.asarray(made.sum(axis=(0, 2)))

    def _touched(self, flip: Flip, other: Int64s, still: Int64s) -> _Touched:
        """The cells that have some values of the other ones (C, R), and the rest of our own."""
        values = np.where(np.array(flip)[:, None], other, self._values[:, still])
        slot = np.zeros_like(still)
        for size, value, one in zip(self._table.sizes, other, flip, strict=True):
            slot = slot * size + value if one else slot
        return _Touched(flip, self._table.strides @ values, slot, still)

    def _own(self, still: Int64s) -> _Touched:
        """The cells that are asked about."""
        return _Touched(self._flips.own, self._cells[still], np.zeros_like(still), still)

    def _come(self, one: _Touched) -> Int64s:
        """Those with another value that could come into the cell where it is to have more."""
        return self._left(one, self._counted(one, outside=self._lose))

    def _go(self, own: _Touched) -> Int64s:
        """Those of the cell that could leave it where it is to have fewer."""
        return self._left(own, self._leaving[:, own.still])

    def _counted(self, one: _Touched, *, outside: bool) -> Int64s:
        """The counts inside the runs, or outside, (Z, R, B)."""
        running, rows = self._table.running, one.cells[:, None]
        inside = running[:, rows, self._end[one.still]] - running[:, rows, self._first[one.still]]
        return np.asarray(self._table.cells[:, one.cells] - inside if outside else inside)

    def _left(self, one: _Touched, counts: Int64s) -> Int64s:
        """What is left of some counts."""
        return np.asarray(counts - self._used[one.flip][:, one.still, one.slot])

    def _anywhere(self, one: _Touched) -> Int64s:
        """What is left of the counts."""
        counts, used = self._table.cells[:, one.cells], self._used.get(one.flip)
        return np.asarray(counts if used is None else counts - used[:, one.still, one.slot])

    def _use(self, one: _Touched, made: Int64s) -> None:
        if (used := self._used.get(one.flip)) is not None:
            used[:, one.still, one.slot] += made


@dataclass(frozen=True, slots=True)
class _Touched:
    """One cell for each question that still wants exchanges, and where its use is noted."""

    flip: Flip
    cells: Int64s
    slot: Int64s
    still: Int64s


class _Partners:
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
        """The partner of some questions that has its turn: those that can exchange most first."""
        if turn >= self._order.shape[1]:
            self._order = self._fullest_first(self.count if turn else _FEW)
        return np.asarray(self._order[self._of[still], turn])

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


def _later(counts: Int64s, shift: int) -> Int64s:
    """The counts of each kind's partner: the kind that comes so much later, around the end."""
    return np.roll(counts, -shift, axis=0) if shift else counts
