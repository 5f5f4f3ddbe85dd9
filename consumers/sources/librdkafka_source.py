"""Kafka through librdkafka: several times as fast as the other client, from an optional package.

What shapes the code (confluent-kafka 2.16):

* Callbacks of the group run inside ``consume``, on our thread.
* Whatever is fetched ahead is dropped by the client itself when a partition is held, moved or
  taken, and read again from the position it is given.
* Errors arrive as messages among the others. Few mean anything: a broker that is away or refuses
  us is silence, as with the other client, and the caller's watchdog says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from consumers.sources.base import (
    COMMIT_SECONDS,
    GroupSource,
    Membership,
    MembershipOptions,
    data_loss,
)
from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.librdkafka_client import (
    HOPELESS,
    LOST,
    Fetching,
    by_shard,
    close_client,
    columns,
    failure,
    in_one_line,
    last_offset,
    log,
    open_client,
    split,
    text_of,
    where_of,
)
from monitor.errors import SourceError
from monitor.ports import Polled, RecordBatch, Shard, Start

GATHER_SECONDS = 0.05
"""Time that a poll with a message waits for more: the client returns early only when full."""
HELD_SECONDS = 2.0
MAX_RECORDS = 5000


class RdkafkaSource(GroupSource):
    """Reads topics as a member of a consumer group; fulfils ``RecordSource``.

    Args:
        connection: like all that is not named here, as of :class:`GroupSource`.
        max_records: messages per poll at most.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Sequence[str],
        group: str,
        *,
        max_records: int = MAX_RECORDS,
        **options: Unpack[MembershipOptions],
    ) -> None:
        self._max_records = max_records
        self._ends_known: set[Shard] = set()
        super().__init__(connection, topics, group, **options)

    def _join(self, topics: Sequence[str], membership: Membership) -> None:
        self._client = open_client(self._connection, membership)
        self._fetching = Fetching(self._client, self._changes)
        with in_one_line(self._connection):
            self._fetching.join(topics)

    def poll(self, timeout: float) -> Polled:
        """Wait for messages; empty as well while a broker is away or refuses access.

        Raises DataLossError for a lost position and SourceError when it cannot be read on.
        """
        self._require_more()
        messages, events = split(self._consume(timeout))
        for error, _ in events:
            if error.code() in HOPELESS:  # what comes behind it must not be delivered
                raise failure(self._connection, error)
        revoked, assigned = self._rebalance()
        self._ends_known.difference_update(revoked, assigned)
        records = self._records(messages)
        for error, message in events:
            self._take_event(error, message)
        return Polled(records, assigned, revoked)

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Prove membership by a synchronous commit, which a zombie is refused.

        The commit repeats the committed position, so nothing changes for lag tools.
        """
        # Without a member's name the client commits like one outside any group, and an empty
        # group takes that.
        if self._closed or not all(map(self._delivery.owns, shards)) or not self._client.memberid():
            return False
        try:
            # With a timeout, unlike the commit: it shows that the coordinator is there.
            offsets = self._client.committed([where_of(one) for one in shards], COMMIT_SECONDS)
            for where in offsets:
                where.offset = max(where.offset, 0)
            kept = self._client.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return False
        return all(where.error is None for where in kept or ())

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Resolve earliest, latest or the first message stamped at or after a time.

        No answer: SourceError.
        """
        where = where_of(shard)
        try:
            if start.policy == "time" and start.at is not None:
                where.offset = -(-start.at // 1000)
                (found,) = self._client.offsets_for_times([where], self._connection.timeout)
                if found.offset >= 0:
                    return int(found.offset)
            low, high = self._ends(shard, self._connection.timeout)
        except KafkaException as error:
            raise SourceError(
                f"cannot find the {start.policy} offset of {shard} at "
                f"{self._connection.address}: {text_of(error.args[0])}"
            ) from error
        return low if start.policy == "earliest" else high

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver an assigned shard from ``offset`` on; a lost position shows in ``poll``."""
        self._delivery.begin(shard, offset)
        self._ends_known.discard(shard)  # what the client knows may be from before
        with in_one_line(self._connection):
            self._fetching.hold(shard)
        self._let_flow()

    def high_water(self, shard: Shard) -> int | None:
        """Next offset to be written, as of the last fetch; None before the first."""
        if shard not in self._ends_known:
            return None
        _, high = self._client.get_watermark_offsets(where_of(shard), cached=True)
        return high if high >= 0 else None

    def position(self, shard: Shard) -> int | None:
        """Next offset that will be read: past control and aborted records at the end."""
        return self._delivery.positions.get(shard)

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Commit positions in the background; nobody waits and nobody reads them but lag tools."""
        offsets = [
            TopicPartition(shard.topic, shard.partition, at)
            for shard, at in positions.items()
            if self._delivery.owns(shard)
        ]
        try:
            if offsets:
                self._client.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            return  # a hint for others; fenced or not, our own truth is in the store

    def _leave(self) -> None:
        close_client(self._client)

    def _consume(self, timeout: float) -> list[Message]:
        with in_one_line(self._connection):
            messages = self._client.consume(1, timeout)
            if messages:
                rest = min(timeout, GATHER_SECONDS)
                messages += self._client.consume(self._max_records - 1, rest)
        return messages

    def _records(self, messages: Sequence[Message]) -> list[RecordBatch]:
        records = []
        for shard, own in by_shard(messages):
            if shard in self._fetching.running:
                self._reached(shard, last_offset(own) + 1)
                records.append(columns(shard, own, self.high_water(shard)))
        return records

    def _reached(self, shard: Shard, offset: int) -> None:
        self._delivery.positions[shard] = max(offset, self._delivery.positions[shard])
        self._ends_known.add(shard)

    def _let_flow(self) -> None:
        """Make the client fetch what may flow and nothing else, each from our own position."""
        flowing = set(self._delivery.flowing())
        with in_one_line(self._connection):
            for shard in self._fetching.running - flowing:
                self._fetching.hold(shard)
            for shard in flowing - self._fetching.running:
                self._fetching.run(shard, self._delivery.positions[shard])

    def _take_event(self, error: KafkaError, message: Message) -> None:
        shard = Shard(message.topic() or "", message.partition() or 0)
        ours = shard in self._fetching.running
        if error.code() == KafkaError._PARTITION_EOF:
            if ours:
                self._reached(shard, message.offset() or 0)
        elif error.code() in LOST:
            if ours:  # reported by the next poll: this one may have brought messages
                self._losses_to_report.append(self._park(shard))
        else:
            log.info("%s", text_of(error))

    def _park(self, shard: Shard) -> SourceError:
        offset = self._delivery.positions[shard]
        self._delivery.park(shard)
        with in_one_line(self._connection):
            self._fetching.drop(shard)
        return data_loss(shard, offset, self._held(shard))

    def _held(self, shard: Shard) -> str:
        try:
            low, high = self._ends(shard, HELD_SECONDS)
        except KafkaException:
            return "the broker no longer holds it"
        return f"the topic holds {low} to {high}"

    def _ends(self, shard: Shard, timeout: float) -> tuple[int, int]:
        found = self._client.get_watermark_offsets(where_of(shard), timeout, cached=False)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found
