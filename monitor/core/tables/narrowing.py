"""Intervals of counts, narrowed along sums, as a reader can compute them.

Every shown band is an interval of a count. Where one count is the sum of others, each of them lies
between what the sum leaves to it:

    low(part) = low(whole) - sum of high(other parts),   low(whole) = sum of low(parts)

and so on for the upper ends, until nothing changes. These are outer bounds: what is left after them
may still be less for a reader who solves all equations at once, so the table rule asks for more
than it promises.

A sum is exact, or its whole is at least the sum of the parts (late counts; a part that no table
has). A reader may guess that a doubtful sum is exact, or that a hidden row has less than k. Where
what was published contradicts a guess, it is given up: first that the sum is exact, then all of it.

Example:
    >>> sums = Sums.join([Sums.from_cells(0, [1, 2])])
    >>> low, high = narrowed(np.array([44, 11, 0]), np.array([54, 40, 10]), sums)
    >>> low.tolist(), high.tolist()
    ([44, 34, 4], [50, 40, 10])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bools, Steps

ANY = 2**40
"""Upper end of a count of which nothing is known."""
GIVEN_UP, AT_LEAST, EXACT = range(3)
"""What is believed of a sum: nothing, that the whole is at least the sum, that both are equal."""
_ROUNDS = 200


@dataclass(frozen=True)
class Sums:
    """Sums of cells: a whole and its parts; cells are array places.

    Attributes:
        wholes: cell of each whole, shape (sums,).
        lengths: number of its parts, at least 1.
        parts: cells of all parts, one sum after the other.
        belief: ``EXACT``, or ``AT_LEAST``.
        doubtful: True where a reader only guesses it.
    """

    wholes: Int64s
    lengths: Int64s
    parts: Int64s
    belief: Steps
    doubtful: Bools

    @classmethod
    def from_cells(
        cls, wholes: npt.ArrayLike, parts: npt.ArrayLike, *, doubtful: bool = False
    ) -> Sums:
        """Return exact sums with equally many parts; ``parts`` has shape (sums, parts of each)."""
        cells, table = np.atleast_1d(np.asarray(wholes, np.int64)), np.asarray(parts, np.int64)
        lengths = np.full(len(cells), table.size // max(len(cells), 1), np.int64)
        belief = np.full(len(cells), EXACT, np.int8)
        return cls(cells, lengths, table.ravel(), belief, np.full(len(cells), doubtful, np.bool_))

    @classmethod
    def tied(cls, wholes: Int64s, parts: Sequence[Int64s | None]) -> Sums:
        """Return sums that a reader may only guess, of the parts that have a cell (not -1).

        A sum is exact if all its parts have a cell; a whole without any is left out.

        Args:
            wholes: cells of the wholes.
            parts: of each part the cells; None for a part that nobody has.
        """
        nothing = np.full(wholes.shape, -1, np.int64)
        table = np.stack([nothing if part is None else part for part in parts], axis=-1)
        table = table.reshape(-1, len(parts))
        present: Bools = (table >= 0) & (wholes.reshape(-1, 1) >= 0)
        lengths = present.sum(axis=1)
        tied = lengths > 0
        belief = np.where(present.all(axis=1), EXACT, AT_LEAST)[tied].astype(np.int8)
        return cls(wholes.ravel()[tied], lengths[tied], table[present], belief, belief > GIVEN_UP)

    @classmethod
    def join(cls, groups: Sequence[Sums]) -> Sums:
        """Return the sums of all groups in one object, in their order; at least one group."""
        columns = ("wholes", "lengths", "parts", "belief", "doubtful")
        return cls(*(np.concatenate([getattr(sums, c) for sums in groups]) for c in columns))

    def shifted(self, by: int) -> Sums:
        """Return these sums with all cells moved by as many places."""
        return replace(self, wholes=self.wholes + by, parts=self.parts + by)

    def holding(self, cells: Int64s) -> Int64s:
        """Return the sums that one of the cells is the whole or a part of, each once, sorted."""
        holding = np.zeros(len(self.wholes), np.bool_)
        holding[_gathered(*self._sums_of_cell, cells)] = True
        return np.flatnonzero(holding)

    def beside(self, cells: Int64s) -> Int64s:
        """Return all cells that share a sum with one of the cells, some of them repeatedly."""
        sums = self.holding(cells)
        return np.concatenate([self.wholes[sums], self.parts_of(sums)])

    def parts_of(self, sums: Int64s) -> Int64s:
        """Return the parts of the given sums (sorted, each once), one sum after the other."""
        starts, parts = self._parts
        if len(sums) and sums[-1] - sums[0] == len(sums) - 1:
            return parts[starts[sums[0]] : starts[sums[-1] + 1]]
        return _gathered(starts, parts, sums)

    @cached_property
    def _parts(self) -> tuple[Int64s, Int64s]:
        return np.append(0, np.cumsum(self.lengths)), self.parts

    @cached_property
    def _sums_of_cell(self) -> tuple[Int64s, Int64s]:
        """Return the start of each cell's sums in a list sorted by cell, and this list of sums."""
        numbers = np.arange(len(self.wholes))
        members = np.concatenate([self.wholes, self.parts])
        owners = np.concatenate([numbers, np.repeat(numbers, self.lengths)])
        # Halves of 16 bits are sorted without comparisons, many times as fast as whole numbers.
        order = np.lexsort((members.astype(np.uint16), (members >> 16).astype(np.uint16)))
        return np.append(0, np.cumsum(np.bincount(members))), owners[order]


def _gathered(starts: Int64s, items: Int64s, groups: Int64s) -> Int64s:
    """Return the items of the given groups; group g has ``items[starts[g]:starts[g + 1]]``."""
    groups = groups[groups < len(starts) - 1]
    begins, lengths = starts[groups], starts[groups + 1] - starts[groups]
    offsets = np.cumsum(lengths) - lengths
    places = np.arange(lengths.sum()) + np.repeat(begins - offsets, lengths)
    return np.asarray(items[places])


def narrowed(
    low: Int64s, high: Int64s, sums: Sums, belief: Steps | None = None
) -> tuple[Int64s, Int64s]:
    """Return the lowest and highest number of each cell, narrowed by the sums; low <= high.

    Args:
        low: smallest number of each cell, by what was published.
        high: largest one; ``ANY`` where nothing is known.
        sums: what is known of them.
        belief: what is believed of each sum, lowered in place where it is refuted; None for
            ``sums.belief``.
    """
    belief = sums.belief.copy() if belief is None else belief
    while True:
        ends = low.copy(), high.copy()
        refuted = narrow(*ends, sums, belief, np.flatnonzero(belief))
        if not len(refuted):
            return ends
        guesses = refuted[sums.doubtful[refuted]]
        belief[guesses if len(guesses) else refuted] -= 1


def narrow(low: Int64s, high: Int64s, sums: Sums, belief: Steps, turn: Int64s) -> Int64s:
    """Narrow low and high in place until nothing changes, or sums are refuted; return these.

    Each round looks at all sums of its turn before it changes anything. The next turn is of the
    sums with a cell that changed: others would change nothing.

    Args:
        low: smallest number of each cell.
        high: largest one.
        sums: what is known of them.
        belief: what is believed of each sum.
        turn: sums of the first round; all others hold already.
    """
    for _ in range(_ROUNDS):
        if not len(turn):
            break
        changed, refuted = _narrow_once(low, high, sums, belief, turn)
        if len(refuted):
            return refuted
        turn = sums.holding(np.flatnonzero(changed))
        turn = turn[belief[turn] > GIVEN_UP]
    return turn[:0]


def _narrow_once(
    low: Int64s, high: Int64s, sums: Sums, belief: Steps, turn: Int64s
) -> tuple[Bools, Int64s]:
    """Narrow low and high by the sums of a turn; mark changed cells, and return refuted sums."""
    wholes, parts, lengths = sums.wholes[turn], sums.parts_of(turn), sums.lengths[turn]
    starts, exact = np.cumsum(lengths) - lengths, belief[turn] == EXACT
    part_low, part_high, whole_low, whole_high = low[parts], high[parts], low[wholes], high[wholes]
    sum_low = np.add.reduceat(part_low, starts)
    sum_high = np.where(exact, np.add.reduceat(part_high, starts), ANY)
    refuted = (sum_low > whole_high) | (sum_high < whole_low)
    left_high = np.repeat(np.minimum(whole_high, sum_high) - sum_low, lengths) + part_low
    least = np.where(exact, np.maximum(whole_low, sum_low) - sum_high, -ANY)
    np.maximum.at(low, wholes, sum_low)
    np.minimum.at(high, wholes, sum_high)
    np.maximum.at(low, parts, np.repeat(least, lengths) + part_high)
    np.minimum.at(high, parts, left_high)
    changed = np.zeros(len(low), np.bool_)
    changed[wholes] = (low[wholes] > whole_low) | (high[wholes] < whole_high)
    changed[parts] |= (low[parts] > part_low) | (high[parts] < part_high)
    against, crossed = turn[refuted], low > high
    if crossed.any():
        holding = sums.holding(np.flatnonzero(crossed))
        against = np.union1d(against, holding[belief[holding] > GIVEN_UP])
    return changed, against
