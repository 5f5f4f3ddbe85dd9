"""The source that reads a broker in memory.

It ships with the product and passes the same contract tests as the source of the real broker, so
a test of the ingest loop that uses it means something. It never waits, and belongs with its
broker to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from consumers.sources.base import Delivery, data_loss
from consumers.sources.memory_broker import MemoryBroker
from monitor.errors import MissingTopicError, SourceError
from monitor.ports import Polled, RecordBatch, Shard, Start

MAX_RECORDS = 5000


class MemorySource:
    """Reads a :class:`MemoryBroker` as a member of a group; fulfils ``RecordSource``.

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
        for topic in topics:
            broker.shards(topic)
        self.topics = tuple(topics)
        self.group = group
        self._broker = broker
        self._max_records = max_records
        self._seen: dict[Shard, int] = {}
        self._delivery = Delivery()
        self._closed = False

    @property
    def finished(self) -> bool:
        """Never: more may be produced."""
        return False

    def shards(self, topic: str) -> Sequence[Shard]:
        """All partitions of a topic; unknown: SourceError."""
        return self._broker.shards(topic)

    def topic_id(self, topic: str) -> str | None:
        """Identity of the topic, changed by creating it again; none: MissingTopicError."""
        if (identity := self._broker.topic_id(topic)) is None:
            raise MissingTopicError(f"topic {topic} does not exist")
        return identity

    def poll(self, timeout: float) -> Polled:
        """Return what there is; ``timeout`` is not used. Lost positions: DataLossError."""
        if self._closed:
            raise SourceError("the source is closed")
        self._broker.join(self)
        if (lost := self._lost()) is not None:
            raise self._loss(lost)
        revoked, assigned = self._changes()
        self._delivery.revoke(revoked)
        self._delivery.assign(assigned)
        return Polled(self._fetch(), assigned, revoked)

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Return True when the broker still says that the shards are ours."""
        return not self._closed and all(
            self._delivery.owns(shard)
            and self._broker.owner(self.group, shard) == (self, self._seen[shard])
            for shard in shards
        )

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Resolve earliest, latest or the first message stamped at or after a time."""
        log = self._broker.log(shard)
        if start.policy == "time" and start.at is not None:
            return log.at_time(-(-start.at // 1000))
        return log.high if start.policy == "latest" else log.low

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver from ``offset`` on; outside the log: DataLossError."""
        self._delivery.begin(shard, offset)
        if self._outside(shard):
            raise self._loss(shard)

    def pause(self, shards: Iterable[Shard]) -> None:
        """Hold shards back."""
        self._delivery.pause(shards)

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`."""
        self._delivery.resume(shards)

    def high_water(self, shard: Shard) -> int | None:
        """Next offset to be written."""
        return self._broker.log(shard).high

    def position(self, shard: Shard) -> int | None:
        """Next offset that will be read."""
        return self._delivery.positions.get(shard)

    def ended(self, shard: Shard) -> bool:
        """Never: more may be produced."""
        return False

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Keep the positions where :meth:`MemoryBroker.reported` shows them."""
        self._broker.report(self.group, positions)

    def close(self) -> None:
        """Leave the group."""
        self._closed = True
        self._broker.leave(self)

    def _changes(self) -> tuple[list[Shard], list[Shard]]:
        """(revoked, assigned) since the last poll."""
        held = {}
        for topic in self.topics:
            for shard in self._broker.shards(topic):
                owner = self._broker.owner(self.group, shard)
                if owner is not None and owner[0] is self:
                    held[shard] = owner[1]
        revoked = [shard for shard, number in self._seen.items() if held.get(shard) != number]
        assigned = [shard for shard, number in held.items() if self._seen.get(shard) != number]
        self._seen = held
        return revoked, assigned

    def _fetch(self) -> list[RecordBatch]:
        fetched, room = [], self._max_records
        for shard in self._delivery.flowing():
            log = self._broker.log(shard)
            offsets = log.read(self._delivery.positions[shard], room)
            room -= len(offsets)
            self._advance(shard, log.high if room else offsets[-1] + 1)
            if offsets:
                values, stamps = zip(*(log.messages[at] for at in offsets), strict=True)
                fetched.append(RecordBatch(shard, offsets, list(values), list(stamps), log.high))
            if not room:
                break
        return fetched

    def _advance(self, shard: Shard, offset: int) -> None:
        """Move on; the shard goes to the end of the queue, so that none is starved."""
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
