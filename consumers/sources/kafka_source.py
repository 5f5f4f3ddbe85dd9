"""Kafka through kafka-python, as a member of a consumer group whose offsets live in our store.

What shapes the code (kafka-python 3.0.12):

* The rebalance listener runs on the client's IO thread while :meth:`KafkaSource.poll` is blocked.
  Commits and positions are refused there, so it only seeks, pauses and notes; ``poll`` reports.
* A broker that is away raises nothing from ``poll``: only empty polls come, and whether that is
  wrong is for the caller's watchdog to say. One that refuses us looks the same to our caller: a
  restart would not help, and the client goes on by itself when access is given back.
* The client must not know where our positions come from: no reset policy, no automatic commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import TopicPartition
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    RetriableError,
    SaslAuthenticationFailedError,
)
from kafka.structs import MemberState, OffsetAndMetadata

from consumers.sources.base import COMMIT_SECONDS, SESSION_SECONDS, GroupSource, data_loss
from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_client import (
    CLOSE_SECONDS,
    LossWatch,
    RebalanceNotes,
    fetch_end,
    open_consumer,
)
from monitor.errors import SourceError
from monitor.ports import Polled, RecordBatch, Shard, Start

JOIN_SECONDS = 0.5
"""Shortest poll while the group joins; a stop waits as long at most."""
LOSS_GRACE_SECONDS = 10.0
"""Time that a high water below our position must last: after a change of leader it lags for a
moment on a healthy broker."""


class KafkaSource(GroupSource):
    """Reads topics as a member of a consumer group; fulfils ``RecordSource``.

    Args:
        connection: addresses of the brokers, and access to them.
        topics: all topics this worker reads.
        group: the consumer group; workers of one deployment share it.
        group_instance_id: a name that survives a restart (the pod's): a member that is back
            within the session timeout keeps its shards without a rebalance.
        session_timeout: seconds.
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
        loss_grace: float = LOSS_GRACE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(connection, topics)
        self._losses = LossWatch(loss_grace, monotonic)
        try:
            self._consumer = open_consumer(connection, group, group_instance_id, session_timeout)
            self._notes = RebalanceNotes(self._consumer)
            for topic in topics:
                # Known before the group is joined: a leader that does not know a topic yet hands
                # out none of its partitions, and may not notice for minutes.
                self._consumer.partitions_for_topic(topic)
            self._consumer.subscribe(list(topics), listener=self._notes)
        except BaseException:
            self._topics.close()
            raise

    def poll(self, timeout: float) -> Polled:
        """Wait for messages; empty as well while a broker is away or refuses access.

        Call it again without a pause while joining a group: Tansu lets nobody in otherwise.
        Raises DataLossError for a lost position and SourceError when it cannot be read on.
        """
        self._require_more()
        batches = self._fetch(self._patience(timeout))
        revoked, assigned = self._notes.changes.drain()
        self._delivery.revoke(revoked)
        self._delivery.assign(assigned)
        records = [self._columns(where, batch) for where, batch in batches.items()]
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
                return fetch_end(self._connection, where)
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

    def _leave(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=int(CLOSE_SECONDS * 1000))

    def _patience(self, timeout: float) -> float:
        """Wait longer while the group joins, when there are no messages anyway.

        The client forgets an answer to its join that comes between two polls; where it leads the
        group, everybody has to join again then.
        """
        stable = self._consumer.group_metadata().state == MemberState.STABLE
        return timeout if stable else max(timeout, JOIN_SECONDS)

    def _fetch(self, timeout: float) -> dict[TopicPartition, list[Any]]:
        try:
            batches: dict[TopicPartition, list[Any]] = self._consumer.poll(int(timeout * 1000))
        except (OffsetOutOfRangeError, LogTruncationError) as error:
            raise self._lost(error) from error
        except RetriableError:
            return {}  # the broker is away
        except (AuthorizationError, SaslAuthenticationFailedError):
            time.sleep(timeout)  # the client would raise it thousands of times a second
            return {}
        except KafkaError as error:
            raise self._connection.failure(error) from error
        return batches

    def _columns(self, where: TopicPartition, batch: Sequence[Any]) -> RecordBatch:
        shard = Shard(where.topic, where.partition)
        self._delivery.positions[shard] = batch[-1].offset + 1
        return RecordBatch(
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
        """Note losses for the next poll to report: this one may have brought messages."""
        for shard in self._delivery.flowing():
            water = self._consumer.highwater(_where(shard))
            if self._losses.lost(shard, self._delivery.positions[shard], water):
                self._untold.append(self._park(shard, f"the topic ends at {water}"))

    def _check_end(self, shard: Shard, offset: int) -> None:
        try:
            end = fetch_end(self._connection, _where(shard))
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


def _where(shard: Shard) -> TopicPartition:
    return TopicPartition(shard.topic, shard.partition)


def _commit_of(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", -1)
