"""Kafka brokers: their addresses, access to them, and their metadata of topics and ends."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    RetriableError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)

from consumers.sources.kafka_preflight import Need, check_access
from monitor.errors import AccessError, MissingTopicError, SourceError
from monitor.records import Shard

NO_TOPIC_ID = "00000000-0000-0000-0000-000000000000"
UNKNOWN_TOPIC, NOT_AUTHORIZED = 3, 29
DEFAULT_PORT = 9092
RETRY_SECONDS = 0.1
NOTHING = Need()


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Addresses of the Kafka brokers, and security settings to connect with.

    Attributes:
        bootstrap_servers: ``host:port`` of one or more brokers.
        client_id: our name in the broker's logs and quotas.
        security: kafka-python's own arguments: ``security_protocol``, ``sasl_*``, ``ssl_*``.
        timeout: seconds until a broker counts as unreachable when connecting.
    """

    bootstrap_servers: tuple[str, ...]
    client_id: str = "slicewatch"
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout: float = 10.0

    @property
    def address(self) -> str:
        """Return the brokers' addresses, separated by commas."""
        return ",".join(self.bootstrap_servers)

    def client(self) -> dict[str, Any]:
        """Return the keyword arguments with which every kafka-python client is opened."""
        return {
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "bootstrap_timeout_ms": int(self.timeout * 1000),
            **self.security,
        }

    def check_access(self, need: Need = NOTHING) -> None:
        """Check connection, login and rights at the brokers in turn; raise AccessError if refused.

        Raises:
            AccessError: no broker does; the message is that of the first one that could be reached.
        """
        refused: list[AccessError] = []
        reasons = []
        for server in self.bootstrap_servers:
            timeout = self.timeout / len(self.bootstrap_servers)
            try:
                check_access(_address(server), self.security, need, timeout)
            except AccessError as error:
                refused.append(error)
            except OSError as error:
                reasons.append(f"{server}: {error.strerror or error}")
            else:
                return
        if refused:
            raise refused[0]
        raise AccessError(
            f"no Kafka broker can be reached ({'; '.join(reasons)}): check "
            "stream.bootstrap_servers and that the broker runs"
        )

    def failure(self, error: KafkaError) -> SourceError:
        """Return a one-line SourceError for an error from which a client could not recover."""
        if isinstance(error, KafkaConfigurationError):
            return SourceError(f"the Kafka client refuses its settings: {error}")
        return SourceError(
            f"Kafka at {self.address} cannot be used: {error}; slicewatch check --connect "
            "says whether it lets us in and read"
        )


class KafkaTopics:
    """Reader of topics' metadata, through an administration client that is opened once.

    Raises SourceError when no broker can be reached or access is refused.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        connection.check_access()
        try:
            self._admin = KafkaAdminClient(
                **connection.client(), request_timeout_ms=int(connection.timeout * 1000)
            )
        except KafkaError as error:
            raise connection.failure(error) from error
        except (OSError, ValueError, TypeError, AssertionError) as error:
            raise SourceError(f"the Kafka client refuses its settings: {error}") from error

    def partitions(self, topic: str) -> Sequence[int]:
        """Return a topic's partition numbers; raise SourceError if it is unknown or unreadable."""
        return sorted(
            int(partition["partition_index"]) for partition in self._describe(topic)["partitions"]
        )

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic; None if the broker gives none."""
        identity = str(self._describe(topic).get("topic_id") or NO_TOPIC_ID)
        return None if identity == NO_TOPIC_ID else identity

    def create(self, topic: str, partitions: int, keep: int) -> bool:
        """Create a topic that keeps messages for ``keep`` us; return False if it exists.

        Kafka stamps its messages on arrival: by a producer's old times it would delete them early.
        The number of replicas is the broker's default.
        """
        configs = {"retention.ms": str(keep // 1_000), "message.timestamp.type": "LogAppendTime"}
        options = {"num_partitions": partitions, "configs": configs}
        try:
            self._admin.create_topics({topic: options}, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return False
        except (ClusterAuthorizationFailedError, TopicAuthorizationFailedError):
            raise AccessError(
                f"topic {topic} may not be created by this user: allow it with kafka-acls.sh --add "
                f"--allow-principal User:NAME --operation Create --topic {topic}"
            ) from None
        except KafkaError as error:
            raise self._connection.failure(error) from error
        return True

    def retention(self, topic: str) -> float | None:
        """Return how long a topic keeps messages, in microseconds or infinite; None if unknown.

        A user without the operation DescribeConfigs gets no answer. Unchanged defaults count too,
        so this asks for the whole configuration.
        """
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        try:
            configuration = self._admin.describe_configs([resource], config_filter="all")
        except KafkaError as error:
            raise self._connection.failure(error) from error
        value = configuration.get("topic", {}).get(topic, {}).get("retention.ms", {}).get("value")
        if value is None:
            return None
        return int(value) * 1_000 if int(value) >= 0 else math.inf

    def close(self) -> None:
        """Close the connection; calling it twice is safe."""
        self._admin.close()

    def _describe(self, topic: str) -> dict[str, Any]:
        described = self._ask(topic)
        code = described["error_code"]
        if code == 0:
            return described
        reasons = {UNKNOWN_TOPIC: "does not exist", NOT_AUTHORIZED: "may not be read by this user"}
        kind = MissingTopicError if code == UNKNOWN_TOPIC else SourceError
        raise kind(
            f"topic {topic} {reasons.get(code, f'cannot be described (Kafka error {code})')} at "
            f"{self._connection.address}: check the topic's name, that it was created "
            "and the user's rights"
        )

    def _ask(self, topic: str) -> dict[str, Any]:
        """Return the metadata of a topic; ask again, up to the timeout, while a broker is away."""
        deadline = time.monotonic() + self._connection.timeout
        while True:
            try:
                (described,) = self._admin.describe_topics([topic])
            except RetriableError as error:
                if time.monotonic() > deadline:
                    raise self._connection.failure(error) from error
                time.sleep(RETRY_SECONDS)
            except KafkaError as error:
                raise self._connection.failure(error) from error
            else:
                return dict(described)


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    if not port.isdigit():
        host, port = server, str(DEFAULT_PORT)
    return host.strip("[]"), int(port)


CLOSE_MILLISECONDS = 1000
ALONE_MILLISECONDS = 500
"""Longest wait for the end of one partition, when the broker was reached before."""


def ask_ends(connection: KafkaConnection, shards: Collection[Shard]) -> dict[Shard, int]:
    """Return the end offset (the next one to be written) of each shard that a broker reports.

    This uses a client of its own: a consumer that cannot receive its fetches never learns where its
    partitions end, and its connection is busy failing. No answer at all: SourceError.
    """
    partitions = {TopicPartition(shard.topic, shard.partition): shard for shard in shards}
    try:
        client = KafkaConsumer(
            **connection.client(), enable_auto_commit=False, metrics_enabled=False
        )
        try:
            ends = _ask_for_ends(client, list(partitions), connection.timeout)
        finally:
            client.close(autocommit=False, timeout_ms=CLOSE_MILLISECONDS)
    except KafkaError as error:
        raise connection.failure(error) from error
    return {partitions[partition]: int(end) for partition, end in ends.items()}


def _ask_for_ends(
    client: KafkaConsumer, partitions: list[TopicPartition], timeout: float
) -> dict[TopicPartition, int]:
    """Return the end offsets of partitions, asked at once or, if that fails, one by one."""
    try:
        return dict(client.end_offsets(partitions, timeout_ms=int(timeout * 1000)))
    except (KafkaTimeoutError, KeyError):
        pass  # KeyError: the client misses partitions without a leader in its own answer
    deadline = time.monotonic() + timeout
    ends: dict[TopicPartition, int] = {}
    for partition in partitions:
        if time.monotonic() < deadline:
            with suppress(KafkaTimeoutError):
                ends |= client.end_offsets([partition], timeout_ms=ALONE_MILLISECONDS)
    if not ends:
        raise KafkaTimeoutError("no leader of these partitions answers")
    return ends
