"""LP audit: how closely everything that was published bounds a count of 1 to k - 1.

Blocks are made so that no such count of a row, in a part that something else publishes by itself,
is known to be one of fewer than k numbers (half of k where intersections cross). Here that is asked
of a week that is over, without the rules by which its blocks were made: unknown are the counts of
every combination of values in every part, also of those that nobody had, since no table says which
these are; known are the exact sums of every row in every block, which are more than any reader is
shown; the smallest and the largest count that agree with them are linear programs. Not every count
is asked: some of every stretch, in equal distances.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LARGEST = 3_000
"""Unknowns of a program at most: larger ones take seconds each."""

ASKED = 8
"""Counts that are asked of one stretch at most: two programs each."""

_SLACK = 1e-6
Bools = npt.NDArray[np.bool_]


class LpAudit(enum.StrEnum):
    """Result of an audit.

    No count is known too closely; some are; or a stretch was not asked (it is too large, say), and
    nothing was found in the others.
    """

    HELD = "held"
    BROKEN = "broken"
    NOT_ASKED = "not_asked"

    @classmethod
    def of_all(cls, found: Iterable[LpAudit]) -> LpAudit:
        """The worst of several; held where there is none."""
        all_of_them = {*found}
        worst = (one for one in (cls.BROKEN, cls.NOT_ASKED) if one in all_of_them)
        return next(worst, cls.HELD)


@dataclass(frozen=True, slots=True)
class PublishedSums:
    """What one family publishes of a stretch: the sum of each row in each block.

    Attributes:
        rows: row of each atom, shape (A,); negative is in none.
        blocks: block of each part, shape (T,); negative is in none that is published.
        refines: positions of the families that it refines.
        k: smallest cell that it may show.
    """

    rows: Int64s
    blocks: Int64s
    refines: Sequence[int]
    k: int

    def cells(self, blocks: Int64s) -> Int64s:
        """Number of the row and block of each unknown, shape (A, T); negative is in none.

        Args:
            blocks: its own, or those of another family.
        """
        known = (self.rows[:, None] >= 0) & (blocks >= 0)
        wide = int(blocks.max(initial=0)) + 1
        return np.where(known, self.rows[:, None] * wide + blocks, -1)


def audited(
    counts: Int64s, families: Sequence[PublishedSums], *, halved: bool = False, asked: int = ASKED
) -> LpAudit:
    """Audit one stretch of time.

    Args:
        counts: the truth, by atom and part, shape (A, T).
        families: those that are refined first.
        halved: whether half of k numbers are enough.
        asked: counts that are asked at most.

    Example:
        Two rows and the total, hour by hour, but the rows only over both hours together: nobody
        knows who came when. If they are published hour by hour, anybody does.

        >>> hours, rows, total = np.arange(2), np.arange(2), np.zeros(2, np.int64)
        >>> count = np.array([[3, 20], [30, 30]])
        >>> of_total = PublishedSums(total, hours, (), 11)
        >>> audited(count, [of_total, PublishedSums(rows, total, (0,), 11)]).value
        'held'
        >>> audited(count, [of_total, PublishedSums(rows, hours, (0,), 11)]).value
        'broken'
    """
    targets = list(_small_counts(counts, families))
    if not targets:
        return LpAudit.HELD
    program = _Program.of(counts, families)
    if len(program.unknowns) > LARGEST:
        return LpAudit.NOT_ASKED
    some = [
        _Count(mask.ravel()[program.unknowns].astype(np.float64), k, (k + 1) // 2 if halved else k)
        for mask, k in targets[:: ceil(len(targets) / asked)]
    ]
    return LpAudit.BROKEN if any(map(program.pins, program.doubtful(some))) else LpAudit.HELD


def _small_counts(counts: Int64s, families: Sequence[PublishedSums]) -> Iterator[tuple[Bools, int]]:
    """Each row with 1 to k - 1 in a block of something that its family refines, and k."""
    for one in families:
        for other in one.refines:
            cells = one.cells(families[other].blocks)
            sums = _sums(cells, counts)
            for cell in np.flatnonzero((sums > 0) & (sums < one.k)).tolist():
                yield cells == cell, one.k


def _sums(cells: Int64s, counts: Int64s) -> Int64s:
    """The sum of each cell, by its number."""
    inside = cells >= 0
    found = np.zeros(int(cells.max(initial=-1)) + 1, np.int64)
    np.add.at(found, cells[inside], counts[inside])
    return found


@dataclass(frozen=True, slots=True)
class _Count:
    """A small count that is asked.

    Attributes:
        wanted: 1 for each unknown that is in it, else 0.
        k: what it should be able to be.
        numbers: or any of so many.
    """

    wanted: npt.NDArray[np.float64]
    k: int
    numbers: int


@dataclass(frozen=True, slots=True)
class _Program:
    """Every published sum, as the equations of a linear program.

    Attributes:
        unknowns: positions of the counts that no published sum shows to be 0.
        matrix: a row for each sum.
        sums: what each is.
        worlds: counts with these sums, each in one row: what was found for one question bounds the
            answer to the others.
    """

    unknowns: Int64s
    matrix: csr_array
    sums: npt.NDArray[np.float64]
    worlds: list[npt.NDArray[np.float64]] = field(default_factory=list)

    @classmethod
    def of(cls, counts: Int64s, families: Sequence[PublishedSums]) -> _Program:
        from scipy.sparse import csr_array, vstack  # noqa: PLC0415 - slow to load

        every = [one.cells(one.blocks) for one in families]
        nobody = np.zeros(counts.shape, bool)
        for cells in every:
            nobody |= np.append(_sums(cells, counts), -1)[cells] == 0
        unknowns = np.flatnonzero(~nobody)
        rows = [csr_array((0, len(unknowns)), dtype=np.float64)]
        for cells in every:
            mine = cells.ravel()[unknowns]
            columns = np.flatnonzero(mine >= 0)
            numbers, row = np.unique(mine[columns], return_inverse=True)
            shape = len(numbers), len(unknowns)
            rows.append(csr_array((np.ones(len(columns)), (row, columns)), shape=shape))
        matrix = csr_array(vstack(rows))
        truth = counts.ravel()[unknowns]
        return cls(unknowns, matrix, matrix @ truth, [truth.astype(np.float64)])

    def doubtful(self, some: Sequence[_Count]) -> list[_Count]:
        """The counts that are not seen to be hidden, with worlds that have many of them large."""
        left = [one for one in some if not self._seen(one)]
        while len(left) > 1:
            self._least(-np.sum([one.wanted for one in left], axis=0))
            before, left = left, [one for one in left if not self._seen(one)]
            if len(left) == len(before):
                break
        return left

    def pins(self, one: _Count) -> bool:
        """Return True when it can be neither k nor any of so many numbers."""
        if self._seen(one):
            return False
        most = -self._least(-one.wanted) + _SLACK
        if most >= one.k:
            return False
        least = self._least(one.wanted) - _SLACK
        return isfinite(least) and floor(most) - ceil(least) + 1 < one.numbers

    def _seen(self, one: _Count) -> bool:
        """Return True when the worlds that are known show that it is not pinned."""
        sums = [float(one.wanted @ world) for world in self.worlds]
        most, least = floor(max(sums) + _SLACK), ceil(min(sums) - _SLACK)
        return most >= one.k or most - least + 1 >= one.numbers

    def _least(self, wanted: npt.NDArray[np.float64]) -> float:
        from scipy.optimize import linprog  # noqa: PLC0415 - slow to load

        found = linprog(wanted, A_eq=self.matrix, b_eq=self.sums, method="highs")
        if found.status != 0:
            return float("-inf")
        self.worlds.append(found.x)
        return float(found.fun)
