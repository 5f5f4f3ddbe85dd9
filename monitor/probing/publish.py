"""Puts probe decisions on the decisions topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kafka import KafkaProducer
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from consumers.sources.kafka_admin import KafkaConnection, KafkaTopics
from monitor.errors import SlicewatchError

PATIENCE = 30.0
"""Seconds a broker may take to write one pair; it may be restarting."""


class ProbePublisher(Protocol):
    """Somebody who takes decision events."""

    def publish(self, pair: str, events: Sequence[bytes]) -> None:
        """Write the decisions of one pair, in this order, and wait until they are written.

        Raises:
            SlicewatchError: they are not, or nobody knows; the message says why.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class KafkaPublisher:
    """Writes with kafka-python, keyed by the pair: its variants are in one partition.

    What the client sends twice after a broken connection has the same id, and the service counts
    it once; so nothing is asked of the broker that it may not grant (``IdempotentWrite``).

    Args:
        connection: the brokers.
        topic: the decisions topic; it must exist.

    Raises:
        SourceError: no broker can be reached, access is refused, or there is no such topic.
    """

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        topics = KafkaTopics(connection)  # a producer finds out late, or never
        try:
            topics.partitions(topic)
        finally:
            topics.close()
        try:
            self._producer = KafkaProducer(
                **connection.client(),
                acks="all",
                enable_idempotence=False,
                max_in_flight_requests_per_connection=1,  # or a retry could turn the order
                delivery_timeout_ms=int(PATIENCE * 1000),
                request_timeout_ms=int(PATIENCE * 500),
                max_block_ms=int(PATIENCE * 1000),
                reconnect_backoff_max_ms=2000,
                allow_auto_create_topics=False,
                metrics_enabled=False,
            )
        except KafkaError as error:
            raise connection.failure(error) from error

    def publish(self, pair: str, events: Sequence[bytes]) -> None:
        """Write and wait."""
        key = pair.encode()
        try:
            sent = [self._producer.send(self._topic, event, key=key) for event in events]
            for future in sent:
                future.get(timeout=PATIENCE)
        except TopicAuthorizationFailedError:
            raise SlicewatchError(
                f"topic {self._topic} may not be written by this user: allow it with kafka-acls.sh "
                f"--add --allow-principal User:NAME --operation Write --topic {self._topic}"
            ) from None
        except KafkaError as error:
            raise SlicewatchError(
                f"Kafka at {self._connection.address} did not write a probe decision "
                f"({type(error).__name__}): slicewatch check --connect says whether it lets us in"
            ) from error

    def close(self) -> None:
        """Close the connection; all that was published is written."""
        self._producer.close(timeout=5)
