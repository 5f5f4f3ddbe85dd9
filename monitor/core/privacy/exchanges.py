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
from monitor.core.privacy.exchange_partners import AllPartners, Diagonals, Partners
from monitor.core.privacy.exchange_tables import ExchangeTable

Bools = npt.NDArray[np.bool_]

_LARGEST = 2_000_000
"""Counts of what is used up by all questions that are answered at once, at most: 16 MB."""


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

    def up_to(self, wanted: Int64s, cells: Int64s, runs: Int64s, *, quick: bool = False) -> Int64s:
        """How many can be made for each of R questions, shape (R,): enough, or all.

        Args:
            wanted: enough of each.
            cells: the cell of each.
            runs: first part and end (exclusive) of each, shape (2, R).
            quick: whether only cells are tried that promise most: then it may be fewer than all.
        """
        flips = _Flips.of(self.table, self.axis)
        at_once = max(1, _LARGEST // max(1, flips.size))
        total = np.zeros(len(wanted), np.int64)
        for start in range(0, len(wanted), at_once):
            some = slice(start, start + at_once)
            asked = _Round(self, flips, cells[some], runs[:, some], quick=quick)
            total[some] = asked.up_to(wanted[some])
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

    def __init__(
        self, asked: Exchanges, flips: _Flips, cells: Int64s, runs: Int64s, *, quick: bool
    ) -> None:
        table = asked.table
        self._table, self._axis, self._lose, self._flips = table, asked.axis, asked.lose, flips
        self._cells, self._values = cells, table.values[:, cells]
        self._first, self._end = table.groups.bounds(runs)
        self._inside = self._end > self._first if table.groups.has(runs) else None
        self._partners: Partners = (
            Diagonals(table, cells, runs) if quick else AllPartners(table, asked.axis, cells)
        )
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
        if self._inside is None:
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
        total = np.zeros(len(still), np.int64)
        other = self._partners.of(turn, still)
        come = self._less(self._flips.there, other, still, shift)
        come = np.minimum(come, self._come(self._touched(self._flips.mine, other, still)))
        some = np.flatnonzero(come.any(axis=(0, 2)))
        if not len(some):
            return total
        come, other, still = come[:, some], other[:, some], still[some]
        own = self._own(still)
        go = np.minimum(self._less(self._flips.back, other, still, shift), self._go(own))
        blocks = self._table.blocks if shift else self._table.whole
        made = np.minimum(blocks.summed(come), blocks.summed(go))
        come, go = blocks.first(come, made), blocks.first(go, made)
        self._use(self._touched(self._flips.mine, other, still), come)
        self._use(own, go)
        for flips, used in ((self._flips.there, come), (self._flips.back, go)):
            for flip in flips:
                if flip in self._used:
                    self._use(self._touched(flip, other, still), _later(used, -shift))
        total[some] = made.sum(axis=(0, 2))
        return total

    def _less(self, flips: Sequence[Flip], other: Int64s, still: Int64s, shift: int) -> Int64s:
        """What the fewest of some cells have left, of the kind that comes ``shift`` later."""
        left = (self._anywhere(self._touched(flip, other, still)) for flip in flips)
        return reduce(np.minimum, (_later(one, shift) for one in left))

    def _touched(self, flip: Flip, other: Int64s, still: Int64s) -> _Touched:
        """The cells that have some values of the other ones (C, R), and the rest of our own."""
        cells, slot = self._cells[still], np.zeros_like(still)
        for axis, one in enumerate(flip):
            if one:
                moved = other[axis] - self._values[axis, still]
                cells = cells + moved * self._table.strides[axis]
                slot = slot * self._table.sizes[axis] + other[axis]
        return _Touched(flip, cells, slot, still)

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
        if self._inside is not None:
            there = self._inside[one.still] != outside
            return np.asarray(np.where(there, self._table.cells[:, one.cells], 0))
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


def _later(counts: Int64s, shift: int) -> Int64s:
    """The counts of each kind's partner: the kind that comes so much later, around the end."""
    return np.roll(counts, -shift, axis=0) if shift else counts
