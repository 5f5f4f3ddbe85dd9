"""Where partitions end, asked beside the client that reads them."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from consumers.sources.kafka_topics import KafkaConnection
from monitor.ports import Shard

CLOSE_MILLISECONDS = 1000
ALONE_MILLISECONDS = 500
"""How long to wait for the end of one partition, when the broker was found before."""


def ask_ends(connection: KafkaConnection, shards: Collection[Shard]) -> dict[Shard, int]:
    """Next offset to be written of each shard that anybody tells of, by a client of its own.

    A consumer that cannot receive what it fetches never learns where its partitions end, and
    its connection is busy failing. No answer at all: SourceError.
    """
    wheres = {TopicPartition(shard.topic, shard.partition): shard for shard in shards}
    try:
        client = KafkaConsumer(
            **connection.client(), enable_auto_commit=False, metrics_enabled=False
        )
        try:
            ends = _ends(client, list(wheres), connection.timeout)
        finally:
            client.close(autocommit=False, timeout_ms=CLOSE_MILLISECONDS)
    except KafkaError as error:
        raise connection.failure(error) from error
    return {wheres[where]: int(end) for where, end in ends.items()}


def _ends(
    client: KafkaConsumer, wheres: list[TopicPartition], timeout: float
) -> dict[TopicPartition, int]:
    """All at once, or else one by one: a leader that is away takes the answers of all with it."""
    try:
        return dict(client.end_offsets(wheres, timeout_ms=int(timeout * 1000)))
    except (KafkaTimeoutError, KeyError):
        pass  # the client looks in vain for a partition without a leader in its own answer
    deadline = time.monotonic() + timeout
    ends: dict[TopicPartition, int] = {}
    for where in wheres:
        if time.monotonic() < deadline:
            with suppress(KafkaTimeoutError):
                ends |= client.end_offsets([where], timeout_ms=ALONE_MILLISECONDS)
    if not ends:
        raise KafkaTimeoutError("no leader of these partitions answers")
    return ends
