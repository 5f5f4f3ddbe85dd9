"""Connections to Kafka and to a schema registry, from the settings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core.time import SECOND
from monitor.errors import SettingsError
from monitor.ports import RecordSource
from monitor.records import Shard
from monitor.settings import Settings
from monitor.settings.sections import Security, StreamSettings

if TYPE_CHECKING:
    from consumers.sources.kafka_admin import KafkaConnection
    from consumers.sources.kafka_preflight import Need
    from consumers.sources.kafka_writer import KafkaWriter
    from consumers.sources.librdkafka_source import RdkafkaSource
    from consumers.wire import SchemaRegistry

ACCESS_TIMEOUT = 4.0  # seconds; short, so that a silent broker is reported soon
WRITE_SECONDS = 8.0
"""Time for the broker to write a batch received over HTTP; after it the client sends again."""


def kafka_arguments(security: Security) -> dict[str, object]:
    """Return the security settings as arguments of the Kafka client; unset ones are left out."""
    arguments = {
        "security_protocol": security.protocol,
        "sasl_mechanism": security.sasl_mechanism,
        "sasl_plain_username": security.username,
        "sasl_plain_password": security.password.reveal() if security.password else None,
        "ssl_cafile": security.ca_file,
        "ssl_certfile": security.cert_file,
        "ssl_keyfile": security.key_file,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def kafka_connection(settings: Settings) -> KafkaConnection:
    """Return the addresses and credentials of the brokers as a KafkaConnection; open nothing."""
    from consumers.sources.kafka_admin import KafkaConnection  # noqa: PLC0415 - slow to load

    stream = settings.stream
    return KafkaConnection(stream.bootstrap_servers, security=kafka_arguments(stream.security))


def check_access(settings: Settings, *, writes: bool = False) -> None:
    """Raise AccessError unless a broker lets us read the topics, and write if ``writes`` is set.

    With ``writes`` it also checks access to what is written: events that come over HTTP. An
    embedded run needs no broker.
    """
    if settings.stream.embedded:
        return
    need = _need(settings.stream)
    if writes and settings.server.producers:
        need = replace(need, written=need.topics)
    replace(kafka_connection(settings), timeout=ACCESS_TIMEOUT).check_access(need)


def _need(stream: StreamSettings) -> Need:
    """Return the topics and the consumer group that a worker needs rights for."""
    from consumers.sources.kafka_preflight import Need  # noqa: PLC0415 - slow to load

    return Need(stream.topics, stream.group_id)


def ask_ends(settings: Settings, shards: Collection[Shard]) -> dict[Shard, int]:
    """Return the end offset of each partition, asked of the broker by a separate client.

    Raises:
        SourceError: no answer within moments.
    """
    from consumers.sources import kafka_admin  # noqa: PLC0415 - slow to load

    connection = replace(kafka_connection(settings), timeout=ACCESS_TIMEOUT)
    connection.check_access()
    return kafka_admin.ask_ends(connection, shards)


def kafka_source(settings: Settings) -> RecordSource:
    """Check access, and return the record source made with the Kafka client of the settings."""
    from consumers.sources.kafka_source import KafkaSource  # noqa: PLC0415 - slow to load

    stream, connection = settings.stream, kafka_connection(settings)
    source = _rdkafka_source() if stream.client == "librdkafka" else KafkaSource
    # Without this check the clients report refused access late, in many lines, or never.
    connection.check_access(_need(stream))
    return source(
        connection,
        stream.topics,
        stream.group_id,
        group_instance_id=stream.instance,
        session_timeout=stream.session_timeout / SECOND,
    )


def _rdkafka_source() -> type[RdkafkaSource]:
    """Return the source class of librdkafka; an error if its package is not installed."""
    try:
        from consumers.sources.librdkafka_source import RdkafkaSource  # noqa: PLC0415 - optional
    except ImportError as error:
        raise SettingsError(
            'stream.client: "librdkafka" needs a package that is not installed; '
            'pip install "slicewatch[librdkafka]", or set "kafka-python"'
        ) from error
    return RdkafkaSource


def schema_registry(settings: Settings) -> SchemaRegistry | None:
    """Return a client of the Avro schema registry; None if all messages are JSON.

    Raises:
        SettingsError: the package that reads Avro is not installed.
        AccessError: a file named in the settings cannot be used.
    """
    registry = settings.stream.schema_registry
    if registry.url is None:
        return None
    try:
        from consumers.wire import RegistryAccess, SchemaRegistry  # noqa: PLC0415 - optional
    except ImportError as error:
        raise SettingsError(
            "stream.schema_registry: Avro needs a package that is not installed; "
            'pip install "slicewatch[avro]", or remove the section'
        ) from error
    return SchemaRegistry(
        RegistryAccess(
            url=registry.url.rstrip("/"),
            username=registry.username,
            password=registry.password.reveal() if registry.password else None,
            token=registry.token.reveal() if registry.token else None,
            ca_file=registry.ca_file,
            cert_file=registry.cert_file,
            key_file=registry.key_file,
        )
    )


def kafka_writer(settings: Settings) -> KafkaWriter:
    """Return a writer to both topics, which connects when it is first used."""
    from consumers.sources.kafka_writer import KafkaWriter  # noqa: PLC0415 - slow to load

    connection = replace(kafka_connection(settings), timeout=ACCESS_TIMEOUT)
    return KafkaWriter(connection, settings.stream.topics, WRITE_SECONDS)
