"""deploy/postgresql/roles.sql, proved by real logins: each role does its work and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import counting_oracle as oracle
import psycopg
import pytest
from histories import Histories
from manual import DATABASE, PASSWORD, Administrator, commands
from pipeline import (
    DECISIONS,
    ID_KEY,
    LABELS,
    SETTINGS,
    Pipeline,
    attributes_in,
    messages,
)
from postgres import PostgresServer
from psycopg import sql
from sqlalchemy import Engine, select

from monitor.core.time import DAY
from monitor.ports import Shard
from monitor.store import retention
from monitor.store.forget import forget
from monitor.store.records import Records
from monitor.store.schema import metadata, pending
from monitor.store.shards import resume_from
from monitor.store.status import read_status

PUBLISHED = {"snapshot", "contract"}
TABLES = set(metadata.tables)
DENIED = psycopg.errors.InsufficientPrivilege


def tries(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


@pytest.fixture
def manual(own_postgres: PostgresServer, tmp_path: Path) -> Administrator:
    """Who has just followed the manual: a database with roles and logins, and migrated."""
    administrator = Administrator(own_postgres, tmp_path, SETTINGS)
    administrator.follow("Roles")
    return administrator


@pytest.fixture
def writer(manual: Administrator) -> str:
    return manual.url("slicewatch_service")


@pytest.fixture
def reporter(manual: Administrator) -> str:
    return manual.url("slicewatch_reader")


@pytest.fixture
def written(writer: str, tmp_path: Path) -> Iterator[Pipeline]:
    """Everything the service does, done as the writer, on rows of every kind."""
    history = Histories(3, 200)
    with Pipeline(tmp_path, store__url=writer) as pipeline:
        pipeline.broker.produce(DECISIONS, [*messages(history.decisions), b"not an event"])
        pipeline.broker.produce(LABELS, messages(history.labels))
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        rules = oracle.Rules(attributes_in(), ID_KEY.encode())
        expected = oracle.count(rules, history.decisions, history.labels).counts
        pipeline.check_counts(expected)  # type: ignore[arg-type]
        yield pipeline


def operate(engine: Engine) -> None:
    """What `slicewatch db` and the retention do."""
    records = Records(engine)
    assert records.dead_letters(10)
    assert records.pending_rows()
    slowest = records.slowest_event_time()
    assert slowest is not None
    resume_from(engine, Shard(DECISIONS, 0), 500, "a test", 0, force=True)
    with engine.connect() as connection:
        one = connection.execute(select(pending.c.id).limit(1)).scalar_one()
    assert forget(engine, one)["pending"] == 1
    assert read_status(engine, "", DECISIONS, 0, 0).tables[0].rows == records.pending_rows()
    policy = retention.RetentionPolicy(DAY, DAY, DAY, DAY, 0)
    retention.apply(engine, policy, slowest + 60 * DAY, slowest + 60 * DAY)
    assert not records.pending_rows()


def test_the_service_works_as_the_writer(written: Pipeline) -> None:
    operate(written.engine)


def test_the_writer_changes_no_schema(writer: str) -> None:
    for statement in (
        "DROP TABLE counts",
        "ALTER TABLE counts ADD COLUMN more bigint",
        "TRUNCATE counts",
        "CREATE TABLE mine (id bigint)",
        "CREATE SCHEMA mine",
        "CREATE INDEX mine ON counts (pane)",
        "UPDATE alembic_version SET version_num = '0000'",
        "SET ROLE slicewatch_migrator",
    ):
        with pytest.raises(DENIED):
            tries(writer, statement)
    tries(writer, "CREATE TEMP TABLE mine (id bigint)")


def test_the_reporter_reads_what_is_published_and_nothing_else(
    written: Pipeline, reporter: str
) -> None:
    with psycopg.connect(reporter) as connection:
        newest = connection.execute("SELECT body FROM snapshot ORDER BY id DESC LIMIT 1").fetchone()
        assert newest == (written.snapshot(),)
        assert connection.execute("SELECT name FROM contract").fetchall() == [("synthetic",)]
    for table in [*sorted(TABLES - PUBLISHED), "alembic_version"]:
        with pytest.raises(DENIED):
            tries(reporter, f"SELECT 1 FROM {table}")


def test_the_reporter_changes_nothing(reporter: str) -> None:
    changes = [f"DELETE FROM {table}" for table in TABLES]
    changes += [f"UPDATE {table} SET {_first_column(table)} = NULL" for table in TABLES]
    changes += ["CREATE TABLE mine (id bigint)", "CREATE TEMP TABLE mine (id bigint)"]
    for statement in changes:
        with pytest.raises(DENIED):
            tries(reporter, statement)


def _first_column(table: str) -> str:
    return next(iter(metadata.tables[table].columns)).name


def test_tables_of_later_migrations_are_the_writers_at_once(
    manual: Administrator, writer: str, reporter: str
) -> None:
    tries(manual.url("slicewatch_deploy"), "CREATE TABLE later (id bigint)")
    tries(writer, "INSERT INTO later VALUES (1); UPDATE later SET id = 2; DELETE FROM later")
    with pytest.raises(DENIED):
        tries(reporter, "SELECT 1 FROM later")
    with pytest.raises(DENIED):
        tries(writer, "DROP TABLE later")


def test_nobody_else_comes_in(manual: Administrator) -> None:
    stranger = sql.SQL("CREATE ROLE stranger LOGIN PASSWORD {}").format(sql.Literal(PASSWORD))
    manual.server.execute(stranger)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(manual.url("stranger"))


def test_tables_made_before_the_roles_are_taken_over(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    """By an owner of the database who is no superuser, and made its tables as himself."""
    make = sql.SQL("CREATE ROLE owner LOGIN CREATEROLE PASSWORD {}").format(sql.Literal(PASSWORD))
    own_postgres.execute(make)
    own_postgres.execute(sql.SQL("CREATE DATABASE {} OWNER owner").format(sql.Identifier(DATABASE)))
    administrator = Administrator(own_postgres, tmp_path, SETTINGS)
    as_owner = (
        f"export PGUSER=owner PGPASSWORD='{PASSWORD}' DEPLOY_URL={administrator.url('owner')}; "
    )
    create, migrate = commands("Roles")
    administrator.run(as_owner + migrate)
    administrator.run(as_owner + create.replace("createdb", "true"))
    administrator.run(as_owner + migrate)
    tries(own_postgres.url(DATABASE), "SET ROLE slicewatch_writer; SELECT 1 FROM counts")
    tries(own_postgres.url(DATABASE), "SET ROLE slicewatch_reporter; SELECT 1 FROM snapshot")
    with pytest.raises(DENIED):
        tries(own_postgres.url(DATABASE), "SET ROLE slicewatch_reporter; SELECT 1 FROM counts")
