"""Meaning of cell ids, read from the store once and extended as new ids appear."""

from __future__ import annotations

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.counts.rollup import CellIndex
from monitor.errors import StoreError
from monitor.store.evaluator.cells import Cells, StoredCells

_LOST = (
    "the database does not say what a counted cell means: rows of the tables cell or atom were"
    " lost; a worker sends them again when it reads their events again"
)
_NO_VERSION = 0


class CellDictionary:
    """Cells by id, with the texts of their atoms and versions."""

    def __init__(self, stored: StoredCells) -> None:
        self._stored = stored
        self._meaning = _meaning(stored.rows())
        self._texts = stored.atom_texts()
        self._versions = stored.version_texts()
        self._learned: set[int] = set()
        self._index: CellIndex | None = None

    def learn(self, cells: Int64s) -> None:
        """Read the meaning of cells that are not in memory yet from the store.

        Raises:
            StoreError: the store does not say what a cell means.
        """
        new = set(cells.tolist()) - self._learned
        if new:
            self._require(sorted(cell for cell in new if not self._knows(cell)))
            self._learned |= new

    def _require(self, unknown: list[int]) -> None:
        """Read the meanings, versions and atoms of unknown cells; an error if one stays unknown."""
        if not unknown:
            return
        self._meaning |= _meaning(self._stored.rows(unknown))
        self._index = None
        versions = {self._meaning[cell][2] for cell in unknown if cell in self._meaning} - {
            _NO_VERSION
        }
        if not versions <= self._versions.keys():
            self._versions = self._stored.version_texts()
        if not all(map(self._knows, unknown)):
            self._texts = self._stored.atom_texts()
        if not all(map(self._knows, unknown)):
            raise StoreError(_LOST)

    def _knows(self, cell: int) -> bool:
        meaning = self._meaning.get(cell)
        return meaning is not None and meaning[0] in self._texts

    def strata(self, cells: Int64s) -> Int64s:
        """Return the stratum code of each cell."""
        return np.array([self._meaning[cell][1] for cell in cells.tolist()], np.int64)

    @property
    def index(self) -> CellIndex:
        """Return the CellIndex of all cells in memory, sorted by id."""
        if self._index is None:
            cells = np.array(sorted(self._meaning), np.int64)
            meaning = np.array([self._meaning[cell] for cell in cells.tolist()], np.int64)
            atoms, strata, versions = meaning.reshape(len(cells), 3).T.copy()
            self._index = CellIndex(cells, atoms, strata, self._texts, versions, self._versions)
        return self._index


def _meaning(cells: Cells) -> dict[int, tuple[int, int, int]]:
    """Return (atom, stratum, version) by cell id."""
    columns = (cells.atoms.tolist(), cells.strata.tolist(), cells.versions.tolist())
    return dict(zip(cells.ids.tolist(), zip(*columns, strict=True), strict=True))
