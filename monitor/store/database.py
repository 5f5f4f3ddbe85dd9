"""Opening the database: engine, SQLite pragmas, transactions, migrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from monitor.errors import StoreError

_MIGRATIONS = Path(__file__).parent / "migrations"
_BUSY_SECONDS = 20


def create_engine(url: str) -> sa.Engine:
    """The engine of a store URL; SQLite gets write-ahead logging and explicit transactions.

    Raises:
        StoreError: the URL is not one that SQLAlchemy understands.
    """
    try:
        parsed = sa.make_url(url)
        engine = sa.create_engine(
            parsed,
            pool_pre_ping=parsed.get_backend_name() != "sqlite",
            hide_parameters=True,  # rows must not appear in error texts
        )
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        message = "store.url is not a database URL this installation can open; use sqlite:///FILE"
        raise StoreError(message) from error
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver would begin transactions by itself and late; we begin them (see _begin_sqlite).
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout = {_BUSY_SECONDS * 1000}",
        "journal_mode = WAL",
        # In WAL a power cut may undo the last commits, offsets and effects alike: still exact.
        "synchronous = NORMAL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A deferred transaction that turns into a writer can fail with "locked" half-way.
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One consistent view of the store.

    Raises:
        StoreError: the database cannot be reached.
    """
    with _translated(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction that commits at the end of the block, or leaves no trace.

    Raises:
        StoreError: the database cannot be reached or written.
    """
    with _translated(engine), engine.connect() as plain:
        connection = plain.execution_options(write=True)
        with connection.begin():
            yield connection


@contextmanager
def _translated(engine: sa.Engine) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        where = engine.url.render_as_string(hide_password=True)
        detail = str(error.orig).splitlines()[0] if error.orig else "unknown reason"
        raise StoreError(f"database {where} cannot be used: {detail}") from error


def _config(connection: sa.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def schema_revision(engine: sa.Engine) -> str | None:
    """The schema version the database is at; None for an empty database."""
    with reading(engine) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head_revision() -> str:
    """The schema version this program needs."""
    head = ScriptDirectory(str(_MIGRATIONS)).get_current_head()
    if head is None:  # pragma: no cover - the package always ships migrations
        raise StoreError("the installation has no migrations; install slicewatch again")
    return head


def migrate(engine: sa.Engine) -> None:
    """Bring the database to the schema this program needs; does nothing when it is there."""
    if schema_revision(engine) == head_revision():
        return
    with writing(engine) as connection:
        command.upgrade(_config(connection), "head")


def require_head(engine: sa.Engine) -> None:
    """Raise StoreError unless the database has exactly the schema this program needs."""
    found, wanted = schema_revision(engine), head_revision()
    if found != wanted:
        raise StoreError(
            f"database schema is {found or 'empty'}, this version needs {wanted}; "
            "run: slicewatch db migrate"
        )
