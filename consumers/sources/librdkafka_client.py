"""librdkafka's consumer: its settings, its errors, the partitions it fetches, its messages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from consumers.sources.base import CLOSE_SECONDS, MAX_POLL_SECONDS, Membership, ShardChanges
from consumers.sources.kafka_admin import KafkaConnection
from monitor.errors import SourceError
from monitor.records import RecordBatch, Shard

# Under the other client's name, so that the log lines of both are treated alike.
log = logging.getLogger("kafka.librdkafka")

FIXED: dict[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
    "partition.assignment.strategy": "cooperative-sticky",
    "check.crcs": True,
    # Time until a new partition is found.
    "topic.metadata.refresh.interval.ms": 10_000,
    # The only way to learn of a position after control records, and that a shard is caught up.
    "enable.partition.eof": True,
    # The default of a second slows the client to a fifth of its speed.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 128 << 10,
    # A shard that begins or resumes waits for the answer to the running fetch.
    "fetch.wait.max.ms": 100,
    "max.partition.fetch.bytes": 4 << 20,
    "fetch.max.bytes": 32 << 20,
    "receive.message.max.bytes": 128 << 20,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 2000,
    "enable.metrics.push": False,
}
"""Settings that users cannot change, for exactly-once, data-loss detection or speed."""

WORDS = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
}
"""librdkafka's setting for each security argument of kafka-python."""

LOST = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
"""Errors for a position that the topic does not hold."""

HOPELESS = {
    KafkaError._FATAL,  # for example, another process has taken over our name
    # The client would read on after data that it could not decode.
    KafkaError._BAD_MSG,
    KafkaError._BAD_COMPRESSION,
    KafkaError._NOT_IMPLEMENTED,
    # The group will never let this member in.
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.GROUP_MAX_SIZE_REACHED,
}
"""Errors that no waiting resolves. The client recovers from all others by itself: a broker that is
away, a right that is taken and given back, a group that moves."""


def security_settings(connection: KafkaConnection) -> dict[str, object]:
    """Return the security settings under librdkafka's names; raise SourceError for unknown ones."""
    if unknown := sorted(connection.security.keys() - WORDS.keys()):
        raise SourceError(f"librdkafka knows no setting for {', '.join(unknown)}")
    return {WORDS[name]: value for name, value in connection.security.items()}


def open_client(connection: KafkaConnection, membership: Membership) -> Consumer:
    """Return a librdkafka consumer in the group; raise SourceError if it refuses the settings."""
    membership_settings: dict[str, object] = {
        "bootstrap.servers": connection.address,
        "client.id": connection.client_id,
        "group.id": membership.group,
        "session.timeout.ms": int(membership.session * 1000),
        "heartbeat.interval.ms": int(membership.heartbeat * 1000),
        "max.poll.interval.ms": int(max(MAX_POLL_SECONDS, membership.session) * 1000),
    }
    if membership.instance is not None:
        membership_settings["group.instance.id"] = membership.instance
    settings: dict[str, Any] = {**FIXED, **membership_settings, **security_settings(connection)}
    try:
        return Consumer(settings, logger=log)
    except KafkaException as error:
        raise SourceError(f"librdkafka refuses its settings: {text_of(error.args[0])}") from error


def close_client(client: Consumer) -> None:
    """Leave the group and close the client, waiting at most CLOSE_SECONDS.

    Without a broker the client waits for its last requests, up to the session timeout and longer.
    Then it is left behind, and ends with the process.
    """
    closing = threading.Thread(target=client.close, name="librdkafka-close", daemon=True)
    closing.start()
    closing.join(CLOSE_SECONDS)


@contextmanager
def in_one_line(connection: KafkaConnection) -> Iterator[None]:
    """Convert exceptions of the client, within this context, into a SourceError of one line."""
    try:
        yield
    except KafkaException as error:
        raise failure(connection, error.args[0]) from error


def failure(connection: KafkaConnection, error: KafkaError) -> SourceError:
    """Return a one-line SourceError for an error from which the client could not recover."""
    return SourceError(f"Kafka at {connection.address} cannot be used: {text_of(error)}")


def text_of(error: KafkaError) -> str:
    """Return the text of a client's error on one line."""
    return " ".join(error.str().split())


# Messages from a broker have all of these; each is mapped over a whole column.
_topic = cast(Callable[[Message], str], Message.topic)
_partition = cast(Callable[[Message], int], Message.partition)
_offset = cast(Callable[[Message], int], Message.offset)
_value = cast(Callable[[Message], bytes | None], Message.value)
_timestamp = cast(Callable[[Message], tuple[int, int]], Message.timestamp)


class Fetching:
    """Controller of the partitions that librdkafka fetches: those of the group that have begun.

    The client gets no partition of the group before its position is known, so it cannot fetch from
    elsewhere. The group's callbacks run inside ``consume``, on the caller's thread.

    Args:
        client: librdkafka's client.
        changes: notes partitions that the group gives and takes.

    Attributes:
        running: shards that may be delivered; messages of other shards are left-overs.
    """

    def __init__(self, client: Consumer, changes: ShardChanges) -> None:
        self._client = client
        self._changes = changes
        self._held: set[Shard] = set()
        self.running: set[Shard] = set()

    def join(self, topics: Sequence[str]) -> None:
        """Join the group for these topics; partitions are assigned during a later ``consume``."""
        # Lost partitions come to the same callback as revoked ones.
        self._client.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)

    def run(self, shard: Shard, offset: int) -> None:
        """Fetch a shard from ``offset`` on; the client discards what it fetched before."""
        partition = TopicPartition(shard.topic, shard.partition, offset)
        if shard in self._held and not self._seek(partition):
            self.drop(shard)
        if shard not in self._held:
            self._client.incremental_assign([partition])
        self._client.resume([partition])  # a pause outlives the assignment
        self._held.discard(shard)
        self.running.add(shard)

    def hold(self, shard: Shard) -> None:
        """Stop fetching a shard until it runs again; the client keeps it."""
        if shard in self.running:
            self._client.pause([topic_partition(shard)])
            self.running.discard(shard)
            self._held.add(shard)

    def drop(self, shard: Shard) -> None:
        """Remove a shard from the client, which never seeks again after an unreadable position."""
        self._drop([shard])

    def _drop(self, shards: Iterable[Shard]) -> None:
        client_shards = {shard for shard in shards if shard in self.running | self._held}
        self._client.incremental_unassign([topic_partition(shard) for shard in client_shards])
        self.running -= client_shards
        self._held -= client_shards

    def _seek(self, partition: TopicPartition) -> bool:
        try:
            self._client.seek(partition)
        except KafkaException:
            return False  # the partition has not started yet, or the client has given it up
        return True

    def _on_assign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        client.incremental_assign([])  # else the client chooses where they begin
        self._changes.gave(Shard(partition.topic, partition.partition) for partition in partitions)

    def _on_revoke(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        shards = [Shard(partition.topic, partition.partition) for partition in partitions]
        self._drop(shards)
        self._changes.took(shards)


def topic_partition(shard: Shard) -> TopicPartition:
    """Return the client's partition object for a shard, without an offset."""
    return TopicPartition(shard.topic, shard.partition)


def split(messages: list[Message]) -> tuple[list[Message], list[tuple[KafkaError, Message]]]:
    """Return the messages, and (error, message) pairs for errors and ends of partitions."""
    if not any(map(Message.error, messages)):
        return messages, []
    events = [(error, message) for message in messages if (error := message.error()) is not None]
    return [message for message in messages if message.error() is None], events


def columns(shard: Shard, messages: Sequence[Message], high_water: int | None) -> RecordBatch:
    """Return the messages of one shard as a batch of columns."""
    return RecordBatch(
        shard,
        list(map(_offset, messages)),
        list(map(_value, messages)),
        [stamp for _, stamp in map(_timestamp, messages)],
        high_water,
    )


def by_shard(messages: Sequence[Message]) -> Iterator[tuple[Shard, list[Message]]]:
    """Group messages by shard, in their order; return (shard, its messages) pairs."""
    groups: dict[tuple[str, int], list[Message]] = {}
    topics = np.array(list(map(_topic, messages)), object)
    partitions = np.array(list(map(_partition, messages)), np.int64)
    differs = (topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])
    begins = [0, *(np.flatnonzero(differs) + 1).tolist()] if messages else []
    for begin, end in zip(begins, [*begins[1:], len(messages)], strict=False):
        key = topics[begin], int(partitions[begin])
        groups.setdefault(key, []).extend(messages[begin:end])
    return ((Shard(*key), group) for key, group in groups.items())


def last_offset(messages: Sequence[Message]) -> int:
    """Return the offset of the last message."""
    return _offset(messages[-1])
