"""What every broker of the tests offers, whichever program it is: topics and records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from monitor.demo.broker import EmbeddedBroker

# The tests send a 10 MB message on purpose; a producer's default refuses above 1 MB.
MAX_MESSAGE_BYTES = 32 << 20
SECONDS = 60.0


class Broker:
    """A running broker and the few calls tests make of it.

    Attributes:
        kind: ``kafka`` (Apache Kafka) or ``tansu``; tests of what Tansu cannot do take the
            fixture ``apache`` instead of asking this.
        bootstrap: ``127.0.0.1:port``.
    """

    def __init__(self, kind: str, bootstrap: str) -> None:
        self.kind = kind
        self.bootstrap = bootstrap
        self._admin: KafkaAdminClient | None = None
        self._producer: KafkaProducer | None = None

    @property
    def admin(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        return self._admin

    @property
    def producer(self) -> KafkaProducer:
        if self._producer is None:
            self._producer = KafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks="all",
                linger_ms=5,
                batch_size=256 << 10,
                max_request_size=MAX_MESSAGE_BYTES,
                metrics_enabled=False,
            )
        return self._producer

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, wait until metadata shows a leader for each partition, return its id."""
        options = {
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": dict(configs or {}),
        }
        self.admin.create_topics({name: options}, wait_for_metadata=True)
        return self.topic_id(name)

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic grow, and wait until metadata shows it."""
        self._forget_producer()  # it would know the old number for minutes
        self.admin.create_partitions({name: total})
        deadline = time.monotonic() + SECONDS
        while len(self.admin.describe_topics([name])[0]["partitions"]) < total:
            assert time.monotonic() < deadline, f"topic {name} does not grow"
            time.sleep(0.05)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until metadata has forgotten it."""
        # It would look for the leaders of the topic for ever, ten times a second.
        self._forget_producer()
        self.admin.delete_topics([name])
        deadline = time.monotonic() + SECONDS
        while name in self.admin.list_topics():
            assert time.monotonic() < deadline, f"topic {name} is still there"
            time.sleep(0.05)

    def _forget_producer(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=5)
            self._producer = None

    def topic_id(self, name: str) -> str:
        (topic,) = self.admin.describe_topics([name])
        assert topic["error_code"] == 0, topic
        return str(topic["topic_id"])

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        key: bytes | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> list[tuple[int, int]]:
        """Send records and wait until all are written; returns their (partition, offset).

        Without key and partition the records spread over all partitions.
        """
        stamps: Iterable[int | None] = repeat(None) if timestamps_ms is None else timestamps_ms
        futures = [
            self.producer.send(topic, value, key=key, partition=partition, timestamp_ms=stamp)
            for value, stamp in zip(values, stamps, strict=timestamps_ms is not None)
        ]
        self.producer.flush(timeout=SECONDS)
        written = [future.get(timeout=SECONDS) for future in futures]
        return [(int(one.partition), int(one.offset)) for one in written]

    def consume(self, topic: str, count: int, seconds: float = SECONDS) -> list[Any]:
        """Read a topic from its beginning, without a group, until ``count`` records came."""
        records: list[Any] = []
        with self._reader(topic) as reader:
            deadline = time.monotonic() + seconds
            while len(records) < count and time.monotonic() < deadline:
                for polled in reader.poll(timeout_ms=200).values():
                    records.extend(polled)
        return records

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Next offset of each partition. Tansu answers wrongly: only for Apache Kafka."""
        with self._reader(topic) as reader:
            ends = reader.end_offsets(list(reader.assignment()))
        return {where.partition: offset for where, offset in ends.items()}

    def disconnect(self) -> None:
        """Close this helper's clients; they open again by themselves."""
        if self._producer is not None:
            self._producer.close(timeout=5)
        if self._admin is not None:
            self._admin.close()
        self._producer = self._admin = None

    def _reader(self, topic: str) -> KafkaConsumer:
        reader = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metrics_enabled=False,
        )
        (described,) = self.admin.describe_topics([topic])
        where = [TopicPartition(topic, one["partition_index"]) for one in described["partitions"]]
        reader.assign(where)
        return reader


class TansuBroker(Broker):
    """The demo's embedded broker, for tests."""

    def __init__(self) -> None:
        self.process = EmbeddedBroker().start()
        super().__init__("tansu", self.process.bootstrap)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """As for any broker; the next producer learns of all topics at once.

        A producer begins by asking for no topic, and Tansu answers with all of them. For a topic
        that is made later the producer asks alone, and the answer makes it forget the others. It
        would look for their leaders without a pause from then on, which takes a core.
        """
        self._forget_producer()
        return super().create_topic(name, partitions, configs)

    def close(self) -> None:
        self.disconnect()
        self.process.stop()
