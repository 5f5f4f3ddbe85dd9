"""The database goes back in time under a running evaluator: a restore, a standby that lagged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import lesson
import pytest
import sqlalchemy as sa
from pipeline import DECISIONS, Pipeline
from postgres import PostgresServer
from psycopg import sql

from consumers.reconcile import REVIEW_SECONDS
from monitor.core.publish.snapshot import decode
from monitor.core.time import SECOND
from monitor.errors import StoreError
from monitor.evaluate.evaluator import Evaluator
from monitor.evaluate.memory import Memory
from monitor.service import Parts, Service
from monitor.store.evaluator import lease as fencing
from monitor.store.evaluator.store import EvaluatorStore

pytestmark = pytest.mark.full


class Past:
    """Keeps the state of a pipeline's database, and brings it back under its open engine."""

    def __init__(self, pipeline: Pipeline, server: PostgresServer | None) -> None:
        self._pipeline = pipeline
        self._server = server
        self._file = pipeline.path.with_name("kept.db")
        self._name = str(pipeline.engine.url.database)

    def keep(self) -> None:
        if self._server is None:
            _copy_file(self._pipeline.path, self._file)
        else:
            self._pipeline.engine.dispose()  # nobody may be connected to what is copied
            _copy_database(self._server, self._name, f"{self._name}_kept")

    def come_back(self) -> None:
        if self._server is None:
            _copy_file(self._file, self._pipeline.path)
        else:
            self._server.drop_database(self._name)
            _copy_database(self._server, f"{self._name}_kept", self._name)

    def forget(self) -> None:
        if self._server is not None:
            self._server.drop_database(f"{self._name}_kept")


def _copy_file(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _copy_database(server: PostgresServer, source: str, target: str) -> None:
    names = map(sql.Identifier, (target, source))
    server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))


@pytest.fixture(params=["sqlite", "postgresql"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    url = {"store__url": request.getfixturevalue("postgres_url")}
    with Pipeline(tmp_path, **(url if request.param == "postgresql" else {})) as pipeline:
        pipeline.worker()
        yield pipeline


@pytest.fixture
def past(pipeline: Pipeline, request: pytest.FixtureRequest) -> Iterator[Past]:
    on_server = pipeline.engine.dialect.name == "postgresql"
    past = Past(pipeline, request.getfixturevalue("postgres") if on_server else None)
    yield past
    past.forget()


def send(pipeline: Pipeline, channel: str, keys: str) -> None:
    """One decision a letter, an hour after the letter before it; read and stored."""
    attributes = {"language_variety": "formal", "channel": channel}
    times = [lesson.START + (ord(key) - ord("a")) * timedelta(hours=1) for key in keys]
    events = [
        lesson.decision(key, at, 0.8, attributes=attributes)
        for key, at in zip(keys, times, strict=True)
    ]
    pipeline.broker.produce(DECISIONS, [json.dumps(event).encode() for event in events])
    pipeline.drain()


def read_again(pipeline: Pipeline) -> None:
    """Nothing new comes; the worker finds out that the database lacks what it had stored."""
    (worker,) = pipeline.workers
    for _ in range(int(REVIEW_SECONDS) + 5):
        pipeline.step(worker, 1.0)
    assert pipeline.drained()


def decided(pipeline: Pipeline) -> int:
    return sum(row["n"] for cell, row in pipeline.counts().items() if cell[0] == "1h")


def check_snapshot(pipeline: Pipeline, evaluator: Evaluator) -> None:
    """What was published is what one who begins from the store would publish."""
    evaluator.release_lease()
    published = pipeline.snapshot()
    pipeline.fold()
    assert pipeline.snapshot() == published


@pytest.mark.parametrize("channel", ["chat", "email"], ids=["known cell", "new cell"])
def test_what_is_read_again_is_folded_again(pipeline: Pipeline, past: Past, channel: str) -> None:
    """The deltas have the numbers of those that were folded, and other events in them."""
    evaluator = pipeline.evaluator()
    send(pipeline, "chat", "ab")
    assert evaluator.cycle()
    past.keep()
    send(pipeline, channel, "cd")
    assert evaluator.cycle()
    past.come_back()
    send(pipeline, channel, "e")
    assert not evaluator.cycle()
    assert evaluator.cycle()
    assert decided(pipeline) == 5
    check_snapshot(pipeline, evaluator)


def test_nothing_new_need_come_for_that(pipeline: Pipeline, past: Past) -> None:
    evaluator = pipeline.evaluator()
    send(pipeline, "chat", "ab")
    assert evaluator.cycle()
    past.keep()
    send(pipeline, "email", "cd")
    assert evaluator.cycle()
    past.come_back()
    read_again(pipeline)
    assert not evaluator.cycle()
    assert evaluator.cycle()
    assert decided(pipeline) == 4
    check_snapshot(pipeline, evaluator)


@pytest.mark.parametrize("lost", ["cell", "atom"])
def test_a_cell_without_a_meaning_waits_for_it(pipeline: Pipeline, lost: str) -> None:
    """One worker's rows are lost with its offset, while another one's counts rely on them."""
    evaluator = pipeline.evaluator()
    send(pipeline, "chat", "ab")
    with pipeline.engine.begin() as connection:
        rows = connection.execute(sa.text(f"DELETE FROM {lost} RETURNING *")).mappings().all()
    for _ in range(2):
        with pytest.raises(StoreError, match="does not say what a counted cell means"):
            evaluator.cycle()
    with pipeline.engine.begin() as connection:
        columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in rows[0]]
        connection.execute(sa.insert(sa.table(lost, *columns)), [dict(row) for row in rows])
    assert evaluator.cycle()
    assert decided(pipeline) == 2


@pytest.mark.parametrize("failed", [False, True], ids=["unnoticed", "with a failure"])
def test_the_page_shows_what_the_database_has(
    pipeline: Pipeline, past: Past, monkeypatch: pytest.MonkeyPatch, failed: bool
) -> None:
    service = Service(pipeline.settings, Parts(ingest=False), clock=pipeline.clock)
    try:
        send(pipeline, "chat", "ab")
        service.evaluate_once()
        service.engine.dispose()
        past.keep()
        send(pipeline, "chat", "cd")
        service.evaluate_once()
        past.come_back()
        if failed:
            with monkeypatch.context() as patch:
                patch.setattr(service.evaluator, "cycle", _away)
                service.evaluate_once()
            send(pipeline, "chat", "efg")
            service.evaluator.release_lease()
            pipeline.fold()  # the Snapshot has the number of the one that was shown
        service.evaluate_once()
        published = pipeline.snapshot()
        assert published is not None
        assert service.snapshot == decode(published)
    finally:
        service.stop()


def _away() -> bool:
    raise StoreError("away")


@pytest.mark.parametrize(("owner", "slow"), [(Memory, "load"), (Evaluator, "_make_tables")])
def test_replicas_that_take_longer_than_the_lease_do_not_keep_each_other_out(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, owner: type, slow: str
) -> None:
    """At the worst moment: whenever one has worked for a while, the other one takes over."""
    monkeypatch.setattr(fencing, "database_now", lambda _: pipeline.clock.now())
    send(pipeline, "chat", "ab")
    evaluator, other = pipeline.evaluator(), EvaluatorStore(pipeline.engine, DECISIONS)
    real, lease = getattr(owner, slow), pipeline.settings.evaluate.lease

    def take_long(*arguments: Any) -> Any:
        done = real(*arguments)
        pipeline.clock.seconds += lease / SECOND + 1
        other.lease.acquire("other", lease)
        return done

    monkeypatch.setattr(owner, slow, take_long)
    assert not evaluator.cycle()
    pipeline.clock.seconds += lease / SECOND + 1  # the other one took as long
    assert evaluator.cycle()
    assert decided(pipeline) == 2
