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
        ids = sorted(texts)
        bulk.insert(connection, table, {"id": ids, "text": [texts[key] for key in ids]})
    ids = sorted(fresh.cells)
    meanings = {
        name: [fresh.cells[key][place] for key in ids]
        for place, name in enumerate(("atom", "version", "stratum"))
    }
    bulk.insert(connection, cell, {"id": ids, **meanings})
