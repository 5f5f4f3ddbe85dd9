"""Messages of a source as columns, and the shards (input partitions) that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """Input partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Record(NamedTuple):
    """Message to write: topic, key and value; without a value it is a tombstone."""

    topic: str
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Consecutive messages of one shard, as columns of equal length.

    Attributes:
        shard: source of the messages.
        offsets: increasing; holes are control, aborted or compacted records.
        values: payloads; None is a tombstone.
        timestamps: the broker's timestamp of each message, milliseconds; -1 if unknown.
        high_water: next offset to be written; None if unknown.
    """

    shard: Shard
    offsets: Sequence[int]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    high_water: int | None = None

    def followed_by(self, later: RecordBatch) -> RecordBatch:
        """Return these messages joined with those that follow them."""
        return RecordBatch(
            self.shard,
            [*self.offsets, *later.offsets],
            [*self.values, *later.values],
            [*self.timestamps, *later.timestamps],
            later.high_water,
        )

    def split(self, at: int) -> tuple[RecordBatch, RecordBatch]:
        """Return the first ``at`` messages and the remaining ones."""
        return self._part(slice(at)), self._part(slice(at, None))

    def parts(self, most: int) -> list[RecordBatch]:
        """Return the messages in order, at most `most` per part; an empty batch has one part."""
        starts = range(0, max(len(self.offsets), 1), most)
        return [self] if len(starts) == 1 else [self._part(slice(at, at + most)) for at in starts]

    def _part(self, rows: slice) -> RecordBatch:
        columns = self.offsets[rows], self.values[rows], self.timestamps[rows]
        return RecordBatch(self.shard, *columns, self.high_water)


@dataclass(frozen=True, slots=True)
class Polled:
    """Result of a poll: messages, and changes of the assignment since the last poll.

    Unflushed messages of ``revoked`` shards must be dropped: another worker owns these shards.
    ``assigned`` shards are ours but stay silent until :meth:`RecordSource.begin` is called. A shard
    in both was taken away and given back: first drop, then claim.
    """

    records: Sequence[RecordBatch] = ()
    assigned: Sequence[Shard] = ()
    revoked: Sequence[Shard] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """Start of a shard without a stored position: ``earliest``, ``latest`` or ``time``."""

    policy: str = "earliest"
    at: int | None = None  # microseconds, for ``time``
