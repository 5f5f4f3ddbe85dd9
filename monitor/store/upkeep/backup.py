"""Backup of an SQLite store, made while the service writes to it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import sqlalchemy as sa

from monitor.errors import StoreError

_PARTIAL = ".partial"
_OWNER_ONLY = 0o600
_PAGES = 4_096
"""Pages copied between two turns of other programs: 16 MB."""
_WAIT_SECONDS = 30.0


def back_up(engine: sa.Engine, target: Path) -> int:
    """Copy the whole store as of one moment to a new file; return the bytes of the copy.

    The file appears when it is complete and on the disk, and only its owner can open it.

    Args:
        engine: engine of an SQLite file.
        target: path of the new file.

    Raises:
        StoreError: the store is no SQLite file, or the copy cannot be written.
    """
    if engine.dialect.name != "sqlite":
        raise StoreError(
            "the database is on a server: back it up with pg_dump (deploy/docs/operations.md)"
        )
    source = str(engine.url.database)
    if not Path(source).exists():
        raise StoreError(f"there is no database {source}: check store.url")
    if target.exists():
        raise StoreError(f"{target} is there already: give the name of a new file")
    partial = target.with_name(target.name + _PARTIAL)
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, _OWNER_ONLY))
        _copy(source, partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.rename(target)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            partial.unlink()
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{target} cannot be written: {reason}") from None
    return target.stat().st_size


def _copy(source: str, partial: Path) -> None:
    """Copy an SQLite file to ``partial`` as of one moment, and check the copy."""
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=_WAIT_SECONDS)) as old,
        closing(sqlite3.connect(partial)) as new,
    ):
        old.execute("BEGIN")  # later writes of others are not in the copy
        old.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        old.backup(new, pages=_PAGES, sleep=0)
        new.execute("PRAGMA journal_mode = DELETE")  # one file, without companions
        (verdict,) = new.execute("PRAGMA quick_check").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError("the copy is damaged; is the disk?")
