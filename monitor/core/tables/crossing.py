"""Find small counts of labels that two crossing slices together give away.

Intervals narrow one sum at a time. Where slices i and j cross in A, decisions and labels together
say more. Let 33 to 43 replies be reviewed in all, 33 or more of them in A: then at most 10 are in i
or j beside A. If i shows 0 to 10 ready labels and j shows 11 or more, j has more of them beside A
than i has, so i has at most 4 there. With d decisions, m labels of one kind (or none), n the other
kinds, and T a slice that holds i and j:

    2 m(i beside A) <= most - m(j) + m(i) - sum_n |n(j) - n(i)|,   most = d(T) - d(A)
    2 m(A) >= m(i) + m(j) - most + sum_n |n(j) - n(i)|
    2 m(A) <= d(A) + d(T) - sum_n (n(i) + n(j))
    2 m(i beside A) <= m(T) + d(i) - m(A) - d(j) + sum_n n(T beside i)

each with the ends of the bands that say least, and less what is certain of the rest of T. In few
worlds more rows say more still: linear programs find it, at a hundred times the cost of the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bools, Detail
from monitor.core.tables.layout import Layout
from monitor.core.tables.reader import LABEL_MEASURES, Measure, Reader, Table

Ends = tuple[Int64s, Int64s]
"""Lowest and highest number that counts may be."""
Limits = tuple[int, int]
"""The smallest cell that may be shown, and how many values of a smaller one must be left."""


def cells_left_few(
    reader: Reader, tables: Sequence[Table], small: Bools, limits: Limits
) -> list[int]:
    """Return cells of label counts below k that crossing slices leave fewer values than enough.

    Args:
        reader: of the past and the new tables.
        tables: ready labels and others, to be made.
        small: rows whose label counts are all below k, which the reader may guess of hidden ones.
        limits: k, and the values that are enough.
    """
    in_span = {table.measure: (table, cells) for table, cells in reader.beside(tables[0])}
    if Measure.DECISIONS not in in_span or not tables[0].layout.crossings.size:
        return []
    decision_table, _ = in_span[Measure.DECISIONS]
    ready, not_ready = (in_span[measure][1] for measure in LABEL_MEASURES)
    few: set[int] = set()
    for place, part in enumerate(tables[0].frame.parts, start=1):
        unlabelled = ready[:, tables[0].bands.low.shape[1] + place - 1]
        states = np.stack([ready[:, place], not_ready[:, place], unlabelled])
        column = 1 + decision_table.frame.parts.index(part)
        decided = decision_table.bands.low[:, column], decision_table.bands.high[:, column]
        low = np.array([table.bands.low[:, place] for table in tables])
        high = np.minimum([table.bands.high[:, place] for table in tables], decided[1])
        low = np.vstack([low, (decided[0] - high.sum(axis=0)).clip(0)])
        high = np.vstack([high, (decided[1] - low[:2].sum(axis=0)).clip(0)])
        for most in _guesses(tables[0], low, high, small, limits[0]):
            crossing = _Crossing.of_rows(tables[0].layout, (low, most), decided)
            few.update(crossing.few(states, tables[0].layout.crossings, limits))
    return sorted(few)


def _guesses(table: Table, low: Int64s, high: Int64s, small: Bools, k: int) -> Iterator[Int64s]:
    """Yield upper ends if hidden rows are small, and if shown ones have all labels as well."""
    shown = table.bands.detail > Detail.HIDDEN
    labels = np.array([[True], [True], [False]])
    high = np.where(labels & small & ~shown, np.minimum(high, k - 1), high)
    yield high
    yield np.where(~labels & shown & (low == 0), 0, high)


@dataclass(frozen=True, slots=True)
class _Crossing:
    """Counts where slices i and j cross in A within T: of the rows A, i, j, T in this order.

    Attributes:
        low: smallest count of each row and state, shape (4, 3, crossings).
        high: largest ones.
        decided_low: smallest number of decisions of each row, shape (4, crossings).
        decided_high: largest one.
        out_of_i: smallest and largest counts of T beside i, by state.
        out_of_j: smallest counts of T beside j.
    """

    low: Int64s
    high: Int64s
    decided_low: Int64s
    decided_high: Int64s
    out_of_i: Ends
    out_of_j: Int64s

    @classmethod
    def of_rows(cls, layout: Layout, counts: Ends, decided: Ends) -> _Crossing:
        """Return all crossings of a layout; counts (by state) and decisions are of its rows."""
        *rows, sum_of_i, sum_of_j = layout.crossings
        low, high = (np.stack([end[:, row] for row in rows]) for end in counts)
        least, most = (layout.sums_of_parts(end) for end in counts)
        most_of_rest = np.minimum(high[3] - low[1], most[:, sum_of_i] - high[1])
        rest = (least[:, sum_of_i] - low[1], most_of_rest), least[:, sum_of_j] - low[2]
        decided_low, decided_high = (np.stack([end[row] for row in rows]) for end in decided)
        return cls(low, high, decided_low, decided_high, *rest)

    def few(self, cells: Int64s, rows: Int64s, limits: Limits) -> Iterator[int]:
        """Yield the cells left few, unless decisions alone leave as few or a guess leaves none."""
        k, enough = limits
        bounds = (rows[1], self._beside()), (rows[0], self._inside())
        for row, (low, high, past, guessed) in bounds:
            few = (low < k) & (low <= high) & (high - low + 1 < enough)
            state, place = np.nonzero(few & (past + 1 >= enough) & (guessed > 0))
            yield from cells[state, row[place]].tolist()

    def _beside(self) -> tuple[Int64s, ...]:
        """Return least, most, most decisions and most guessed of i beside A."""
        (both_low, i_low, j_low, _), (both_high, i_high, _, over_high) = self.low, self.high
        left_of_j = over_high + self.decided_high[1] - both_low - self.decided_low[2]
        left_of_j += _of_other_states(self.out_of_i[1])
        most = np.minimum(self._free() - j_low + i_high, left_of_j) // 2
        past = self.decided_high[3] - self.decided_low[0]
        return np.maximum(i_low - both_high, 0), most, past, np.minimum(i_high, over_high)

    def _inside(self) -> tuple[Int64s, ...]:
        """Return least, most, most decisions and most guessed of A."""
        (both_low, i_low, j_low, over_low), (both_high, i_high, *_) = self.low, self.high
        labels, past = i_low + j_low, self.decided_high[0]
        twice = past + self.decided_high[3] - np.maximum(self.out_of_i[0], self.out_of_j)
        twice = twice - _of_other_states(np.maximum(labels, both_low + over_low))
        least = np.maximum(both_low, -((self._free() - labels) // 2))
        return least, np.minimum(both_high, twice // 2), past, np.minimum(both_high, i_high)

    def _free(self) -> Int64s:
        """Return how many decisions beside A may have each state, given the other states."""
        (_, i_low, j_low, over_low), (both_high, i_high, j_high, _) = self.low, self.high
        apart = np.maximum(j_low - i_high, i_low - j_high)
        certain = (apart, over_low - both_high, self.out_of_i[0], self.out_of_j)
        taken = _of_other_states(np.max(certain, axis=0).clip(0))
        return np.asarray(self.decided_high[3] - self.decided_low[0] - taken)


def _of_other_states(counts: Int64s) -> Int64s:
    """Return for each state the sum of the counts of all other states."""
    return np.asarray(counts.sum(axis=0) - counts)
