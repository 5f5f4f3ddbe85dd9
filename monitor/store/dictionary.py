"""Dictionary rows: content ids and what they mean, inserted or ignored, never changed."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from monitor.ports import Dictionary


def write_dictionary(connection: sa.Connection, fresh: Dictionary) -> None:
    """Insert what is not there yet."""
    for table, texts in (("atom", fresh.atoms), ("version", fresh.versions)):
        rows = [{"id": key, "text": texts[key]} for key in sorted(texts)]
        if rows:
            query = f"INSERT INTO {table} (id, text) VALUES (:id, :text) ON CONFLICT DO NOTHING"
            connection.execute(sa.text(query), rows)
    write_cells(connection, fresh.cells)


def write_cells(connection: sa.Connection, cells: Mapping[int, tuple[int, int, int]]) -> None:
    """Insert cells, id -> (atom, version, stratum), that are not there yet."""
    rows = [
        {"id": key, "atom": atom, "version": version, "stratum": stratum}
        for key, (atom, version, stratum) in sorted(cells.items())
    ]
    if rows:
        query = (
            "INSERT INTO cell (id, atom, version, stratum)"
            " VALUES (:id, :atom, :version, :stratum) ON CONFLICT DO NOTHING"
        )
        connection.execute(sa.text(query), rows)
