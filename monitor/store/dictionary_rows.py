"""Dictionary rows: content ids and their meaning, inserted or ignored, never changed."""

from __future__ import annotations

import sqlalchemy as sa

from monitor.core.time import Grain
from monitor.flushes import Dictionary
from monitor.store import bulk
from monitor.store.database import reading
from monitor.store.schema import atom, cell, version


def live_versions(engine: sa.Engine) -> list[str]:
    """Return the texts of the version tuples that decisions of the kept hours have."""
    query = (
        "SELECT text FROM version WHERE id IN (SELECT version FROM cell WHERE id IN"
        " (SELECT cell FROM counts WHERE grain = :grain))"
    )
    with reading(engine) as connection:
        return list(connection.execute(sa.text(query), {"grain": int(Grain.HOUR)}).scalars())


def write_dictionary(connection: sa.Connection, fresh: Dictionary) -> None:
    """Insert atoms, versions and cells of the dictionary that are not stored yet."""
    for table, texts in ((atom, fresh.atoms), (version, fresh.versions)):
        bulk.insert(connection, table, bulk.by_column(table, sorted(texts.items())))
    cells = [(key, *parts) for key, parts in sorted(fresh.cells.items())]
    bulk.insert(connection, cell, bulk.by_column(cell, cells))
