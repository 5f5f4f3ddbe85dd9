"""Report of ``slicewatch db status`` as plain values: instants are UTC, no slice is counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.ports import Shard


@dataclass(frozen=True, slots=True)
class ShardReport:
    """One partition.

    Attributes:
        topic: of the partition.
        partition: its number.
        owner: the worker that claimed it last.
        epoch: how often it was claimed or moved.
        next_offset: where it goes on; None when it was never read.
        newest: newest event time read from it.
        watermark: event time it promises to be complete to.
        behind_seconds: how far this is behind the newest event of its topic.
        holds_back: whether the watermark of its topic waits for it.
        flushed_at: when it was last written.
        parked: why it waits for a person, and what lets it go on; None when it does not.
        retired_at: since when its topic is not in the settings; None when it is.
        offsets_balance: messages that ended nowhere, 0 or a bug.
        events_balance: events that ended nowhere, 0 or a bug.
        deltas_waiting: flushes that the evaluator has not folded.
    """

    topic: str
    partition: int
    owner: str | None
    epoch: int
    next_offset: int | None
    newest: datetime | None
    watermark: datetime | None
    behind_seconds: float | None
    holds_back: bool
    flushed_at: datetime | None
    parked: str | None
    retired_at: datetime | None
    offsets_balance: int
    events_balance: int
    deltas_waiting: int

    @property
    def shard(self) -> Shard:
        """Partition that this is the report of."""
        return Shard(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class EvaluatorReport:
    """The lease of the evaluator.

    Attributes:
        owner: who evaluates; None when the lease was given back.
        until: when the lease ends unless it is renewed.
        cycle_age_seconds: since the last cycle began, by the database's clock.
    """

    owner: str | None
    until: datetime
    cycle_age_seconds: float


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table.

    Attributes:
        name: of the table.
        rows: how many.
        estimated: whether this is the server's estimate.
        oldest_hour: of tables by hour of the decision; None when empty.
        newest_hour: likewise.
    """

    name: str
    rows: int
    estimated: bool
    oldest_hour: datetime | None = None
    newest_hour: datetime | None = None


@dataclass(frozen=True, slots=True)
class CodingReport:
    """Coding of decisions from a moment of event time on; None: from the beginning."""

    effective_from: datetime | None
    hash: str


@dataclass(frozen=True, slots=True)
class IdKeyReport:
    """A key that ids are hashed with; never the key.

    Attributes:
        id: its name.
        effective_from: the first day it is for; None: from the beginning.
        free_from: the day of event time from which it may be destroyed; None: it is the newest.
    """

    id: str
    effective_from: datetime | None
    free_from: datetime | None


@dataclass(frozen=True, slots=True)
class ContractReport:
    """One version of a contract that was in force."""

    name: str
    version: str
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class ResumptionReport:
    """A gap that a person moved a shard over, in offsets and in event time."""

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int
    reason: str
    resumed_at: datetime
    lost_from: datetime | None
    lost_until: datetime | None


@dataclass(frozen=True, slots=True)
class ExclusionReport:
    """Known-bad data that is left out; ``version`` None: whoever decided."""

    id: int
    starts_at: datetime
    ends_at: datetime
    version: str | None
    reason: str
    owner: str
    excluded_at: datetime


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Everything ``slicewatch db status`` reports.

    Attributes:
        database: its URL, without passwords.
        schema: version of the schema; None for an empty database.
        schema_needed: version that this program needs. While the two differ, nothing below is
            known.
        problems: what needs a person, a line each; empty when nothing does.
        watermark: event time up to which decisions are complete.
        evaluator: None before the first evaluation.
        shards: in (topic, partition) order.
        tables: rows of what grows.
        codings: by the event time from which on they hold.
        id_keys: likewise.
        contracts: every version there was.
        resumptions: oldest first.
        exclusions: those in force, oldest first.
    """

    database: str
    schema: str | None
    schema_needed: str
    problems: tuple[str, ...] = ()
    watermark: datetime | None = None
    evaluator: EvaluatorReport | None = None
    shards: tuple[ShardReport, ...] = ()
    tables: tuple[TableReport, ...] = ()
    codings: tuple[CodingReport, ...] = ()
    id_keys: tuple[IdKeyReport, ...] = ()
    contracts: tuple[ContractReport, ...] = ()
    resumptions: tuple[ResumptionReport, ...] = ()
    exclusions: tuple[ExclusionReport, ...] = ()
