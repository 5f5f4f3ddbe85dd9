"""The service's own threads: what they do before anything has come, and when they are stopped."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import lesson
import psycopg
import pytest
import sqlalchemy as sa
from brokers import Broker
from free_ports import free_port
from memory_source import MemoryBroker, MemorySource
from pipeline import ManualClock, settings_with
from running import Running

from monitor.clock import SystemClock
from monitor.composition.store import open_store
from monitor.service import Parts, Service
from monitor.settings import load
from monitor.store import database
from monitor.store.evaluator.records import RecordStore
from monitor.store.schema import dead_letter, lease

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"

EVENT = json.dumps(lesson.decision("d", datetime(2026, 6, 1, tzinfo=UTC), 0.8)).encode()


def test_what_ages_by_the_wall_clock_goes_before_any_event_time_is_known(tmp_path: Path) -> None:
    service = Service(settings_with(tmp_path, server__listen="127.0.0.1:0"), Parts(ingest=False))
    old = {c.name: "" if isinstance(c.type, sa.Text) else 0 for c in dead_letter.columns}
    with database.writing(service.engine) as connection:
        connection.execute(sa.insert(dead_letter).values(old))
    assert RecordStore(service.engine).slowest_event_time() is None
    service.evaluate_once()
    assert RecordStore(service.engine).dead_letters(1) == []
    service.stop()


@pytest.mark.full
def test_a_stop_signal_ends_a_service_whose_evaluation_waits(
    postgres_url: str, tmp_path: Path
) -> None:
    environment = {"SLICEWATCH__STORE__URL": postgres_url}
    engine = database.create_engine(postgres_url)
    database.migrate(engine)
    open_store(load(SETTINGS, environment), SystemClock()).dispose()
    with database.writing(engine) as connection:
        connection.execute(sa.insert(lease).values(role="evaluator", epoch=0, until=0))
    engine.dispose()
    with psycopg.connect(postgres_url) as other, psycopg.connect(postgres_url) as looking:
        other.execute("UPDATE lease SET epoch = epoch")
        looking.autocommit = True
        waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'lease'"
        with Running(tmp_path, ["serve", "--settings", str(SETTINGS)], environment) as service:
            service.until(lambda: bool(looking.execute(waits).fetchall()), "a cycle that waits")
            # The lock is held until then: what waits for it must be abandoned, after 8 s. How long
            # the rest takes is the machine's.
            assert service.stop() == 0


def test_events_are_taken_where_they_are_ingested_and_nowhere_else(tmp_path: Path) -> None:
    settings = settings_with(
        tmp_path,
        server__listen="127.0.0.1:0",
        server__producers="anonymous",
        stream__bootstrap_servers=f"127.0.0.1:{free_port()}",
    )
    topics = settings.stream.decisions_topic, settings.stream.labels_topic
    source = MemorySource(MemoryBroker(dict.fromkeys(topics, 1)), topics)
    posted = {}
    for name, parts in (("ingest", Parts(serve=False)), ("serve", Parts(ingest=False))):
        service = Service(settings, parts, source=lambda _: source)
        service.start()
        try:
            posted[name] = post(service.port, b'{"decision_id": 1}'), post(service.port, EVENT)
        finally:
            service.stop()
    # The first is no decision, and no broker is asked; the second needs one, and none is there.
    assert posted == {"ingest": (422, 503), "serve": (404, 404)}


def test_a_database_that_is_removed_is_told_by_whoever_writes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_with(tmp_path, server__listen="127.0.0.1:0", stream__clock="history")
    topics = settings.stream.decisions_topic, settings.stream.labels_topic
    broker, clock = MemoryBroker(dict.fromkeys(topics, 1)), ManualClock()
    source = MemorySource(broker, topics)
    service = Service(settings, clock=clock, source=lambda _: source)
    ingest = service.ingest
    assert ingest is not None
    ingest.register()

    def turn() -> None:
        broker.produce(topics[0], [EVENT])
        for _ in range(5):
            clock.seconds += 10
            ingest.step(0)

    turn()
    service.evaluate_once()
    assert service.ready() == (True, "ok")
    (tmp_path / "store.db").unlink()
    turn()
    assert service.ready() == (False, "the store cannot be written")
    service.evaluate_once()
    assert "files of the database were removed or replaced" in service.ready()[1]
    lines = [one.getMessage() for one in caplog.records if "store.db was removed" in one.message]
    assert [one.split(":")[0] for one in lines] == [
        *("store failed, consumption pauses", "evaluation failed, it is tried again every cycle")
    ]
    assert not (tmp_path / "store.db").exists(), "nobody made an empty one"
    service.stop()


def post(port: int, body: bytes) -> int:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/events", body, headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=30)
    caught.value.close()
    return caught.value.code


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_a_port_that_is_taken_ends_a_worker_at_once(
    kafka: Broker, topic_name: str, tmp_path: Path, client: str
) -> None:
    """A librdkafka client of a static member that is not closed would keep the process for good."""
    topics = {kind: f"{topic_name}-{kind}" for kind in ("DECISIONS", "LABELS")}
    for name in topics.values():
        kafka.create_topic(name, partitions=4)
    environment = {f"SLICEWATCH__STREAM__{kind}_TOPIC": name for kind, name in topics.items()}
    environment |= {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "SLICEWATCH__STREAM__CLIENT": client,
        "SLICEWATCH__STREAM__INSTANCE": "ingest-0",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
    }
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        environment["SLICEWATCH__SERVER__LISTEN"] = f"127.0.0.1:{taken.getsockname()[1]}"
        with Running(tmp_path, ["ingest", "--settings", str(SETTINGS)], environment) as worker:
            assert worker.process.wait(60) == 2
    assert "server.listen: cannot listen on" in worker.log.read_text()
