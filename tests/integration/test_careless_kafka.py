"""Careless producers on Apache Kafka: only a field that is read can lose a decision."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lesson
from kafka_broker import KafkaBroker
from running import Running

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
UNREAD = [b"NaN", b"-Infinity", b'"\\ud83d"', b'"\xff"', b'{"a": 1, "a": NaN}', b"1e999", b"1"]
EACH = 20


def careless(now: datetime) -> list[bytes]:
    """Return decisions that all count, with every kind of content that nobody reads."""
    sent = []
    for number, unread in enumerate(UNREAD * EACH):
        event = lesson.decision(
            f"d-{number}",
            now - timedelta(hours=1, seconds=number),
            1.0000000000000002 if number % 2 else -1e-9,
            attributes={"language_variety": "formal", "channel": "chat"},
            versions={"judge": "claude-3-5-sonnet@20240620", "policy": "arn:aws:x::y/z, 2"},
        )
        sent.append(json.dumps(event).encode()[:-1] + b', "latency": ' + unread + b"}")
    return [*sent[:-2], b"\xef\xbb\xbf[" + b",".join(sent[-2:]) + b"]"]


def test_what_is_not_read_loses_no_decision(
    apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    topic, now = f"{topic_name}-d", datetime.now(UTC).replace(microsecond=0)
    for end in "dl":
        apache.create_topic(f"{topic_name}-{end}", 1)
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": apache.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topic,
        "SLICEWATCH__STREAM__LABELS_TOPIC": f"{topic_name}-l",
        "SLICEWATCH__STREAM__GROUP_ID": topic_name[-40:].strip("-"),
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
    }
    bad = json.dumps(lesson.decision("bad", now, float("nan"))).encode()
    with Running(tmp_path, ["run", "--settings", str(SETTINGS)], environment) as service:
        apache.produce(topic, [bad, *careless(now)])
        service.until(
            lambda: (
                service.value("slicewatch_events_total", topic=topic, outcome="counted")
                == len(UNREAD) * EACH
            ),
            "all are counted",
        )
        refused = {"reason": "wrong_type", "field": "judge_score"}
        assert service.value("slicewatch_unreadable_events_total", **refused) == 1
