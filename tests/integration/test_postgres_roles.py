"""deploy/postgresql/roles.sql, proved by real logins: each role does its work and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import psycopg
import pytest
from histories import Histories
from manual import DATABASE, PASSWORD, ROOT, Administrator, blocks, commands
from pipeline import DECISIONS, ID_KEY, LABELS, SETTINGS, Pipeline, attributes_in, messages
from postgres import PostgresServer
from psycopg import sql
from published_lesson import BOTH, lesson
from sqlalchemy import Engine, select

from monitor.core.metric import Metric
from monitor.core.publish.act_input import ActInput, Closing
from monitor.core.publish.annotations import IncidentKind, Outcome
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import decode
from monitor.core.time import DAY, TimeSpan
from monitor.errors import StoreError
from monitor.records import Shard
from monitor.store.database import create_engine, reading, writing
from monitor.store.erasure import forget
from monitor.store.evaluator.published_tables import write_published
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.stored_incidents import (
    IncidentChange,
    acknowledge,
    close,
    read_standing,
    write_incidents,
)
from monitor.store.exclusions import Declaration, add_exclusion, excluded_spans, lift_exclusion
from monitor.store.schema import PUBLISHED, pending
from monitor.store.shard_rows import resume_from
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import RetentionPolicy
from monitor.store.upkeep.store_status import read_status
from monitor.store.upkeep.write_rights import require_write_rights

pytestmark = pytest.mark.full

TABLES_PAGE = (ROOT / "deploy" / "docs" / "tables.md").read_text()
READABLE = {table.name for table in PUBLISHED}
DENIED = psycopg.errors.InsufficientPrivilege


def tries(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


def asks(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def relations(url: str) -> dict[str, str]:
    """Every table and view there is, whoever made it, and the name of its first column."""
    names = (
        "SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
        " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'm', 'p', 'f')"
        " AND attnum = 1"
    )
    return dict(asks(url, names))


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


def test_check_knows_who_may_write(writer: str, reporter: str) -> None:
    engine = create_engine(writer)
    assert "rights to write all" in require_write_rights(engine)
    engine.dispose()
    engine = create_engine(reporter)
    with pytest.raises(
        StoreError, match=r"may not write .*\(.*INSERT, UPDATE, DELETE\).* and more"
    ):
        require_write_rights(engine)
    engine.dispose()


@pytest.fixture
def published(writer: str) -> None:
    """What the service publishes, written as the writer."""
    engine = create_engine(writer)
    with writing(engine) as connection:
        write_published(connection, lesson(*BOTH))
    engine.dispose()


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
        pipeline.check_counts(expected)
        yield pipeline


def operate(engine: Engine) -> None:
    """What `slicewatch db` and the retention do."""
    records = RecordStore(engine)
    assert records.dead_letters(10)
    assert records.pending_rows()
    slowest = records.slowest_event_time()
    assert slowest is not None
    resume_from(engine, Shard(DECISIONS, 0), 500, "a test", 0, force=True)
    with engine.connect() as connection:
        one = connection.execute(select(pending.c.id).limit(1)).scalar_one()
    assert forget(engine, one)["pending"] == 1
    assert read_status(engine, "", DECISIONS, 0, 0).tables[0].rows == records.pending_rows()
    bad = Declaration(TimeSpan(slowest - DAY, slowest), None, "a test", "somebody")
    assert add_exclusion(engine, bad, 0).id == 1
    with reading(engine) as connection:
        assert excluded_spans(connection) == (bad.span,)
    assert lift_exclusion(engine, 1, 0).lifted_at == 0
    of_metric = (IncidentKind.BREACH, "replies", Metric.TPR)
    cause = Incident(1, *of_metric, slowest, 0, "channel", "channel=chat", crossings=(1,))
    with writing(engine) as connection:
        write_incidents(connection, IncidentChange([cause]))
    assert acknowledge(engine, 1, ActInput("somebody"), 0).number == 1
    assert close(engine, 1, Closing(Outcome.FIXED), ActInput("somebody"), 0).number == 2
    with reading(engine) as connection:
        assert read_standing(connection).standing == (cause,)
    policy = RetentionPolicy(DAY, DAY, DAY, DAY, 0)
    retention.apply(engine, policy, slowest + 60 * DAY, slowest + 60 * DAY, confirmed=True)
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


@pytest.mark.usefixtures("published")
def test_the_reporter_reads_the_published_tables(reporter: str) -> None:
    shown = asks(reporter, "SELECT slice, value FROM published_rate WHERE metric = 'tpr'")
    assert sorted(shown) == [("", 0.83), ("channel=chat", 0.83), ("channel=email", None)]
    for table in READABLE:
        assert asks(reporter, f"SELECT * FROM {table}"), table


def test_what_the_service_publishes_is_there_for_the_reporter(
    written: Pipeline, reporter: str
) -> None:
    newest = written.snapshot()
    assert newest is not None
    (table,) = decode(newest).contracts
    metrics = sum(len(window.total.states) for window in table.windows)
    totals = "SELECT contract, state FROM published_rate WHERE group_by = ''"
    rows = asks(reporter, totals)
    assert len(rows) == metrics > 0
    assert {name for name, _ in rows} == {"synthetic"}


@pytest.mark.usefixtures("published")
def test_the_reporter_reads_nothing_else(manual: Administrator, reporter: str) -> None:
    everything = relations(manual.server.url(DATABASE))
    assert everything.keys() > {"alembic_version", "snapshot", "contract", "calendar_table", "cell"}
    assert everything.keys() > READABLE
    for table, column in everything.items():
        if table not in READABLE:
            for query in (f"SELECT 1 FROM {table}", f"SELECT {column} FROM {table}"):
                with pytest.raises(DENIED):
                    tries(reporter, query)


@pytest.mark.usefixtures("published")
def test_the_reporter_changes_nothing(manual: Administrator, reporter: str) -> None:
    changes = ["CREATE TABLE mine (id bigint)", "CREATE TEMP TABLE mine (id bigint)"]
    for table, column in relations(manual.server.url(DATABASE)).items():
        changes += [
            f"DELETE FROM {table}",
            f"TRUNCATE {table}",
            f"UPDATE {table} SET {column} = NULL",
            f"INSERT INTO {table} DEFAULT VALUES",
            f"LOCK TABLE {table} IN EXCLUSIVE MODE",
            f"ALTER TABLE {table} ADD COLUMN more bigint",
        ]
    for statement in changes:
        with pytest.raises(DENIED):
            tries(reporter, statement)


@pytest.mark.usefixtures("published")
def test_rights_of_an_older_version_are_taken_away(manual: Administrator, reporter: str) -> None:
    manual.server.execute(sql.SQL("GRANT SELECT ON snapshot TO slicewatch_reporter"), DATABASE)
    tries(reporter, "SELECT 1 FROM snapshot")
    manual.run("psql --dbname slicewatch --file deploy/postgresql/roles.sql")
    with pytest.raises(DENIED):
        tries(reporter, "SELECT 1 FROM snapshot")
    assert asks(reporter, "SELECT COUNT(*) FROM published_rate") != [(0,)]


GRAFANA = re.compile(r"\$__timeFilter\((\w+)\)")


@pytest.mark.usefixtures("published")
def test_the_manuals_query_for_grafana_works(reporter: str) -> None:
    """With the macro as Grafana expands it."""
    (query,) = blocks(TABLES_PAGE, "sql")
    range_ = r"\1 BETWEEN '2024-10-01T00:00:00Z' AND '2024-10-31T12:30:00Z'"
    expanded, macros = GRAFANA.subn(range_, query)
    assert macros == 1
    expanded = expanded.replace("'my_contract'", "'lesson'")
    assert asks(reporter, expanded) == [(date(2024, 10, 4), "channel=chat", 0.33, 0.7, 0.1)]


@pytest.mark.usefixtures("published")
def test_the_manuals_notebook_works(reporter: str, tmp_path: Path) -> None:
    (script,) = blocks(TABLES_PAGE, "python")
    (tmp_path / "notebook.py").write_text(script.replace("my_contract", "lesson"))
    url = reporter.replace("postgresql://", "postgresql+psycopg://")
    done = subprocess.run(
        [sys.executable, "notebook.py"],
        cwd=tmp_path,
        env={**os.environ, "READER_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for shown in ("channel=chat", "channel=email", "2024-10-04", "0.83", "NaN"):
        assert shown in done.stdout


def test_the_manual_names_every_table_and_column() -> None:
    words = set(re.findall(r"`(\w+)`", TABLES_PAGE))
    for table in PUBLISHED:
        assert {table.name, *(column.name for column in table.columns)} <= words, table.name


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
    tries(own_postgres.url(DATABASE), "SET ROLE slicewatch_reporter; SELECT 1 FROM published_rate")
    with pytest.raises(DENIED):
        tries(own_postgres.url(DATABASE), "SET ROLE slicewatch_reporter; SELECT 1 FROM counts")
