"""Readers of the same events that are not slicewatch, each a process: what its figures are beside.

``python run_readers.py NAME ARGUMENTS`` reads everything once and prints what it found as JSON:

* ``kafka-python`` and ``librdkafka``: the bare client; nobody looks at the messages.
* ``script``: what a team writes first: confluent-kafka, json, and dicts that drop copies, join
  labels and count. It forgets everything when it ends, and hides nothing.
* ``polars`` and ``duckdb``: the same counts from files of JSON lines, in one batch.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATIENCE = 20.0
"""Seconds without a message after which a reader gives up."""


def kafka_python(bootstrap: str, topics: str, messages: str) -> dict[str, int]:
    """What kafka-python does when nobody looks at the messages."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        max_poll_records=5_000,
        metrics_enabled=False,
        max_partition_fetch_bytes=4 << 20,
        fetch_max_bytes=32 << 20,
    )
    wheres = [
        TopicPartition(topic, partition)
        for topic in topics.split(",")
        for partition in consumer.partitions_for_topic(topic) or ()
    ]
    consumer.assign(wheres)
    consumer.seek_to_beginning(*wheres)
    seen = 0
    while seen < int(messages):
        batches = consumer.poll(int(1000 * PATIENCE))
        assert batches, f"{seen} of {messages} messages came"
        seen += sum(len(batch) for batch in batches.values())
    consumer.close(autocommit=False)
    return {"messages": seen}


def librdkafka(bootstrap: str, topics: str, messages: str) -> dict[str, int]:
    """What librdkafka does when each payload is only taken over."""
    return {"messages": sum(1 for _ in _payloads(bootstrap, topics, int(messages)))}


def _payloads(bootstrap: str, topics: str, messages: int) -> Iterator[tuple[str, bytes]]:
    """Topic and payload of every message, by confluent-kafka."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "drain",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 100_000,
            "queued.max.messages.kbytes": 131_072,
        }
    )
    known = consumer.list_topics(timeout=PATIENCE).topics
    consumer.assign(
        [TopicPartition(t, part, 0) for t in topics.split(",") for part in known[t].partitions]
    )
    seen, deadline = 0, time.monotonic() + PATIENCE
    while seen < messages:
        assert time.monotonic() < deadline, f"{seen} of {messages} messages came"
        batch = consumer.consume(5_000, 0.1)
        for message in batch:
            assert message.error() is None, message.error()
            yield message.topic() or "", message.value() or b""
        seen += len(batch)
        deadline = time.monotonic() + PATIENCE if batch else deadline
    consumer.close()


def script(bootstrap: str, topics: str, messages: str) -> dict[str, int]:
    """Decisions and labels by slice, joined in memory."""
    labels_topic = topics.split(",")[1]
    cells: dict[str, tuple[str, ...]] = {}
    waiting: dict[str, bool] = {}
    labelled: set[str] = set()
    decisions: Counter[tuple[str, ...]] = Counter()
    ready: Counter[tuple[str, ...]] = Counter()
    for topic, payload in _payloads(bootstrap, topics, int(messages)):
        event = json.loads(payload)
        key = event["decision_id"]
        if topic == labels_topic:
            if key in labelled:
                continue
            labelled.add(key)
            if key in cells:
                ready[cells[key]] += event["ready"]
            else:
                waiting[key] = event["ready"]
        elif key not in cells:
            cell = cells[key] = _cell(event)
            decisions[cell] += 1
            if key in waiting:
                ready[cell] += waiting.pop(key)
    return {"decisions": decisions.total(), "labels": len(labelled) - len(waiting)}


def _cell(event: dict[str, Any]) -> tuple[str, ...]:
    attributes, versions = event["attributes"], event["versions"]
    return (*attributes.values(), *versions.values(), event["route"], event.get("traffic", ""))


def with_polars(decisions: str, labels: str) -> dict[str, int]:
    """The same counts by polars' lazy frames."""
    pl: Any = importlib.import_module("polars")  # may not be there, and is then not measured
    read = pl.scan_ndjson(decisions).unique("decision_id", keep="any")
    said = pl.scan_ndjson(labels).unique("decision_id", keep="any").select("decision_id", "ready")
    counts = (
        read.join(said, on="decision_id", how="left")
        .unnest("attributes", "versions")
        .group_by("language", "channel", "region", "judge", "policy", "router", "route", "traffic")
        .agg(decisions=pl.len(), labels=pl.col("ready").count(), ready=pl.col("ready").sum())
        .collect()
    )
    return {name: int(counts[name].sum()) for name in ("decisions", "labels")}


def with_duckdb(decisions: str, labels: str) -> dict[str, int]:
    """The same counts by one query of DuckDB."""
    duckdb: Any = importlib.import_module("duckdb")
    rows = duckdb.sql(
        f"""
        SELECT d.attributes, d.versions, d.route, d.traffic,
               count(*) AS decisions, count(l.ready) AS labels, count(*) FILTER (l.ready) AS ready
        FROM (SELECT decision_id, any_value(attributes) AS attributes,
                     any_value(versions) AS versions, any_value(route) AS route,
                     any_value(traffic) AS traffic
              FROM read_json('{decisions}', format = 'newline_delimited') GROUP BY 1) d
        LEFT JOIN (SELECT decision_id, any_value(ready) AS ready
                   FROM read_json('{labels}', format = 'newline_delimited') GROUP BY 1) l
        USING (decision_id)
        GROUP BY 1, 2, 3, 4
        """
    ).fetchall()
    return {"decisions": sum(row[4] for row in rows), "labels": sum(row[5] for row in rows)}


READERS: dict[str, tuple[str, Callable[..., dict[str, int]]]] = {
    "kafka-python": ("kafka", kafka_python),
    "librdkafka": ("confluent_kafka", librdkafka),
    "script": ("confluent_kafka", script),
    "polars": ("polars", with_polars),
    "duckdb": ("duckdb", with_duckdb),
}
"""What each imports, and what it does."""


def _peak_kilobytes() -> int:
    """Most memory this program had resident; unlike ``ru_maxrss`` without that of its parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def main(name: str, *arguments: str) -> None:
    """Read, and print what was found with milliseconds of CPU until the start, and memory."""
    library, reader = READERS[name]
    importlib.import_module(library)
    starting = int(1000 * time.process_time())
    found = reader(*arguments)
    print(json.dumps(found | {"starting_ms": starting, "peak_kb": _peak_kilobytes()}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
