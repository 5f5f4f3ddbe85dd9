"""Status of the whole service, as its database knows it: for people who run it.

The report of ``slicewatch db status`` is plain values: instants are UTC, no slice is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from monitor.core.time import SECOND, Grain, pane_start, to_datetime
from monitor.ports import BEGINNING, Shard, ShardStatus
from monitor.store import database
from monitor.store.database import database_now
from monitor.store.evaluator.lease import ROLE
from monitor.store.exclusions import read_exclusions
from monitor.store.id_key_rules import ends, free_day
from monitor.store.id_keys import read_marks
from monitor.store.schema import coding, contract, fold_cursor, lease, resumption
from monitor.store.shard_rows import list_statuses, read_watermark
from monitor.store.upkeep.published_ages import PublishedReport, published_ages

HOURLY = ("pending", "label_state", "double_label", "waiting_label")
TABLES = (*HOURLY, "dead_letter", "delta", "snapshot")
COUNTED_BYTES = 64 << 20
"""Tables up to this size are counted, which takes moments; of larger ones PostgreSQL's own
estimate is reported, since counting 1e7 rows would read all of them."""


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
        published: how far each group-by is published, and what it waits for.
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
    published: tuple[PublishedReport, ...] = ()


def read_status(
    engine: sa.Engine,
    url: str,
    decisions_topic: str,
    lease_length: int,
    horizon: int,
    *,
    blind: Sequence[str] = (),
) -> StoreStatus:
    """Read everything, without a lock.

    Args:
        engine: the store.
        url: how to name it; without passwords.
        decisions_topic: whose watermark is the service's.
        lease_length: microseconds an evaluator's lease lasts.
        horizon: microseconds after a decision within which its labels may come.
        blind: why the service does not see, as judged elsewhere.
    """
    found, needed = database.schema_revision(engine), database.head_revision()
    if found != needed:
        problem = (
            f"schema is {found or 'empty'}, this version needs {needed}: slicewatch db migrate"
        )
        return StoreStatus(url, found, needed, (problem,))
    with database.reading(engine) as connection:
        shards = tuple(_shards(connection))
        return StoreStatus(
            database=url,
            schema=found,
            schema_needed=needed,
            problems=(*blind, *_problems(shards)),
            watermark=_moment(read_watermark(connection, decisions_topic)),
            evaluator=_evaluator(connection, lease_length),
            shards=shards,
            tables=tuple(_table(connection, name) for name in TABLES),
            codings=tuple(_codings(connection)),
            id_keys=tuple(_id_keys(connection, horizon)),
            contracts=tuple(_contracts(connection)),
            resumptions=tuple(_resumptions(connection)),
            exclusions=tuple(_exclusions(connection)),
            published=tuple(published_ages(engine)),
        )


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else to_datetime(micros)


def _problems(shards: Iterable[ShardReport]) -> Iterator[str]:
    for one in shards:
        if one.parked is not None and one.retired_at is None:
            yield f"{one.shard} is parked: {one.parked}"
        for balance, what in ((one.offsets_balance, "messages"), (one.events_balance, "events")):
            if balance:
                yield f"{one.shard}: {balance} {what} ended nowhere; this is a bug, report it"


def _shards(connection: sa.Connection) -> Iterator[ShardReport]:
    # Before the shards: what is folded meanwhile must not look like less than nothing waiting.
    cursors = {
        Shard(row.topic, row.part): row.seq for row in connection.execute(sa.select(fold_cursor))
    }
    statuses = list_statuses(connection)
    newest: dict[str, int] = {}
    for status in statuses:
        topic, at = status.shard.topic, status.max_decided_at
        if at is not None:
            newest[topic] = max(at, newest.get(topic, at))
    for status in statuses:
        waiting = status.seq - cursors.get(status.shard, 0)
        yield _shard(status, newest.get(status.shard.topic), waiting)


def _shard(status: ShardStatus, newest: int | None, waiting: int) -> ShardReport:
    known = newest is not None and status.watermark is not None
    return ShardReport(
        topic=status.shard.topic,
        partition=status.shard.partition,
        owner=status.owner,
        epoch=status.epoch,
        next_offset=status.next_offset,
        newest=_moment(status.max_decided_at),
        watermark=_moment(status.watermark),
        behind_seconds=max(0, (newest or 0) - (status.watermark or 0)) / SECOND if known else None,
        holds_back=status.holds_back,
        flushed_at=_moment(status.flushed_at),
        parked=status.parked,
        retired_at=_moment(status.retired_at),
        offsets_balance=status.offsets_balance,
        events_balance=status.tallies.balance,
        deltas_waiting=waiting,
    )


def _evaluator(connection: sa.Connection, length: int) -> EvaluatorReport | None:
    row = connection.execute(sa.select(lease).where(lease.c.role == ROLE)).one_or_none()
    if row is None:
        return None
    age = database_now(connection) - (row.until - length)
    return EvaluatorReport(row.owner, to_datetime(row.until), max(0, age) / SECOND)


def _table(connection: sa.Connection, name: str) -> TableReport:
    estimate = _estimate(connection, name)
    rows = estimate if estimate is not None else _count(connection, name)
    first, last = _hours(connection, name) if name in HOURLY else (None, None)
    return TableReport(name, rows, estimate is not None, first, last)


def _count(connection: sa.Connection, name: str) -> int:
    return int(connection.execute(sa.text(f"SELECT COUNT(*) FROM {name}")).scalar_one())


def _estimate(connection: sa.Connection, name: str) -> int | None:
    """The server's estimate of a table that is too large to count; None: count it."""
    if connection.dialect.name != "postgresql":
        return None
    rows, size = connection.execute(
        sa.text(
            "SELECT reltuples, pg_relation_size(oid) FROM pg_class"
            " WHERE oid = CAST(:name AS regclass)"
        ),
        {"name": name},
    ).one()
    return int(rows) if rows >= 0 and size > COUNTED_BYTES else None


def _hours(connection: sa.Connection, name: str) -> tuple[datetime | None, datetime | None]:
    # Two statements: of one alone SQLite would scan the table, of each it looks at one end.
    ends = [
        connection.execute(sa.text(f"SELECT {end}(hour) FROM {name}")).scalar()
        for end in ("MIN", "MAX")
    ]
    first, last = (None if hour is None else pane_start(hour, Grain.HOUR) for hour in ends)
    return _moment(first), _moment(last)


def _codings(connection: sa.Connection) -> Iterator[CodingReport]:
    query = sa.select(coding.c.effective_from, coding.c.hash).order_by(coding.c.effective_from)
    for row in connection.execute(query):
        yield CodingReport(_moment(row.effective_from or None), row.hash)


def _id_keys(connection: sa.Connection, horizon: int) -> Iterator[IdKeyReport]:
    marks = read_marks(connection)
    last = ends(marks)
    for mark in marks:
        free = free_day(last[mark.id], horizon) if mark.id in last else None
        since = None if mark.start == BEGINNING else mark.start
        yield IdKeyReport(mark.id, _moment(since), _moment(free))


def _contracts(connection: sa.Connection) -> Iterator[ContractReport]:
    columns = (contract.c.name, contract.c.version, contract.c.recorded_at)
    query = sa.select(*columns).order_by(contract.c.name, contract.c.recorded_at)
    for row in connection.execute(query):
        yield ContractReport(row.name, row.version, to_datetime(row.recorded_at))


def _resumptions(connection: sa.Connection) -> Iterator[ResumptionReport]:
    for row in connection.execute(sa.select(resumption).order_by(resumption.c.resumed_at)):
        yield ResumptionReport(
            topic=row.topic,
            partition=row.part,
            from_offset=row.from_offset,
            to_offset=row.to_offset,
            reason=row.reason,
            resumed_at=to_datetime(row.resumed_at),
            lost_from=_moment(row.lost_from),
            lost_until=_moment(row.lost_until),
        )


def _exclusions(connection: sa.Connection) -> Iterator[ExclusionReport]:
    for one in read_exclusions(connection):
        if one.lifted_at is None:
            yield ExclusionReport(
                id=one.id,
                starts_at=to_datetime(one.declared.span.start),
                ends_at=to_datetime(one.declared.span.end),
                version=one.declared.version,
                reason=one.declared.reason,
                owner=one.declared.owner,
                excluded_at=to_datetime(one.excluded_at),
            )
