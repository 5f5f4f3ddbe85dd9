"""The judge's topics on Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_preflight import Need
from consumers.sources.kafka_writer import KafkaWriter
from monitor.errors import SourceError
from monitor.records import Record

WRITE_SECONDS = 60.0
_POLL_MILLIS = 500
_CLOSE_MILLIS = 2_000
_LONGEST_BATCH_MILLIS = 3_600_000
"""Longest wait of a batch for its judge before the group takes the partitions away."""


@dataclass(frozen=True, slots=True)
class JudgeTopics:
    """Names of the judge's topics and consumer group on Kafka.

    Attributes:
        outputs: topic to read from.
        judgements: topic to write to.
        decisions: topic for decisions; None writes none.
        group: consumer group of the workers.
        session_timeout: seconds until a worker that was killed has lost its partitions.
    """

    outputs: str
    judgements: str
    decisions: str | None
    group: str
    session_timeout: float


class KafkaStream:
    """Consumer of outputs in a group, with a producer of judgements and decisions.

    Args:
        connection: to the brokers.
        topics: topics and group.
    """

    def __init__(self, connection: KafkaConnection, topics: JudgeTopics) -> None:
        self._connection, self._topics = connection, topics
        self.check_access()
        written = [topic for topic in (topics.judgements, topics.decisions) if topic is not None]
        self._writer = KafkaWriter(connection, written, WRITE_SECONDS)
        self._writer.connect()
        try:
            self._consumer = KafkaConsumer(
                topics.outputs,
                group_id=topics.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                max_poll_interval_ms=_LONGEST_BATCH_MILLIS,
                session_timeout_ms=int(topics.session_timeout * 1000),
                heartbeat_interval_ms=int(topics.session_timeout * 1000 / 3),
                **connection.client(),
            )
        except KafkaError as error:
            raise SourceError(f"no broker can be reached: {type(error).__name__}") from None
        self._read: dict[TopicPartition, int] = {}

    def check_access(self) -> None:
        """Raise SourceError if no broker answers, or if it refuses us the outputs."""
        self._connection.check_access(Need((self._topics.outputs,), self._topics.group))

    def read(self, most: int) -> Sequence[bytes | None]:
        """Poll for at most ``most`` next message values; remember their offsets for the commit.

        Raises:
            SourceError: the broker refuses us; while it is away nothing is returned.
        """
        try:
            batches = self._consumer.poll(timeout_ms=_POLL_MILLIS, max_records=most)
        except KafkaError as error:
            if not error.retriable:
                raise self._connection.failure(error) from None
            time.sleep(_POLL_MILLIS / 1000)
            return ()
        values = []
        for partition, records in batches.items():
            values += [record.value for record in records]
            self._read[partition] = records[-1].offset + 1
        return values

    def write(self, judgements: Iterable[tuple[bytes, bytes]]) -> None:
        """Write judgements, as (key, value) pairs, and wait until all are written."""
        self._write(self._topics.judgements, judgements)

    def write_decisions(self, decisions: Iterable[tuple[bytes, bytes]]) -> None:
        """Write decisions, as (key, value) pairs, unless there is no topic for them."""
        if self._topics.decisions is not None:
            self._write(self._topics.decisions, decisions)

    def _write(self, topic: str, events: Iterable[tuple[bytes, bytes]]) -> None:
        self._writer.write([Record(topic, key, value) for key, value in events])

    def commit(self) -> None:
        """Commit the offsets of all messages read; if that fails, outputs are judged again."""
        offsets = {partition: OffsetAndMetadata(at, "", -1) for partition, at in self._read.items()}
        self._read.clear()
        with suppress(KafkaError):  # then outputs are judged again, as documented
            self._consumer.commit(offsets)

    def rewind(self) -> None:
        """Move every assigned partition back to its committed offset, or to its beginning.

        Raises:
            SourceError: the committed offset is unknown; a restart finds it.
        """
        self._read.clear()
        for partition in self._consumer.assignment():
            try:
                committed = self._consumer.committed(partition)
            except KafkaError as error:
                raise self._connection.failure(error) from None
            if committed is None:
                self._consumer.seek_to_beginning(partition)
            else:
                self._consumer.seek(partition, committed)

    def close(self) -> None:
        """Close the producer, and leave the consumer group without committing."""
        self._writer.close()
        self._consumer.close(autocommit=False, timeout_ms=_CLOSE_MILLIS)
