"""LP audit: how closely everything that was published bounds a count of 1 to k - 1.

Blocks are made so that no such count of a row, in a part that something else publishes by itself,
is known to be one of fewer than k numbers (half of k where intersections cross). Here that is asked
of a week that is over, without the rules by which its blocks were made: unknown are the counts of
every atom in every part; known are the exact sums of every row in every block, which are more than
any reader is shown; the smallest and the largest count that agree with them are linear programs.
Not every count is asked: some of every stretch, in equal distances.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

LARGEST = 3_000
"""Unknowns of a program at most: larger ones take seconds each."""

ASKED = 8
"""Counts that are asked of one stretch at most: two programs each."""

_SLACK = 1e-6
Bools = npt.NDArray[np.bool_]


class LpAudit(enum.StrEnum):
    """What an audit found.

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

    def masks(self, blocks: Int64s) -> Iterator[Bools]:
        """The atoms and parts of each row in each block, or in each of those of another family."""
        for row in np.unique(self.rows[self.rows >= 0]).tolist():
            for block in np.unique(blocks[blocks >= 0]).tolist():
                yield np.logical_and.outer(self.rows == row, blocks == block)


def audited(counts: Int64s, families: Sequence[PublishedSums], *, halved: bool = False) -> LpAudit:
    """Audit one stretch of time.

    Args:
        counts: the truth, by atom and part, shape (A, T).
        families: those that are refined first.
        halved: whether half of k numbers are enough.

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
    if counts.size > LARGEST:
        return LpAudit.NOT_ASKED
    targets = [
        (mask, one.k)
        for one in families
        for other in one.refines
        for mask in one.masks(families[other].blocks)
        if 0 < counts[mask].sum() < one.k
    ]
    some = targets[:: ceil(len(targets) / ASKED) or 1]
    program = _Program.of(counts, families) if some else None
    pinned = (
        program is not None and program.pins(mask, k, (k + 1) // 2 if halved else k)
        for mask, k in some
    )
    return LpAudit.BROKEN if any(pinned) else LpAudit.HELD


@dataclass(frozen=True, slots=True)
class _Program:
    """Every published sum, as the equations of a linear program."""

    matrix: npt.NDArray[np.float64]
    sums: npt.NDArray[np.float64]

    @classmethod
    def of(cls, counts: Int64s, families: Sequence[PublishedSums]) -> _Program:
        known = [mask.ravel() for one in families for mask in one.masks(one.blocks)]
        matrix = np.array(known, np.float64).reshape(len(known), counts.size)
        return cls(matrix, matrix @ counts.ravel())

    def pins(self, target: Bools, k: int, numbers: int) -> bool:
        """Return True when it can be neither k nor any of so many numbers."""
        wanted = np.asarray(target.ravel(), np.float64)
        most = floor(-self._least(-wanted) + _SLACK)
        if most >= k:
            return False
        return most - ceil(self._least(wanted) - _SLACK) + 1 < numbers

    def _least(self, wanted: npt.NDArray[np.float64]) -> float:
        from scipy.optimize import linprog  # noqa: PLC0415 - slow to load
        from scipy.sparse import csr_array  # noqa: PLC0415 - slow to load

        found = linprog(wanted, A_eq=csr_array(self.matrix), b_eq=self.sums, method="highs")
        return float(found.fun) if found.status == 0 else float("-inf")
