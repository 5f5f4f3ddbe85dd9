"""The SQLite file: made for its owner alone, and told where an old one is open to others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from monitor.cli import cli
from monitor.commands import check
from monitor.errors import LostStoreError
from monitor.store import database
from monitor.store.schema import meta

SETTINGS = Path(__file__).parents[3] / "deploy" / "examples" / "ten_pairs.toml"


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def invoke(file: Path, *arguments: str) -> Result:
    environment = {
        "SLICEWATCH__STORE__URL": f"sqlite:///{file}",
        "SLICEWATCH__PRIVACY__ID_KEY": "a-key-of-a-test-that-is-long-enough",
    }
    return CliRunner(env=environment).invoke(
        cli, [*arguments, "-s", str(SETTINGS)], standalone_mode=False
    )


def rights(*files: Path) -> set[str]:
    return {oct(one.stat().st_mode & 0o777) for one in files}


def test_a_new_file_its_log_and_its_index_are_the_owners_alone(file: Path) -> None:
    engine = database.create_engine(f"sqlite:///{file}")
    database.migrate(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1 FROM alembic_version")
        found = sorted(file.parent.iterdir())
        assert [one.name for one in found] == ["store.db", "store.db-shm", "store.db-wal"]
        assert rights(*found) == {"0o600"}
    engine.dispose()


def test_so_is_the_file_that_db_migrate_makes(file: Path) -> None:
    assert invoke(file, "db", "migrate").exception is None
    assert rights(file) == {"0o600"}


def test_so_is_the_file_that_a_link_names(file: Path) -> None:
    file.symlink_to(file.with_name("real.db"))
    assert invoke(file, "db", "migrate").exception is None
    assert rights(file.with_name("real.db")) == {"0o600"}


def test_a_file_that_is_there_keeps_its_rights_and_check_tells(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_topics", lambda _: iter(()))
    assert "can be opened by others" not in invoke(file, "check", "--connect").output
    file.touch(0o644)
    assert invoke(file, "db", "migrate").exception is None
    assert rights(file) == {"0o644"}

    found = invoke(file, "check", "--connect")

    assert found.exit_code == 0
    (line,) = [one for one in found.output.splitlines() if "can be opened by others" in one]
    assert line.startswith("warning: database sqlite:///")
    assert "chmod 600" in line
    file.chmod(0o600)
    assert "can be opened by others" not in invoke(file, "check", "--connect").output


def test_a_folder_that_is_not_there_is_still_told_by_the_database(tmp_path: Path) -> None:
    failed = invoke(tmp_path / "no" / "store.db", "db", "migrate")
    assert "unable to open database file" in str(failed.exception)


def replace(file: Path) -> None:
    """Put a copy in the place of a file, as somebody does who restores a backup."""
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    copy.rename(file)


@pytest.mark.parametrize("companion", ["", "-wal"], ids=["database", "log"])
@pytest.mark.parametrize("happens", [Path.unlink, replace], ids=["removed", "replaced"])
def test_nothing_is_written_into_a_file_that_is_gone(
    file: Path, companion: str, happens: Callable[[Path], None]
) -> None:
    engine = database.create_engine(f"sqlite:///{file}")
    database.migrate(engine)
    gone, kept = file.with_name(file.name + companion), file.with_name("kept")
    kept.hardlink_to(gone)
    happens(gone)
    for transaction in (database.writing, database.reading):
        with pytest.raises(LostStoreError, match=f"{gone} was removed or replaced"):
            transaction(engine).__enter__()
    with engine.pool.connect(), pytest.raises(LostStoreError), database.writing(engine):
        pass  # by a further connection, which would make a new file
    assert gone.exists() == (happens is replace)
    kept.replace(gone)
    write(engine)  # it was put back
    engine.dispose()
    if happens is Path.unlink:
        replace(file)  # nobody has it open
        write(engine)
        engine.dispose()


def write(engine: sa.Engine) -> None:
    with database.writing(engine) as connection:
        connection.execute(sa.insert(meta).values(name=str(uuid4()), value="x"))


def test_the_log_of_closed_connections_may_come_and_go(file: Path) -> None:
    engine = database.create_engine(f"sqlite:///{file}")
    database.migrate(engine)
    for _ in range(2):
        write(engine)
        engine.raw_connection().invalidate()  # the last one: SQLite deletes its log
        assert not file.with_name("store.db-wal").exists()
    write(engine)
    engine.dispose()
