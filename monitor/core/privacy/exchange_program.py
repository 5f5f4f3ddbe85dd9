"""Exchange as an integer program: for counts of which single exchanges do not settle it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

LARGEST = 4_000
"""Unknowns of a program at most: larger ones would take seconds, so the block waits instead."""


@dataclass(frozen=True, slots=True)
class Program:
    """All that is known of the counts of a block, as the equations of an integer program.

    Attributes:
        counts: the truth, as in :func:`pinned`.
        known: every sum that is published, over all counts.
    """

    counts: Int64s
    known: LinearConstraint

    @classmethod
    def of(cls, counts: Int64s, together: Sequence[Int64s]) -> Program:
        """Sums of every cell over the block, of the total by part, and of the marginals."""
        from scipy.optimize import LinearConstraint  # noqa: PLC0415 - slow to load
        from scipy.sparse import csr_array, vstack  # noqa: PLC0415 - slow to load

        places = np.indices(counts.shape).reshape(counts.ndim, -1)
        cell = np.ravel_multi_index(places[1:-1], counts.shape[1:-1])
        sums = [cell, places[-1]]
        for axis, groups in enumerate(together):
            marginal = (places[0], places[axis + 1], groups[places[-1]])
            shape = (len(counts), counts.shape[axis + 1], int(groups[-1]) + 1)
            sums.append(np.ravel_multi_index(marginal, shape))
        columns = np.arange(counts.size)
        rows = [csr_array((np.ones(counts.size), (one, columns))) for one in sums]
        known = csr_array(vstack(rows))
        truth = known @ counts.ravel()
        return cls(counts, LinearConstraint(known, truth, truth))

    def hides(self, place: tuple[int, ...], run: tuple[int, int], k: int, numbers: int) -> bool:
        """Return True when a cell's count in a run could be k, or any of so many numbers."""
        if self.counts.size > LARGEST:
            return False
        kinds, *sizes, parts = self.counts.shape
        wanted = np.zeros((kinds, prod(sizes), parts))
        wanted[:, int(np.ravel_multi_index(place, sizes)), slice(*run)] = 1
        most = self._end(wanted, -1)
        return most >= k or most - self._end(wanted, 1) + 1 >= numbers

    def _end(self, wanted: npt.NDArray[np.float64], sign: int) -> int:
        """Smallest (sign 1) or largest (-1) sum of what is wanted."""
        from scipy.optimize import Bounds, milp  # noqa: PLC0415 - slow to load

        found = milp(
            sign * wanted.ravel(),
            constraints=self.known,
            integrality=np.ones(self.counts.size),
            bounds=Bounds(0, self.counts.sum()),
        )
        solved = (
            sign * found.fun if found.status == 0 else float(wanted.ravel() @ self.counts.ravel())
        )
        return round(solved)
