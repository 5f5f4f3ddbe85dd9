"""The gate that holds late counts back, and decisions by unit.

New counters and new decisions by unit go through the same gate: what it lets pass is published,
the rest is late. Decisions by unit of closed panes are kept by row of a family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counter, Int64s, decode_strata
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.dominance import UNIT_COUNTS, UnitTally
from monitor.core.time import DAY, HOUR, MINUTE, Grain, pane_of, pane_start
from monitor.ports import PaneUnits, StoredDelta

_COUNTERS = np.arange(len(Counter))
_LABELS = ~np.isin(_COUNTERS, (Counter.N, Counter.Q))

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Gate:
    """Instants up to which panes are closed, and sifted; None is not at all yet.

    Sifted is what merge maps leave out held back, and unlabelled rows' labels: as far as the next
    instant at which the maps may change (see ``ReleaseBlocks``).
    """

    decisions: int | None
    labels: int | None
    sifted: int | None = None

    def early(self, at: Int64s) -> Bools:
        """Rows of hours that are sifted later, by the merge maps that hold then."""
        if self.sifted is None:
            return np.ones(len(at), bool)
        return np.asarray(at // HOUR * HOUR >= self.sifted)

    def late(self, at: Int64s) -> Bools:
        """Rows whose 5-minute pane, which begins there, is closed to decisions."""
        if self.decisions is None:
            return np.zeros(len(at), bool)
        return at + 5 * MINUTE <= self.decisions

    def split(
        self, at: Int64s, values: Int64s, left_out: Bools, unlabelled: Bools
    ) -> tuple[Int64s, Int64s]:
        """Counters that may be published, and those that are held back; together ``values``.

        Args:
            at: start of the 5-minute pane of each row, microseconds.
            values: counters of each row.
            left_out: rows that are in no table.
            unlabelled: rows whose labels are taken as not given.
        """
        through = values.copy()
        early = self.early(at)
        left_out, unlabelled = left_out & ~early, unlabelled & ~early
        late, labels_late = self.late(at), unlabelled
        if self.labels is not None:
            labels_late = unlabelled | (at // HOUR * HOUR + HOUR <= self.labels)
        through[late, Counter.N] = 0
        through[late | unlabelled, Counter.Q] = 0
        through[labels_late[:, None] & _LABELS] = 0
        through[left_out] = 0
        return through, values - through


@dataclass(frozen=True, slots=True)
class UnitRows:
    """New decisions by unit as columns of equal length.

    Attributes:
        at: start of the 5-minute pane, microseconds.
        cells: position of the cell in the index.
        buckets: bucket of the unit.
        n: how many.
    """

    at: Int64s
    cells: Int64s
    buckets: Int64s
    n: Int64s

    @classmethod
    def of(cls, deltas: Sequence[StoredDelta], index: CellIndex) -> UnitRows | None:
        """Decisions by unit in the deltas; None where no decision named a unit."""
        parts = [(delta, delta.units) for delta in deltas if delta.units is not None]
        if not parts:
            return None
        return cls(
            pane_start(np.concatenate([d.panes[u.rows] for d, u in parts]), Grain.MINUTES5),
            np.concatenate([np.searchsorted(index.cells, d.cells)[u.rows] for d, u in parts]),
            np.concatenate([units.places % UNIT_COUNTS for _, units in parts]),
            np.concatenate([units.n for _, units in parts]),
        )

    def take(self, rows: Bools) -> UnitRows:
        """The chosen rows."""
        return UnitRows(self.at[rows], self.cells[rows], self.buckets[rows], self.n[rows])

    def split(self, gate: Gate, index: CellIndex, left_out: Bools) -> tuple[UnitRows, UnitRows]:
        """Those of decisions that may be published, by the same gate, and of those held back."""
        probe = decode_strata(index.strata).probe[self.cells]  # nobody's
        held = gate.late(self.at) | (left_out[self.cells] & ~gate.early(self.at))
        return self.take(~held & ~probe), self.take(held & ~probe)

    def panes(self, grain: Grain, index: CellIndex, *, late: bool = False) -> PaneUnits:
        """Added up by pane and atom."""
        atoms, atom_of = np.unique(index.atoms, return_inverse=True)
        key = pane_of(self.at, grain) * max(len(atoms), 1) + atom_of[self.cells]
        rows, row_of = _numbered(key)
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
        if not len(self.panes):
            return UnitTally()  # no router names units: asked of every pane of every family
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


def _numbered(keys: Int64s) -> tuple[Int64s, Int64s]:
    """Distinct keys in order, and the position of each; without sorting those close together."""
    low, end = (int(keys.min()), int(keys.max()) + 1) if len(keys) else (0, 0)
    if end - low > len(keys):
        return np.unique(keys, return_inverse=True)
    there = np.zeros(end - low, bool)
    there[keys - low] = True
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[keys - low]
