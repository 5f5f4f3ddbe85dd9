"""Protocols between the engine and the world, and the plain values that cross them."""

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
"""A label may repeat its decision's time this inexactly, also across the edge of an hour."""


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One input partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class RecordBatch:
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

    def followed_by(self, later: RecordBatch) -> RecordBatch:
        """These messages and those that come right after them."""
        return RecordBatch(
            self.shard,
            [*self.offsets, *later.offsets],
            [*self.values, *later.values],
            [*self.timestamps, *later.timestamps],
            later.high_water,
        )

    def split(self, at: int) -> tuple[RecordBatch, RecordBatch]:
        """The first ``at`` messages, and the others."""
        return self._part(slice(at)), self._part(slice(at, None))

    def parts(self, most: int) -> list[RecordBatch]:
        """The messages in their order, so many at a time; a batch of none has one part."""
        starts = range(0, max(len(self.offsets), 1), most)
        return [self] if len(starts) == 1 else [self._part(slice(at, at + most)) for at in starts]

    def _part(self, rows: slice) -> RecordBatch:
        columns = self.offsets[rows], self.values[rows], self.timestamps[rows]
        return RecordBatch(self.shard, *columns, self.high_water)


@dataclass(frozen=True, slots=True)
class Polled:
    """Result of a poll: messages, and changes of the assignment since the last poll.

    ``revoked`` shards are not ours any more: what was read from them must be dropped.
    ``assigned`` shards are ours but stay silent until :meth:`RecordSource.begin` is called.
    A shard in both was taken away and given back: first drop, then claim.
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
    """Messages from somewhere. All calls come from one thread.

    ``finished`` is True when nothing will ever come again (files); a broker is never finished.
    """

    @property
    def finished(self) -> bool:
        """True when every shard was read to an end that will not move."""
        ...

    def shards(self, topic: str) -> Sequence[Shard]:
        """All partitions of a topic. Raises SourceError when it does not exist."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """Identity of the topic: changes when it is deleted and created again.

        None where there is none. Raises MissingTopicError when there is no such topic now, and
        SourceError when nobody can say.
        """
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

        Raises DataLossError when the offset lies outside what the topic holds. A broker says
        so only when asked for messages: then :meth:`poll` raises it soon after. Either way its
        ``shard`` is silent until it begins again elsewhere, and polling can go on.
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

    def position(self, shard: Shard) -> int | None:
        """Next offset that will be read; None before :meth:`begin`.

        Runs ahead of the last message over records that are never delivered (control, aborted,
        compacted): a shard is caught up when this equals :meth:`high_water`, although its last
        message may lie further back.
        """
        ...

    def ended(self, shard: Shard) -> bool:
        """Return True when a shard was read to an end that will not move."""
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


class ConsumerState(enum.StrEnum):
    """State of the consumer; exactly one holds."""

    STARTING = "starting"  # no assignment yet
    CONSUMING = "consuming"  # behind the end, moving
    CAUGHT_UP = "caught_up"  # at the end of every shard
    PAUSED = "paused"  # back-pressure: the store is away, or one topic runs ahead
    STUCK = "stuck"  # no progress, or no broker
    PARKED = "parked"  # data is gone from the broker: a shard waits for a person


@dataclass(slots=True)
class Tallies:
    """Running totals of one shard since its first position; they close both equations.

    next_offset - start_offset = messages + gaps; and
    events = counted + duplicates + thinned + waiting + unmatched + stale + dead letters.
    ``tombstones`` is how many of the messages have no value, and so hold no event.
    ``unkept`` is how many of the dead letters are counted only, since there were too many.
    ``requested`` and ``repeated`` count decisions with a label requested by route, and how many
    of them had an id seen before; ``jumps`` is the length of the present run of events that leap
    more than a horizon ahead and were not believed (clock ``history``).
    ``late`` and ``cross_partition`` are copies of decisions that were counted again, hence no part
    of the equation: read from the partition that had the decision before (too late for
    ``dedupe.window``, with another time, or while that is off), and from another one. They are
    recognised for the whole horizon, but only among decisions that labels can find.
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
class StoredDeadLetter:
    """A dead letter as listed later: with its shard and when it was seen (microseconds)."""

    shard: Shard
    letter: DeadLetter
    seen_at: int


class LabelRequest(enum.IntEnum):
    """Request for a label of a decision, by whether it counts as one of its stratum's sample."""

    NONE = 0  # nobody was asked: only a complaint may come
    KEPT = 1  # asked, and counted
    THINNED = 2  # asked, and left out to bring the audit rate down to the grid


@dataclass(frozen=True, slots=True)
class IdKey:
    """A key that ids are hashed with, and since when.

    Attributes:
        id: its name.
        start: first decided_at (microseconds) that it is for; it is for all before its successor's.
        key: the secret itself.
    """

    id: str
    start: int
    key: bytes = field(repr=False)


BEGINNING = to_micros(datetime.min.replace(tzinfo=UTC))
"""The start of an id key that nothing comes before."""


@dataclass(frozen=True, slots=True)
class DecisionColumns:
    """Counted decisions of one shard as columns of equal length.

    Attributes:
        ids: keyed 63-bit hash of the decision id; 0 where it is not needed.
        ts: decided_at, microseconds.
        cells: cell id.
        request: what was asked of reviewers, a :class:`LabelRequest` code.
        pending: the decision gets a row that labels can find.
        routes: route code.
        arrivals: minute of the shard's event time when the event arrived; with
            ``keys`` (id and time hashed together) what duplicates are recognised by.
        keys: 64-bit duplicate keys; empty when de-duplication is off.
        units: keyed 63-bit hash of the unit, 0 where there is none; empty when none was sent.
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
        """The chosen rows; columns that are empty (not needed) stay empty."""
        columns = (getattr(self, f.name) for f in fields(self))
        return DecisionColumns(*(c[rows] if len(c) else c for c in columns))

    @staticmethod
    def concat(parts: Sequence[DecisionColumns]) -> DecisionColumns:
        """All rows of several parts, at least one; what only some of them have is 0 elsewhere."""
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
"""A second hash of some decision ids, by the first one and the label's decided_at."""


@dataclass(frozen=True, slots=True)
class ShardFlush:
    """Flush of one shard: what it adds, and the positions afterwards.

    A shard has decisions or labels, never both. ``tallies`` are the totals after the flush, but
    for the outcome of the labels, which the store adds. ``holds_back`` is False when the
    watermark need not wait for the shard: it never held an event, or it has ended. ``other_ids``
    has, by id and ts of labels within a minute of a change of the id key, the decision's hash by
    the key of the other side: there their decision may lie. ``probes`` are the decisions of
    declared probe sets among ``decisions``, one by one: they are few. ``repetition`` is what was
    found of days that have ended with ``decisions``, ``results`` are of bias evaluations, among
    ``labels``. ``arrivals`` are decisions by the slot of five minutes since 1970 in which they came
    to the broker. ``flushes`` is how many flushes came before, by which one that moves no offset is
    not stored twice; None: not known.
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
        tallies: totals of each shard, outcomes of its labels included.
        delays: seconds from decision to label, of the labels that were counted.
    """

    tallies: Mapping[Shard, Tallies]
    delays: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claim:
    """A shard that is ours: the fence (epoch) and where to go on.

    Attributes:
        shard: which.
        epoch: the fence.
        next_offset: None for a shard that was never read.
        start_offset: where it was begun, ever.
        max_decided_at: its newest event.
        watermark: event time up to which it is complete.
        tallies: totals as of ``next_offset``.
        topic_id: identity of the topic that the offsets belong to; None where none is known.
        parked: why the shard waits for a person instead of being read; None: it does not.
        flushes: how many flushes of the shard are stored.
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
"""Part of why a shard is parked, where its offsets begin anew: none of them was counted yet."""


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """Status of a shard as stored, whoever owns it.

    ``holds_back``, ``parked`` (and why) and ``flushed_at`` (wall clock) are as last written;
    ``retired_at`` (wall clock): since when its topic is not in the settings; None: it is.
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
        """Messages that ended nowhere: 0, or something is wrong."""
        if self.start_offset is None or self.next_offset is None:
            return 0
        return self.next_offset - self.start_offset - self.tallies.messages - self.tallies.gaps


@dataclass(frozen=True, slots=True)
class Loss:
    """Events that a shard was moved past after data loss, in event time (microseconds).

    Attributes:
        topic: of the shard.
        after: the newest event that was read before it; None when none was.
        before: where event time went on after it; None while nothing was read since.
    """

    topic: str
    after: int | None
    before: int | None


@dataclass(frozen=True, slots=True)
class StoredDelta:
    """Delta of one flush of one shard: counts by (5-minute pane, cell).

    ``sizes`` are those of units; None where no decision named its unit. ``probes`` are the
    decisions of declared probe sets, ``repetition`` is what was found of days that have ended.
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
