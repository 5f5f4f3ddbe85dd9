"""What whole numbers a hidden count could be, by integer programming: written apart from the rule.

Unknown are the counts of every cell in every part of a block; known are exact sums, finer than any
reader has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Known:
    """Sums that somebody publishes: of groups of cells, over groups of successive parts.

    Attributes:
        rows: group of each cell; negative is in none.
        parts: group of each part.
    """

    rows: Sequence[int]
    parts: Sequence[int]


class Solver:
    """All that is known of one block.

    Attributes:
        counts: the truth, shape (cells, parts).
    """

    def __init__(self, counts: Ints, known: Sequence[Known]) -> None:
        self.counts = counts
        sums = [mask.ravel() for one in known for mask in self._masks(one)]
        self._matrix = np.array(sums, float)
        self._truth = self._matrix @ counts.ravel()

    def _masks(self, known: Known) -> Iterator[Bools]:
        rows, parts = np.array(known.rows), np.array(known.parts)
        for row in np.unique(rows[rows >= 0]):
            for part in np.unique(parts):
                yield np.outer(rows == row, parts == part)

    def interval(self, target: Bools) -> tuple[int, int]:
        """Smallest and largest sum of these unknowns."""
        ends = []
        for sign in (1, -1):
            found = milp(
                sign * target.ravel().astype(float),
                constraints=LinearConstraint(self._matrix, self._truth, self._truth),
                integrality=np.ones(self.counts.size),
                bounds=Bounds(0, np.inf),
            )
            assert found.status in (0, 3), found.message
            ends.append(round(sign * found.fun) if found.status == 0 else 10**9)
        return ends[0], ends[1]

    def small_runs(self, rows: Sequence[int], k: int, parts: Sequence[int]) -> Iterator[Bools]:
        """Groups of cells in successive groups of parts that hold 1 to k - 1."""
        group = np.array(parts)
        starts = np.flatnonzero(np.append(True, np.diff(group) != 0))
        for row in sorted({*rows} - {-1}):
            inside = np.array(rows) == row
            running = np.append(0, self.counts[inside].sum(axis=0).cumsum())
            every = np.arange(len(group))
            for first, end in combinations([*starts.tolist(), len(group)], 2):
                if 0 < running[end] - running[first] < k:
                    yield np.outer(inside, (every >= first) & (every < end))

    def given_away(
        self, rows: Sequence[int], k: int, parts: Sequence[int]
    ) -> list[tuple[int, int, int]]:
        """(truth, smallest, largest) of every one that is neither k nor any of k numbers."""
        found = []
        for target in self.small_runs(rows, k, parts):
            low, high = self.interval(target)
            if high < k and high - low + 1 < k:
                found.append((int(self.counts[target].sum()), low, high))
        return found


def group_of(edges: Sequence[int], starts: Sequence[int]) -> list[int]:
    """For each part, by its start, the block between two edges that it is in."""
    blocks = list(pairwise(edges))
    return [next((i for i, (a, b) in enumerate(blocks) if a <= at < b), -1) for at in starts]
