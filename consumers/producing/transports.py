"""Transports of messages from a router: by kafka-python, by confluent-kafka, or over HTTP.

All run on the producer's own thread and may block there. Each is a function that connects, so that
a router can start while the broker is away.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from consumers.producing.making import Message

SECONDS = 30.0
"""Time for a batch before it is tried again."""
MAX_REQUEST = 768 * 1024
"""Most bytes of an HTTP request; the service accepts 1 MiB."""
MAX_REQUEST_EVENTS = 500


class TransportError(Exception):
    """Error for a batch not written, or with an unknown outcome; it will be sent again."""


class Transport(Protocol):
    """Writer of messages for a :class:`consumers.producing.Producer`, on its thread."""

    def send(self, messages: Sequence[Message]) -> int:
        """Write messages in this order; return the number written, once all outcomes are known.

        The rest were refused for good. Any exception means that the whole batch must be sent
        again, which may write some messages twice: the service recognises copies.
        """

    def close(self) -> None:
        """Close the connection, when nothing is being sent."""


Encode = Callable[[Message], bytes]
"""Encodes a message. An exception means that its batch must be sent again."""
Open = Callable[[], Transport]
"""Connects. Any exception means that it must be tried again."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of the topics of decisions and of labels."""

    decisions: str = "decisions"
    labels: str = "labels"

    def of(self, message: Message) -> str:
        """Return the name of the topic for a message."""
        return self.decisions if message.kind == "decision" else self.labels


def kafka_python(
    bootstrap_servers: str | Sequence[str],
    topics: Topics = Topics(),
    *,
    encode: Encode = Message.to_bytes,
    **more: Any,
) -> Open:
    """Return a function that opens a transport using the package kafka-python.

    Args:
        bootstrap_servers: ``host:port`` of one or more brokers.
        topics: topics to write to; they must exist.
        encode: makes the bytes; :func:`~consumers.producing.avro` for a schema registry.
        more: further arguments of ``kafka.KafkaProducer``, such as those for TLS and SASL.
    """

    def connect() -> Transport:
        """Open a producer that waits for all replicas and keeps the order."""
        from kafka import KafkaProducer  # noqa: PLC0415 - only where it is used

        waits = int(SECONDS * 1000)
        settings: dict[str, Any] = {
            "acks": "all",
            "enable_idempotence": False,  # copies are recognised; this needs one right less
            "max_in_flight_requests_per_connection": 1,  # else a retry could change the order
            "delivery_timeout_ms": waits,
            "request_timeout_ms": waits // 2,
            "max_block_ms": waits,
            "allow_auto_create_topics": False,
        }
        return _KafkaPython(
            KafkaProducer(bootstrap_servers=bootstrap_servers, **settings | more), topics, encode
        )

    return connect


class _KafkaPython:
    """Transport by kafka-python."""

    def __init__(self, producer: Any, topics: Topics, encode: Encode) -> None:
        self._producer = producer
        self._topics = topics
        self._encode = encode

    def send(self, messages: Sequence[Message]) -> int:
        """Send messages and wait; return how many were written, and raise what can be retried."""
        from kafka.errors import KafkaError, RetriableError  # noqa: PLC0415 - only where it is used

        values = [self._encode(message) for message in messages]
        futures = [
            self._producer.send(self._topics.of(message), value, key=message.key)
            for message, value in zip(messages, values, strict=True)
        ]
        written = 0
        for future in futures:
            try:
                future.get(timeout=SECONDS)
            except RetriableError:
                raise
            except KafkaError:
                continue
            written += 1
        return written

    def close(self) -> None:
        close_kafka_python(self._producer, 1)


def close_kafka_python(client: Any, seconds: float) -> None:
    """Close a producer of kafka-python for good, even with waiting records.

    Its own ``close`` fails while a record waits for a deleted topic, and leaves a thread that uses
    up a processor.

    Args:
        client: the ``kafka.KafkaProducer``.
        seconds: time for waiting records.
    """
    from kafka.errors import KafkaTimeoutError  # noqa: PLC0415 - only where it is used

    try:
        client.close(timeout=seconds)
    except KafkaTimeoutError:
        client._sender.force_close()  # no public way to drop waiting records
        client.close(timeout=seconds)


def confluent(
    bootstrap_servers: str,
    topics: Topics = Topics(),
    more: Mapping[str, Any] | None = None,
    *,
    encode: Encode = Message.to_bytes,
) -> Open:
    """Return a function that opens a transport using the package confluent-kafka.

    Args:
        bootstrap_servers: ``host:port``, several with commas between them.
        topics: topics to write to; they must exist.
        more: further settings of librdkafka, such as ``{"security.protocol": "SSL"}``.
        encode: as for :func:`kafka_python`.
    """

    def connect() -> Transport:
        """Open a producer that waits for all replicas and keeps the order."""
        from confluent_kafka import Producer  # noqa: PLC0415 - only where it is used

        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            # As all other clients choose: else copies from another client may go to another
            # partition.
            "partitioner": "murmur2_random",
            "max.in.flight.requests.per.connection": 1,
            "message.timeout.ms": int(SECONDS * 1000),
            "log_level": 0,  # the producer logs once that a broker is away, not twice a second
        }
        return _Confluent(Producer({**settings, **(more or {})}), topics, encode)

    return connect


class _Confluent:
    """Transport by confluent-kafka."""

    def __init__(self, producer: Any, topics: Topics, encode: Encode) -> None:
        self._producer = producer
        self._topics = topics
        self._encode = encode

    def send(self, messages: Sequence[Message]) -> int:
        """Send messages and wait; return how many were written, and raise what can be retried."""
        errors: list[Any] = []

        def record_outcome(error: Any, _: Any) -> None:
            errors.append(error)

        values = [self._encode(message) for message in messages]
        for message, value in zip(messages, values, strict=True):
            self._producer.produce(
                self._topics.of(message), value, key=message.key, on_delivery=record_outcome
            )
        self._producer.flush(2 * SECONDS)
        failures = [error for error in errors if error is not None]
        # A message that ran out of time has one of librdkafka's own error codes (below 0).
        if len(errors) < len(messages) or any(e.retriable() or e.code() < 0 for e in failures):
            raise TransportError(str(failures[0]) if failures else "no answer from the broker")
        return len(errors) - len(failures)

    def close(self) -> None:
        self._producer.flush(1)


def http(
    url: str, *, token: str | None = None, ca_file: str | Path | None = None, timeout: float = 10.0
) -> Open:
    """Return a function that opens a transport to a service's ``server.producers``, by HTTP.

    Args:
        url: address, such as ``https://slicewatch.example:9095/v1/events``.
        token: token of a producer.
        ca_file: authority of the service's certificate; None takes the system's.
        timeout: seconds that each step of a request may take.

    Raises:
        ValueError: the address is not valid.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("url must begin with http:// or https:// and name a host")
    host, port, path = parts.hostname, parts.port, parts.path or "/v1/events"
    headers = {"Content-Type": "application/x-ndjson"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"

    def connect() -> Transport:
        def connection() -> HTTPConnection:
            if parts.scheme == "http":
                return HTTPConnection(host, port, timeout=timeout)
            trust = ssl.create_default_context(cafile=ca_file)
            return HTTPSConnection(host, port, timeout=timeout, context=trust)

        return _Http(connection, path, headers)

    return connect


class _Http:
    """Transport that posts batches over HTTP, each on its own connection, without redirects."""

    def __init__(
        self, connection: Callable[[], HTTPConnection], path: str, headers: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._path = path
        self._headers = headers

    def send(self, messages: Sequence[Message]) -> int:
        return sum(self._post(body) for body in _bodies(messages))

    def close(self) -> None:
        pass

    def _post(self, body: bytes) -> int:
        """Post events, and return how many were written; a TransportError may be retried."""
        connection = self._connection()
        try:
            connection.request("POST", self._path, body, dict(self._headers))
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except HTTPException as error:
            raise TransportError(type(error).__name__) from error
        finally:
            connection.close()
        if status not in (200, 422):
            raise TransportError(f"HTTP status {status}")
        return int(json.loads(content)["written"])


def _bodies(messages: Sequence[Message]) -> Iterator[bytes]:
    """Yield request bodies of JSON lines, each of a size that the service accepts."""
    lines: list[bytes] = []
    size = 0
    for message in messages:
        if lines and (size + len(message.value) >= MAX_REQUEST or len(lines) >= MAX_REQUEST_EVENTS):
            yield b"\n".join(lines)
            lines, size = [], 0
        lines.append(message.value)
        size += len(message.value) + 1
    if lines:
        yield b"\n".join(lines)
