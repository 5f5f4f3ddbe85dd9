"""The database away, locked or full, in the middle of a transaction: told, waited for, exact."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import lesson
import psycopg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from kafka_broker import KafkaBroker
from pipeline import DECISIONS, Pipeline, total
from postgres import PostgresServer
from running import Running

from monitor.cli import cli
from monitor.shard_status import ConsumerState
from monitor.store import database

pytestmark = pytest.mark.full

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
HOUR = 3_600_000_000
OBSTACLES = """
CREATE TABLE obstacle (kind TEXT);
CREATE FUNCTION hinder() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM obstacle WHERE kind = 'full') THEN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM obstacle WHERE kind = 'slow') THEN
        PERFORM pg_sleep(60);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON delta FOR EACH ROW EXECUTE FUNCTION hinder();
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON delta
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle();
"""
"""What a test can put in the way of a flush: a full disk, and a commit that takes a minute."""
COMMITTING = "query = 'COMMIT' AND wait_event = 'PgSleep'"


def events(first: int, count: int) -> tuple[list[bytes], list[bytes]]:
    """Decisions, and a label for each."""
    attributes = {"language_variety": "formal", "channel": "chat"}
    keys = [f"d{first + number}" for number in range(count)]
    decisions = [lesson.decision(key, lesson.START, 0.8, attributes=attributes) for key in keys]
    labels = [lesson.label(key, lesson.START, True) for key in keys]
    return [json.dumps(d).encode() for d in decisions], [json.dumps(x).encode() for x in labels]


class Site:
    """A service on Kafka and PostgreSQL, its traffic, and what was sent so far."""

    def __init__(self, broker: KafkaBroker, server: PostgresServer, name: str, folder: Path):
        self.sent = 0
        self._broker, self._server, self._name = broker, server, name
        self.url = server.create_database("incidents")
        environment = {
            "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
            "SLICEWATCH__STREAM__DECISIONS_TOPIC": f"{name}-d",
            "SLICEWATCH__STREAM__LABELS_TOPIC": f"{name}-l",
            "SLICEWATCH__STREAM__GROUP_ID": name,
            "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
            "SLICEWATCH__STORE__URL": self.url,
        }
        CliRunner(env=environment).invoke(
            cli, ["db", "migrate", "-s", str(SETTINGS)], catch_exceptions=False
        )
        self.sql(OBSTACLES)
        for topic in ("d", "l"):
            broker.create_topic(f"{name}-{topic}", 2)
        self.service = Running(folder, ["run", "--settings", str(SETTINGS)], environment)

    def sql(self, text: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text)
            return list(cursor.fetchall()) if cursor.description else []

    def send(self, count: int = 40) -> None:
        decisions, labels = events(self.sent, count)
        self._broker.produce(f"{self._name}-d", decisions)
        self._broker.produce(f"{self._name}-l", labels)
        self.sent += count

    def counts(self) -> tuple[int, int]:
        """(decisions, labelled) that the evaluator has folded."""
        sums = "coalesce(sum(n), 0), coalesce(sum(labelled), 0)"
        ((decisions, labelled),) = self.sql(f"SELECT {sums} FROM counts WHERE grain = {HOUR}")
        return int(str(decisions)), int(str(labelled))

    def settle(self) -> None:
        """Everything that was sent is counted, once."""
        sent = (self.sent, self.sent)
        self.service.until(lambda: self.counts() == sent, f"{sent} counted, not {self.counts()}")

    def failures(self) -> float:
        return self.service.value("slicewatch_store_write_failures_total") or 0.0

    def state(self, name: str) -> bool:
        return self.service.value("slicewatch_consumer_state", state=name) == 1

    def suffer(self, obstacle: str, act: Callable[[], None]) -> None:
        """Put an obstacle in the way of a flush, ``act`` once it is met, and see it noticed."""
        before = self.failures()
        self.sql(f"INSERT INTO obstacle VALUES ('{obstacle}')")
        self.send()
        act()
        self.service.until(lambda: self.failures() > before, "a failed write")

    def clear(self) -> None:
        """Take the obstacle away from all flushes to come: the next try must not meet it again."""
        self.sql("DELETE FROM obstacle")

    def recover(self) -> None:
        self.clear()
        self.send()
        self.settle()
        self.service.until(lambda: self.service.get("/readyz")[0] == 200, "ready")

    def until_committing(self) -> None:
        query = f"SELECT pid FROM pg_stat_activity WHERE {COMMITTING}"
        self.service.until(lambda: bool(self.sql(query)), "a flush in the middle of its commit")


@pytest.fixture
def site(
    apache: KafkaBroker, own_postgres: PostgresServer, topic_name: str, tmp_path: Path
) -> Iterator[Site]:
    site = Site(apache, own_postgres, topic_name, tmp_path)
    with site.service:
        yield site


def test_postgresql_fails_in_the_middle_of_a_commit(
    site: Site, own_postgres: PostgresServer
) -> None:
    site.send()
    site.settle()

    def terminate() -> None:
        site.until_committing()
        site.clear()
        site.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {COMMITTING}")

    site.suffer("slow", terminate)
    site.recover()

    def crash() -> None:
        site.until_committing()
        site.clear()
        own_postgres.stop("immediate")

    site.suffer("slow", crash)
    site.service.until(lambda: site.service.get("/readyz")[0] == 503, "not ready")
    site.service.until(lambda: site.state("paused"), "the state")
    own_postgres.start()
    site.recover()

    site.suffer("full", lambda: None)
    site.service.until(lambda: site.state("paused"), "the state")
    assert "No space left" in site.service.log.read_text()
    site.recover()
    lines = site.service.log.read_text().splitlines()
    told = [line for line in lines if "consumption pauses" in line]
    assert len(told) == 3, "one line for each incident"


# SQLite, where the file can be locked by another process, or its disk be full.


def values(first: int, count: int) -> list[bytes]:
    return events(first, count)[0]


def locked(path: Path) -> sqlite3.Connection:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_sqlite_locked_by_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.1)
    with Pipeline(tmp_path) as pipeline:
        pipeline.broker.produce(DECISIONS, values(0, 10))
        worker = pipeline.worker()
        pipeline.drain()
        pipeline.broker.produce(DECISIONS, values(10, 10))
        with closing(locked(pipeline.path)):
            for _ in range(6):
                pipeline.step(worker)
            assert worker.health.state(pipeline.clock.monotonic()) is ConsumerState.PAUSED
            assert pipeline.seen.failures > 1
        pipeline.drain()
        assert worker.health.ready(pipeline.clock.monotonic()) == (True, "ok")
        assert total(pipeline.statuses(), DECISIONS, "counted") == 20
        pipeline.check_conservation()
    assert caplog.text.count("consumption pauses") == 1


def test_sqlite_on_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Pipeline(tmp_path) as pipeline:
        pipeline.broker.produce(DECISIONS, values(0, 10))
        worker = pipeline.worker()
        pipeline.drain()
        limit_pages(pipeline.engine, 1)  # never less than there are
        pipeline.broker.produce(DECISIONS, values(10, 5000))
        until(lambda: not worker.health.store_ok, lambda: pipeline.step(worker))
        assert worker.health.state(pipeline.clock.monotonic()) is ConsumerState.PAUSED
        assert "database or disk is full" in caplog.text
        for _ in range(10):
            pipeline.step(worker)
        limit_pages(pipeline.engine, 1 << 30)
        pipeline.drain()
        assert total(pipeline.statuses(), DECISIONS, "counted") == 5010
        pipeline.check_conservation()
        pipeline.fold()
        with pipeline.engine.connect() as connection:
            counted = connection.execute(
                sa.text(f"SELECT sum(n) FROM counts WHERE grain = {HOUR}")
            ).scalar()
        assert counted == 5010


def limit_pages(engine: sa.Engine, pages: int) -> None:
    """Let the file grow to so many pages; the limit is the connection's."""
    with engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")


def until(good: Callable[[], bool], step: Callable[[], None]) -> None:
    deadline = time.monotonic() + 30
    while not good():
        assert time.monotonic() < deadline
        step()
