"""Backup, restore and upgrade: the counts stay what the oracle says, and nothing is read twice."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import counting_oracle as oracle
import frozen_store
import next_release
import psycopg
import pytest
import sqlalchemy as sa
from brokers import Broker
from frozen_store import FrozenStore
from histories import Histories
from manual import DATABASE, Administrator, commands
from migrated import bring_to_head
from pipeline import DECISIONS, ID_KEY, LABELS, SETTINGS, Pipeline, assert_conserved, attributes_in
from postgres import PostgresServer
from sites import Site, until

from monitor.core.publish.snapshot import decode
from monitor.errors import StoreError
from monitor.records import Shard
from monitor.store import database
from monitor.store.evaluator.records import RecordStore
from monitor.store.shard_rows import read_statuses

pytestmark = pytest.mark.full

SECONDS = 120
THIS_RELEASE = (sys.executable, "-m", "monitor")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> FrozenStore:
    return frozen_store.freeze(tmp_path_factory.mktemp("frozen"))


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    engine = database.create_engine(url)
    yield engine
    engine.dispose()


def migrating(
    folder: Path, url: str, settings: str, program: Sequence[str] = THIS_RELEASE
) -> subprocess.Popen[str]:
    """``slicewatch db migrate`` as a process."""
    (folder / "migrate.toml").write_text(settings)
    return subprocess.Popen(
        [*program, "db", "migrate", "--settings", "migrate.toml"],
        cwd=folder,
        env={**os.environ, "SLICEWATCH__STORE__URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended_well(process: subprocess.Popen[str]) -> str:
    """What it said."""
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    return said


# Upgrade


def positions(engine: sa.Engine) -> dict[Shard, int | None]:
    return {status.shard: status.next_offset for status in read_statuses(engine)}


def frozen_positions(frozen: FrozenStore) -> dict[Shard, int | None]:
    return {Shard(r["topic"], r["part"]): r["next_offset"] for r in frozen.tables["ownership"]}


def unfolded(frozen: FrozenStore) -> int:
    """Deltas that the old version had written and not yet folded."""
    cursors = {(row["topic"], row["part"]): row["seq"] for row in frozen.tables["fold_cursor"]}
    return sum(d["seq"] > cursors[d["topic"], d["part"]] for d in frozen.tables["delta"])


def test_the_frozen_store_is_worth_upgrading(frozen: FrozenStore) -> None:
    assert {*frozen.tables} >= {
        *("counts", "delta", "pending", "label_state", "waiting_label"),
        *("calendar_table", "snapshot"),
    }
    assert unfolded(frozen)
    assert min(frozen.unread(DECISIONS), frozen.unread(LABELS)) > 10


def test_a_store_is_copied_whole(engine: sa.Engine, frozen: FrozenStore) -> None:
    frozen.write_to(engine)
    assert database.schema_revision(engine) == frozen.revision
    copied = frozen_store.read_tables(engine)
    assert {name: rows for name, rows in copied.items() if rows} == frozen.tables


def test_an_old_store_is_refused_until_it_is_migrated(
    engine: sa.Engine, frozen: FrozenStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frozen.write_to(engine)
    next_release.become(monkeypatch, tmp_path)
    with pytest.raises(
        StoreError,
        match=rf"schema is {frozen.revision}, this version needs {next_release.REVISION}.*migrate",
    ):
        database.require_head(engine)


@pytest.fixture
def two_urls(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two empty databases of a kind."""
    if url.startswith("sqlite"):
        yield url, f"sqlite:///{tmp_path}/other.db"
        return
    server, name = request.getfixturevalue("postgres"), f"other_{uuid.uuid4().hex[:12]}"
    yield url, server.create_database(name)
    server.drop_database(name)


def test_tables_that_tests_copy_are_of_the_release_that_asks(
    two_urls: tuple[str, str], tmp_path: Path
) -> None:
    """Whichever test comes first in a process: this one may be it."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        next_release.become(patch, tmp_path)
        found.append(_revision_of_a_copy(two_urls[0]))
    found.append(_revision_of_a_copy(two_urls[1]))
    assert found == [next_release.REVISION, database.head_revision()]


def _revision_of_a_copy(url: str) -> str | None:
    bring_to_head(url)
    engine = database.create_engine(url)
    try:
        return database.schema_revision(engine)
    finally:
        engine.dispose()


def test_an_upgraded_file_goes_on_exactly(
    frozen: FrozenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    write(frozen, url)
    program = next_release.install(tmp_path) / "slicewatch"
    said = ended_well(migrating(tmp_path, url, frozen.settings, [str(program)]))
    assert f"{frozen.revision} -> {next_release.REVISION}" in said
    next_release.become(monkeypatch, tmp_path)
    assert_goes_on(frozen, url, tmp_path)


def test_an_upgraded_server_goes_on_exactly(
    own_postgres: PostgresServer,
    frozen: FrozenStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the manual's commands, as the roles these are for."""
    programs = next_release.install(tmp_path)
    administrator = Administrator(own_postgres, tmp_path, frozen.settings, programs)
    create, _migrate = commands("Roles")
    administrator.run(create)
    write(frozen, administrator.url("slicewatch_deploy"))
    administrator.follow("Upgrade")
    next_release.become(monkeypatch, tmp_path)
    assert_goes_on(frozen, administrator.url("slicewatch_service"), tmp_path)


def write(frozen: FrozenStore, url: str) -> None:
    engine = database.create_engine(url)
    frozen.write_to(engine)
    engine.dispose()


def assert_goes_on(frozen: FrozenStore, url: str, folder: Path) -> None:
    """The upgrade keeps every row and fills what it adds; then the service counts on."""
    engine = database.create_engine(url)
    database.require_head(engine)
    after = frozen_store.read_tables(engine)
    engine.dispose()
    where = {Shard(row["topic"], row["part"]): row["next_offset"] for row in after.pop("later")}
    assert where == frozen_positions(frozen)
    assert [row.pop("later") for row in after["contract"]] == [7]
    assert {name: rows for name, rows in after.items() if rows} == frozen.tables
    assert_counts_on(frozen, url, folder)


def assert_counts_on(frozen: FrozenStore, url: str, folder: Path) -> None:
    """What was unread is read and counted once."""
    rules = oracle.Rules(attributes_in(frozen.settings), ID_KEY.encode())
    expected = oracle.count(rules, frozen.events(DECISIONS), frozen.events(LABELS)).counts
    with Pipeline(folder, frozen_store.PARTITIONS, text=frozen.settings, store__url=url) as new:
        assert positions(new.engine) == frozen_positions(frozen)
        newest = RecordStore(new.engine).newest_snapshot()
        assert newest is not None
        assert decode(newest[1]).contracts
        consume(frozen, new)
        new.check_counts(expected)
        new.check_conservation()
        assert sum(s.tallies.messages for s in new.statuses()) == frozen.length


def consume(frozen: FrozenStore, pipeline: Pipeline) -> None:
    """Read what the old version had not, from the same topics, and fold."""
    for topic, parts in frozen.topics.items():
        for number, messages in enumerate(parts):
            pipeline.broker.produce(topic, messages, partition=number)
    pipeline.worker()
    pipeline.drain()
    pipeline.fold()


@pytest.mark.parametrize("is_new", [True, False])
def test_two_migrations_at_once_both_end_well(
    is_new: bool, url: str, engine: sa.Engine, frozen: FrozenStore, tmp_path: Path
) -> None:
    program: tuple[str, ...] = THIS_RELEASE
    head = database.head_revision()
    if not is_new:
        frozen.write_to(engine)
        program, head = (str(next_release.install(tmp_path) / "slicewatch"),), next_release.REVISION
    both = [migrating(tmp_path, url, SETTINGS, program) for _ in range(2)]
    for one in both:
        assert f"-> {head}" in ended_well(one)
    with database.reading(engine) as connection:
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars()
        assert found.all() == [head]


def test_a_migration_waits_for_another(postgres_url: str, tmp_path: Path) -> None:
    """The first is held up at its first table: then the second is in its way, if anything is."""
    engine = database.create_engine(postgres_url)
    with psycopg.connect(postgres_url) as other:
        other.execute("CREATE TABLE atom (id bigint)")
        both = [migrating(tmp_path, postgres_url, SETTINGS) for _ in range(2)]
        until(lambda: waiting(postgres_url, "slicewatch") == 2, "both stand before a lock")
        other.rollback()
    assert all(ended_well(one) for one in both)
    database.require_head(engine)
    engine.dispose()


def waiting(url: str, program: str) -> int:
    """Sessions of a program that wait for a lock."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database() AND application_name = %s"
    )
    with psycopg.connect(url) as connection:
        found = connection.execute(query, (program,)).fetchone()
    assert found is not None
    return int(found[0])


def test_a_new_file_is_waited_for(tmp_path: Path) -> None:
    """While another process is about to switch it to write-ahead logging."""
    engine = database.create_engine(f"sqlite:///{tmp_path}/new.db")
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as pool:
            migrated = pool.submit(database.migrate, engine)
            with pytest.raises(TimeoutError):  # refused at once without patience
                migrated.result(timeout=1)
            other.execute("ROLLBACK")
            migrated.result(timeout=SECONDS)
    database.require_head(engine)
    engine.dispose()


# Backup and restore


@pytest.fixture
def administrator(own_postgres: PostgresServer, tmp_path: Path) -> Administrator:
    administrator = Administrator(own_postgres, tmp_path, SETTINGS)
    administrator.follow("Roles")
    return administrator


@pytest.fixture
def site(
    administrator: Administrator, kafka: Broker, topic_name: str, tmp_path: Path
) -> Iterator[Site]:
    """A stream whose counts go into the manual's database."""
    url = administrator.url("slicewatch_service")
    site = Site(kafka, topic_name, tmp_path, 2, Histories(6, 1000, hours=24), store_url=url)
    yield site
    site.engine.dispose()


def test_a_restored_backup_goes_on_exactly(site: Site, administrator: Administrator) -> None:
    fixed = {"SLICEWATCH__STREAM__INSTANCE": "only"}  # the same member: no waiting for a timeout
    with site.run("run", **fixed) as service:
        site.produce(0.3)
        until(site.everything_read, "the first part read", [service])
        before = site.read()
        with held_up_backup(administrator):
            site.produce(0.5)
            until(site.everything_read, "progress while the backup runs", [service])
        site.produce(0.5)
        until(site.everything_read, "the third part read", [service])
        service.kill()
    administrator.follow("Restore")
    move(site, administrator.url("slicewatch_service", "slicewatch_restored"))
    assert site.read() == before
    assert_conserved(site.statuses())
    with site.run("run", **fixed) as service:
        site.produce(1)
        until(site.everything_read, "everything read", [service])
        until(site.exact, "exact counts", [service])
        assert service.stop() == 0
    site.assert_exact()


@contextmanager
def held_up_backup(administrator: Administrator) -> Iterator[None]:
    """A backup that has begun and cannot go on before the end of the block."""
    url = administrator.server.url(DATABASE)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as other:
        other.execute("SET ROLE slicewatch_migrator; CREATE TABLE not_ours (id bigint)")
        other.commit()  # a table that the service never touches, but every backup
        other.execute("LOCK TABLE not_ours IN ACCESS EXCLUSIVE MODE")
        backup = pool.submit(administrator.follow, "Backup")
        until(lambda: waiting(url, "pg_dump") == 1, "the backup has begun")
        yield
        other.rollback()
        backup.result(timeout=SECONDS)


def move(site: Site, url: str) -> None:
    """The same topics and settings, another database."""
    site.engine.dispose()
    del site.engine
    site.store_url = url


def test_a_restored_copy_of_a_file_goes_on_exactly(
    kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    site = Site(kafka, topic_name, tmp_path, 2, Histories(6, 1000, hours=24))
    fixed = {"SLICEWATCH__STREAM__INSTANCE": "only"}
    copy = tmp_path / "copy.db"
    try:
        with site.run("run", **fixed) as service:
            site.produce(0.3)
            until(site.everything_read, "the first part read", [service])
            site.produce(0.5)
            backed_up(site, copy)  # while it writes
            site.produce(0.5)
            until(site.everything_read, "what came after the copy read", [service])
            service.kill()
        site.engine.dispose()
        for companion in tmp_path.glob("store.db*"):
            companion.unlink()
        copy.rename(tmp_path / "store.db")
        assert_conserved(site.statuses())
        assert site.read() < site.produced
        with site.run("run", **fixed) as service:
            site.produce(1)
            until(site.everything_read, "everything read", [service])
            until(site.exact, "exact counts", [service])
            assert service.stop() == 0
        site.assert_exact()
    finally:
        site.engine.dispose()


def backed_up(site: Site, copy: Path) -> None:
    command = [sys.executable, "-m", "monitor", "db", "backup", str(copy)]
    done = subprocess.run(
        [*command, "--settings", "settings.toml"],
        cwd=site.folder, env={**os.environ, **site.environment}, timeout=SECONDS,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{copy}: {copy.stat().st_size:,} bytes\n"
    assert copy.stat().st_mode & 0o077 == 0
    assert not list(copy.parent.glob("copy.db-*"))
