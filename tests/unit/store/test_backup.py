"""A copy of an SQLite store: whole, of one moment, and never half there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.errors import StoreError
from monitor.store import database
from monitor.store.schema import meta
from monitor.store.upkeep.backup import back_up


def write(engine: sa.Engine, name: str) -> None:
    with database.writing(engine) as connection:
        connection.execute(meta.insert().values(name=name, value="x"))


def names(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM meta")}


def test_a_copy_has_all_that_was_written_and_nothing_of_a_transaction_that_goes_on(
    engine: sa.Engine, tmp_path: Path
) -> None:
    write(engine, "before")
    with database.writing(engine) as connection:
        connection.execute(meta.insert().values(name="during", value="x"))
        size = back_up(engine, tmp_path / "copy.db")
    assert names(tmp_path / "copy.db") & {"before", "during"} == {"before"}
    assert (tmp_path / "copy.db").stat().st_size == size
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
    assert sorted(tmp_path.glob("copy*")) == [tmp_path / "copy.db"]
    copied = database.create_engine(f"sqlite:///{tmp_path}/copy.db")
    database.require_head(copied)
    copied.dispose()


def test_what_is_there_is_not_written_over(engine: sa.Engine, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("a letter")
    with pytest.raises(StoreError, match="is there already"):
        back_up(engine, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "a letter"


def test_a_folder_that_is_not_there_is_said(engine: sa.Engine, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        back_up(engine, tmp_path / "nowhere" / "copy.db")


def test_a_server_is_backed_up_by_its_own_tool(postgres_url: str, tmp_path: Path) -> None:
    engine = database.create_engine(postgres_url)
    with pytest.raises(StoreError, match="pg_dump"):
        back_up(engine, tmp_path / "copy.db")
    engine.dispose()
