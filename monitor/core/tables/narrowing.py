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
from monitor.core.tables.bands import Bools

ANY = 2**40
"""Upper end of a count of which nothing is known."""
_ROUNDS = 200


@dataclass(frozen=True)
class Sums:
    """Equations and inequalities between cells: a whole and its parts; cells are array places.

    Attributes:
        wholes: cell of each whole, shape (sums,).
        lengths: number of its parts, at least 1.
        parts: cells of all parts, one sum after the other.
        exact: False where the whole is at least the sum.
        doubtful: True where a reader only guesses it.
    """

    wholes: Int64s
    lengths: Int64s
    parts: Int64s
    exact: Bools
    doubtful: Bools

    @classmethod
    def from_cells(
        cls,
        wholes: npt.ArrayLike,
        parts: npt.ArrayLike,
        *,
        exact: bool = True,
        doubtful: bool = False,
    ) -> Sums:
        """Return sums with equally many parts each; ``parts`` has shape (sums, parts of each)."""
        cells = np.atleast_1d(np.asarray(wholes, np.int64))
        table = np.asarray(parts, np.int64)
        lengths = np.full(len(cells), table.size // max(len(cells), 1), np.int64)
        flags = [np.full(len(cells), flag, np.bool_) for flag in (exact, doubtful)]
        return cls(cells, lengths, table.ravel(), *flags)

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
        exact: Bools = np.asarray(present.all(axis=1))[tied]
        doubtful = np.ones(len(exact), bool)
        return cls(wholes.ravel()[tied], lengths[tied], table[present], exact, doubtful)

    @classmethod
    def join(cls, groups: Sequence[Sums]) -> Sums:
        """Return the sums of all groups in one object, in their order; at least one group."""
        columns = ("wholes", "lengths", "parts", "exact", "doubtful")
        return cls(*(np.concatenate([getattr(sums, c) for sums in groups]) for c in columns))

    def without(self, dropped: Bools) -> Sums:
        """Return the sums that are not marked in the mask ``dropped``, shape (sums,)."""
        kept = ~dropped
        return Sums(
            self.wholes[kept],
            self.lengths[kept],
            self.parts[np.repeat(kept, self.lengths)],
            self.exact[kept],
            self.doubtful[kept],
        )

    def beside(self, cells: Int64s) -> Int64s:
        """Return the given cells and all that share a sum with one of them, each once, sorted."""
        sums = _gathered(*self._sums_of_cell, cells)
        starts = np.append(self.starts, len(self.parts))
        return np.unique(
            np.concatenate([cells, self.wholes[sums], _gathered(starts, self.parts, sums)])
        )

    @cached_property
    def _sums_of_cell(self) -> tuple[Int64s, Int64s]:
        """Return the start of each cell's sums in a list sorted by cell, and this list of sums."""
        numbers = np.arange(len(self.wholes))
        members = np.concatenate([self.wholes, self.parts])
        owners = np.concatenate([numbers, self.owners])
        order = np.argsort(members, kind="stable")
        starts = np.searchsorted(members[order], np.arange(members.max(initial=-1) + 2))
        return starts, owners[order]

    @cached_property
    def starts(self) -> Int64s:
        """Return the place of each sum's first part, shape (sums,)."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def owners(self) -> Int64s:
        """Return the sum that each part belongs to, shape (parts,)."""
        return np.repeat(np.arange(len(self.wholes)), self.lengths)


def _gathered(starts: Int64s, items: Int64s, groups: Int64s) -> Int64s:
    """Return the items of the given groups; group g has ``items[starts[g]:starts[g + 1]]``."""
    groups = groups[groups < len(starts) - 1]
    begins, lengths = starts[groups], starts[groups + 1] - starts[groups]
    offsets = np.cumsum(lengths) - lengths
    places = np.arange(lengths.sum()) + np.repeat(begins - offsets, lengths)
    return np.asarray(items[places])


def narrowed(low: Int64s, high: Int64s, sums: Sums) -> tuple[Int64s, Int64s]:
    """Return the lowest and highest number of each cell, narrowed by the sums; low <= high.

    Args:
        low: smallest number of each cell, by what was published.
        high: largest one; ``ANY`` where nothing is known.
        sums: what is known of them.
    """
    if not len(sums.wholes):
        return low, high
    while True:
        outcome = _narrow_fully(low, high, sums)
        if isinstance(outcome, tuple):
            return outcome
        sums = _without_refuted(sums, outcome)
        if not len(sums.wholes):
            return low, high


def _without_refuted(sums: Sums, refuted: Bools) -> Sums:
    """Return the sums with refuted ones (doubtful first) made inexact, or removed if inexact."""
    if (refuted & sums.doubtful).any():
        refuted = refuted & sums.doubtful
    loose = replace(sums, exact=sums.exact & ~refuted)
    return loose.without(refuted & ~sums.exact)


def _narrow_fully(low: Int64s, high: Int64s, sums: Sums) -> tuple[Int64s, Int64s] | Bools:
    """Return intervals (low, high) narrowed until nothing changes, or the mask of refuted sums."""
    low, high = low.copy(), high.copy()
    for _ in range(_ROUNDS):
        new_low, new_high, refuted = _narrow_once(low, high, sums)
        if refuted.any():
            return refuted
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):
            break
        low, high = new_low, new_high
    return low, high


def _narrow_once(low: Int64s, high: Int64s, sums: Sums) -> tuple[Int64s, Int64s, Bools]:
    """Return low and high after one pass over all sums, and the mask of sums they contradict."""
    starts, owner = sums.starts, sums.owners
    part_low, part_high = low[sums.parts], high[sums.parts]
    sum_low = np.add.reduceat(part_low, starts)
    sum_high = np.where(sums.exact, np.add.reduceat(part_high, starts), ANY)
    whole_low, whole_high = low[sums.wholes], high[sums.wholes]
    refuted = (sum_low > whole_high) | (sum_high < whole_low)
    left_high = (np.minimum(whole_high, sum_high) - sum_low)[owner] + part_low
    left_low = (
        np.where(sums.exact, np.maximum(whole_low, sum_low) - sum_high, -ANY)[owner] + part_high
    )
    new_low, new_high = low.copy(), high.copy()
    np.maximum.at(new_low, sums.wholes, sum_low)
    np.minimum.at(new_high, sums.wholes, sum_high)
    np.maximum.at(new_low, sums.parts, left_low)
    np.minimum.at(new_high, sums.parts, left_high)
    crossed = new_low > new_high
    if crossed.any():
        refuted |= crossed[sums.wholes] | (np.add.reduceat(crossed[sums.parts], starts) > 0)
    return new_low, new_high, refuted
