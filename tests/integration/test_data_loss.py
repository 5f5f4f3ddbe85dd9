"""Data that is gone from the broker parks its shard alone, until a person gives it an offset."""

from __future__ import annotations

import json
from pathlib import Path

import lesson
import pytest
from brokers import Broker
from click.testing import CliRunner
from kafka import KafkaAdminClient, TopicPartition
from kafka_broker import KafkaBroker
from running import Running

from monitor.cli import cli

pytestmark = pytest.mark.full

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"


def send(broker: Broker, topic: str, partition: int, count: int, first: int) -> None:
    attributes = {"language_variety": "formal", "channel": "chat"}
    events = [
        json.dumps(
            lesson.decision(f"{partition}-{first + i}", lesson.START, 0.9, attributes=attributes)
        ).encode()
        for i in range(count)
    ]
    broker.produce(topic, events, partition=partition)


def test_a_truncated_partition_parks_alone_and_resumes(
    apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    decisions, labels = f"{topic_name}-d", f"{topic_name}-l"
    apache.create_topic(decisions, 2)
    apache.create_topic(labels, 1)
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": apache.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": decisions,
        "SLICEWATCH__STREAM__LABELS_TOPIC": labels,
        "SLICEWATCH__STREAM__GROUP_ID": topic_name,
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
    }

    def consumed(service: Running, partition: int) -> float | None:
        return service.value(
            "slicewatch_messages_consumed_total", topic=decisions, partition=str(partition)
        )

    arguments = ["run", "--settings", str(SETTINGS)]
    send(apache, decisions, 0, 5, 0)
    send(apache, decisions, 1, 5, 0)
    with Running(tmp_path, arguments, environment) as service:
        service.until(lambda: (consumed(service, 0), consumed(service, 1)) == (5, 5), "all five")
    send(apache, decisions, 0, 10, 5)
    send(apache, decisions, 1, 3, 5)
    admin = KafkaAdminClient(bootstrap_servers=apache.bootstrap)
    admin.delete_records({TopicPartition(decisions, 0): 8})
    admin.close()
    with Running(tmp_path, arguments, environment) as service:
        service.until(lambda: consumed(service, 1) == 8, "the other partition goes on")
        service.until(
            lambda: service.value("slicewatch_consumer_state", state="parked") == 1, "parked"
        )
        assert service.get("/readyz")[0] == 503
        assert consumed(service, 0) in (None, 5)
        said = CliRunner(env=environment).invoke(
            cli,
            ["db", "resume-from", decisions, "0", "8", "-s", str(SETTINGS), "--reason", "cut"],
            standalone_mode=False,
        )
        assert said.output == f"{decisions}/0 was at 5, continues at 8\n"
        service.until(lambda: consumed(service, 0) == 12, "the rest of the partition")
        imbalance = [
            value
            for (name, labels_), value in service.metrics().items()
            if name == "slicewatch_conservation_imbalance" and dict(labels_)["topic"] == decisions
        ]
        assert imbalance
        assert not any(imbalance)
        service.until(lambda: service.get("/readyz")[0] == 200, "ready again", seconds=90)
    assert service.log.read_text().count("shard is parked") == 1
