"""Meaning of cell ids, as the evaluator reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from monitor.core.counts.cells import Int64s
from monitor.store.database import reading

_CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Cells:
    """Rows of the dictionary of cells, as columns: id, atom, stratum and version."""

    ids: Int64s
    atoms: Int64s
    strata: Int64s
    versions: Int64s


class StoredCells:
    """Reader of the dictionary of cells, atoms and versions, for the evaluator."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def rows(self, ids: Sequence[int] | None = None) -> Cells:
        """Return the rows of cells as columns: all, or those with the given ids."""
        chunks = (
            [None] if ids is None else [ids[i : i + _CHUNK] for i in range(0, len(ids), _CHUNK)]
        )
        rows: list[tuple[int, ...]] = []
        with reading(self._engine) as connection:
            for chunk in chunks:
                query = "SELECT id, atom, stratum, version FROM cell"
                if chunk is not None:
                    query += f" WHERE id IN ({','.join(map(str, chunk))})"
                rows.extend(tuple(row) for row in connection.exec_driver_sql(query))
        return Cells(*np.array(rows, np.int64).reshape(len(rows), 4).T)

    def atom_texts(self) -> dict[int, str]:
        """Return the canonical text of every atom, by id."""
        return self._texts("SELECT id, text FROM atom")

    def version_texts(self) -> dict[int, str]:
        """Return the text of every version tuple, by id."""
        return self._texts("SELECT id, text FROM version")

    def _texts(self, query: str) -> dict[int, str]:
        with reading(self._engine) as connection:
            rows = connection.execute(sa.text(query)).all()
        return {row.id: row.text for row in rows}
