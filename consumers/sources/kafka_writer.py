"""Writes events to Kafka with kafka-python, and waits until they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from consumers.sources.base import CLOSE_SECONDS
from consumers.sources.kafka_admin import KafkaConnection, KafkaTopics
from monitor.errors import AccessError, SourceError


class Record(NamedTuple):
    """One message to be written."""

    topic: str
    key: bytes
    value: bytes


class KafkaWriter:
    """Writes in order; any thread may use it.

    What the client sends twice after a broken connection has the same id, and the service counts
    it once; so nothing is asked of the broker that it may not grant (``IdempotentWrite``).

    Args:
        connection: the brokers.
        topics: to be written to; they must exist.
        patience: seconds that the broker may take to write; it may be restarting.

    Raises:
        SourceError: no broker can be reached, access is refused, or there is no such topic.
    """

    def __init__(self, connection: KafkaConnection, topics: Sequence[str], patience: float) -> None:
        self._connection = connection
        self._patience = patience
        known = KafkaTopics(connection)  # a producer finds out late, or never
        try:
            for topic in topics:
                known.partitions(topic)
        finally:
            known.close()
        try:
            self._producer = KafkaProducer(
                **connection.client(),
                acks="all",
                enable_idempotence=False,
                max_in_flight_requests_per_connection=1,  # or a retry could turn the order
                delivery_timeout_ms=int(patience * 1000),
                request_timeout_ms=int(patience * 500),
                max_block_ms=int(patience * 1000),
                reconnect_backoff_max_ms=2000,
                allow_auto_create_topics=False,
                metrics_enabled=False,
            )
        except KafkaError as error:
            raise connection.failure(error) from error

    def write(self, records: Sequence[Record]) -> None:
        """Write records, and wait until all of them are written.

        Raises:
            AccessError: this user may not write to a topic.
            SourceError: they are not written, or nobody knows; the message says why.
        """
        try:
            sent = [self._producer.send(topic, value, key=key) for topic, key, value in records]
            for future in sent:
                future.get(timeout=self._patience)
        except TopicAuthorizationFailedError:
            topic = " or ".join(sorted({one.topic for one in records}))
            raise AccessError(
                f"topic {topic} may not be written by this user: allow it with kafka-acls.sh "
                f"--add --allow-principal User:NAME --operation Write --topic {topic}"
            ) from None
        except KafkaError as error:
            raise SourceError(
                f"Kafka at {self._connection.address} did not write an event "
                f"({type(error).__name__}): slicewatch check --connect says whether it lets us in"
            ) from error

    def close(self) -> None:
        """Close the connection; nothing is left to be written, unless it was given up."""
        self._producer.close(timeout=CLOSE_SECONDS)
