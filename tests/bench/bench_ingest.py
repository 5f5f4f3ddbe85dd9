"""How much of each Kafka client's own speed is left after decoding, joining and storing.

In one run: what a client drains when nobody looks at the messages, then the whole pipeline over
the same topics, and the ratio. Run it on a quiet machine: ``make bench FOR=ingest``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from common import (
    Databases,
    Report,
    Traffic,
    arrays,
    databases,
    peak_megabytes,
    settings_at,
    timed,
    traffic,
)
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdTopicPartition
from kafka import KafkaConsumer, TopicPartition
from kafka_broker import KafkaBroker, kafka_libraries, missing_tools

from alerts.exposition.service_metrics import ServiceMetrics
from monitor import composition
from monitor.clock import SystemClock
from monitor.ports import RecordSource, Shard
from monitor.store.shard_rows import read_statuses

PARTITIONS = 4
REPEATS = 3
CLIENTS = ("kafka-python", "librdkafka")


@dataclass(frozen=True)
class Load:
    """Topics that hold the same events in one form, and how many messages and events those are."""

    name: str
    decisions: str
    labels: str
    messages: int
    events: int


def drain_kafka_python(bootstrap: str, topics: Sequence[str], messages: int) -> None:
    """What kafka-python does when nobody looks at the messages."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        max_poll_records=5_000,
        metrics_enabled=False,
        max_partition_fetch_bytes=4 << 20,
        fetch_max_bytes=32 << 20,
    )
    wheres = [TopicPartition(t, p) for t in topics for p in consumer.partitions_for_topic(t) or ()]
    consumer.assign(wheres)
    consumer.seek_to_beginning(*wheres)
    seen = 0
    while seen < messages:
        seen += sum(len(batch) for batch in consumer.poll(1_000).values())
    consumer.close(autocommit=False)


def drain_librdkafka(bootstrap: str, topics: Sequence[str], messages: int) -> None:
    """What librdkafka does when each payload is only taken over."""
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
    consumer.assign([RdTopicPartition(t, p, 0) for t in topics for p in range(PARTITIONS)])
    seen = 0
    while seen < messages:
        seen += len([message.value() for message in consumer.consume(5_000, 0.05)])
    consumer.close()


DRAINS: dict[str, Callable[[str, Sequence[str], int], None]] = {
    "kafka-python": drain_kafka_python,
    "librdkafka": drain_librdkafka,
}


class Bench:
    """One broker with its topics, the databases, and the report."""

    def __init__(self, broker: KafkaBroker, made: Databases, report: Report, pending: int) -> None:
        self.broker = broker
        self._made = made
        self._report = report
        self._pending = pending
        self._runs = 0

    def produce(
        self, name: str, decisions: Sequence[bytes], labels: Sequence[bytes], events: int
    ) -> Load:
        """Topics with these messages, labels evenly over their partitions too."""
        stem = name.replace(" ", "-")
        topics = f"{stem}-decisions", f"{stem}-labels"
        for topic, messages in zip(topics, (decisions, labels), strict=True):
            self.broker.create_topic(topic, PARTITIONS)
            for partition in range(PARTITIONS):
                self.broker.produce(topic, messages[partition::PARTITIONS], partition=partition)
        return Load(name, *topics, len(decisions) + len(labels), events)

    def drain(self, client: str, load: Load) -> float:
        """Seconds the bare client takes for all messages; the best of a few."""
        topics = [load.decisions, load.labels]
        call = partial(DRAINS[client], self.broker.bootstrap, topics, load.messages)
        return min(timed(call) for _ in range(REPEATS))

    def pipeline(self, client: str, load: Load, kind: str, window: str) -> float:
        """Seconds the whole pipeline takes from its first message to the last commit."""
        self._runs += 1
        settings = settings_at(
            self._made.new(kind, self._pending),
            STREAM__BOOTSTRAP_SERVERS=self.broker.bootstrap,
            STREAM__DECISIONS_TOPIC=load.decisions,
            STREAM__LABELS_TOPIC=load.labels,
            STREAM__GROUP_ID=f"bench-{self._runs}",
            STREAM__SESSION_TIMEOUT="6s",
            STREAM__CLIENT=client,
            DEDUPE__WINDOW=window,
        )
        engine = composition.open_store(settings, SystemClock())
        source, counted = composition.kafka_source(settings), _Counted(load.events)
        counted.watch(source)
        ingest = composition.build_ingest(
            settings, engine, source, ServiceMetrics(), SystemClock(), progress=counted.record
        )
        counted.stop = ingest.stop
        ingest.run()
        took = time.perf_counter() - counted.began
        statuses = read_statuses(engine)
        engine.dispose()
        assert sum(status.tallies.events for status in statuses) == load.events
        assert all(status.tallies.balance == 0 for status in statuses)
        return took

    def compare(self, client: str, load: Load, kind: str, window: str, raw: float) -> None:
        """One row: the pipeline against the bare client."""
        took = self.pipeline(client, load, kind, window)
        self._report.add(
            *(client, load.name, kind, "on" if window != "0s" else "off"),
            *(f"{load.events / raw:,.0f}", f"{load.events / took:,.0f}", f"{raw / took:.2f}"),
            f"{peak_megabytes():,.0f}",
        )


class _Counted:
    """Notes when reading began, and stops after the last event."""

    def __init__(self, events: int) -> None:
        self._left = events
        self.began = 0.0
        self.stop: Callable[[], None] = lambda: None

    def watch(self, source: RecordSource) -> None:
        """Start the clock when the first shard begins."""
        begin = source.begin

        def begun(shard: Shard, offset: int) -> None:
            self.began = self.began or time.perf_counter()
            begin(shard, offset)

        source.begin = begun  # type: ignore[method-assign]

    def record(self, events: int) -> None:
        """Count, and stop after the last."""
        self._left -= events
        if self._left <= 0:
            self.stop()


@contextmanager
def broker() -> Iterator[KafkaBroker]:
    """Apache Kafka for one benchmark."""
    running = KafkaBroker(kafka_libraries())
    try:
        yield running
    finally:
        running.close()


def run(bench: Bench, events: Traffic, kinds: Sequence[str]) -> None:
    """Every row: decisions alone, in arrays, and together with their labels."""
    n, both = len(events.decisions), len(events.decisions) + len(events.labels)
    single = bench.produce("decisions", events.decisions, [], n)
    hundreds = bench.produce("arrays of 100", arrays(events.decisions, 100), [], n)
    joined = bench.produce("with labels", events.decisions, events.labels, both)
    for client in CLIENTS:
        for load in (single, hundreds, joined):
            raw = bench.drain(client, load)
            for kind in kinds:
                for window in ("0s", "1h") if load is not joined else ("1h",):
                    bench.compare(client, load, kind, window, raw)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=400_000)
    parser.add_argument("--pending", type=int, default=10_000_000, help="rows pending before")
    chosen = parser.parse_args()
    if missing_tools():
        print(f"skipped: {', '.join(missing_tools())} is not installed")  # noqa: T201
        return
    columns = ("client", "messages", "store", "dedupe", "client alone, events/s",
               "whole pipeline, events/s", "ratio", "peak MB")  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        databases(Path(folder)) as made,
        broker() as kafka,
    ):
        report = Report(
            f"Ingest: {chosen.decisions:,} decisions, 43 % requested, {chosen.pending:,} pending",
            *columns,
        )
        run(Bench(kafka, made, report, chosen.pending), traffic(chosen.decisions), made.kinds)
        report.close()


if __name__ == "__main__":
    main()
