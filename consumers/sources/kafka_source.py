"""Source of Kafka through kafka-python, in a consumer group whose offsets live in our store.

Properties of kafka-python 3.0.12 that shape the code:

* The rebalance listener runs on the client's IO thread while :meth:`KafkaSource.poll` is blocked.
  Commits and positions are refused there, so it only seeks, pauses and notes; ``poll`` reports.
* ``poll`` raises nothing while a broker is away: it returns nothing, and the caller's watchdog
  judges the silence. A broker that refuses us looks the same to our caller: a restart would not
  help, and the client goes on by itself when access is given back.
* The client must not know where our positions come from: no reset policy, no automatic commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    RetriableError,
    SaslAuthenticationFailedError,
)
from kafka.structs import MemberState, OffsetAndMetadata

from consumers.sources.base import (
    CLOSE_SECONDS,
    COMMIT_SECONDS,
    MAX_POLL_SECONDS,
    GroupSource,
    Membership,
    MembershipOptions,
    ShardChanges,
    data_loss,
)
from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_batches import PackedRecords, columns
from monitor.errors import SourceError
from monitor.records import Polled, RecordBatch, Shard, Start

JOIN_SECONDS = 0.5
"""Shortest poll while the group joins; a stop waits at most as long."""
LOSS_GRACE_SECONDS = 10.0
"""Time that a high water below our position must last to count as a loss: after a change of leader
it lags for a moment on a healthy broker."""

FIXED = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "isolation_level": "read_committed",
    "allow_auto_create_topics": False,
    # Answers of a fetch session leave out partitions without news: the high water of a partition
    # that is caught up from the start would never be known.
    "enable_incremental_fetch_sessions": False,
    "reconnect_backoff_max_ms": 2000,  # by default a broker that is back is found after 30 s
    # A poll returns everything that was fetched. Else records of a paused shard would stay in the
    # client for ever once other shards were read after it. So the size of a fetch keeps a batch
    # small; it still brings a first message of any size.
    "max_poll_records": 1 << 30,
    "max_partition_fetch_bytes": 2 << 20,
    "fetch_max_bytes": 8 << 20,
    "receive_message_max_bytes": 128 << 20,
    "max_poll_interval_ms": int(MAX_POLL_SECONDS * 1000),
    "check_crcs": True,
    # Time until a new partition is found, here and in librdkafka.
    "metadata_max_age_ms": 10_000,
    "metrics_enabled": False,
}
"""Settings that users cannot change, for exactly-once, data-loss detection or speed."""


def open_consumer(connection: KafkaConnection, membership: Membership) -> KafkaConsumer:
    """Return a kafka-python consumer in the group; raise SourceError without a broker or access."""
    try:
        consumer = KafkaConsumer(
            **connection.client(),
            **FIXED,
            group_id=membership.group,
            group_instance_id=membership.instance,
            session_timeout_ms=int(membership.session * 1000),
            heartbeat_interval_ms=int(membership.heartbeat * 1000),
            partition_assignment_strategy=[CooperativeStickyAssignor()],
        )
    except KafkaError as error:
        raise connection.failure(error) from error
    # All public ways make an object per record, which costs more than all of our work.
    consumer._fetcher.PartitionRecords = PackedRecords
    return consumer


def fetch_end(connection: KafkaConnection, partition: TopicPartition) -> int:
    """Return a partition's end offset, by a fetch, since Tansu's list of offsets is wrong.

    A consumer of its own asks, so that delivery is not disturbed. No answer: KafkaError.
    """
    probe = KafkaConsumer(**connection.client(), **FIXED, fetch_max_wait_ms=10)
    try:
        end = int(probe.end_offsets([partition])[partition])
        probe.assign([partition])
        probe.seek(partition, end)
        for _ in range(50):
            probe.poll(100, max_records=1)
            if (water := probe.highwater(partition)) is not None:
                return max(end, int(water))
    finally:
        probe.close(autocommit=False, timeout_ms=int(CLOSE_SECONDS * 1000))
    raise KafkaTimeoutError("the broker did not answer a fetch")


class RebalanceNotes(ConsumerRebalanceListener):  # type: ignore[misc]
    """Listener to rebalances, on the IO thread: pauses new partitions and notes changes."""

    def __init__(self, consumer: KafkaConsumer, changes: ShardChanges) -> None:
        self._consumer = consumer
        self._changes = changes

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Pause new partitions at a placeholder offset 0; their real positions are set later.

        Without a position the client would look for a committed one, and raise.
        """
        for partition in assigned:
            self._consumer.seek(partition, 0)
            self._consumer.pause(partition)
        self._changes.gave(_shards(assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Note partitions that the coordinator takes back."""
        self._changes.took(_shards(revoked))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Note partitions lost while we were out of the group, and forget our old assignment.

        The client's assignor would still announce them as ours when we join again. The leader then
        waits for us to give up those it wants to move, and nobody gets them.
        """
        for assignor in self._consumer.config["partition_assignment_strategy"]:
            assignor.member_assignment = None
        self.on_partitions_revoked(lost)


class LossWatch:
    """Detector of positions beyond a topic's end, for brokers that do not refuse these (Tansu)."""

    def __init__(self, grace: float, monotonic: Callable[[], float]) -> None:
        self._grace = grace
        self._monotonic = monotonic
        self._since: dict[Shard, float] = {}
        self._before: dict[Shard, int | None] = {}

    def begin(self, shard: Shard, water: int | None) -> None:
        """Forget earlier observations; the end ``water`` is older than the new position."""
        self._since.pop(shard, None)
        self._before[shard] = water

    def lost(self, shard: Shard, position: int, water: int | None) -> bool:
        """Return True if the end ``water`` was below our position for the whole grace."""
        if water is None or water == self._before.get(shard) or water >= position:
            self._since.pop(shard, None)
            return False
        now = self._monotonic()
        return now - self._since.setdefault(shard, now) >= self._grace


class KafkaSource(GroupSource):
    """Source that reads topics as a member of a consumer group; fulfils ``RecordSource``.

    Args:
        connection: as all further arguments, see :class:`GroupSource`.
        loss_grace: seconds until a position beyond the end counts as lost, where the broker does
            not refuse it (Tansu).
        monotonic: clock for ``loss_grace``.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Sequence[str],
        group: str,
        *,
        loss_grace: float = LOSS_GRACE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        **options: Unpack[MembershipOptions],
    ) -> None:
        self._losses = LossWatch(loss_grace, monotonic)
        super().__init__(connection, topics, group, **options)

    def _join(self, topics: Sequence[str], membership: Membership) -> None:
        self._consumer = open_consumer(self._connection, membership)
        for topic in topics:
            # Ask before we join the group: a leader that does not know a topic yet assigns none
            # of its partitions, and may not notice for minutes.
            self._consumer.partitions_for_topic(topic)
        listener = RebalanceNotes(self._consumer, self._changes)
        self._consumer.subscribe(list(topics), listener=listener)

    def poll(self, timeout: float) -> Polled:
        """Wait for messages and return them; none while a broker is away or refuses access.

        Call it again without a pause while joining a group: else Tansu lets nobody in. Raises
        DataLossError for a lost position and SourceError when reading cannot go on.
        """
        self._raise_due_errors()
        self._request_forgotten_join()
        batches = self._fetch(self._join_timeout(timeout))
        revoked, assigned = self._apply_rebalance()
        records = [self._columns(partition, batch) for partition, batch in batches.items()]
        self._find_and_park_lost()
        return Polled(records, assigned, revoked)

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Return True if we are members, proved by a synchronous commit, which a zombie is refused.

        The commit repeats the committed position, so nothing changes for lag tools.
        """
        partitions = [_topic_partition(shard) for shard in shards]
        # While a request to join waits at the broker, all our requests wait behind it.
        if self._closed or self._consumer.group_metadata().state != MemberState.STABLE:
            return False
        if not self._consumer.assignment().issuperset(partitions):
            return False
        try:
            offsets = {partition: self._committed(partition) for partition in partitions}
            self._consumer.commit(offsets, timeout_ms=COMMIT_SECONDS * 1000)
        except KafkaError:
            return False
        return True

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Return the first offset to read: earliest, latest, or first stamped at or after a time.

        Tansu answers every time with the first message. No answer: SourceError.
        """
        partition = _topic_partition(shard)
        try:
            if start.policy == "time" and start.at is not None:
                stamp = -(-start.at // 1000)
                answer = self._consumer.offsets_for_times({partition: stamp})[partition]
                if answer is not None and answer.timestamp >= 0:
                    return int(answer.offset)
            if start.policy != "earliest":
                return fetch_end(self._connection, partition)
            return int(self._consumer.beginning_offsets([partition])[partition])
        except KafkaError as error:
            raise SourceError(
                f"cannot find the {start.policy} offset of {shard} at "
                f"{self._connection.address}: {error}"
            ) from error

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver an assigned shard from ``offset`` on; raise DataLossError beyond the topic's end.

        ``poll`` reports most lost positions; one beyond a known end raises DataLossError here.
        """
        water = self.high_water(shard)
        self._delivery.begin(shard, offset)
        self._losses.begin(shard, water)
        if water is not None and offset > water:
            self._check_end(shard, offset)
        # Else the next poll reports it as revoked.
        if _topic_partition(shard) in self._consumer.assignment():
            self._consumer.seek(_topic_partition(shard), offset)
        self._let_flow()

    def high_water(self, shard: Shard) -> int | None:
        """Return the next offset to be written, as of the last fetch; None before the first."""
        partition = _topic_partition(shard)
        if partition not in self._consumer.assignment():
            return None
        water = self._consumer.highwater(partition)
        return None if water is None else int(water)

    def position(self, shard: Shard) -> int | None:
        """Return the next offset to read, past control and aborted records; None if not begun."""
        delivered = self._delivery.positions.get(shard)
        if delivered is None or _topic_partition(shard) not in self._consumer.assignment():
            return None
        try:
            return max(
                delivered, self._consumer.position(_topic_partition(shard), timeout_ms=0) or 0
            )
        except KafkaError:
            return delivered  # poll reports the error

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Commit positions in the background, only for lag tools; errors are ignored."""
        assigned = self._consumer.assignment()
        offsets = {
            _topic_partition(s): _commit_of(at)
            for s, at in positions.items()
            if _topic_partition(s) in assigned
        }
        try:
            if offsets:
                self._consumer.commit_async(offsets)
        except KafkaError:
            return  # only a hint for lag tools: our own positions are in the store

    def _leave(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=int(CLOSE_SECONDS * 1000))

    def _request_forgotten_join(self) -> None:
        """Request a join again if the client has forgotten one that it began.

        A leader joins again when partitions were added. If a short poll ends meanwhile, the client
        takes the new partitions for assigned: it never applies the answer, and sends no heartbeats.
        """
        coordinator = self._consumer._coordinator  # no public way to see or mend this
        if coordinator.rejoining and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def _join_timeout(self, timeout: float) -> float:
        """Return the timeout, but at least JOIN_SECONDS while the group joins or is about to.

        The client forgets an answer to its join that comes between two polls. Where it leads the
        group, all members then have to join again.
        """
        coordinator = self._consumer._coordinator
        stable = self._consumer.group_metadata().state == MemberState.STABLE
        return timeout if stable and not coordinator.need_rejoin() else max(timeout, JOIN_SECONDS)

    def _fetch(self, timeout: float) -> dict[TopicPartition, list[Any]]:
        """Return what the broker has; nothing while it is away. Lost offsets park their shard."""
        try:
            batches: dict[TopicPartition, list[Any]] = self._consumer.poll(int(timeout * 1000))
        except (OffsetOutOfRangeError, LogTruncationError) as error:
            raise self._park_lost(error) from error
        except RetriableError:
            return {}  # the broker is away
        except (AuthorizationError, SaslAuthenticationFailedError):
            time.sleep(timeout)  # the client would raise it thousands of times a second
            return {}
        except KafkaError as error:
            raise self._connection.failure(error) from error
        return batches

    def _columns(self, partition: TopicPartition, batches: Sequence[Any]) -> RecordBatch:
        shard = Shard(partition.topic, partition.partition)
        try:
            offsets, values, timestamps = columns(batches)
        except KafkaError as error:
            raise self._connection.failure(error) from error
        self._delivery.positions[shard] = batches[-1].offset + 1
        return RecordBatch(shard, offsets, values, timestamps, self._consumer.highwater(partition))

    def _let_flow(self) -> None:
        """Pause exactly the assigned partitions that must not flow; resume the others."""
        assigned = self._consumer.assignment()
        paused = {
            partition
            for partition in assigned
            if not self._delivery.flows(Shard(partition.topic, partition.partition))
        }
        self._consumer.pause(*paused)
        self._consumer.resume(*(assigned - paused))

    def _find_and_park_lost(self) -> None:
        """Find flowing shards whose positions are lost, park them, and queue each loss."""
        for shard in self._delivery.flowing():
            water = self._consumer.highwater(_topic_partition(shard))
            if self._losses.lost(shard, self._delivery.positions[shard], water):
                self._losses_to_report.append(self._park(shard, f"the topic ends at {water}"))

    def _check_end(self, shard: Shard, offset: int) -> None:
        """Park a shard, with an error, if its offset is beyond the end of the topic."""
        try:
            end = fetch_end(self._connection, _topic_partition(shard))
        except KafkaError:
            return  # poll finds out later
        if offset > end:
            raise self._park(shard, f"the topic ends at {end}")

    def _park_lost(self, error: KafkaError) -> SourceError:
        """Park every shard that a client error names; return the first loss, queue the others."""
        truncated = isinstance(error, LogTruncationError)
        for partition in error.divergent_offsets if truncated else error.args[0]:
            shard = Shard(partition.topic, partition.partition)
            self._losses_to_report.append(self._park(shard, self._held(partition)))
        return self._losses_to_report.popleft()

    def _held(self, partition: TopicPartition) -> str:
        """Return in words which offsets the broker still has."""
        try:
            low = self._consumer.beginning_offsets([partition], timeout_ms=2000)[partition]
            high = self._consumer.end_offsets([partition], timeout_ms=2000)[partition]
        except KafkaError:
            return "the broker no longer holds it"
        return f"the topic holds {low} to {high}"

    def _park(self, shard: Shard, extent: str) -> SourceError:
        offset = self._delivery.positions.get(shard, 0)
        self._delivery.park(shard)
        self._let_flow()
        return data_loss(shard, offset, extent)

    def _committed(self, partition: TopicPartition) -> OffsetAndMetadata:
        timeout = COMMIT_SECONDS * 1000
        return _commit_of(self._consumer.committed(partition, timeout_ms=timeout) or 0)


def _topic_partition(shard: Shard) -> TopicPartition:
    return TopicPartition(shard.topic, shard.partition)


def _commit_of(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", -1)


def _shards(partitions: Iterable[TopicPartition]) -> Iterable[Shard]:
    return (Shard(partition.topic, partition.partition) for partition in partitions)
