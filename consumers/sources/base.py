"""Shared parts of all sources that read Kafka as a member of a group, with any client.

These are the delivery of its shards, the changes of rebalances, the error of a lost position, and
the base class of such sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from monitor.errors import DataLossError, SourceError
from monitor.records import Shard

if TYPE_CHECKING:
    from consumers.sources.kafka_admin import KafkaConnection


class Delivery:
    """Positions of our shards in a source, and which shards are waiting or paused.

    A shard is waiting from its assignment until :meth:`begin`, and again after :meth:`park`.

    Example:
        >>> delivery, shard = Delivery(), Shard("decisions", 0)
        >>> delivery.assign([shard])
        >>> delivery.flowing()
        []
        >>> delivery.begin(shard, 7)
        >>> delivery.flowing(), delivery.positions[shard]
        ([Shard(topic='decisions', partition=0)], 7)
    """

    def __init__(self) -> None:
        self.positions: dict[Shard, int] = {}
        self.waiting: set[Shard] = set()
        self.paused: set[Shard] = set()

    def owns(self, shard: Shard) -> bool:
        """Return True if the shard is assigned to us, whether begun or not."""
        return shard in self.positions or shard in self.waiting

    def flows(self, shard: Shard) -> bool:
        """Return True if messages of the shard may be delivered now."""
        return shard in self.positions and shard not in self.paused

    def flowing(self) -> list[Shard]:
        """Return the shards whose messages may be delivered now, in the order they began."""
        return [shard for shard in self.positions if shard not in self.paused]

    def assign(self, shards: Iterable[Shard]) -> None:
        """Take over shards; they wait for :meth:`begin`, and an earlier pause is forgotten."""
        for shard in shards:
            self.revoke([shard])
            self.waiting.add(shard)

    def revoke(self, shards: Iterable[Shard]) -> None:
        """Forget shards, with their positions and pauses."""
        for shard in shards:
            self.positions.pop(shard, None)
            self.waiting.discard(shard)
            self.paused.discard(shard)

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver a shard from ``offset`` on, unless paused; raise SourceError if not ours."""
        self.require(shard)
        self.waiting.discard(shard)
        self.positions[shard] = offset

    def park(self, shard: Shard) -> None:
        """Stop delivery of a shard until it begins again."""
        self.positions.pop(shard, None)
        self.waiting.add(shard)

    def pause(self, shards: Iterable[Shard]) -> None:
        """Stop delivery of shards until :meth:`resume`; shards that are not ours are skipped."""
        self.paused.update(shard for shard in shards if self.owns(shard))

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`; a waiting shard still waits."""
        self.paused.difference_update(shards)

    def require(self, shard: Shard) -> None:
        """Raise SourceError if a shard is not ours: the caller missed its revocation."""
        if not self.owns(shard):
            raise SourceError(f"shard {shard} is not assigned to this worker")


class Source:
    """Base of all sources: delivery of shards that never end."""

    def __init__(self) -> None:
        self._delivery = Delivery()
        self._closed = False
        self._assigned = False

    @property
    def finished(self) -> bool:
        """Return False: more may be written."""
        return False

    def ended(self, shard: Shard) -> bool:
        """Return False: more may be written."""
        return False

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Return True if the shards were assigned to us, who have no rival here."""
        return not self._closed and all(map(self._delivery.owns, shards))

    def position(self, shard: Shard) -> int | None:
        """Return the next offset to be read; None if the shard has not begun."""
        return self._delivery.positions.get(shard)

    def pause(self, shards: Iterable[Shard]) -> None:
        """Stop delivery of shards until :meth:`resume`; none of their messages are lost."""
        self._delivery.pause(shards)

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`."""
        self._delivery.resume(shards)

    def _assign_once(self, shards: Iterable[Shard]) -> list[Shard]:
        """Assign all shards at the first call; return those that are new."""
        assigned = [] if self._assigned else list(shards)
        self._delivery.assign(assigned)
        self._assigned = True
        return assigned


class ShardChanges:
    """Log of shards gained and lost in rebalances, which callbacks write and the next poll drains.

    Example:
        >>> changes, shard = ShardChanges(), Shard("decisions", 0)
        >>> changes.took([shard])
        >>> changes.gave([shard])
        >>> changes.drain()
        ([Shard(topic='decisions', partition=0)], [Shard(topic='decisions', partition=0)])
    """

    def __init__(self) -> None:
        # Thread-safe, since a client may call back from a thread of its own.
        self._noted: deque[tuple[bool, list[Shard]]] = deque()

    def gave(self, shards: Iterable[Shard]) -> None:
        """Record shards that are newly assigned to this worker."""
        self._noted.append((True, sorted(shards)))

    def took(self, shards: Iterable[Shard]) -> None:
        """Record shards that are no longer ours."""
        self._noted.append((False, sorted(shards)))

    def drain(self) -> tuple[list[Shard], list[Shard]]:
        """Return (revoked, assigned) shards since the last call, and clear them.

        A shard that came and went is neither; one that went and came is both.
        """
        revoked: dict[Shard, None] = {}
        assigned: dict[Shard, None] = {}
        while self._noted:
            is_ours, shards = self._noted.popleft()
            for shard in shards:
                if is_ours:
                    assigned[shard] = None
                elif shard in assigned:
                    del assigned[shard]
                else:
                    revoked[shard] = None
        return list(revoked), list(assigned)


def data_loss(shard: Shard, offset: int, extent: str) -> DataLossError:
    """Return the error for an offset that a topic lacks; ``extent`` says what it holds.

    Args:
        shard: shard of the position.
        offset: the position that cannot be read.
        extent: the part of the message about what the topic holds.
    """
    return DataLossError(
        f"topic {shard.topic} partition {shard.partition}: offset {offset} cannot be read, "
        f"{extent}; messages were lost or the topic was created again. To go on elsewhere and have "
        f"the gap recorded: slicewatch db resume-from {shard.topic} {shard.partition} OFFSET "
        "--reason TEXT",
        shard,
    )


SESSION_SECONDS = 45.0
"""Silence after which a member loses its shards; on Tansu half of it is also the time to join."""
HEARTBEAT_SECONDS = 3.0
MAX_POLL_SECONDS = 120.0
"""Time without a poll after which a member loses its shards: the longest flush possible."""
COMMIT_SECONDS = 5.0
CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Membership:
    """Membership of a consumer group: its name, our instance and the session's seconds."""

    group: str
    instance: str | None
    session: float

    @property
    def heartbeat(self) -> float:
        """Return the seconds between two heartbeats."""
        return min(HEARTBEAT_SECONDS, self.session / 3)


class MembershipOptions(TypedDict, total=False):
    """Options that all sources in a group take; see :class:`GroupSource`."""

    group_instance_id: str | None
    session_timeout: float


class GroupSource(Source, ABC):
    """Reader of topics as a member of a consumer group; subclasses add the client.

    Args:
        connection: addresses of the brokers, and access to them.
        topics: all topics this worker reads.
        group: the consumer group; workers of one deployment share it.
        group_instance_id: a name that survives a restart (the pod's): a member that is back
            within the session timeout keeps its shards without a rebalance.
        session_timeout: seconds.

    Raises SourceError when no broker can be reached, access is refused or a topic does not exist;
    its line names the address or topic.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Sequence[str],
        group: str,
        *,
        group_instance_id: str | None = None,
        session_timeout: float = SESSION_SECONDS,
    ) -> None:
        super().__init__()
        self._connection = connection
        from consumers.sources.kafka_admin import KafkaTopics  # noqa: PLC0415 - not for files

        self._topics = KafkaTopics(connection)
        self._changes = ShardChanges()
        self._losses_to_report: deque[SourceError] = deque()
        try:
            for topic in topics:
                self._topics.partitions(topic)
            self._join(topics, Membership(group, group_instance_id, session_timeout))
        except BaseException:
            self._topics.close()
            raise

    def shards(self, topic: str) -> Sequence[Shard]:
        """Return all partitions of a topic, freshly read; raise SourceError if it is unknown."""
        return [Shard(topic, number) for number in self._topics.partitions(topic)]

    def topic_id(self, topic: str) -> str | None:
        """Return the broker's id of the topic; None if the broker gives none (Kafka before 2.8)."""
        return self._topics.topic_id(topic)

    def pause(self, shards: Iterable[Shard]) -> None:
        """Stop delivery of shards until :meth:`resume`; none of their messages are lost."""
        super().pause(shards)
        self._let_flow()

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`."""
        super().resume(shards)
        self._let_flow()

    def close(self) -> None:
        """Leave the group and close connections, within seconds even if the broker is gone."""
        if self._closed:
            return
        self._closed = True
        try:
            self._leave()
        finally:
            self._topics.close()

    def _raise_due_errors(self) -> None:
        """Raise SourceError if the source is closed or has a loss to report, before a poll."""
        if self._closed:
            raise SourceError("the source is closed")
        if self._losses_to_report:
            raise self._losses_to_report.popleft()

    def _apply_rebalance(self) -> tuple[list[Shard], list[Shard]]:
        """Apply the group's noted changes to the delivery; return (revoked, assigned) shards."""
        revoked, assigned = self._changes.drain()
        self._delivery.revoke(revoked)
        self._delivery.assign(assigned)
        return revoked, assigned

    @abstractmethod
    def _join(self, topics: Sequence[str], membership: Membership) -> None:
        """Open the client and join the group; it is not closed when this raises."""

    @abstractmethod
    def _let_flow(self) -> None:
        """Make the client deliver exactly the shards that may flow."""

    @abstractmethod
    def _leave(self) -> None:
        """Leave the group and close the client."""
