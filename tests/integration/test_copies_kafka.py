"""Copies of decisions on Apache Kafka: what is not recognised counts again, and is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lesson
from kafka_broker import KafkaBroker
from running import Running

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
MANY = 300


def decisions(name: str, first: datetime) -> list[bytes]:
    """Of five minutes, all to be labelled."""
    attributes = {"language_variety": "formal", "channel": "chat"}
    made: list[dict[str, Any]] = [
        lesson.decision(f"{name}-{n}", first + timedelta(seconds=n), 0.9, attributes=attributes)
        for n in range(MANY)
    ]
    return [json.dumps(one).encode() for one in made]


def test_copies_are_told_by_kind(apache: KafkaBroker, topic_name: str, tmp_path: Path) -> None:
    topic, labels = f"{topic_name}-d", f"{topic_name}-l"
    apache.create_topic(topic, 2)
    apache.create_topic(labels, 1)
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": apache.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topic,
        "SLICEWATCH__STREAM__LABELS_TOPIC": labels,
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-40:].strip("-"),
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
    }
    now = datetime.now(UTC).replace(microsecond=0)
    early, later = (
        decisions("a", now - timedelta(hours=3)),
        decisions("b", now - timedelta(hours=1)),
    )

    def total(name: str, **where: str) -> float:
        return sum(
            value
            for (found, having), value in service.metrics().items()
            if found == name and {"topic": topic, **where}.items() <= dict(having).items()
        )

    def again(kind: str) -> float:
        return total("slicewatch_duplicates_counted_total", kind=kind)

    def counted() -> float:
        return total("slicewatch_events_total", outcome="counted")

    with Running(tmp_path, ["run", "--settings", str(SETTINGS)], environment) as service:
        apache.produce(topic, early, partition=0)
        apache.produce(topic, early, partition=0)
        service.until(lambda: counted() == MANY, "recognised within the window")
        service.until(lambda: total("slicewatch_events_total", outcome="duplicate") == MANY, "told")
        assert (again("late"), again("cross_partition")) == (0, 0)
        apache.produce(topic, early, partition=1)
        service.until(lambda: again("cross_partition") == MANY, "copies of another partition")
        apache.produce(topic, [*later, *early], partition=0)
        service.until(lambda: again("late") == MANY, "copies after the window")
        assert again("cross_partition") == MANY
        assert counted() == 4 * MANY, "which count again"
        assert service.get("/readyz")[0] == 200
