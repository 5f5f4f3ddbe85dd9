"""A database with all tables is copied from one that was migrated, once in a process.

For tests that need the tables and not the migrations: those take as long as many a test. An SQLite
file is copied byte for byte, a server gets the dump of a migrated database. Whatever is about
migrations migrates.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import uuid
from functools import cache
from pathlib import Path

import psycopg
import sqlalchemy as sa
from postgres import wheel_programs
from psycopg import sql
from psycopg.conninfo import make_conninfo

from monitor.store.database import create_engine, head_revision, migrate


def bring_to_head(url: str) -> None:
    """Give the database at this URL all tables; what has tables already is migrated for real."""
    parsed = sa.make_url(url)
    if not _is_empty(parsed):
        _migrate(parsed)
    elif parsed.get_backend_name() == "sqlite":
        shutil.copy(migrated_file(), str(parsed.database))
    else:
        _copy_on_server(parsed)


def migrated_file() -> Path:
    """An SQLite file with all tables and no row."""
    return _file_of(head_revision())


@cache
def _file_of(schema: str) -> Path:
    """By schema: a test may have made this process the next release, which others are not."""
    file = Path(tempfile.mkdtemp(prefix="slicewatch-template-")) / "store.db"
    engine = create_engine(f"sqlite:///{file}")
    migrate(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    return file


def _is_empty(url: sa.URL) -> bool:
    if url.get_backend_name() == "sqlite":
        return not Path(str(url.database)).exists()
    with psycopg.connect(_address(url)) as connection:
        return not connection.execute("SELECT FROM pg_tables WHERE schemaname = 'public'").rowcount


def _address(url: sa.URL) -> str:
    """As libpq takes it: no URL, in which a space of a password would be a fault."""
    return make_conninfo(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database
    )


def _copy_on_server(url: sa.URL) -> None:
    with psycopg.connect(_address(url)) as connection:
        connection.execute(_script(url.set(database="postgres"), head_revision()).encode())


@cache
def _script(server: sa.URL, schema: str) -> str:
    """What makes all tables of this schema, from a database that was migrated and dumped."""
    url = server.set(database=f"migrated_{uuid.uuid4().hex[:12]}")
    name = sql.Identifier(str(url.database))
    with psycopg.connect(_address(server), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        _migrate(url)
        command = [str(wheel_programs() / "pg_dump"), "--no-owner", "--inserts", _address(url)]
        dump = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        connection.execute(sql.SQL("DROP DATABASE {}").format(name))
    return "\n".join(line for line in dump.splitlines() if not line.startswith(("\\", "--")))


def _migrate(url: sa.URL) -> None:
    engine = create_engine(url.render_as_string(hide_password=False))
    migrate(engine)
    engine.dispose()
