"""One database of each kind for a whole module, emptied before each test.

To make the tables takes a second; most tests of a store take a hundredth.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import sqlalchemy as sa
from migrated import bring_to_head
from postgres import PostgresServer
from psycopg import sql

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


class LentDatabase:
    """A PostgreSQL database with all tables that one test after the other gets, without a row."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._url = ""

    def lend(self) -> sa.Engine:
        """Return an engine on the emptied database, or on a new one if the schema was changed."""
        if not self._url or not self._emptied():
            self._url = self._server.create_database(f"lent_{uuid.uuid4().hex[:12]}")
            bring_to_head(self._url)
        return db.create_engine(self._url)

    def _emptied(self) -> bool:
        """End whoever is still connected, delete all rows and restart the sequences."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(_END_OTHERS)
            if {name for (name,) in connection.execute(_RELATIONS)} != _EXPECTED:
                return False
            connection.execute(_DELETE_ALL)
            for (sequence,) in connection.execute(_USED_SEQUENCES).fetchall():
                restart = sql.SQL("ALTER SEQUENCE {} RESTART")
                connection.execute(restart.format(sql.Identifier(sequence)))
        return True


_EXPECTED = {*metadata.tables, "alembic_version"}
_RELATIONS = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')
UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
UNION SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""
_END_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_USED_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE last_value IS NOT NULL"
_DELETE_ALL = ";".join(f'DELETE FROM "{table.name}"' for table in reversed(metadata.sorted_tables))
