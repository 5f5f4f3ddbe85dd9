"""Incidents of a real broker: each has a state, a metric, one log line and a way on.

Deadlines of half a minute and more are waited for on a clock that runs faster (``hurried``).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import lesson
import pytest
from brokers import Broker
from click.testing import CliRunner
from hurried import HurriedService
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka_broker import KafkaBroker, kafka_libraries
from running import Running

from monitor.cli import cli

pytestmark = pytest.mark.full

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
ARGUMENTS = ["run", "--settings", str(SETTINGS)]
RECEIVED_BYTES = 128 << 20
"""What the client receives at most in one answer."""


def environment_of(broker: Broker, name: str, folder: Path) -> dict[str, str]:
    return {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": f"{name}-d",
        "SLICEWATCH__STREAM__LABELS_TOPIC": f"{name}-l",
        "SLICEWATCH__STREAM__GROUP_ID": name,
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{folder}/store.db",
    }


def decision(key: str) -> bytes:
    attributes = {"language_variety": "formal", "channel": "chat"}
    return json.dumps(lesson.decision(key, lesson.START, 0.9, attributes=attributes)).encode()


def label(key: str) -> bytes:
    return json.dumps(lesson.label(key, lesson.START, True)).encode()


def decisions(broker: Broker, topic: str, partition: int, numbers: range) -> None:
    broker.produce(topic, [decision(f"{partition}-{n}") for n in numbers], partition=partition)


def counted(service: Running | HurriedService, topic: str, partition: int = 0) -> float | None:
    where = {"topic": topic, "partition": str(partition)}
    return service.value("slicewatch_events_total", **where, outcome="counted")


def parked(service: Running | HurriedService, topic: str, partition: int = 0) -> float | None:
    where = {"topic": topic, "partition": str(partition)}
    return service.value("slicewatch_shard_parked", **where)


def state(service: Running | HurriedService, name: str) -> bool:
    return service.value("slicewatch_consumer_state", state=name) == 1


def resume(
    environment: Mapping[str, str], topic: str, partition: int, offset: int, *more: str
) -> None:
    arguments = ["db", "resume-from", topic, str(partition), str(offset), "-s", str(SETTINGS)]
    CliRunner(env=environment).invoke(
        cli,
        [*arguments, "--reason", "a test", *more],
        standalone_mode=False,
        catch_exceptions=False,
    )


def test_a_topic_created_again_parks_its_partitions_alone(
    apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    """The new topic holds more than the old one did: only its identity tells."""
    environment = environment_of(apache, topic_name, tmp_path)
    topic, labels = f"{topic_name}-d", f"{topic_name}-l"
    apache.create_topic(topic, 2)
    apache.create_topic(labels, 1)
    for partition in (0, 1):
        decisions(apache, topic, partition, range(3))
    apache.produce(labels, [label("0-0")])
    with Running(tmp_path, ARGUMENTS, environment) as service:
        service.until(lambda: counted(service, topic, 0) == counted(service, topic, 1) == 3, "all")
        service.until(lambda: counted(service, labels) == 1, "the label")
    apache.delete_topic(topic)
    apache.create_topic(topic, 2)
    for partition in (0, 1):
        decisions(apache, topic, partition, range(100, 105))
    apache.produce(labels, [label("0-1")])
    with Running(tmp_path, ARGUMENTS, environment) as service:
        service.until(lambda: parked(service, topic, 0) == parked(service, topic, 1) == 1, "parked")
        service.until(lambda: counted(service, labels) == 2, "the other topic goes on")
        service.until(lambda: state(service, "parked"), "the state")
        assert service.get("/readyz")[0] == 503
        assert parked(service, labels) == 0
        resume(environment, topic, 0, 0)
        service.until(lambda: counted(service, topic, 0) == 3 + 5, "the partition that was resumed")
        assert parked(service, topic, 0) == 0
        assert parked(service, topic, 1) == 1, "the other stays parked"
        # Its count as stored is reported with its lag, from the first review on.
        assert counted(service, topic, 1) in (None, 3), "nothing of it was read"
        resume(environment, topic, 1, 2)
        service.until(lambda: counted(service, topic, 1) == 3 + 3, "the other, from offset 2")
        service.until(lambda: service.get("/readyz")[0] == 200, "ready")
    assert service.log.read_text().count("shard is parked") == 2, "one line for each"


def test_a_topic_that_vanishes_and_comes_back(
    apache: KafkaBroker, topic_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environment = environment_of(apache, topic_name, tmp_path)
    topic, labels = f"{topic_name}-d", f"{topic_name}-l"
    for name in (topic, labels):
        apache.create_topic(name, 1)
    apache.produce(labels, [label("0-0")])
    decisions(apache, topic, 0, range(3))
    with HurriedService(SETTINGS, environment) as service:
        service.until(lambda: counted(service, labels) == 1, "the first label")
        apache.delete_topic(labels)
        service.until(
            lambda: service.why == f"topic {labels} does not exist any more", "the reason"
        )
        service.until(lambda: state(service, "stuck"), "the state")
        decisions(apache, topic, 0, range(3, 5))
        service.until(lambda: counted(service, topic) == 5, "the other topic goes on")
        apache.create_topic(labels, 1)
        apache.produce(labels, [label("0-1"), label("0-2")])
        service.until(lambda: parked(service, labels) == 1, "another topic of the same name")
        assert counted(service, labels) in (None, 1), "nothing of it was read"
        resume(environment, labels, 0, 0)
        service.until(lambda: counted(service, labels) == 3, "it goes on")
        service.until(lambda: not service.why, "ready")
    assert caplog.text.count("shard is parked") == 1


@pytest.fixture(scope="module")
def generous(apache: KafkaBroker) -> Iterator[KafkaBroker]:
    """A broker that takes messages no client should have to receive, and deletes at once."""
    broker = KafkaBroker(
        kafka_libraries(),
        {
            "message.max.bytes": str(200 << 20),
            "socket.request.max.bytes": str(200 << 20),
            "log.retention.check.interval.ms": "200",
        },
    )
    yield broker
    broker.close()


def padded(key: str, size: int) -> bytes:
    """A decision in an array, blown up by blanks to a message of this many bytes."""
    event = decision(key)
    return b"[" + event + b" " * (size - len(event) - 2) + b"]"


def send_large(broker: Broker, topic: str, value: bytes) -> None:
    with_room = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        max_request_size=len(value) + (1 << 20),
        request_timeout_ms=240_000,
        delivery_timeout_ms=300_000,
        metrics_enabled=False,
    )
    with_room.send(topic, value, partition=0)
    with_room.flush(timeout=300)
    with_room.close(timeout=5)


def test_a_message_too_large_to_receive_is_named(
    generous: KafkaBroker, topic_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is the very first: the client never learns that there is anything."""
    caplog.set_level(logging.CRITICAL, "kafka")  # it says so hundreds of times a second
    caplog.handler.setLevel(logging.NOTSET)
    environment = environment_of(generous, topic_name, tmp_path)
    topic, labels = f"{topic_name}-d", f"{topic_name}-l"
    generous.create_topic(topic, 1, {"max.message.bytes": str(200 << 20)})
    generous.create_topic(labels, 1)
    send_large(generous, topic, padded("0-0", RECEIVED_BYTES + 1))
    decisions(generous, topic, 0, range(1, 4))
    with HurriedService(SETTINGS, environment, speed=8) as service:
        why = f"messages of {topic}/0 are waiting and none arrive"
        service.until(lambda: why in service.why, "the reason")
        service.until(lambda: state(service, "stuck"), "the state")
        resume(environment, topic, 0, 1, "--force")
        service.until(lambda: counted(service, topic) == 3, "what comes after it")
        service.until(lambda: not service.why, "ready")
    told = [one for one in caplog.records if "too large to receive" in str(vars(one).get("why"))]
    assert [one.getMessage() for one in told] == ["consumer is stuck"]


def delete_by_retention(broker: Broker, topic: str, partition: int, low: int) -> None:
    """Let the broker delete what is older than a moment, until its log begins at ``low``."""
    set_retention(broker, topic, "1")
    where = TopicPartition(topic, partition)
    with KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False) as reader:
        deadline = time.monotonic() + 60
        while reader.beginning_offsets([where])[where] < low:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    set_retention(broker, topic, "-1")


def set_retention(broker: Broker, topic: str, milliseconds: str) -> None:
    """Change it, and wait until the broker knows: what is written next it might delete, too."""
    changed = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": milliseconds})
    broker.admin.alter_configs([changed])
    asked = ConfigResource(ConfigResourceType.TOPIC, topic)
    deadline = time.monotonic() + 60
    while True:
        found = broker.admin.describe_configs([asked], config_filter="all")["topic"][topic]
        if found["retention.ms"]["value"] == milliseconds:
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_retention_that_passes_a_stopped_worker(
    generous: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    environment = environment_of(generous, topic_name, tmp_path)
    topic = f"{topic_name}-d"
    generous.create_topic(topic, 2)
    generous.create_topic(f"{topic_name}-l", 1)
    for partition in (0, 1):
        decisions(generous, topic, partition, range(3))
    with Running(tmp_path, ARGUMENTS, environment) as service:
        service.until(lambda: counted(service, topic, 0) == counted(service, topic, 1) == 3, "all")
    decisions(generous, topic, 0, range(3, 6))
    delete_by_retention(generous, topic, 0, 6)
    for partition in (0, 1):
        decisions(generous, topic, partition, range(6, 8))
    with HurriedService(SETTINGS, environment) as service:
        service.until(lambda: parked(service, topic, 0) == 1, "parked")
        service.until(lambda: counted(service, topic, 1) == 5, "the other goes on: it lost nothing")
        assert parked(service, topic, 1) == 0
        resume(environment, topic, 0, 6)
        service.until(lambda: counted(service, topic, 0) == 3 + 2, "what is left")
