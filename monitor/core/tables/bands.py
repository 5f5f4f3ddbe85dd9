"""The row rule: how much a row shows of its counts.

A row has one count for each of its parts (routes, say), and its size, which is their sum. It shows

- nothing where the size is below k;
- the band of the size alone where every part is below k;
- otherwise a band of each count, all of one fixed grid: 0 to k - 1, k to 2 k - 1, ..., as wide as
  fits into a twentieth of the value, and at least k. A count below k is the band 0 to k - 1, so
  what is computed from it is a bound.

Bands of one grid, and not a rounded rate beside a size: a rate would tie hits to sizes across
tables. All edges of all grids are multiples of k. A sum of bands then leaves a count between two
multiples of k, less one for each band that is at its upper end; edges at other places leave a
remainder, and a reader who joins many bands is left a few values or one. The table rule may
coarsen a row: two coarser grids, then the size alone, then nothing.

Example:
    >>> shown = row_rule(np.array([[4, 3], [9, 9], [60, 4], [250, 1000]]), 11)
    >>> shown.detail.tolist()
    [0, 1, 2, 2]
    >>> for low, high in zip(shown.low.tolist(), shown.high.tolist()):
    ...     print(low, high)
    [0, 0, 0] [10, 10, 10]
    [11, 0, 0] [21, 21, 21]
    [55, 55, 0] [75, 65, 10]
    [1221, 242, 979] [1274, 252, 1022]
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

Bools = npt.NDArray[np.bool_]
Steps = npt.NDArray[np.int8]

_LARGEST = 2**40
_GRIDS = ((1, 20), (2, 10), (4, 5), (1, 4))
"""For each coarseness up to ``SIZE_ALONE``: the least width of a band in units of k, and the share
of the lower edge that a wider band may have."""


class Detail(enum.IntEnum):
    """Degree of detail that a row shows: nothing, its size, or all its counts."""

    HIDDEN = 0
    SIZE = 1
    COUNTS = 2


class Coarseness(enum.IntEnum):
    """Step of coarsening that the table rule requires of a row at least, from fine to withheld."""

    FINE = 0
    COARSE = 1
    COARSER = 2
    SIZE_ALONE = 3
    WITHHELD = 4


@dataclass(frozen=True, slots=True)
class Bands:
    """Closed intervals of the counts of rows, arrays of shape (rows, 1 + parts).

    Column 0 is the size. Where a count is not shown, its interval is what the rest of the row says
    of it: 0 to k - 1 in a hidden row, 0 to the largest size where the size is shown alone.

    Attributes:
        low: smallest number that each count may be.
        high: largest one.
        detail: what each row shows, shape (rows,).
    """

    low: Int64s
    high: Int64s
    detail: Steps

    def __len__(self) -> int:
        return len(self.detail)

    def where(self, rows: Bools, elsewhere: Bands) -> Bands:
        """Return these bands in rows that are True, and those of ``elsewhere`` in the others."""
        column = rows[:, None]
        return Bands(
            np.where(column, self.low, elsewhere.low),
            np.where(column, self.high, elsewhere.high),
            np.where(rows, self.detail, elsewhere.detail),
        )


@cache
def edges(k: int, coarseness: Coarseness) -> Int64s:
    """Return the lower edges of all bands of a coarseness for k, increasing and read-only.

    Example:
        >>> edges(11, Coarseness.FINE)[[1, 2, 39, 40, 41]].tolist()
        [11, 22, 429, 440, 462]
        >>> edges(11, Coarseness.COARSE)[:4].tolist()
        [0, 11, 33, 55]
    """
    least, share = _GRIDS[coarseness]
    lower = [0, 1]
    while lower[-1] * k < _LARGEST:
        lower.append(lower[-1] + max(least, lower[-1] // share))
    table = k * np.array(lower, np.int64)
    table.flags.writeable = False
    return table


def row_rule(
    counts: Int64s, k: int, coarseness: npt.ArrayLike = Coarseness.FINE, *, labels: bool = False
) -> Bands:
    """Return the bands that each row shows of its size and counts, and how much it shows.

    Args:
        counts: shape (rows, parts). A part without decisions is a count below k like any other;
            a row without any is hidden like any row below k.
        k: smallest cell that may be shown. 1 (synthetic traffic) shows exact numbers.
        coarseness: of each row, or of all.
        labels: a row of labels shows all its counts, however small, or nothing: which of them
            rates may rest on is for the label tables to say.

    Example:
        >>> row_rule(np.array([[2, 0]]), 1).high.tolist()
        [[2, 2, 0]]
        >>> row_rule(np.array([[60, 4]]), 11, Coarseness.SIZE_ALONE).low.tolist()
        [[55, 0, 0]]
    """
    cells = np.concatenate([counts.sum(axis=1, keepdims=True), counts], axis=1)
    if k == 1:
        return Bands(cells, cells, np.full(len(cells), Detail.COUNTS, np.int8))
    steps = np.broadcast_to(np.asarray(coarseness, np.int8), (len(cells),))
    if labels:
        detail = np.where(steps < Coarseness.SIZE_ALONE, Detail.COUNTS, Detail.HIDDEN)
    else:
        detail = _details(counts, k, steps)
    low, high = _banded(cells, k, steps)
    low[:, 0], high[:, 0] = low[:, 1:].sum(axis=1), high[:, 1:].sum(axis=1)
    size_low, size_high = _in_band(cells[:, 0], edges(k, Coarseness.SIZE_ALONE))
    alone = detail == Detail.SIZE
    low[alone], high[alone] = 0, size_high[alone, None]
    low[:, 0] = np.where(alone, size_low, low[:, 0])
    low[detail == Detail.HIDDEN], high[detail == Detail.HIDDEN] = 0, k - 1
    return Bands(low, high, detail)


def at_least(number: int, k: int) -> int:
    """Return the lower edge of the finest band that holds ``number``; ``number`` itself if k is 1.

    Example:
        >>> at_least(10, 11), at_least(54, 11), at_least(54, 1)
        (0, 44, 54)
    """
    lower = edges(k, Coarseness.FINE)
    return number if k == 1 else int(lower[lower.searchsorted(number, side="right") - 1])


def _details(counts: Int64s, k: int, steps: Steps) -> Steps:
    """Return how much each row shows: nothing, its size, or its counts."""
    size = counts.sum(axis=1)
    alone = (counts < k).all(axis=1) | (steps == Coarseness.SIZE_ALONE)
    hidden = (size < k) | (steps == Coarseness.WITHHELD)
    return np.select([hidden, alone], [Detail.HIDDEN, Detail.SIZE], Detail.COUNTS).astype(np.int8)


def _banded(cells: Int64s, k: int, steps: Steps) -> tuple[Int64s, Int64s]:
    """Return the lowest and highest number in the band of each cell, in the grid of its row."""
    low, high = np.zeros_like(cells), np.zeros_like(cells)
    for step in {*steps.tolist()} - {Coarseness.WITHHELD}:
        rows = steps == step
        low[rows], high[rows] = _in_band(cells[rows], edges(k, step))
    return low, high


def _in_band(values: Int64s, lower: Int64s) -> tuple[Int64s, Int64s]:
    place = lower.searchsorted(values, side="right")
    return lower[place - 1], lower[place] - 1
