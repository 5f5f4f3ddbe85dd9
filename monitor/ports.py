"""Protocols between the engine and the world, and the plain values that cross them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from monitor.core.cells import Counts, Int64s


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One input partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive messages of one shard, as columns of equal length.

    Attributes:
        shard: where they were read.
        offsets: increasing; holes are control, aborted or compacted records.
        values: payloads; None is a tombstone.
        timestamps: the broker's timestamp of each message, milliseconds; -1 when unknown.
        high_water: next offset to be written, as far as known; None when unknown.
    """

    shard: Shard
    offsets: Sequence[int]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    high_water: int | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll brought: messages, and changes of the assignment since the last poll.

    ``revoked`` shards are not ours any more: what was read from them must be dropped.
    ``assigned`` shards are ours but stay silent until :meth:`RecordSource.begin` is called.
    A shard in both was taken away and given back: first drop, then claim.
    """

    records: Sequence[Records] = ()
    assigned: Sequence[Shard] = ()
    revoked: Sequence[Shard] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """Where a shard without a stored position begins: ``earliest``, ``latest`` or ``time``."""

    policy: str = "earliest"
    at: int | None = None  # microseconds, for ``time``


@runtime_checkable
class RecordSource(Protocol):
    """Messages from somewhere. All calls come from one thread.

    ``finished`` is True when nothing will ever come again (files); a broker is never finished.
    """

    @property
    def finished(self) -> bool:
        """Whether every shard was read to an end that will not move."""
        ...

    def shards(self, topic: str) -> Sequence[Shard]:
        """All partitions of a topic. Raises SourceError when it does not exist."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """Identity of the topic: changes when it is deleted and created again."""
        ...

    def poll(self, timeout: float) -> Polled:
        """Wait up to ``timeout`` seconds for messages; may return nothing at all."""
        ...

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Prove to the coordinator that the shards are ours; False: not proven, try again."""
        ...

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Resolve where a shard without a stored position begins."""
        ...

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver an assigned shard from ``offset`` on.

        Raises DataLossError when the offset lies outside what the topic holds.
        """
        ...

    def pause(self, shards: Iterable[Shard]) -> None:
        """Deliver nothing from these shards until they are resumed."""
        ...

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`."""
        ...

    def high_water(self, shard: Shard) -> int | None:
        """Next offset to be written in a shard, as far as known."""
        ...

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Tell the broker our positions, best effort, so that lag tools work."""
        ...

    def close(self) -> None:
        """Leave the group and release everything; safe to call twice."""
        ...


class Clock(Protocol):
    """Wall clock for humans, monotonic clock for durations; injected so that tests move time."""

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


@dataclass(slots=True)
class Tallies:
    """Running totals of one shard since its first position; they close both equations.

    next_offset - start_offset = messages + gaps; and
    events = counted + duplicates + thinned + waiting + unmatched + stale + dead letters.
    """

    messages: int = 0
    gaps: int = 0
    events: int = 0
    counted: int = 0
    duplicates: int = 0
    thinned: int = 0
    waiting: int = 0
    stale: int = 0
    unmatched: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)

    @property
    def balance(self) -> int:
        """Events that ended nowhere: 0, or something is wrong."""
        ended = self.counted + self.duplicates + self.thinned + self.waiting + self.stale
        return self.events - ended - sum(self.unmatched.values()) - sum(self.dead_letters.values())


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One unreadable event: where it was and why, never what it said."""

    offset: int
    index: int
    reason: str
    field: str
    payload_hash: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A shard that is ours: the fence (epoch) and where to go on.

    ``next_offset`` is None for a shard that was never read.
    """

    shard: Shard
    epoch: int
    next_offset: int | None
    start_offset: int | None
    seq: int
    max_decided_at: int | None
    watermark: int | None
    tallies: Tallies


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """What the store knows of a shard, whoever owns it."""

    shard: Shard
    epoch: int
    seq: int
    owner: str | None
    start_offset: int | None
    next_offset: int | None
    max_decided_at: int | None
    watermark: int | None
    tallies: Tallies


@dataclass(frozen=True, slots=True)
class StoredDelta:
    """What one flush of one shard added: counts by (5-minute pane, cell)."""

    shard: Shard
    seq: int
    panes: Int64s
    cells: Int64s
    values: Int64s


@dataclass(frozen=True, slots=True)
class PaneCounts:
    """Counts of one pane of one grain, by cell id."""

    grain: int
    pane: int
    counts: Counts
