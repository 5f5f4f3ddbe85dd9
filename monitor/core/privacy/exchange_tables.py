"""Counts of a block as exchanges are counted in them: by kind, cell, and part of time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from monitor.core.counts.cells import Int64s


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

    def room(self, axis: int, cells: Int64s, runs: Int64s) -> Int64s:
        """No more than so many can come into cells in runs by its exchange, shape (R,).

        Along every crossed attribute a cell and its neighbours keep their sum in each group; along
        the one that is exchanged, even in what a run has of a group.

        Args:
            axis: the attribute that is exchanged.
            cells: the cell of each run.
            runs: first part and end (exclusive) of each, shape (2, R).
        """
        first, end = self.groups.bounds(runs)
        met = end > first
        whole = np.where(met, self.groups.starts, first), np.where(met, self.groups.ends, end)
        running, rows = self.running.sum(axis=0), cells[:, None]
        lines = running.reshape(*self.sizes, -1)
        sums = []
        for along in range(len(self.sizes)):
            line = np.broadcast_to(lines.sum(axis=along, keepdims=True), lines.shape)
            before = line.reshape(running.shape)
            start, stop = (first, end) if along == axis else whole
            sums.append(before[rows, stop] - before[rows, start])
        inside = running[rows, end] - running[rows, first]
        return np.asarray((np.minimum.reduce(sums) - inside).sum(axis=1))
