"""Record source that delivers messages once their schemas are known.

All later messages of a poll wait behind the first one without a schema. Their partition is paused
meanwhile, while others go on. To all callers the partition looks as if its broker were away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from consumers.wire.schemas import WriterSchemas
from monitor.ports import RecordSource
from monitor.records import Polled, RecordBatch, Shard, Start


class SchemaGate:
    """Record source around another one, which holds messages back until their schemas are known.

    Args:
        source: source of the messages.
        schemas: schemas of the registry.
    """

    def __init__(self, source: RecordSource, schemas: WriterSchemas) -> None:
        self._source = source
        self._schemas = schemas
        self._held: dict[Shard, RecordBatch] = {}
        self._paused: set[Shard] = set()

    @property
    def finished(self) -> bool:
        """Return True if no messages wait and none will come again."""
        return not self._held and self._source.finished

    def shards(self, topic: str) -> Sequence[Shard]:
        """Return all partitions of a topic as shards."""
        return self._source.shards(topic)

    def topic_id(self, topic: str) -> str | None:
        """Return the inner source's id of a topic; None if it gives none."""
        return self._source.topic_id(topic)

    def poll(self, timeout: float) -> Polled:
        """Return messages whose schemas are known; an absent registry delays this by seconds."""
        polled = self._source.poll(timeout)
        for shard in (*polled.revoked, *polled.assigned):
            self._held.pop(shard, None)
            self._paused.discard(shard)
        fresh = {batch.shard: batch for batch in polled.records}
        self._schemas.begin_turn()
        waited = [shard for shard in self._held if shard not in fresh and shard not in self._paused]
        records = [self._pass_known(batch) for batch in fresh.values()]
        records += [self._pass_known(self._held[shard]) for shard in waited]
        return Polled(
            [batch for batch in records if batch is not None], polled.assigned, polled.revoked
        )

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Return True if the inner source proves that the shards are ours."""
        return self._source.is_member(shards)

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Return the offset at which a shard without a stored position begins."""
        return self._source.first_offset(shard, start)

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver an assigned shard from ``offset`` on."""
        if self._held.pop(shard, None) is not None and shard not in self._paused:
            self._source.resume([shard])
        self._source.begin(shard, offset)

    def pause(self, shards: Iterable[Shard]) -> None:
        """Stop delivery of shards until :meth:`resume`."""
        wanted = set(shards)
        self._paused |= wanted
        self._source.pause(wanted)

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`; messages without a schema still wait."""
        wanted = set(shards)
        self._paused -= wanted
        self._source.resume(wanted - self._held.keys())

    def high_water(self, shard: Shard) -> int | None:
        """Return the next offset to be written in a shard."""
        return self._source.high_water(shard)

    def position(self, shard: Shard) -> int | None:
        """Return the next offset to deliver: that of the first waiting message, if any waits."""
        waiting_batch = self._held.get(shard)
        return self._source.position(shard) if waiting_batch is None else waiting_batch.offsets[0]

    def ended(self, shard: Shard) -> bool:
        """Return True if a shard was delivered up to an end that will not move."""
        return shard not in self._held and self._source.ended(shard)

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Pass the committed offset of each shard on to the inner source, for lag tools."""
        self._source.report(positions)

    def close(self) -> None:
        """Leave the group and close the inner source."""
        self._source.close()

    def _pass_known(self, batch: RecordBatch) -> RecordBatch | None:
        """Return the part of a batch with known schemas; hold the rest, and pause the shard."""
        shard, waiting_batch = batch.shard, self._held.pop(batch.shard, None)
        # The client may have fetched a batch already when its shard was paused.
        if waiting_batch is not None and waiting_batch is not batch:
            batch = waiting_batch.followed_by(batch)
        settled = self._schemas.settled(batch.values)
        if settled == len(batch.values):
            if waiting_batch is not None and shard not in self._paused:
                self._source.resume([shard])
            return batch
        passed, self._held[shard] = batch.split(settled)
        if waiting_batch is None:
            self._source.pause([shard])
        return passed if settled else None
