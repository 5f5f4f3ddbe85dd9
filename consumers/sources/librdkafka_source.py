"""Source of Kafka through librdkafka, several times as fast, from an optional package.

Properties of confluent-kafka 2.16 that shape the code:

* Callbacks of the group run inside ``consume``, on our thread.
* The client drops fetched messages when a partition is held, moved or taken, and reads again from
  the position it is given.
* Errors arrive among the messages. Few mean anything: a broker that is away or refuses us is
  silence, as with the other client, and the caller's watchdog reports it.
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
    topic_partition,
)
from monitor.errors import SourceError
from monitor.records import Polled, RecordBatch, Shard, Start

GATHER_SECONDS = 0.05
"""Time that a poll with a message waits for more: the client returns early only when full."""
HELD_SECONDS = 2.0
MAX_RECORDS = 5000


class RdkafkaSource(GroupSource):
    """Source that reads topics as a member of a consumer group; fulfils ``RecordSource``.

    Args:
        connection: as all further arguments, see :class:`GroupSource`.
        max_records: most messages per poll.
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
        """Wait for messages and return them; none while a broker is away or refuses access.

        Raises DataLossError for a lost position and SourceError when reading cannot go on.
        """
        self._raise_due_errors()
        messages, events = split(self._consume(timeout))
        for error, _ in events:
            if error.code() in HOPELESS:  # later messages must not be delivered
                raise failure(self._connection, error)
        revoked, assigned = self._apply_rebalance()
        self._ends_known.difference_update(revoked, assigned)
        records = self._records(messages)
        for error, message in events:
            self._take_event(error, message)
        return Polled(records, assigned, revoked)

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Return True if we are members, proved by a synchronous commit, which a zombie is refused.

        The commit repeats the committed position, so nothing changes for lag tools.
        """
        # Without a member id the client commits as if outside any group, and an empty group
        # accepts that.
        if self._closed or not all(map(self._delivery.owns, shards)) or not self._client.memberid():
            return False
        try:
            # This has a timeout, unlike the commit: it shows that the coordinator answers.
            offsets = self._client.committed(
                [topic_partition(shard) for shard in shards], COMMIT_SECONDS
            )
            for partition in offsets:
                partition.offset = max(partition.offset, 0)
            committed = self._client.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return False
        return all(partition.error is None for partition in committed or ())

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Return the first offset to read: earliest, latest, or first stamped at or after a time.

        No answer: SourceError.
        """
        partition = topic_partition(shard)
        try:
            if start.policy == "time" and start.at is not None:
                partition.offset = -(-start.at // 1000)
                (answer,) = self._client.offsets_for_times([partition], self._connection.timeout)
                if answer.offset >= 0:
                    return int(answer.offset)
            low, high = self._ends(shard, self._connection.timeout)
        except KafkaException as error:
            raise SourceError(
                f"cannot find the {start.policy} offset of {shard} at "
                f"{self._connection.address}: {text_of(error.args[0])}"
            ) from error
        return low if start.policy == "earliest" else high

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver an assigned shard from ``offset`` on; ``poll`` reports a lost position."""
        self._delivery.begin(shard, offset)
        self._ends_known.discard(shard)  # the client's end may be from before
        with in_one_line(self._connection):
            self._fetching.hold(shard)
        self._let_flow()

    def high_water(self, shard: Shard) -> int | None:
        """Return the next offset to be written, as of the last fetch; None before the first."""
        if shard not in self._ends_known:
            return None
        _, high = self._client.get_watermark_offsets(topic_partition(shard), cached=True)
        return high if high >= 0 else None

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Commit positions in the background, only for lag tools; errors are ignored."""
        offsets = [
            TopicPartition(shard.topic, shard.partition, at)
            for shard, at in positions.items()
            if self._delivery.owns(shard)
        ]
        try:
            if offsets:
                self._client.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            return  # only a hint for lag tools: our own positions are in the store

    def _leave(self) -> None:
        close_client(self._client)

    def _consume(self, timeout: float) -> list[Message]:
        """Wait for a first message, and shortly for more to go with it."""
        with in_one_line(self._connection):
            messages = self._client.consume(1, timeout)
            if messages:
                rest = min(timeout, GATHER_SECONDS)
                messages += self._client.consume(self._max_records - 1, rest)
        return messages

    def _records(self, messages: Sequence[Message]) -> list[RecordBatch]:
        records = []
        for shard, shard_messages in by_shard(messages):
            if shard in self._fetching.running:
                self._reached(shard, last_offset(shard_messages) + 1)
                records.append(columns(shard, shard_messages, self.high_water(shard)))
        return records

    def _reached(self, shard: Shard, offset: int) -> None:
        self._delivery.positions[shard] = max(offset, self._delivery.positions[shard])
        self._ends_known.add(shard)

    def _let_flow(self) -> None:
        """Make the client fetch exactly the shards that may flow, each from our own position."""
        flowing = set(self._delivery.flowing())
        with in_one_line(self._connection):
            for shard in self._fetching.running - flowing:
                self._fetching.hold(shard)
            for shard in flowing - self._fetching.running:
                self._fetching.run(shard, self._delivery.positions[shard])

    def _take_event(self, error: KafkaError, message: Message) -> None:
        """Handle an event of the client: the end of a partition, lost offsets, or a notice."""
        shard = Shard(message.topic() or "", message.partition() or 0)
        is_running = shard in self._fetching.running
        if error.code() == KafkaError._PARTITION_EOF:
            if is_running:
                self._reached(shard, message.offset() or 0)
        elif error.code() in LOST:
            if is_running:  # reported by the next poll: this one may have brought messages
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
        ends = self._client.get_watermark_offsets(topic_partition(shard), timeout, cached=False)
        if ends is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return ends
