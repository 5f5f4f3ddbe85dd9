"""The row rule: what one row shows of its counts.

A row has one count for each of its parts (routes, say), and its size, which is their sum. It shows

- nothing where the size is below k;
- the band of the size alone from k to 2 k - 2, where no two parts can have k each;
- otherwise a band of each count, all of one fixed grid: 0 to k - 1, k to 2 k - 1, ..., at least k
  wide and a twentieth of the value. A count below k is the band 0 to k - 1, so what is computed
  from it is a bound.

Bands of one grid, and not a rounded rate beside a size: a rate would tie hits to sizes across
tables. The table rule may coarsen a row: two coarser grids, then the size alone, then nothing.

Example:
    >>> shown = row_rule(np.array([[4, 3], [9, 9], [60, 4], [250, 1000]]), 11)
    >>> shown.detail.tolist()
    [0, 1, 2, 2]
    >>> for low, high in zip(shown.low.tolist(), shown.high.tolist()):
    ...     print(low, high)
    [0, 0, 0] [10, 10, 10]
    [11, 0, 0] [20, 20, 20]
    [55, 55, 0] [75, 65, 10]
    [1206, 242, 964] [1264, 253, 1011]
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

_LARGEST = 2**40
_GRIDS = ((1, 20), (2, 10), (4, 5))
"""Of each coarseness: least width of a band in units of k, and the share of its lower edge."""


class Detail(enum.IntEnum):
    """What a row shows. A row that was withheld looks exactly like one below k."""

    HIDDEN = 0
    SIZE = 1
    COUNTS = 2


class Coarseness(enum.IntEnum):
    """How coarse a row is made at least."""

    FINE = 0
    COARSE = 1
    COARSER = 2
    SIZE_ALONE = 3
    WITHHELD = 4


@dataclass(frozen=True, slots=True)
class Bands:
    """What rows show: closed intervals of their counts, arrays of shape (rows, 1 + parts).

    Column 0 is the size. Where a count is not shown, its interval is what the rest of the row says
    of it: 0 to k - 1 in a hidden row, 0 to the largest size where the size is shown alone.

    Attributes:
        low: smallest number that each count may be.
        high: largest one.
        detail: what each row shows, shape (rows,).
    """

    low: Int64s
    high: Int64s
    detail: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.detail)

    def where(self, rows: npt.NDArray[np.bool_], other: Bands) -> Bands:
        """These bands in the given rows, and those of another table of the same rows elsewhere."""
        column = rows[:, None]
        return Bands(
            np.where(column, self.low, other.low),
            np.where(column, self.high, other.high),
            np.where(rows, self.detail, other.detail),
        )


@cache
def edges(k: int, coarseness: Coarseness) -> Int64s:
    """Lower edges of the bands of counts; of sizes alone from ``SIZE_ALONE`` on.

    Example:
        >>> edges(11, Coarseness.FINE)[:4].tolist(), edges(11, Coarseness.COARSE)[:4].tolist()
        ([0, 11, 22, 33], [0, 11, 33, 55])
        >>> edges(11, Coarseness.SIZE_ALONE)[:6].tolist()
        [0, 11, 21, 32, 43, 54]
    """
    alone = coarseness >= Coarseness.SIZE_ALONE
    least, share = (1, 4) if alone else _GRIDS[coarseness]
    lower = [0, k, 2 * k - 1] if alone else [0, k]
    while lower[-1] < _LARGEST:
        lower.append(lower[-1] + max(least * k, lower[-1] // share))
    table = np.array(lower, np.int64)
    table.flags.writeable = False
    return table


def row_rule(counts: Int64s, k: int, coarseness: npt.ArrayLike = Coarseness.FINE) -> Bands:
    """What each row shows of its counts.

    Args:
        counts: shape (rows, parts). A part without decisions is a count below k like any other;
            a row without any is hidden like any row below k.
        k: smallest cell that may be shown. 1 (synthetic traffic) shows exact numbers.
        coarseness: of each row, or of all.

    Example:
        >>> row_rule(np.array([[2, 0]]), 1).high.tolist()
        [[2, 2, 0]]
        >>> row_rule(np.array([[60, 4]]), 11, Coarseness.SIZE_ALONE).low.tolist()
        [[54, 0, 0]]
    """
    cells = np.concatenate([counts.sum(axis=1, keepdims=True), counts], axis=1)
    if k == 1:
        return Bands(cells, cells, np.full(len(cells), Detail.COUNTS, np.int8))
    steps = np.broadcast_to(np.asarray(coarseness, np.int8), (len(cells),))
    detail = _details(counts, k, steps)
    low, high = _banded(cells, k, steps)
    low[:, 0], high[:, 0] = low[:, 1:].sum(axis=1), high[:, 1:].sum(axis=1)
    size_low, size_high = _in_band(cells[:, 0], edges(k, Coarseness.SIZE_ALONE))
    low[detail == Detail.SIZE], high[detail == Detail.SIZE] = (
        0,
        size_high[detail == Detail.SIZE, None],
    )
    low[:, 0] = np.where(detail == Detail.SIZE, size_low, low[:, 0])
    low[detail == Detail.HIDDEN], high[detail == Detail.HIDDEN] = 0, k - 1
    return Bands(low, high, detail)


def _details(counts: Int64s, k: int, steps: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    size = counts.sum(axis=1)
    alone = (size < 2 * k - 1) | (counts < k).all(axis=1) | (steps == Coarseness.SIZE_ALONE)
    hidden = (size < k) | (steps == Coarseness.WITHHELD)
    return np.select([hidden, alone], [Detail.HIDDEN, Detail.SIZE], Detail.COUNTS).astype(np.int8)


def _banded(cells: Int64s, k: int, steps: npt.NDArray[np.int8]) -> tuple[Int64s, Int64s]:
    """The band of each cell in the grid of its row."""
    low, high = np.zeros_like(cells), np.zeros_like(cells)
    for step in range(len(_GRIDS)):
        rows = steps == step
        low[rows], high[rows] = _in_band(cells[rows], edges(k, Coarseness(step)))
    return low, high


def _in_band(values: Int64s, lower: Int64s) -> tuple[Int64s, Int64s]:
    place = lower.searchsorted(values, side="right")
    return lower[place - 1], lower[place] - 1
