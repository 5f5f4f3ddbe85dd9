"""Kafka through kafka-python, as a member of a consumer group whose offsets live in our store.

What shapes the code (kafka-python 3.0.12):

* The rebalance listener runs on the client's IO thread while :meth:`KafkaSource.poll` is blocked.
  Commits and positions are refused there, so it only seeks, pauses and notes; ``poll`` reports.
* A broker that is away raises nothing from ``poll``: only empty polls come, and whether that is
  wrong is for the caller's watchdog to say.
* Where our positions come from the client must not know: no reset policy, no automatic commit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    RetriableError,
)
from kafka.structs import MemberState, OffsetAndMetadata

from consumers.sources.delivery import Delivery, data_loss
from consumers.sources.kafka_topics import KafkaConnection, KafkaTopics
from monitor.errors import SourceError
from monitor.ports import Polled, Records, Shard, Start

MAX_RECORDS = 5000
SESSION_SECONDS = 45.0
"""A member silent for so long loses its shards; on Tansu half of it is also the time to join."""
MAX_POLL_SECONDS = 120.0
"""A member that does not poll for so long loses its shards: the longest flush there may be."""
COMMIT_SECONDS = 5.0
CLOSE_SECONDS = 2.0
LOSS_GRACE_SECONDS = 10.0
"""How long a high water below our position must last: after a change of leader it lags for a
moment on a healthy broker."""

FIXED = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "isolation_level": "read_committed",
    "allow_auto_create_topics": False,
    # The answers of a fetch session leave out partitions without news: the high water of one that
    # is caught up from the start would never be known.
    "enable_incremental_fetch_sessions": False,
    "reconnect_backoff_max_ms": 2000,  # the default finds a broker that is back after 30 s only
    "max_partition_fetch_bytes": 4 << 20,
    "fetch_max_bytes": 32 << 20,
    "receive_message_max_bytes": 128 << 20,
    "max_poll_interval_ms": int(MAX_POLL_SECONDS * 1000),
    "check_crcs": True,
    "metrics_enabled": False,
}
"""Not for the user to change: each is part of exactly-once, of data-loss detection or of speed."""


class KafkaSource:
    """Reads topics as a member of a consumer group; fulfils ``RecordSource``.

    Args:
        connection: where the brokers are and how to be let in.
        topics: all topics this worker reads.
        group: the consumer group; workers of one deployment share it.
        group_instance_id: a name that survives a restart (the pod's): a member that is back
            within the session timeout keeps its shards without a rebalance.
        session_timeout: seconds.
        max_records: messages per poll at most.
        loss_grace: seconds a broker that does not refuse a position beyond its end (Tansu) has
            until that position counts as lost.
        monotonic: clock for ``loss_grace``.

    Raises SourceError, one line that names the address or topic, when no broker can be reached,
    access is refused or a topic does not exist.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Sequence[str],
        group: str,
        *,
        group_instance_id: str | None = None,
        session_timeout: float = SESSION_SECONDS,
        max_records: int = MAX_RECORDS,
        loss_grace: float = LOSS_GRACE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._topics = KafkaTopics(connection)
        self._delivery = Delivery()
        self._changes: deque[tuple[bool, list[Shard]]] = deque()
        self._losses = _LossWatch(loss_grace, monotonic)
        self._untold: deque[SourceError] = deque()
        self._closed = False
        try:
            for topic in topics:
                self._topics.partitions(topic)
            self._consumer = self._connect(
                group, group_instance_id, int(session_timeout * 1000), max_records
            )
            self._consumer.subscribe(
                list(topics), listener=_Listener(self._consumer, self._changes)
            )
        except BaseException:
            self._topics.close()
            raise

    @property
    def finished(self) -> bool:
        """Never: more may be produced."""
        return False

    def shards(self, topic: str) -> Sequence[Shard]:
        """All partitions of a topic, asked anew. Unknown or no answer: SourceError."""
        return [Shard(topic, number) for number in self._topics.partitions(topic)]

    def topic_id(self, topic: str) -> str | None:
        """The broker's identity of the topic; None where it gives none (Kafka before 2.8)."""
        return self._topics.topic_id(topic)

    def poll(self, timeout: float) -> Polled:
        """Wait for messages; empty as well while a broker is away.

        Call it again without a pause while joining a group: Tansu lets nobody in otherwise.
        Raises DataLossError for a lost position and SourceError when access is refused.
        """
        if self._closed:
            raise SourceError("the source is closed")
        if self._untold:
            raise self._untold.popleft()
        batches = self._fetch(timeout)
        revoked, assigned = self._drain_changes()
        records = [self._columns(where, batch) for where, batch in batches.items()]
        if not records:
            self._check_losses()
        return Polled(records, assigned, revoked)

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Prove membership by a synchronous commit, which a zombie is refused.

        The commit repeats the committed position, so nothing changes for lag tools.
        """
        wheres = [_where(shard) for shard in shards]
        # While a request to join waits at the broker, all others wait behind it.
        if self._closed or self._consumer.group_metadata().state != MemberState.STABLE:
            return False
        if not self._consumer.assignment().issuperset(wheres):
            return False
        try:
            offsets = {where: self._committed(where) for where in wheres}
            self._consumer.commit(offsets, timeout_ms=COMMIT_SECONDS * 1000)
        except KafkaError:
            return False
        return True

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Resolve earliest, latest or the first message stamped at or after a time.

        Tansu answers times wrongly (always the first message). No answer: SourceError.
        """
        where = _where(shard)
        try:
            if start.policy == "time" and start.at is not None:
                stamp = -(-start.at // 1000)
                found = self._consumer.offsets_for_times({where: stamp})[where]
                if found is not None and found.timestamp >= 0:
                    return int(found.offset)
            if start.policy != "earliest":
                return self._end(where)
            return int(self._consumer.beginning_offsets([where])[where])
        except KafkaError as error:
            raise SourceError(
                f"cannot find the {start.policy} offset of {shard} at "
                f"{self._connection.address}: {error}"
            ) from error

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver an assigned shard from ``offset`` on.

        A lost position mostly shows in ``poll``; one beyond a known end raises DataLossError here.
        """
        water = self.high_water(shard)
        self._delivery.begin(shard, offset)
        self._losses.begin(shard, water)
        if water is not None and offset > water:
            self._check_end(shard, offset)
        if _where(shard) in self._consumer.assignment():  # else the next poll says it is revoked
            self._consumer.seek(_where(shard), offset)
        self._let_flow()

    def pause(self, shards: Iterable[Shard]) -> None:
        """Hold shards back; what was fetched of them is kept."""
        self._delivery.pause(shards)
        self._let_flow()

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`."""
        self._delivery.resume(shards)
        self._let_flow()

    def high_water(self, shard: Shard) -> int | None:
        """Next offset to be written, as of the last fetch; None before the first."""
        where = _where(shard)
        if where not in self._consumer.assignment():
            return None
        water = self._consumer.highwater(where)
        return None if water is None else int(water)

    def position(self, shard: Shard) -> int | None:
        """Next offset that will be read: past control and aborted records at the end."""
        delivered = self._delivery.positions.get(shard)
        if delivered is None or _where(shard) not in self._consumer.assignment():
            return None
        try:
            return max(delivered, self._consumer.position(_where(shard), timeout_ms=0) or 0)
        except KafkaError:
            return delivered  # what is wrong shows in poll

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Commit positions in the background; nobody waits and nobody reads them but lag tools."""
        mine = self._consumer.assignment()
        offsets = {_where(s): _commit_of(at) for s, at in positions.items() if _where(s) in mine}
        try:
            if offsets:
                self._consumer.commit_async(offsets)
        except KafkaError:
            return  # a hint for others; fenced or not, our own truth is in the store

    def close(self) -> None:
        """Leave the group, within seconds also when the broker is gone."""
        if self._closed:
            return
        self._closed = True
        try:
            self._consumer.close(autocommit=False, timeout_ms=int(CLOSE_SECONDS * 1000))
        finally:
            self._topics.close()

    def _connect(
        self, group: str, instance: str | None, session_ms: int, max_records: int
    ) -> KafkaConsumer:
        try:
            return KafkaConsumer(
                **self._connection.client(),
                **FIXED,
                group_id=group,
                group_instance_id=instance,
                session_timeout_ms=session_ms,
                heartbeat_interval_ms=min(3000, session_ms // 3),
                max_poll_records=max_records,
                partition_assignment_strategy=[CooperativeStickyAssignor],
            )
        except KafkaError as error:
            raise self._connection.failure(error) from error

    def _fetch(self, timeout: float) -> dict[TopicPartition, list[Any]]:
        try:
            batches: dict[TopicPartition, list[Any]] = self._consumer.poll(int(timeout * 1000))
        except (OffsetOutOfRangeError, LogTruncationError) as error:
            raise self._lost(error) from error
        except RetriableError:
            return {}  # the broker is away
        except KafkaError as error:
            raise self._connection.failure(error) from error
        return batches

    def _drain_changes(self) -> tuple[list[Shard], list[Shard]]:
        """(revoked, assigned) in order of first mention; a shard that came and went is neither."""
        revoked: dict[Shard, None] = {}
        assigned: dict[Shard, None] = {}
        while self._changes:
            ours, shards = self._changes.popleft()
            for shard in shards:
                if ours:
                    assigned[shard] = None
                elif shard in assigned:
                    del assigned[shard]
                else:
                    revoked[shard] = None
        self._delivery.revoke(revoked)
        self._delivery.assign(assigned)
        return list(revoked), list(assigned)

    def _columns(self, where: TopicPartition, batch: Sequence[Any]) -> Records:
        shard = Shard(where.topic, where.partition)
        self._delivery.positions[shard] = batch[-1].offset + 1
        return Records(
            shard,
            [record.offset for record in batch],
            [record.value for record in batch],
            [record.timestamp for record in batch],
            self._consumer.highwater(where),
        )

    def _let_flow(self) -> None:
        """Make the client's paused partitions those that must not flow."""
        mine = self._consumer.assignment()
        held = {one for one in mine if not self._delivery.flows(Shard(one.topic, one.partition))}
        self._consumer.pause(*held)
        self._consumer.resume(*(mine - held))

    def _check_losses(self) -> None:
        for shard in self._delivery.flowing():
            water = self.high_water(shard)
            if self._losses.lost(shard, self._delivery.positions[shard], water):
                raise self._park(shard, f"the topic ends at {water}")

    def _check_end(self, shard: Shard, offset: int) -> None:
        try:
            end = self._end(_where(shard))
        except KafkaError:
            return  # then poll finds out
        if offset > end:
            raise self._park(shard, f"the topic ends at {end}")

    def _lost(self, error: KafkaError) -> SourceError:
        """Park every shard that a client error names (a mapping by partition); the first one."""
        truncated = isinstance(error, LogTruncationError)
        for where in error.divergent_offsets if truncated else error.args[0]:
            shard = Shard(where.topic, where.partition)
            self._untold.append(self._park(shard, self._held(where)))
        return self._untold.popleft()

    def _held(self, where: TopicPartition) -> str:
        try:
            low = self._consumer.beginning_offsets([where], timeout_ms=2000)[where]
            high = self._consumer.end_offsets([where], timeout_ms=2000)[where]
        except KafkaError:
            return "the broker no longer holds it"
        return f"the topic holds {low} to {high}"

    def _park(self, shard: Shard, held: str) -> SourceError:
        offset = self._delivery.positions.get(shard, 0)
        self._delivery.park(shard)
        self._let_flow()
        return data_loss(shard, offset, held)

    def _committed(self, where: TopicPartition) -> OffsetAndMetadata:
        timeout = COMMIT_SECONDS * 1000
        return _commit_of(self._consumer.committed(where, timeout_ms=timeout) or 0)

    def _end(self, where: TopicPartition) -> int:
        """The end of a partition by a fetch, since Tansu's list of offsets has it wrong.

        A consumer of its own asks, so that nothing that is being delivered is touched.
        """
        probe = KafkaConsumer(**self._connection.client(), **FIXED, fetch_max_wait_ms=10)
        try:
            end = int(probe.end_offsets([where])[where])
            probe.assign([where])
            probe.seek(where, end)
            for _ in range(50):
                probe.poll(100, max_records=1)
                if (water := probe.highwater(where)) is not None:
                    return max(end, int(water))
        finally:
            probe.close(autocommit=False, timeout_ms=int(CLOSE_SECONDS * 1000))
        raise KafkaTimeoutError("the broker did not answer a fetch")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Runs on the IO thread: holds new partitions back and notes what changed, nothing else."""

    def __init__(self, consumer: KafkaConsumer, changes: deque[tuple[bool, list[Shard]]]) -> None:
        self._consumer = consumer
        self._changes = changes

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Without a position the client would look for a committed one, and raise."""
        for where in assigned:
            self._consumer.seek(where, 0)
            self._consumer.pause(where)
        self._changes.append((True, sorted(Shard(one.topic, one.partition) for one in assigned)))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Lost ones come here too."""
        self._changes.append((False, sorted(Shard(one.topic, one.partition) for one in revoked)))


class _LossWatch:
    """Finds positions beyond the end where the broker does not refuse them (Tansu)."""

    def __init__(self, grace: float, monotonic: Callable[[], float]) -> None:
        self._grace = grace
        self._monotonic = monotonic
        self._since: dict[Shard, float] = {}
        self._before: dict[Shard, int | None] = {}

    def begin(self, shard: Shard, water: int | None) -> None:
        """Start over; ``water`` is older than the new position and proves nothing."""
        self._since.pop(shard, None)
        self._before[shard] = water

    def lost(self, shard: Shard, position: int, water: int | None) -> bool:
        """Whether the end has been below our position for the whole grace."""
        if water is None or water == self._before.get(shard) or water >= position:
            self._since.pop(shard, None)
            return False
        now = self._monotonic()
        return now - self._since.setdefault(shard, now) >= self._grace


def _where(shard: Shard) -> TopicPartition:
    return TopicPartition(shard.topic, shard.partition)


def _commit_of(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", -1)
