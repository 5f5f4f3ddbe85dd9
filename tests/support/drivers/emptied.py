"""One database of each kind for a whole module, emptied before each test.

To make the tables takes a second; most tests of a store take a hundredth.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from migrated import bring_to_head
from postgres import PostgresServer

from monitor.store import database as db
from monitor.store.schema import metadata

KINDS = ("sqlite", "postgresql")


def made(kind: str, folder: Path, server: PostgresServer | None) -> Iterator[sa.Engine]:
    """A database with all tables, for as long as the generator lives."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    url = f"sqlite:///{folder}/store.db" if server is None else server.create_database(name)
    bring_to_head(url)
    engine = db.create_engine(url)
    yield engine
    engine.dispose()
    if server is not None:
        server.drop_database(name)


def emptied(engine: sa.Engine) -> sa.Engine:
    """The same without a row."""
    with db.writing(engine) as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(sa.delete(table))
    return engine
