"""Broker in memory (topics with partitions, consumer groups), and the source that reads it.

It passes the contract tests of the real broker's source, so tests of the ingest loop can rely on
it. The broker is harsher than a real one in one way: a shard's new owner may read at once, before
the old one has heard of it. The source never waits. Not thread-safe: broker and sources belong to
one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Protocol

from consumers.sources.base import Source, data_loss
from monitor.errors import MissingTopicError, SourceError
from monitor.records import Polled, RecordBatch, Shard, Start

MAX_RECORDS = 5000


@dataclass(slots=True)
class Log:
    """Messages of one partition by offset; offsets without a message are holes."""

    messages: dict[int, tuple[bytes | None, int]] = field(default_factory=dict)
    low: int = 0
    high: int = 0

    def append(self, value: bytes | None, timestamp: int) -> int:
        """Add a message with its timestamp (milliseconds); return its offset."""
        self.messages[self.high] = (value, timestamp)
        self.high += 1
        return self.high - 1

    def read(self, offset: int, limit: int) -> list[int]:
        """Return the next offsets that have messages, from ``offset`` on, at most ``limit``."""
        return list(islice((at for at in range(offset, self.high) if at in self.messages), limit))

    def at_time(self, milliseconds: int) -> int:
        """Return the first offset with a message stamped at or after a time, or the end offset."""
        stamped = (at for at, (_, stamp) in self.messages.items() if stamp >= milliseconds)
        return next(stamped, self.high)


class Member(Protocol):
    """Protocol of a reader of topics as part of a consumer group."""

    @property
    def topics(self) -> Sequence[str]:
        """Return the names of the topics that the member reads."""

    @property
    def group(self) -> str:
        """Return the name of the member's group."""


Ownership = tuple[Member, int]
"""Owner of a shard, and a number that changes with every change of owner, even back."""


@dataclass(slots=True)
class _Group:
    """Consumer group: members in the order they joined, owners of shards, reported positions."""

    members: list[Member] = field(default_factory=list)
    owners: dict[Shard, Ownership] = field(default_factory=dict)
    reported: dict[Shard, int] = field(default_factory=dict)


class MemoryBroker:
    """Broker in memory for tests, with topics, groups, and rebalances that a test can trigger.

    Example:
        >>> broker = MemoryBroker({"decisions": 1})
        >>> broker.produce("decisions", [b"one", b"two"])
        [(0, 0), (0, 1)]
    """

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        self._logs: dict[str, list[Log]] = {}
        self._ids: dict[str, str] = {}
        self._groups: dict[str, _Group] = {}
        self._numbers = count(1)
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic, or replace it by an empty one with a new id; return the id."""
        self._logs[name] = [Log() for _ in range(partitions)]
        self._ids[name] = f"{name}-{next(self._numbers)}"
        return self._ids[name]

    def add_partition(self, topic: str) -> None:
        """Add one partition to a topic; groups see it when they rebalance."""
        self._partitions(topic).append(Log())

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> list[tuple[int, int]]:
        """Append messages to a topic; return the (partition, offset) of each.

        Without ``partition`` they go to all partitions in turn; without timestamps they have -1.
        """
        logs = self._partitions(topic)
        written = []
        for number, value in enumerate(values):
            where = number % len(logs) if partition is None else partition
            stamp = -1 if timestamps_ms is None else timestamps_ms[number]
            written.append((where, logs[where].append(value, stamp)))
        return written

    def skip(self, shard: Shard, offsets: int = 1) -> None:
        """Use up offsets without messages, as control and aborted records do."""
        self.log(shard).high += offsets

    def trim(self, shard: Shard, low: int) -> None:
        """Delete the messages of a shard below offset ``low``, as retention does."""
        log = self.log(shard)
        log.low = low
        log.messages = {at: message for at, message in log.messages.items() if at >= low}

    def log(self, shard: Shard) -> Log:
        """Return the log of one shard."""
        return self._partitions(shard.topic)[shard.partition]

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic; None if it does not exist."""
        return self._ids.get(topic)

    def shards(self, topic: str) -> list[Shard]:
        """Return all partitions of a topic as shards; raise SourceError if it is unknown."""
        return [Shard(topic, number) for number in range(len(self._partitions(topic)))]

    def report(self, group: str, positions: Mapping[Shard, int]) -> None:
        """Record positions that a member of a group reports."""
        self._group(group).reported.update(positions)

    def reported(self, group: str) -> dict[Shard, int]:
        """Return the newest reported position of each shard of a group."""
        return dict(self._group(group).reported)

    def owner(self, group: str, shard: Shard) -> Ownership | None:
        """Return the owner of a shard in a group, with the ownership's number; None without one."""
        return self._group(group).owners.get(shard)

    def members(self, group: str) -> list[Member]:
        """Return the members of a group in the order they joined."""
        return list(self._group(group).members)

    def join(self, member: Member) -> None:
        """Add a member to its group and rebalance; do nothing for an existing member."""
        group = self._group(member.group)
        if member not in group.members:
            group.members.append(member)
            self.rebalance(member.group)

    def leave(self, member: Member) -> None:
        """Remove a member from its group and rebalance, as if it closed or timed out.

        A removed member that polls again joins again.
        """
        group = self._group(member.group)
        if member in group.members:
            group.members.remove(member)
            self.rebalance(member.group)

    def rebalance(self, name: str) -> None:
        """Share the named group's shards evenly among its members, moving as few as possible."""
        group = self._group(name)
        load = {id(member): 0 for member in group.members}
        shards = sorted(
            {s for m in group.members for topic in m.topics for s in self.shards(topic)}
        )
        group.owners = self._kept_ownerships(group, shards, load)
        for shard in shards:
            if shard not in group.owners:
                member = min(group.members, key=lambda candidate: load[id(candidate)])
                self.move(name, shard, member)
                load[id(member)] += 1

    def _kept_ownerships(
        self, group: _Group, shards: Sequence[Shard], load: dict[int, int]
    ) -> dict[Shard, Ownership]:
        """Return the ownerships that members keep in a rebalance, and count them in ``load``."""
        share, spare = divmod(len(shards), max(len(load), 1))
        kept = {}
        for shard in shards:
            ownership = group.owners.get(shard)
            if ownership is None or (owner := id(ownership[0])) not in load:
                continue
            if load[owner] < share or (load[owner] == share and spare):
                spare -= load[owner] == share
                load[owner] += 1
                kept[shard] = ownership
        return kept

    def move(self, name: str, shard: Shard, member: Member) -> None:
        """Give a shard to a member by hand; its current owner would lose it and get it back."""
        self._group(name).owners[shard] = (member, next(self._numbers))

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _partitions(self, topic: str) -> list[Log]:
        if topic not in self._logs:
            raise SourceError(f"topic {topic} does not exist")
        return self._logs[topic]


class MemorySource(Source):
    """Source that reads a :class:`MemoryBroker` as a member of a group; fulfils ``RecordSource``.

    Example:
        >>> broker = MemoryBroker({"decisions": 1})
        >>> _ = broker.produce("decisions", [b"one", b"two"])
        >>> source = MemorySource(broker, ["decisions"])
        >>> [shard] = source.poll(0).assigned
        >>> source.begin(shard, 1)
        >>> source.poll(0).records[0].values
        [b'two']
    """

    def __init__(
        self,
        broker: MemoryBroker,
        topics: Sequence[str],
        group: str = "slicewatch",
        max_records: int = MAX_RECORDS,
    ) -> None:
        super().__init__()
        for topic in topics:
            broker.shards(topic)
        self.topics = tuple(topics)
        self.group = group
        self._broker = broker
        self._max_records = max_records
        self._seen: dict[Shard, int] = {}

    def shards(self, topic: str) -> Sequence[Shard]:
        """Return all partitions of a topic as shards; raise SourceError if it is unknown."""
        return self._broker.shards(topic)

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id, new after each creation; raise MissingTopicError if missing."""
        if (identity := self._broker.topic_id(topic)) is None:
            raise MissingTopicError(f"topic {topic} does not exist")
        return identity

    def poll(self, timeout: float) -> Polled:
        """Return available messages and rebalances; raise DataLossError for a lost position."""
        if self._closed:
            raise SourceError("the source is closed")
        self._broker.join(self)
        if (lost := self._lost()) is not None:
            raise self._loss(lost)
        revoked, assigned = self._note_changes()
        self._delivery.revoke(revoked)
        self._delivery.assign(assigned)
        return Polled(self._fetch(), assigned, revoked)

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Return True if the broker still has the shards as ours."""
        return not self._closed and all(
            self._delivery.owns(shard)
            and self._broker.owner(self.group, shard) == (self, self._seen[shard])
            for shard in shards
        )

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Return the first offset: earliest, latest, or the first stamped at a time or after."""
        log = self._broker.log(shard)
        if start.policy == "time" and start.at is not None:
            return log.at_time(-(-start.at // 1000))
        return log.high if start.policy == "latest" else log.low

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver a shard from ``offset`` on; raise DataLossError if it is outside the log."""
        self._delivery.begin(shard, offset)
        if self._outside(shard):
            raise self._loss(shard)

    def high_water(self, shard: Shard) -> int | None:
        """Return the next offset to be written to the shard."""
        return self._broker.log(shard).high

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Record positions at the broker; :meth:`MemoryBroker.reported` returns them."""
        self._broker.report(self.group, positions)

    def close(self) -> None:
        """Leave the group; later polls raise SourceError."""
        self._closed = True
        self._broker.leave(self)

    def _note_changes(self) -> tuple[list[Shard], list[Shard]]:
        """Return the (revoked, assigned) shards since the last poll, and note our shards."""
        owned = {}
        for topic in self.topics:
            for shard in self._broker.shards(topic):
                owner = self._broker.owner(self.group, shard)
                if owner is not None and owner[0] is self:
                    owned[shard] = owner[1]
        revoked = [shard for shard, number in self._seen.items() if owned.get(shard) != number]
        assigned = [shard for shard, number in owned.items() if self._seen.get(shard) != number]
        self._seen = owned
        return revoked, assigned

    def _fetch(self) -> list[RecordBatch]:
        """Return the next messages of shards in turn, at most ``max_records`` in all."""
        fetched, room = [], self._max_records
        for shard in self._delivery.flowing():
            log = self._broker.log(shard)
            offsets = log.read(self._delivery.positions[shard], room)
            room -= len(offsets)
            self._requeue(shard, log.high if room else offsets[-1] + 1)
            if offsets:
                values, stamps = zip(*(log.messages[at] for at in offsets), strict=True)
                fetched.append(RecordBatch(shard, offsets, list(values), list(stamps), log.high))
            if not room:
                break
        return fetched

    def _requeue(self, shard: Shard, offset: int) -> None:
        """Set a shard's position and move it to the end of the queue, so that none is starved."""
        del self._delivery.positions[shard]
        self._delivery.positions[shard] = offset

    def _lost(self) -> Shard | None:
        return next((s for s in self._delivery.flowing() if self._outside(s)), None)

    def _outside(self, shard: Shard) -> bool:
        log = self._broker.log(shard)
        return not log.low <= self._delivery.positions[shard] <= log.high

    def _loss(self, shard: Shard) -> SourceError:
        log, offset = self._broker.log(shard), self._delivery.positions[shard]
        self._delivery.park(shard)
        return data_loss(shard, offset, f"the topic holds {log.low} to {log.high}")
