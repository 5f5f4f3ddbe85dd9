"""Decisions by unit: which of the new ones count, and what closed panes hold by row of a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.cells import Int64s, decode_strata
from monitor.core.dominance import UNIT_COUNTS, UnitTally
from monitor.core.rollup import CellIndex
from monitor.core.time import DAY, Grain, pane_of, pane_start
from monitor.evaluate.gate import Bools, Gate
from monitor.ports import PaneUnits, StoredDelta


@dataclass(frozen=True, slots=True)
class UnitRows:
    """New decisions by unit as columns of equal length.

    Attributes:
        at: start of the 5-minute pane, microseconds.
        cells: cell id.
        buckets: bucket of the unit.
        n: how many.
    """

    at: Int64s
    cells: Int64s
    buckets: Int64s
    n: Int64s

    @classmethod
    def of(cls, deltas: Sequence[StoredDelta]) -> UnitRows | None:
        """What the deltas say of units; None where no decision named one."""
        parts = [(delta, delta.units) for delta in deltas if delta.units is not None]
        if not parts:
            return None
        return cls(
            pane_start(np.concatenate([d.panes[u.rows] for d, u in parts]), Grain.MINUTES5),
            np.concatenate([delta.cells[units.rows] for delta, units in parts]),
            np.concatenate([units.places % UNIT_COUNTS for _, units in parts]),
            np.concatenate([units.n for _, units in parts]),
        )

    def take(self, rows: Bools) -> UnitRows:
        """The chosen rows."""
        return UnitRows(self.at[rows], self.cells[rows], self.buckets[rows], self.n[rows])

    def split(self, gate: Gate, index: CellIndex, left_out: Bools) -> tuple[UnitRows, UnitRows]:
        """Those of decisions that may be published, by the same gate, and of those held back."""
        cell = np.searchsorted(index.cells, self.cells)
        probe = decode_strata(index.strata[cell]).probe  # nobody's
        held = gate.late(self.at) | left_out[cell]
        return self.take(~held & ~probe), self.take(held & ~probe)

    def panes(self, grain: Grain, index: CellIndex, *, late: bool = False) -> PaneUnits:
        """Added up by pane and atom."""
        atoms, atom_of = np.unique(
            index.atoms[np.searchsorted(index.cells, self.cells)], return_inverse=True
        )
        key = pane_of(self.at, grain) * max(len(atoms), 1) + atom_of
        rows, row_of = np.unique(key, return_inverse=True)
        counts = np.zeros((len(rows), UNIT_COUNTS), np.int64)
        np.add.at(counts, (row_of, self.buckets), self.n)
        panes, positions = np.divmod(rows, max(len(atoms), 1))
        return PaneUnits(int(grain), panes, atoms[positions], counts, late)


@dataclass(frozen=True, slots=True)
class RowUnits:
    """Decisions by unit of one family: pane, row and buckets, in the order of panes."""

    grain: int
    panes: Int64s
    rows: Int64s
    counts: Int64s
    size: int

    def in_blocks(self, block: Int64s, blocks: int) -> RowUnits:
        """The same with rows for every one of several blocks; ``block`` is that of each pane."""
        rows = np.where(self.rows < 0, -1, block * self.size + self.rows)
        return RowUnits(self.grain, self.panes, rows, self.counts, self.size * blocks)

    def of_pane(self, pane: int) -> UnitTally:
        """Those of one pane."""
        first, end = np.searchsorted(self.panes, [pane, pane + 1])
        return self._tally(slice(int(first), int(end)), pane * self.grain // DAY)

    def summed(self) -> UnitTally:
        """All of them."""
        days = self.panes * self.grain // DAY
        total = UnitTally()
        for day in np.unique(days).tolist():
            first, end = np.searchsorted(days, [day, day + 1])
            total = total + self._tally(slice(int(first), int(end)), day)
        return total

    def _tally(self, part: slice, day: int) -> UnitTally:
        rows = self.rows[part]
        if not (rows >= 0).any():
            return UnitTally()
        counts = np.zeros((self.size, UNIT_COUNTS), np.int64)
        np.add.at(counts, rows[rows >= 0], self.counts[part][rows >= 0])
        return UnitTally({day: counts})
