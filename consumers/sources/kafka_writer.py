"""Writer of events to Kafka with kafka-python, which waits until they are written."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kafka import KafkaProducer
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from consumers.producing.transports import close_kafka_python
from consumers.sources.base import CLOSE_SECONDS
from consumers.sources.kafka_admin import KafkaConnection, KafkaTopics
from monitor.errors import AccessError, SourceError
from monitor.records import Record


class KafkaWriter:
    """Writer of records to Kafka in the order given for each topic; any thread may use it.

    Every topic has a client of its own, connected with its first record and again after a failed
    write. So a deleted topic does not disturb the other topics.

    An event that the client sends twice after a broken connection has the same id, and the service
    counts it once. So the writer does not need the right ``IdempotentWrite``.

    Args:
        connection: the brokers.
        topics: topics to write to.
        patience: seconds that the broker may take to write; it may be restarting.
    """

    def __init__(self, connection: KafkaConnection, topics: Sequence[str], patience: float) -> None:
        self._connection = connection
        self._patience = patience
        self._topics = {topic: _TopicClient(connection, topic, patience) for topic in topics}

    def connect(self) -> None:
        """Connect to Kafka now, for all topics, instead of at the first record.

        Raises:
            SourceError: no broker can be reached, access is refused, or a topic does not exist.
        """
        for topic in self._topics.values():
            topic.client()

    def write(self, records: Sequence[Record]) -> None:
        """Write records, and wait until all are written; raise SourceError if any is not.

        Raises:
            AccessError: this user may not write to a topic.
            SourceError: they are not written, or that is unknown; the message says why.
        """
        clients = {record.topic: self._topics[record.topic].client() for record in records}
        topic = ""
        try:
            sent = []
            for topic, key, value in records:
                sent.append((topic, clients[topic].send(topic, value, key=key)))
            for topic, future in sent:  # noqa: B007 - the error below names it
                future.get(timeout=self._patience)
        except KafkaError as error:
            self._topics[topic].give_up(clients[topic])
            raise self._failure(topic, error) from error

    def close(self) -> None:
        """Close the connections; records still being written are given up."""
        for topic in self._topics.values():
            topic.close()

    def _failure(self, topic: str, error: KafkaError) -> SourceError:
        if isinstance(error, TopicAuthorizationFailedError):
            return AccessError(
                f"topic {topic} may not be written by this user: allow it with kafka-acls.sh "
                f"--add --allow-principal User:NAME --operation Write --topic {topic}"
            )
        return SourceError(
            f"Kafka at {self._connection.address} did not write an event to topic {topic} "
            f"({type(error).__name__}): slicewatch check --connect says whether it lets us in"
        )


class _TopicClient:
    """Client that writes to one topic; it is replaced after any failure.

    If a topic is deleted while a record waits, its client uses up a processor until the topic is
    back, and cannot be closed by its own means.
    """

    def __init__(self, connection: KafkaConnection, topic: str, patience: float) -> None:
        self._connection = connection
        self._topic = topic
        self._patience = patience
        self._client: KafkaProducer | None = None
        self._connecting = threading.Lock()

    def client(self) -> KafkaProducer:
        """Return a working client, connected if needed; raise SourceError if none can be made."""
        if not self._connecting.acquire(timeout=self._connection.timeout):
            raise SourceError("Kafka cannot be reached: another batch waits for it")
        try:
            self._client = self._client or self._connected()
            return self._client
        finally:
            self._connecting.release()

    def give_up(self, client: KafkaProducer) -> None:
        """Close a failed client; unless it is replaced already, the next record gets a new one."""
        with self._connecting:
            if self._client is client:
                self._client = None
        close_kafka_python(client, CLOSE_SECONDS)

    def close(self) -> None:
        if self._client is not None:
            self.give_up(self._client)

    def _connected(self) -> KafkaProducer:
        topics = KafkaTopics(self._connection)  # a producer notices a missing topic late, or never
        try:
            topics.partitions(self._topic)
        finally:
            topics.close()
        try:
            return KafkaProducer(
                **self._connection.client(),
                acks="all",
                enable_idempotence=False,
                max_in_flight_requests_per_connection=1,  # else a retry could change the order
                delivery_timeout_ms=int(self._patience * 1000),
                request_timeout_ms=int(self._patience * 500),
                max_block_ms=int(self._patience * 1000),
                reconnect_backoff_max_ms=2000,
                allow_auto_create_topics=False,
                metrics_enabled=False,
            )
        except KafkaError as error:
            raise self._connection.failure(error) from error
