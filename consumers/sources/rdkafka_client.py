"""librdkafka's consumer as we need it: its fixed settings, our words in its own, its errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from consumers.sources.kafka_client import CLOSE_SECONDS, HEARTBEAT_SECONDS, MAX_POLL_SECONDS
from consumers.sources.kafka_topics import KafkaConnection
from monitor.errors import SourceError

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
"""What no waiting mends. Everything else the client gets over by itself: a broker that is away, a
right that is taken and given back, a group that moves."""


def security_settings(connection: KafkaConnection) -> dict[str, object]:
    """How to be let in, in librdkafka's words. One it has no word for: SourceError."""
    if unknown := sorted(connection.security.keys() - WORDS.keys()):
        raise SourceError(f"librdkafka knows no setting for {', '.join(unknown)}")
    return {WORDS[name]: value for name, value in connection.security.items()}


def open_client(
    connection: KafkaConnection, group: str, instance: str | None, session: float
) -> Consumer:
    """A member of a group. Settings that the client refuses: SourceError."""
    own: dict[str, object] = {
        "bootstrap.servers": connection.address,
        "client.id": connection.client_id,
        "group.id": group,
        "session.timeout.ms": int(session * 1000),
        "heartbeat.interval.ms": int(min(HEARTBEAT_SECONDS, session / 3) * 1000),
        "max.poll.interval.ms": int(max(MAX_POLL_SECONDS, session) * 1000),
    }
    if instance is not None:
        own["group.instance.id"] = instance
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
    """What an error says, on one line."""
    return " ".join(error.str().split())
