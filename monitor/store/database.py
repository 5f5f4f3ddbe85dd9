"""Opening the database: engine, settings of each connection, transactions, migrations."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from monitor.errors import LostStoreError, StoreError
from monitor.settings.kinds import Url
from monitor.store import bulk
from monitor.store.open_file import FileGoneError, OpenFile

_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSIONS = "alembic_version"  # Alembic's own table, of one row
PAGE_CACHE_KILOBYTES = 32_000
"""Most memory of a connection to SQLite; it fills with time.

Ids are hashes: a flush of 10,000 changes pages all over its tables. SQLite's default of 2 MB makes
it write and read most pages again meanwhile, which doubles the time per row.
"""
_BUSY_SECONDS = 20
_BUSY_RETRY_SECONDS = 0.02
_SERVER = "postgresql"
_DRIVER = "postgresql+psycopg"
_MIGRATION_LOCK = 7_217_002_914  # a number that no other program locks in this database
_SERVER_OPTIONS = {
    # A worker that stops inside a transaction must not keep its shards from their next owner.
    "idle_in_transaction_session_timeout": "30s",
    # Nor may a machine that vanished, which the timeout does not see in the middle of a statement.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    # To wait longer for a lock is a failure that is reported.
    "lock_timeout": "60s",
    "timezone": "UTC",
}
_APPLICATION = "slicewatch"
_CONNECT_ARGUMENTS = {
    "application_name": _APPLICATION,
    "connect_timeout": 10,
    # A pooler may give the next transaction a session that has not prepared the statement.
    "prepare_threshold": None,
    # A server that vanished without a word is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_LOCK_TIMEOUT = "55P03"  # SQLSTATE lock_not_available
_FROZEN_SECONDS = 30.0
_OWNER_ONLY = 0o600
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_END_FROZEN = sa.text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = :application"
    " AND pid <> pg_backend_pid() AND state = 'active' AND wait_event = 'ClientRead'"
    " AND query_start < now() - make_interval(secs => :seconds)"
)


def create_engine(url: str) -> sa.Engine:
    """Return the engine of a store URL, ``sqlite:///FILE`` or ``postgresql://user@host/database``.

    SQLite gets write-ahead logging and explicit transactions; only the owner can read a new file.

    Raises:
        StoreError: the URL is not one that this installation can open.
    """
    try:
        parsed = _with_driver(sa.make_url(url))
        on_server = parsed.get_backend_name() == _SERVER
        engine = sa.create_engine(
            parsed,
            pool_pre_ping=on_server,
            hide_parameters=True,  # rows must not appear in error texts
            connect_args=_CONNECT_ARGUMENTS if on_server else {},
        )
    except ModuleNotFoundError as error:
        raise StoreError(
            "store.url: the driver of this database is not installed;"
            " run: pip install 'slicewatch[postgresql]'"
        ) from error
    except (ArgumentError, NoSuchModuleError, ValueError):
        # The cause may quote a part of the password.
        raise StoreError(
            "store.url is not a database URL this installation can open; use sqlite:///FILE or"
            " postgresql://USER@HOST/DATABASE"
        ) from None
    if engine.dialect.name == "sqlite":
        file = OpenFile(str(parsed.database))
        sa.event.listen(engine, "do_connect", file.require)
        sa.event.listen(engine, "do_connect", _make_file)
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "connect", file.opened)
        sa.event.listen(engine, "close", file.closed)
        sa.event.listen(engine, "begin", file.require)
        sa.event.listen(engine, "begin", _begin_sqlite)
    else:
        sa.event.listen(engine, "connect", _prepare_server)
        sa.event.listen(engine, "begin", _begin_server)
    return engine


def _with_driver(url: sa.URL) -> sa.URL:
    """Return the URL with psycopg 3 as driver if it names PostgreSQL without a driver."""
    plain = url.drivername in ("postgres", _SERVER)
    return url.set(drivername=_DRIVER) if plain else url


def _make_file(dialect: sa.Dialect, _record: object, arguments: Any, _options: object) -> None:
    """Create a new SQLite file that only its owner can open; leave an existing one as it is."""
    file = str(arguments[0])
    # The file must be new: to close another handle of an open database would drop its locks.
    # SQLite finds the same obstacles (the file exists, no such folder), and reports them.
    with suppress(OSError):
        os.close(os.open(os.path.realpath(file), os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER_ONLY))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Set up a new SQLite connection: our own transactions, WAL, cache and waits."""
    # The driver would begin transactions by itself and late; we begin them (see _begin_sqlite).
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}")
    _log_ahead(connection)
    for pragma in (
        # In WAL a power cut may undo the last commits, offsets and effects alike: still exact.
        "synchronous = NORMAL",
        f"cache_size = -{PAGE_CACHE_KILOBYTES}",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Switch a connection to write-ahead logging; retry while another process does so."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # This statement alone does not wait for busy_timeout.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_RETRY_SECONDS)
        else:
            return


def _prepare_server(connection: Any, _record: object) -> None:
    bulk.register_arrays(connection)


def _begin_server(connection: sa.Connection) -> None:
    # Local to the transaction: behind a pooler the next one may have another session.
    settings = ", ".join(
        f"set_config('{name}', '{value}', true)" for name, value in _SERVER_OPTIONS.items()
    )
    connection.exec_driver_sql(f"SELECT {settings}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A deferred transaction that turns into a writer can fail with "locked" half-way.
    write = connection.get_execution_options().get("write", False)
    driver: Any = connection.connection.driver_connection  # a dozen times a cycle: no detours
    driver.execute("BEGIN IMMEDIATE" if write else "BEGIN")


def is_there(engine: sa.Engine) -> bool:
    """Return True if the database exists; for a server always True."""
    if engine.dialect.name != "sqlite":
        return True
    file = engine.url.database
    return bool(file) and Path(str(file)).exists()


def open_to_others(engine: sa.Engine) -> bool:
    """Return True when users other than its owner can open an SQLite file."""
    if engine.dialect.name != "sqlite" or not is_there(engine):
        return False
    return bool(Path(str(engine.url.database)).stat().st_mode & _FOR_OTHERS)


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Yield a connection in a transaction that sees one consistent state of the store.

    Raises:
        StoreError: the database cannot be reached.
    """
    with _translated(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Yield a connection in a transaction that commits at the block's end, or leaves no trace.

    Raises:
        StoreError: the database cannot be reached or written.
    """
    with _translated(engine), engine.connect() as plain:
        connection = plain.execution_options(write=True)
        with connection.begin():
            yield connection


@contextmanager
def _translated(engine: sa.Engine) -> Iterator[None]:
    """Turn errors of the database within the block into a StoreError that names the database."""
    driver: Any = engine.dialect.loaded_dbapi
    try:
        yield
    except (DBAPIError, driver.Error) as error:  # bulk work speaks to the driver itself
        where = Url(engine.url.render_as_string(hide_password=False)).masked
        cause = error.orig if isinstance(error, DBAPIError) else error
        detail = next(iter(str(cause).splitlines()), "unknown reason")
        if getattr(cause, "sqlstate", None) == _LOCK_TIMEOUT and _end_frozen(engine):
            detail += "; a session that had stopped in the middle of a statement was ended"
        if isinstance(cause, FileGoneError):
            raise LostStoreError(f"database {where}: {detail}") from error
        raise StoreError(f"database {where} cannot be used: {detail}") from error


def _end_frozen(engine: sa.Engine) -> bool:
    """End server sessions whose client stopped within a statement; return True if any ended.

    No timeout of the server ends a COPY that waits for its client.
    """
    with suppress(SQLAlchemyError), engine.connect() as connection:
        ended = connection.execute(
            _END_FROZEN, {"application": _APPLICATION, "seconds": _FROZEN_SECONDS}
        )
        return any(ended.scalars())
    return False


def compact(engine: sa.Engine) -> None:
    """Erase the remains of deleted rows from an SQLite file; a server does so in its own time.

    Raises:
        StoreError: the file is in use.
    """
    if engine.dialect.name != "sqlite":
        return
    with _translated(engine), engine.connect() as connection:
        driver: Any = connection.connection.driver_connection  # VACUUM works outside transactions
        driver.execute("VACUUM")
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def database_now(connection: sa.Connection) -> int:
    """Return the time on the database's clock (microseconds), by which leases are measured."""
    if connection.dialect.name == "sqlite":
        query = "SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) * 1000"
    else:
        query = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
    return int(connection.exec_driver_sql(query).scalar_one())


def schema_revision(engine: sa.Engine) -> str | None:
    """Return the schema version of the database, such as "0001"; None for an empty one.

    Raises:
        StoreError: it is a version that this program does not know, or that was never released.
    """
    with reading(engine) as connection:
        return _known_revision(connection)


def _known_revision(connection: sa.Connection) -> str | None:
    """Return the schema's revision, None for an empty database; an error if it is unknown."""
    stored: str | None = None
    if sa.inspect(connection).has_table(_VERSIONS):
        stored = connection.exec_driver_sql(f"SELECT version_num FROM {_VERSIONS}").scalar()
    if stored is not None and stored not in _revisions():
        raise StoreError(
            f"the database has schema {stored}, which this program (schema {head_revision()}) does"
            " not know: use the newer slicewatch that made it"
        )
    return stored


def _revisions() -> list[str]:
    """Return all schema versions this program knows, in order, from the names of their files.

    Alembic would return the same and takes a while to load; most starts find nothing to migrate.
    """
    files = (_MIGRATIONS / "versions").glob("r*_*.py")
    return sorted((file.name[1:].partition("_")[0] for file in files), key=int)


def head_revision() -> str:
    """Return the schema version this program needs."""
    revisions = _revisions()
    if not revisions:  # pragma: no cover - the package always ships migrations
        raise StoreError("the installation has no migrations; install slicewatch again")
    return revisions[-1]


def migrate(engine: sa.Engine) -> None:
    """Bring the database to the schema this program needs, unless it is there.

    Several processes may call this at once: one migrates, the others wait for it.

    Raises:
        StoreError: the database has a schema that this program does not know, or that was never
            released.
    """
    if schema_revision(engine) == head_revision():
        return
    with writing(engine) as connection:
        if connection.dialect.name == _SERVER:
            connection.execute(sa.text("SET LOCAL lock_timeout = 0"))  # a migration may take hours
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        _known_revision(connection)  # again: a newer program may have been the one waited for
        _upgrade(connection)


def _upgrade(connection: sa.Connection) -> None:
    """Bring the schema to the newest revision."""
    from alembic import command  # noqa: PLC0415 - slow to load, see _revisions
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def require_head(engine: sa.Engine) -> None:
    """Raise StoreError unless the database has exactly the schema this program needs."""
    revision, wanted = schema_revision(engine), head_revision()
    if revision != wanted:
        raise StoreError(
            f"database schema is {revision or 'empty'}, this version needs {wanted}; "
            "run: slicewatch db migrate"
        )
