"""State of a shard: its running totals, its claim and its stored status."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from monitor.records import Shard


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
        late: copies from the partition of the decision: later than an hour, or with
            another time.
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
