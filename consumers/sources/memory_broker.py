"""A broker in memory: topics with partitions, and consumer groups.

It is harsher than a real broker in one way: a shard's new owner may read at once, before the old
one has heard of it. Not thread-safe: broker and sources belong to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Protocol

from monitor.errors import SourceError
from monitor.ports import Shard


@dataclass(slots=True)
class Log:
    """Messages of one partition by offset; offsets without an entry are holes."""

    messages: dict[int, tuple[bytes | None, int]] = field(default_factory=dict)
    low: int = 0
    high: int = 0

    def append(self, value: bytes | None, timestamp: int) -> int:
        """Add a message; returns its offset."""
        self.messages[self.high] = (value, timestamp)
        self.high += 1
        return self.high - 1

    def read(self, offset: int, limit: int) -> list[int]:
        """Offsets of the next messages at or after one, at most ``limit``."""
        return list(islice((at for at in range(offset, self.high) if at in self.messages), limit))

    def at_time(self, milliseconds: int) -> int:
        """Offset of the first message stamped at or after a time; the end when there is none."""
        stamped = (at for at, (_, stamp) in self.messages.items() if stamp >= milliseconds)
        return next(stamped, self.high)


class Member(Protocol):
    """Reader of topics as part of a group."""

    @property
    def topics(self) -> Sequence[str]:
        """Topics that it reads."""
        ...

    @property
    def group(self) -> str:
        """The group it belongs to."""
        ...


Ownership = tuple[Member, int]
"""Owner of a shard, and a number that changes with every change of owner, even back."""


@dataclass(slots=True)
class _Group:
    """Members in the order they joined, and who owns what."""

    members: list[Member] = field(default_factory=list)
    owners: dict[Shard, Ownership] = field(default_factory=dict)
    reported: dict[Shard, int] = field(default_factory=dict)


class MemoryBroker:
    """Topics with partitions, and consumer groups whose rebalances a test can trigger.

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
        """Create a topic, or replace it by an empty one with a new identity; returns that."""
        self._logs[name] = [Log() for _ in range(partitions)]
        self._ids[name] = f"{name}-{next(self._numbers)}"
        return self._ids[name]

    def add_partition(self, topic: str) -> None:
        """Give a topic one more partition; groups see it when they rebalance."""
        self._partitions(topic).append(Log())

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> list[tuple[int, int]]:
        """Append messages; returns their (partition, offset).

        Without ``partition`` they go round all of them; without timestamps they have none (-1).
        """
        logs = self._partitions(topic)
        written = []
        for number, value in enumerate(values):
            where = number % len(logs) if partition is None else partition
            stamp = -1 if timestamps_ms is None else timestamps_ms[number]
            written.append((where, logs[where].append(value, stamp)))
        return written

    def skip(self, shard: Shard, offsets: int = 1) -> None:
        """Use up offsets without a message, as control and aborted records do."""
        self.log(shard).high += offsets

    def trim(self, shard: Shard, low: int) -> None:
        """Delete everything below an offset, as retention does."""
        log = self.log(shard)
        log.low = low
        log.messages = {at: kept for at, kept in log.messages.items() if at >= low}

    def log(self, shard: Shard) -> Log:
        """The log of one partition."""
        return self._partitions(shard.topic)[shard.partition]

    def topic_id(self, topic: str) -> str | None:
        """Identity of a topic; None when there is none."""
        return self._ids.get(topic)

    def shards(self, topic: str) -> list[Shard]:
        """All partitions of a topic; unknown: SourceError."""
        return [Shard(topic, number) for number in range(len(self._partitions(topic)))]

    def report(self, group: str, positions: Mapping[Shard, int]) -> None:
        """Note positions of a group."""
        self._group(group).reported.update(positions)

    def reported(self, group: str) -> dict[Shard, int]:
        """Positions the members of a group have reported."""
        return dict(self._group(group).reported)

    def owner(self, group: str, shard: Shard) -> Ownership | None:
        """Owner of a shard in a group, and the number of that ownership."""
        return self._group(group).owners.get(shard)

    def members(self, group: str) -> list[Member]:
        """Members of a group in the order they joined."""
        return list(self._group(group).members)

    def join(self, member: Member) -> None:
        """Add a member and rebalance; a member that is there already changes nothing."""
        group = self._group(member.group)
        if member not in group.members:
            group.members.append(member)
            self.rebalance(member.group)

    def leave(self, member: Member) -> None:
        """Take a member out and rebalance: it closed, or its session timed out.

        A member put out that polls again joins again.
        """
        group = self._group(member.group)
        if member in group.members:
            group.members.remove(member)
            self.rebalance(member.group)

    def rebalance(self, name: str) -> None:
        """Share the group's shards evenly, moving as few as possible."""
        group = self._group(name)
        load = {id(member): 0 for member in group.members}
        shards = sorted(
            {s for m in group.members for topic in m.topics for s in self.shards(topic)}
        )
        group.owners = self._kept(group, shards, load)
        for shard in shards:
            if shard not in group.owners:
                member = min(group.members, key=lambda one: load[id(one)])
                self.move(name, shard, member)
                load[id(member)] += 1

    def _kept(
        self, group: _Group, shards: Sequence[Shard], load: dict[int, int]
    ) -> dict[Shard, Ownership]:
        """Shards that every member may keep of those it has, counted in ``load``."""
        share, spare = divmod(len(shards), max(len(load), 1))
        kept = {}
        for shard in shards:
            held = group.owners.get(shard)
            if held is None or (owner := id(held[0])) not in load:
                continue
            if load[owner] < share or (load[owner] == share and spare):
                spare -= load[owner] == share
                load[owner] += 1
                kept[shard] = held
        return kept

    def move(self, name: str, shard: Shard, member: Member) -> None:
        """Give a shard to a member, by hand; giving it to its owner takes it away and back."""
        self._group(name).owners[shard] = (member, next(self._numbers))

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _partitions(self, topic: str) -> list[Log]:
        if topic not in self._logs:
            raise SourceError(f"topic {topic} does not exist")
        return self._logs[topic]
