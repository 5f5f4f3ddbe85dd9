"""The producer's side against a real broker: the examples of its page, its transports, a router."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from brokers import Broker
from free_ports import free_port
from kafka_broker import KafkaBroker
from running import Running

from consumers.events import Decision, Label
from consumers.producing import AuditSampler, Producer, Topics, confluent, kafka_python, transports
from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_writer import KafkaWriter
from monitor.errors import MissingTopicError, SourceError
from monitor.records import Record
from monitor.store import database
from monitor.store.shard_rows import read_statuses

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "deploy" / "docs" / "producers.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROUTER = ROOT / "deploy" / "examples" / "judge_router"
WAIT = 120.0
DECISION: dict[str, Any] = {
    "decided_at": "2026-06-01T10:00:00Z",
    "route": "auto_serve",
    "evidence_passed": True,
    "attributes": {"channel": "chat"},
}
LABEL: dict[str, Any] = {
    "decision_id": "before",
    "decided_at": DECISION["decided_at"],
    "version": 1,
    "ready": True,
    "kind": "initial",
    "reason": "audit",
    "reviewer": "h-7",
    "labelled_at": "2026-06-01T12:00:00Z",
}


@pytest.fixture
def topics(kafka: Broker, topic_name: str) -> Topics:
    made = Topics(f"{topic_name}-d", f"{topic_name}-l")
    for name in (made.decisions, made.labels):
        kafka.create_topic(name, 4)
    return made


def example(containing: str) -> str:
    found: list[str] = [one for one in EXAMPLES if containing in one]
    (text,) = found
    return text


def run_example(text: str, broker: Broker, topics: Topics) -> str:
    """Run an example of the page as it stands, but for the broker and its topics."""
    named = f"Topics({topics.decisions!r}, {topics.labels!r})"
    text = text.replace(
        'kafka_python("localhost:9092")', f'kafka_python("localhost:9092", {named})'
    )
    text = text.replace("localhost:9092", broker.bootstrap)
    text = text.replace('"decisions"', f'"{topics.decisions}"')
    script = f"from consumers.producing import Topics\n{text}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_of_the_module_sends_a_decision_and_its_label(
    kafka: Broker, topics: Topics
) -> None:
    printed = run_example(example("AuditSampler(auto_serve"), kafka, topics)
    requested = AuditSampler(auto_serve=0.05).draw("d-1", "auto_serve").label_requested
    assert printed == ("ask a reviewer about d-1\n" if requested else "")
    (decision,) = kafka.consume(topics.decisions, 1)
    event = msgspec.json.decode(decision.value, type=Decision)
    assert (decision.key, event.decision_id, event.audit_p) == (b"d-1", "d-1", 0.05)
    assert event.label_requested == requested
    (label,) = kafka.consume(topics.labels, 1)
    assert msgspec.json.decode(label.value, type=Label).decision_id == "d-1"
    assert label.key == b"d-1"


def test_both_clients_write_in_order_and_choose_the_same_partitions(
    kafka: Broker, topics: Topics
) -> None:
    """A copy of a decision is recognised only in the partition of the first one."""
    for connect in (kafka_python(kafka.bootstrap, topics), confluent(kafka.bootstrap, topics)):
        with Producer(connect, AuditSampler(0.5)) as producer:
            for i in range(40):
                producer.decision(DECISION, decision_id=f"d-{i}")
            assert producer.close(WAIT)
        assert producer.counts.sent == 40
    records = kafka.consume(topics.decisions, 80)
    assert len(records) == 80
    chosen: dict[bytes, set[int]] = {}
    for record in records:
        chosen.setdefault(record.key, set()).add(record.partition)
    assert len(chosen) == 40
    assert all(len(one) == 1 for one in chosen.values())
    assert len(set().union(*chosen.values())) > 1
    for partition in range(4):
        keys = [int(one.key[2:]) for one in records if one.partition == partition]
        assert keys == [*sorted(keys[: len(keys) // 2])] * 2


@pytest.mark.parametrize("client", ["kafka_python", "confluent"])
def test_a_broker_that_is_away_makes_no_router_wait(client: str) -> None:
    """Nobody listens there: every call returns, and what is lost is counted."""
    script = (
        "from consumers.producing import *\n"
        f"producer = Producer({client}('127.0.0.1:{free_port()}'), AuditSampler(0.5), buffer=50)\n"
        f"taken = [producer.decision({DECISION}, decision_id=i).buffered for i in range(200)]\n"
        "print(sum(taken), producer.close(timeout=0.5), producer.counts)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 0, done.stderr
    counts = "EventCounts(sent=0, failed=0, dropped=200, invalid=0, waiting=0)"
    assert done.stdout == f"50 False {counts}\n"


@pytest.mark.full
def test_a_router_goes_on_while_its_broker_is_away_and_loses_nothing_that_fits(
    own_kafka: KafkaBroker, topic_name: str
) -> None:
    own_kafka.create_topic(topic_name, 1)
    connect = kafka_python(own_kafka.bootstrap, Topics(topic_name, "labels"))
    producer = Producer(connect, AuditSampler(0.5))
    done = threading.Event()
    producer.decision(DECISION, decision_id="before")
    _until(lambda: producer.sent == 1)
    own_kafka.kill()
    for i in range(100):
        assert producer.decision(DECISION, decision_id=f"away-{i}").buffered
    own_kafka.restart()
    _until(lambda: producer.sent == 101, done)
    assert producer.close(WAIT)
    keys = {one.key.decode() for one in own_kafka.consume(topic_name, 101)}
    assert keys == {"before", *(f"away-{i}" for i in range(100))}


def _until(good: Any, waiter: threading.Event | None = None) -> None:
    waiter = waiter or threading.Event()
    for _ in range(int(3 * WAIT / 0.1)):
        if good():
            return
        waiter.wait(0.1)
    raise AssertionError("not in time")


def _processor_seconds(wait: float = 2.0) -> float:
    """Processor time that the threads of this process use while this one waits."""
    before = time.process_time()
    time.sleep(wait)
    return time.process_time() - before


def test_a_topic_that_is_deleted_costs_a_writer_neither_its_other_topic_nor_a_processor(
    apache: KafkaBroker, topics: Topics
) -> None:
    both = [topics.decisions, topics.labels]
    writer = KafkaWriter(KafkaConnection((apache.bootstrap,)), both, patience=2.0)

    def write(topic: str) -> None:
        writer.write([Record(topic, b"key", b"value")])

    for topic in both:
        write(topic)
    apache.delete_topic(topics.labels)
    with pytest.raises(SourceError, match=topics.labels):
        write(topics.labels)  # the client believes in the topic still: the record waits
    assert _processor_seconds() < 0.1
    with pytest.raises(MissingTopicError):
        write(topics.labels)
    write(topics.decisions)
    apache.create_topic(topics.labels, 1)
    write(topics.labels)
    writer.close()
    assert sum(apache.end_offsets(topics.decisions).values()) == 2
    assert sum(apache.end_offsets(topics.labels).values()) == 1


@pytest.mark.full
def test_a_topic_that_is_deleted_costs_a_producer_neither_its_decisions_nor_a_processor(
    apache: KafkaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "SECONDS", 2.0)
    producer = Producer(kafka_python(apache.bootstrap, topics), AuditSampler(0.5))
    producer.label(LABEL, label_id="before")
    _until(lambda: producer.sent == 1)
    apache.delete_topic(topics.labels)
    producer.label(LABEL, label_id="after")  # the client believes in the topic still
    producer.decision(DECISION, decision_id="after")
    _until(lambda: producer.sent == 2)
    time.sleep(4.0)
    assert _processor_seconds() < 0.2, "it only looks for the topic, every second or two"
    apache.create_topic(topics.labels, 1)
    _until(lambda: producer.sent == 3)
    assert producer.close(WAIT)


def test_a_toy_router_comes_from_an_empty_folder_to_a_number_on_the_page(
    apache: KafkaBroker, topics: Topics, topic_name: str, tmp_path: Path
) -> None:
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": apache.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topics.decisions,
        "SLICEWATCH__STREAM__LABELS_TOPIC": topics.labels,
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-8:],
        "SLICEWATCH__SERVER__PRODUCERS": "anonymous",
        "SLICEWATCH__STORE__URL": (url := f"sqlite:///{tmp_path}/store.db"),
    }
    settings = str(ROUTER / "slicewatch.toml")
    command = [sys.executable, str(ROUTER / "router.py"), "--bootstrap", apache.bootstrap]
    command += ["--decisions-topic", topics.decisions, "--labels-topic", topics.labels]
    with Running(tmp_path, ["run", "--settings", settings], environment) as service:
        done = subprocess.run(
            [*command, "--requests", "4000", "--seed", "5"],
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        sent = int(re.findall(r"sent=(\d+)", done.stdout)[0])
        assert re.findall(r"(?:failed|dropped|invalid|waiting)=(\d+)", done.stdout) == ["0"] * 4
        service.until(lambda: service.get("/livez")[0] == 200, "the service answers")
        service.until(lambda: _counted(url) == sent, "all events counted")
        service.until(lambda: _shown(service) is not None, "a TPR on the page")

        def told() -> bool:
            """Not at once: the first Snapshot may have some of the events, and be replaced."""
            shown = _shown(service)
            status, page = service.get("/")
            # Of replies that are good, those that score 0.70 or more, or about 88.5 of 100.
            return (
                shown is not None
                and abs(shown - 0.885) < 0.06
                and (status, "toy-replies" in page) == (200, True)
                and f"{100 * shown:.1f}".removesuffix(".0") in page
            )

        service.until(told, "the page tells the same TPR of all of them")

        # Over HTTP it comes to the same partition as by a Kafka client, and is no second decision.
        answer = json.loads(_posted(service))
        assert answer == {"written": 1, "refused": 0, "events": []}
        service.until(lambda: _counted(url) == sent + 1, "the event that was posted")
        again = Producer(kafka_python(apache.bootstrap, topics))
        again.decision(
            next(one for one in _decisions(apache, topics) if one["decision_id"] == "d-2")
        )
        assert again.close(WAIT)
        service.until(lambda: _counted(url, "duplicates") == 1, "a copy that is recognised")


def _posted(service: Running) -> str:
    """Return the answer to the page's example, of a decision that was just made."""
    (text,) = re.findall(r"^```sh\n(curl .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    text = text.replace("localhost:9095", f"127.0.0.1:{service.port}")
    text = text.replace("2026-06-01T10:05:00Z", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    done = subprocess.run(
        ["sh", "-c", text], capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _decisions(broker: Broker, topics: Topics) -> list[dict[str, Any]]:
    total = sum(broker.end_offsets(topics.decisions).values())
    return [json.loads(one.value) for one in broker.consume(topics.decisions, total)]


def _counted(url: str, what: str = "events") -> int:
    """Events that every partition has read, exactly; the metrics have them in hundreds."""
    engine = database.create_engine(url)
    try:
        return sum(getattr(one.tallies, what) for one in read_statuses(engine))
    finally:
        engine.dispose()


def _shown(service: Running) -> float | None:
    return service.value(
        "slicewatch_slice_rate_ratio", metric="tpr", window="24h", group_by="", slice=""
    )
