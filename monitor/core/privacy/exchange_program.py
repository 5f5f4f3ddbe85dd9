"""Exchange as an integer program: for counts of which single exchanges do not settle it.

Two things are tried before it that take a tenth of its time or none, and never answer otherwise: a
world that was found for one question is one for all others; and since fractions allow more worlds
than whole numbers do, what they rule out is ruled out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, prod
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts.cells import Int64s

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

LARGEST = 4_000
"""Unknowns of a program at most: larger ones would take seconds, so the block waits instead."""

_SLACK = 1e-6
"""What a solver may be off by; if it were more, the block would wait."""


@dataclass(frozen=True, slots=True)
class Program:
    """All that is known of the counts of a block, as the equations of an integer program.

    Attributes:
        counts: the truth, shape (Z, ..., T) as in :func:`monitor.core.privacy.exchange.given_away`.
        known: every sum that is published, over all counts.
        worlds: whole counts with the same sums, each in one row: the truth, and what was found.
    """

    counts: Int64s
    known: LinearConstraint
    worlds: list[Int64s] = field(default_factory=list)

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
        return cls(counts, LinearConstraint(known, truth, truth), [counts.ravel()])

    def hides(self, place: tuple[int, ...], run: tuple[int, int], k: int, numbers: int) -> bool:
        """Return True when a cell's count in a run could be k, or any of so many numbers."""
        if self.counts.size > LARGEST:
            return False
        kinds, *sizes, parts = self.counts.shape
        mask = np.zeros((kinds, prod(sizes), parts), np.int64)
        mask[:, int(np.ravel_multi_index(place, sizes)), slice(*run)] = 1
        wanted = mask.ravel()
        if self._seen(wanted, k, numbers):
            return True
        if self._ruled_out(wanted, k, numbers):
            return False
        for sign in (-1, 1):
            self._find(sign * wanted)
            if self._seen(wanted, k, numbers):
                return True
        return False

    def _seen(self, wanted: Int64s, k: int, numbers: int) -> bool:
        """Return True when worlds that are known show it."""
        sums = [int(wanted @ world) for world in self.worlds]
        return max(sums) >= k or max(sums) - min(sums) + 1 >= numbers

    def _ruled_out(self, wanted: Int64s, k: int, numbers: int) -> bool:
        """Return True when not even fractions with the same sums could be so."""
        most = floor(-self._least_in_fractions(-wanted) + _SLACK)
        if most >= k:
            return False
        return most - ceil(self._least_in_fractions(wanted) - _SLACK) + 1 < numbers

    def _least_in_fractions(self, costs: Int64s) -> float:
        from scipy.optimize import linprog  # noqa: PLC0415 - slow to load

        known = self.known
        found = linprog(costs, A_eq=known.A, b_eq=known.lb, method="highs")
        return float(found.fun) if found.status == 0 else -float(self.counts.sum())

    def _find(self, costs: Int64s) -> None:
        """Add the world in which these are least, if there is a solution."""
        from scipy.optimize import Bounds, milp  # noqa: PLC0415 - slow to load

        found = milp(
            costs,
            constraints=self.known,
            integrality=np.ones(self.counts.size),
            bounds=Bounds(0, self.counts.sum()),
        )
        if found.status != 0:
            return
        world = np.rint(found.x).astype(np.int64)
        if np.array_equal(self.known.A @ world, self.known.lb):
            self.worlds.append(world)
