"""Protocols between the engine and the outside, and the values that cross them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from monitor.core.bias_scores import BiasScore
from monitor.core.counts.cells import Counts, Int64s
from monitor.core.counts.clusters import Repetition, UnitSizes
from monitor.core.counts.labels import Bools, LabelColumns
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.time import MINUTE, to_micros

NEAR = MINUTE
"""Largest error of a decision's time in its label, also across the edge of an hour."""


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """Input partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


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


@runtime_checkable
class RecordSource(Protocol):
    """Source of messages; all calls come from one thread.

    ``finished`` is True when no more messages can come (files); a broker is never finished.
    """

    @property
    def finished(self) -> bool:
        """True when every shard was read to a fixed end."""
        ...

    def shards(self, topic: str) -> Sequence[Shard]:
        """Return all partitions of a topic.

        Raises SourceError when the topic does not exist.
        """
        ...

    def topic_id(self, topic: str) -> str | None:
        """Return the identity of a topic; it changes when the topic is deleted and created again.

        None if the source has no identities. Raises MissingTopicError when the topic does not
        exist, and SourceError when no broker can tell.
        """
        ...

    def poll(self, timeout: float) -> Polled:
        """Wait up to ``timeout`` seconds for messages; the result may be empty."""
        ...

    def is_member(self, shards: Sequence[Shard]) -> bool:
        """Prove to the coordinator that the shards are ours; False means not proven yet."""
        ...

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Return the first offset of a shard without a stored position."""
        ...

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver an assigned shard from ``offset`` on.

        Raises DataLossError when the topic does not hold the offset. A broker tells only when asked
        for messages: then :meth:`poll` raises the error soon after. Either way its ``shard`` is
        silent until it begins at another offset, and polling can go on.
        """
        ...

    def pause(self, shards: Iterable[Shard]) -> None:
        """Deliver nothing from these shards until they are resumed."""
        ...

    def resume(self, shards: Iterable[Shard]) -> None:
        """Undo :meth:`pause`."""
        ...

    def high_water(self, shard: Shard) -> int | None:
        """Return the next offset to be written in a shard; None if unknown."""
        ...

    def position(self, shard: Shard) -> int | None:
        """Return the next offset to be read; None before :meth:`begin`.

        It passes records that are never delivered (control, aborted, compacted). A shard is caught
        up when it equals :meth:`high_water`, even if the last message lies further back.
        """
        ...

    def ended(self, shard: Shard) -> bool:
        """Return True when a shard was read to a fixed end."""
        ...

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Report our positions to the broker, as best effort, so that lag tools work."""
        ...

    def close(self) -> None:
        """Leave the group and release everything; safe to call twice."""
        ...


class Clock(Protocol):
    """Wall clock for humans, monotonic clock for durations; injected so that tests move time."""

    def now(self) -> int:
        """Return microseconds since 1970 UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed moment; never goes back."""
        ...


class ConsumerState(enum.StrEnum):
    """State of the consumer; exactly one applies."""

    STARTING = "starting"  # no assignment yet
    CONSUMING = "consuming"  # behind the end, moving
    CAUGHT_UP = "caught_up"  # at the end of every shard
    PAUSED = "paused"  # back-pressure: the store is away, or one topic runs ahead
    STUCK = "stuck"  # no progress, or no broker
    PARKED = "parked"  # the broker lost data: a shard waits for a person


@dataclass(slots=True)
class Tallies:
    """Running totals of one shard since its first position; two equations hold.

    next_offset - start_offset = messages + gaps; and
    events = counted + duplicates + thinned + waiting + unmatched + stale + dead letters.

    ``late`` and ``cross_partition`` are copies of decisions that were counted again, so they are
    no part of the equation. They are recognised for the whole horizon, but only among decisions
    that labels can find.

    Attributes:
        tombstones: messages without a value, and so without an event.
        unkept: dead letters that are only counted, because there were too many.
        requested: decisions with a label requested, by route.
        repeated: decisions in ``requested`` whose id was seen before, by route.
        jumps: length of the present run of events that leap more than a horizon ahead and were
            not believed (clock ``history``).
        late: copies from the partition of the decision: too late for ``dedupe.window``, with
            another time, or while that is off.
        cross_partition: copies from another partition.
    """

    messages: int = 0
    tombstones: int = 0
    gaps: int = 0
    events: int = 0
    counted: int = 0
    duplicates: int = 0
    thinned: int = 0
    waiting: int = 0
    stale: int = 0
    unmatched: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    unkept: int = 0
    requested: dict[str, int] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    jumps: int = 0
    late: int = 0
    cross_partition: int = 0

    @property
    def balance(self) -> int:
        """Events without an outcome; any value but 0 is a bug."""
        ended = self.counted + self.duplicates + self.thinned + self.waiting + self.stale
        return self.events - ended - sum(self.unmatched.values()) - sum(self.dead_letters.values())


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Place and reason of an unreadable event, never its content."""

    offset: int
    index: int
    reason: str
    field: str
    payload_hash: str


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """Dead letter as listed later, with its shard and when it was seen (microseconds)."""

    shard: Shard
    letter: DeadLetter
    seen_at: int


class LabelRequest(enum.IntEnum):
    """Request for a label of a decision, by whether it counts in its stratum's sample."""

    NONE = 0  # nobody was asked: only a complaint may come
    KEPT = 1  # asked, and counted
    THINNED = 2  # asked, and left out to bring the audit rate down to the grid


@dataclass(frozen=True, slots=True)
class IdKey:
    """Key for hashing ids, with its first day.

    Attributes:
        id: name of the key.
        start: first decided_at (microseconds) of the key; the successor's start ends its use.
        key: the secret.
    """

    id: str
    start: int
    key: bytes = field(repr=False)


BEGINNING = to_micros(datetime.min.replace(tzinfo=UTC))
"""Start of the first id key."""


@dataclass(frozen=True, slots=True)
class DecisionColumns:
    """Counted decisions of one shard as columns of equal length.

    Attributes:
        ids: keyed 63-bit hash of the decision id; 0 where it is not needed.
        ts: decided_at, microseconds.
        cells: cell id.
        request: :class:`LabelRequest` code.
        pending: True if the decision gets a row that labels can find.
        routes: route code.
        arrivals: minute of the shard's event time when the event arrived; recognises duplicates
            together with ``keys``.
        keys: 64-bit hashes of id and time; empty when de-duplication is off.
        units: keyed 63-bit hash of the unit, 0 without one; empty when no unit was sent.
    """

    ids: Int64s
    ts: Int64s
    cells: Int64s
    request: Int64s
    pending: Bools
    routes: Int64s
    arrivals: Int64s
    keys: Int64s
    units: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def take(self, rows: Bools) -> DecisionColumns:
        """Return the chosen rows; empty (unneeded) columns stay empty."""
        columns = (getattr(self, f.name) for f in fields(self))
        return DecisionColumns(*(c[rows] if len(c) else c for c in columns))

    @staticmethod
    def concat(parts: Sequence[DecisionColumns]) -> DecisionColumns:
        """Join the rows of at least one part; columns that some parts lack are 0 there."""
        if len(parts) == 1:
            return parts[0]
        names = [f.name for f in fields(DecisionColumns)]
        return DecisionColumns(*(np.concatenate(_filled(parts, n)) for n in names))


def _filled(parts: Sequence[DecisionColumns], name: str) -> list[npt.NDArray[Any]]:
    columns = [getattr(part, name) for part in parts]
    if not any(map(len, columns)):
        return columns
    return [
        column if len(column) else np.zeros(len(part.ts), column.dtype)
        for part, column in zip(parts, columns, strict=True)
    ]


OtherIds = Mapping[tuple[int, int], int]
"""Second hash of a decision id, by its first hash and the label's decided_at."""


@dataclass(frozen=True, slots=True)
class ShardFlush:
    """Flush of one shard: additions, and the positions afterwards.

    A shard has decisions or labels, never both.

    Attributes:
        holds_back: False if the watermark need not wait for the shard, because it never held an
            event or has ended.
        tallies: totals after the flush, without the outcome of the labels, which the store adds.
        other_ids: for labels within a minute of a change of the id key, the decision's hash by
            the key of the other side, by id and ts; the decision may be stored under it.
        probes: decisions of declared probe sets among ``decisions``.
        repetition: repeated requests of days that ended with ``decisions``.
        results: bias evaluations among ``labels``.
        arrivals: decisions by the slot of five minutes since 1970 in which they came to the
            broker.
        flushes: number of earlier flushes, so that a flush that moves no offset is not stored
            twice; None if unknown.
    """

    shard: Shard
    epoch: int
    expected_offset: int
    next_offset: int
    max_decided_at: int | None
    watermark: int | None
    holds_back: bool
    tallies: Tallies
    decisions: DecisionColumns | None = None
    labels: LabelColumns | None = None
    other_ids: OtherIds = field(default_factory=dict)
    dead_letters: Sequence[DeadLetter] = ()
    probes: Sequence[ProbeDecision] = ()
    repetition: Sequence[Repetition] = ()
    results: Sequence[BiasScore] = ()
    arrivals: Mapping[int, int] = field(default_factory=dict)
    flushes: int | None = None


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Content ids that may be new to the store: texts of atoms and versions, and cells."""

    atoms: Mapping[int, str] = field(default_factory=dict)
    versions: Mapping[int, str] = field(default_factory=dict)
    cells: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlushResult:
    """Result of a flush in the store.

    Attributes:
        tallies: totals by shard, with the outcomes of its labels.
        delays: seconds from decision to label, for each counted label.
    """

    tallies: Mapping[Shard, Tallies]
    delays: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claim:
    """Ownership of a shard: its fence (epoch), and the position to continue from.

    Attributes:
        epoch: the fence.
        next_offset: None for a shard that was never read.
        start_offset: first offset that was ever read.
        max_decided_at: event time of the newest event.
        watermark: event time up to which the shard is complete.
        tallies: totals at ``next_offset``.
        topic_id: identity of the topic of the offsets; None if unknown.
        parked: why the shard waits for a person; None if it does not.
        flushes: number of stored flushes.
    """

    shard: Shard
    epoch: int
    next_offset: int | None
    start_offset: int | None
    max_decided_at: int | None
    watermark: int | None
    tallies: Tallies
    topic_id: str | None = None
    parked: str | None = None
    flushes: int | None = None


CREATED_AGAIN = "was deleted and created again"
"""Part of the reason for parking a shard whose offsets begin anew, so none was counted yet."""


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """Stored status of a shard, whichever worker owns it.

    Attributes:
        holds_back: as last written.
        parked: the reason as last written; None if it is not parked.
        flushed_at: wall clock of the last flush.
        retired_at: wall clock since when the settings lack its topic; None while they have it.
    """

    shard: Shard
    epoch: int
    seq: int
    owner: str | None
    start_offset: int | None
    next_offset: int | None
    max_decided_at: int | None
    watermark: int | None
    tallies: Tallies
    holds_back: bool = True
    parked: str | None = None
    flushed_at: int | None = None
    retired_at: int | None = None

    @property
    def offsets_balance(self) -> int:
        """Messages without an outcome; any value but 0 is a bug."""
        if self.start_offset is None or self.next_offset is None:
            return 0
        return self.next_offset - self.start_offset - self.tallies.messages - self.tallies.gaps


@dataclass(frozen=True, slots=True)
class Loss:
    """Gap of a shard after data loss, in event time (microseconds).

    Attributes:
        topic: topic of the shard.
        after: newest event read before the gap; None if none was.
        before: first event time read after the gap; None while nothing was read.
    """

    topic: str
    after: int | None
    before: int | None


@dataclass(frozen=True, slots=True)
class StoredDelta:
    """Delta of one flush of one shard: counts by (5-minute pane, cell).

    Attributes:
        probes: decisions of declared probe sets.
        sizes: sizes of units; None if no decision named its unit.
        repetition: repeated requests of days that have ended.
    """

    shard: Shard
    seq: int
    panes: Int64s
    cells: Int64s
    values: Int64s
    probes: Sequence[ProbeDecision] = ()
    sizes: UnitSizes | None = None
    repetition: Sequence[Repetition] = ()


@dataclass(frozen=True, slots=True)
class PaneCounts:
    """Counts of one pane of one grain, by cell id."""

    grain: int
    pane: int
    counts: Counts
