"""The schema versions that the program knows are those of Alembic, which it does not ask."""

from __future__ import annotations

from pathlib import Path

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from migrated import migrated_file

from monitor.store import database

SCRIPTS = ScriptDirectory(str(Path(database.__file__).parent / "migrations"))


def test_each_file_begins_with_its_version_and_they_follow_each_other() -> None:
    newest_first = list(SCRIPTS.walk_revisions())
    named = [Path(one.path).name[1:].partition("_")[0] for one in newest_first]
    assert named == [one.revision for one in newest_first]
    assert named == sorted(named, key=int, reverse=True)


def test_the_newest_is_the_one_that_is_needed() -> None:
    assert database.head_revision() == SCRIPTS.get_current_head()


def test_the_version_of_a_database_is_what_alembic_says() -> None:
    engine = database.create_engine(f"sqlite:///{migrated_file()}")
    with database.reading(engine) as connection:
        told = MigrationContext.configure(connection).get_current_revision()
    assert database.schema_revision(engine) == told == database.head_revision()
    engine.dispose()
