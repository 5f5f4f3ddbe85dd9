"""Where partitions end, asked beside the client that reads them."""

from __future__ import annotations

from collections.abc import Collection

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from consumers.sources.kafka_topics import KafkaConnection
from monitor.ports import Shard

CLOSE_MILLISECONDS = 1000


def ask_ends(connection: KafkaConnection, shards: Collection[Shard]) -> dict[Shard, int]:
    """Next offset to be written of each shard, by a client of its own.

    A consumer that cannot receive what it fetches never learns where its partitions end, and
    its connection is busy failing. No answer: SourceError.
    """
    wheres = {TopicPartition(shard.topic, shard.partition): shard for shard in shards}
    try:
        client = KafkaConsumer(
            **connection.client(), enable_auto_commit=False, metrics_enabled=False
        )
        try:
            ends = client.end_offsets(list(wheres), timeout_ms=int(connection.timeout * 1000))
        finally:
            client.close(autocommit=False, timeout_ms=CLOSE_MILLISECONDS)
    except KafkaError as error:
        raise connection.failure(error) from error
    return {wheres[where]: int(end) for where, end in ends.items()}
