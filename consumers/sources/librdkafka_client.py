"""librdkafka's consumer as we need it: its settings and errors, what it fetches, its messages."""

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
from monitor.ports import RecordBatch, Shard

# Under the name of the other client: one's lines are treated like the other's.
log = logging.getLogger("kafka.librdkafka")

FIXED: dict[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
    "partition.assignment.strategy": "cooperative-sticky",
    "check.crcs": True,
    # How soon a partition that was added is found.
    "topic.metadata.refresh.interval.ms": 10_000,
    # The only way to hear of a position behind control records, and that a shard is caught up.
    "enable.partition.eof": True,
    # The default of a second holds the client at a fifth of its speed.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 128 << 10,
    # A shard that begins or goes on waits for the answer to the fetch that is under way.
    "fetch.wait.max.ms": 100,
    "max.partition.fetch.bytes": 4 << 20,
    "fetch.max.bytes": 32 << 20,
    "receive.message.max.bytes": 128 << 20,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 2000,
    "enable.metrics.push": False,
}
"""Not for the user to change: each is part of exactly-once, of data-loss detection or of speed."""

WORDS = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
}
"""Security arguments of kafka-python, and what librdkafka calls them."""

LOST = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
"""A position that the topic does not hold."""

HOPELESS = {
    KafkaError._FATAL,  # another process has taken over our name, for one
    # The client would read on behind what it could not decode.
    KafkaError._BAD_MSG,
    KafkaError._BAD_COMPRESSION,
    KafkaError._NOT_IMPLEMENTED,
    # The group will never let this member in.
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.GROUP_MAX_SIZE_REACHED,
}
"""Errors that no waiting resolves. The client gets over everything else by itself: a broker that is
away, a right that is taken and given back, a group that moves."""


def security_settings(connection: KafkaConnection) -> dict[str, object]:
    """Security settings in librdkafka's words. One it has no word for: SourceError."""
    if unknown := sorted(connection.security.keys() - WORDS.keys()):
        raise SourceError(f"librdkafka knows no setting for {', '.join(unknown)}")
    return {WORDS[name]: value for name, value in connection.security.items()}


def open_client(connection: KafkaConnection, membership: Membership) -> Consumer:
    """A member of a group. Settings that the client refuses: SourceError."""
    own: dict[str, object] = {
        "bootstrap.servers": connection.address,
        "client.id": connection.client_id,
        "group.id": membership.group,
        "session.timeout.ms": int(membership.session * 1000),
        "heartbeat.interval.ms": int(membership.heartbeat * 1000),
        "max.poll.interval.ms": int(max(MAX_POLL_SECONDS, membership.session) * 1000),
    }
    if membership.instance is not None:
        own["group.instance.id"] = membership.instance
    settings: dict[str, Any] = {**FIXED, **own, **security_settings(connection)}
    try:
        return Consumer(settings, logger=log)
    except KafkaException as error:
        raise SourceError(f"librdkafka refuses its settings: {text_of(error.args[0])}") from error


def close_client(client: Consumer) -> None:
    """Leave the group.

    Without a broker the client waits for its last requests, up to the session timeout and
    longer; it is left behind then, and ends with the process.
    """
    closing = threading.Thread(target=client.close, name="librdkafka-close", daemon=True)
    closing.start()
    closing.join(CLOSE_SECONDS)


@contextmanager
def in_one_line(connection: KafkaConnection) -> Iterator[None]:
    """Turn the client's exceptions into a SourceError."""
    try:
        yield
    except KafkaException as error:
        raise failure(connection, error.args[0]) from error


def failure(connection: KafkaConnection, error: KafkaError) -> SourceError:
    """One line for what the client could not get over."""
    return SourceError(f"Kafka at {connection.address} cannot be used: {text_of(error)}")


def text_of(error: KafkaError) -> str:
    """Text of an error, on one line."""
    return " ".join(error.str().split())


# Messages that came from a broker have all of these; one call each for a whole column.
_topic = cast(Callable[[Message], str], Message.topic)
_partition = cast(Callable[[Message], int], Message.partition)
_offset = cast(Callable[[Message], int], Message.offset)
_value = cast(Callable[[Message], bytes | None], Message.value)
_timestamp = cast(Callable[[Message], tuple[int, int]], Message.timestamp)


class Fetching:
    """The partitions that the client fetches: those of the group that were begun.

    The client is given none of the group's partitions before its position is known, so there is
    nothing it could fetch from elsewhere. The group's callbacks run inside ``consume``, on the
    caller's thread.

    Args:
        client: librdkafka's.
        changes: takes note of what the group gives and takes.

    Attributes:
        running: what may be delivered; messages of other shards are left-overs.
    """

    def __init__(self, client: Consumer, changes: ShardChanges) -> None:
        self._client = client
        self._changes = changes
        self._held: set[Shard] = set()
        self.running: set[Shard] = set()

    def join(self, topics: Sequence[str]) -> None:
        """Become a member of the group; partitions come with some later ``consume``."""
        # Lost partitions come to the same callback as revoked ones.
        self._client.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)

    def run(self, shard: Shard, offset: int) -> None:
        """Fetch from ``offset`` on; what the client fetched before is dropped by it."""
        where = TopicPartition(shard.topic, shard.partition, offset)
        if shard in self._held and not self._seek(where):
            self.drop(shard)
        if shard not in self._held:
            self._client.incremental_assign([where])
        self._client.resume([where])  # a pause outlives the assignment
        self._held.discard(shard)
        self.running.add(shard)

    def hold(self, shard: Shard) -> None:
        """Fetch nothing until the shard runs again."""
        if shard in self.running:
            self._client.pause([where_of(shard)])
            self.running.discard(shard)
            self._held.add(shard)

    def drop(self, shard: Shard) -> None:
        """Take a shard from the client: once it could not read a position, it never seeks again."""
        self._drop([shard])

    def _drop(self, shards: Iterable[Shard]) -> None:
        known = {shard for shard in shards if shard in self.running | self._held}
        self._client.incremental_unassign([where_of(shard) for shard in known])
        self.running -= known
        self._held -= known

    def _seek(self, where: TopicPartition) -> bool:
        try:
            self._client.seek(where)
        except KafkaException:
            return False  # it has not started yet, or has given the partition up
        return True

    def _on_assign(self, client: Consumer, given: list[TopicPartition]) -> None:
        client.incremental_assign([])  # else the client begins them where it likes
        self._changes.gave(Shard(one.topic, one.partition) for one in given)

    def _on_revoke(self, client: Consumer, taken: list[TopicPartition]) -> None:
        shards = [Shard(one.topic, one.partition) for one in taken]
        self._drop(shards)
        self._changes.took(shards)


def where_of(shard: Shard) -> TopicPartition:
    """A shard in the client's words."""
    return TopicPartition(shard.topic, shard.partition)


def split(messages: list[Message]) -> tuple[list[Message], list[tuple[KafkaError, Message]]]:
    """Messages, and what only looks like one: errors and ends of partitions."""
    if not any(map(Message.error, messages)):
        return messages, []
    events = [(error, one) for one in messages if (error := one.error()) is not None]
    return [one for one in messages if one.error() is None], events


def columns(shard: Shard, messages: Sequence[Message], high_water: int | None) -> RecordBatch:
    """Messages of one shard as columns."""
    return RecordBatch(
        shard,
        list(map(_offset, messages)),
        list(map(_value, messages)),
        [stamp for _, stamp in map(_timestamp, messages)],
        high_water,
    )


def by_shard(messages: Sequence[Message]) -> Iterator[tuple[Shard, list[Message]]]:
    """Messages of each shard in their order; what one fetch brought lies together already."""
    found: dict[tuple[str, int], list[Message]] = {}
    topics = np.array(list(map(_topic, messages)), object)
    partitions = np.array(list(map(_partition, messages)), np.int64)
    other = (topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])
    begins = [0, *(np.flatnonzero(other) + 1).tolist()] if messages else []
    for begin, end in zip(begins, [*begins[1:], len(messages)], strict=False):
        place = topics[begin], int(partitions[begin])
        found.setdefault(place, []).extend(messages[begin:end])
    return ((Shard(*place), own) for place, own in found.items())


def last_offset(messages: Sequence[Message]) -> int:
    """Offset of the newest message."""
    return _offset(messages[-1])
