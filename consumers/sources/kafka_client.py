"""kafka-python's consumer as we need it: its fixed settings, rebalance notes and end of topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaError, KafkaTimeoutError

from consumers.sources.base import Changes
from consumers.sources.kafka_admin import KafkaConnection
from monitor.ports import Shard

HEARTBEAT_SECONDS = 3.0
CLOSE_SECONDS = 2.0
MAX_POLL_SECONDS = 120.0
"""A member that does not poll for so long loses its shards: the longest flush there may be."""

FIXED = {
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "isolation_level": "read_committed",
    "allow_auto_create_topics": False,
    # The answers of a fetch session leave out partitions without news: the high water of one that
    # is caught up from the start would never be known.
    "enable_incremental_fetch_sessions": False,
    "reconnect_backoff_max_ms": 2000,  # the default finds a broker that is back after 30 s only
    # A poll hands out everything that was fetched. What is left of a shard's records when it is
    # paused would stay in the client for ever once other shards were read after it; so it is the
    # fetch that keeps a batch small, and it still brings a first message of any size.
    "max_poll_records": 1 << 30,
    "max_partition_fetch_bytes": 2 << 20,
    "fetch_max_bytes": 8 << 20,
    "receive_message_max_bytes": 128 << 20,
    "max_poll_interval_ms": int(MAX_POLL_SECONDS * 1000),
    "check_crcs": True,
    # How soon a partition that was added is found, here and in librdkafka.
    "metadata_max_age_ms": 10_000,
    "metrics_enabled": False,
}
"""Not for the user to change: each is part of exactly-once, of data-loss detection or of speed."""


def open_consumer(
    connection: KafkaConnection,
    group: str,
    instance: str | None,
    session: float,
) -> KafkaConsumer:
    """A member of a group. No broker or no access: SourceError."""
    try:
        return KafkaConsumer(
            **connection.client(),
            **FIXED,
            group_id=group,
            group_instance_id=instance,
            session_timeout_ms=int(session * 1000),
            heartbeat_interval_ms=int(min(HEARTBEAT_SECONDS, session / 3) * 1000),
            partition_assignment_strategy=[CooperativeStickyAssignor()],
        )
    except KafkaError as error:
        raise connection.failure(error) from error


def fetch_end(connection: KafkaConnection, where: TopicPartition) -> int:
    """The end of a partition by a fetch, since Tansu's list of offsets has it wrong.

    A consumer of its own asks, so that nothing that is being delivered is touched. No answer:
    KafkaError.
    """
    probe = KafkaConsumer(**connection.client(), **FIXED, fetch_max_wait_ms=10)
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


class RebalanceNotes(ConsumerRebalanceListener):  # type: ignore[misc]
    """Runs on the IO thread: holds new partitions back and notes what changed, nothing else."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self.changes = Changes()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Without a position the client would look for a committed one, and raise."""
        for where in assigned:
            self._consumer.seek(where, 0)
            self._consumer.pause(where)
        self.changes.gave(_shards(assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """The coordinator takes them back."""
        self.changes.took(_shards(revoked))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """We were out of the group for a while; its others may own them by now.

        The client's assignor would still announce them as ours when we join again. The leader then
        waits for us to give up those it wants to move, and nobody gets them.
        """
        for assignor in self._consumer.config["partition_assignment_strategy"]:
            assignor.member_assignment = None
        self.on_partitions_revoked(lost)


class LossWatch:
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
        """Return True when the end has been below our position for the whole grace."""
        if water is None or water == self._before.get(shard) or water >= position:
            self._since.pop(shard, None)
            return False
        now = self._monotonic()
        return now - self._since.setdefault(shard, now) >= self._grace


def _shards(wheres: Iterable[TopicPartition]) -> Iterable[Shard]:
    return (Shard(one.topic, one.partition) for one in wheres)
