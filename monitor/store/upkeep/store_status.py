"""Status of the whole service, from its database: for people who run it.

The report of ``slicewatch db status`` is plain values: instants are UTC, no slice is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from monitor.core.time import SECOND, Grain, optional_datetime, pane_start, to_datetime
from monitor.id_key import BEGINNING
from monitor.records import Shard
from monitor.shard_status import ShardStatus
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
"""Tables up to this size are counted, which takes moments. For larger ones PostgreSQL's own
estimate is reported, since counting 1e7 rows would read all of them."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """Status of a partition: owner, offsets, watermark and balances.

    Attributes:
        topic: name of the topic.
        partition: number of the partition.
        owner: the worker that claimed it last.
        epoch: number of times it was claimed or moved.
        next_offset: offset where it goes on; None when it was never read.
        newest: newest event time read from it.
        watermark: event time up to which it promises to be complete.
        behind_seconds: lag of the watermark behind the newest event of its topic.
        holds_back: whether the watermark of its topic waits for it.
        flushed_at: time of the last write.
        parked: why it waits for a person, and what lets it go on; None when it does not.
        retired_at: time since when its topic is not in the settings; None when it is.
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
        """Return the partition of this report."""
        return Shard(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class EvaluatorReport:
    """Status of the evaluator's lease: owner, end and age of the last cycle.

    Attributes:
        owner: the evaluator; None when the lease was given back.
        until: end of the lease unless it is renewed.
        cycle_age_seconds: time since the last cycle began, by the database's clock.
    """

    owner: str | None
    until: datetime
    cycle_age_seconds: float


@dataclass(frozen=True, slots=True)
class TableReport:
    """Size of a database table: number of rows, and oldest and newest hour.

    Attributes:
        name: name of the table.
        rows: number of rows.
        estimated: whether this is the server's estimate.
        oldest_hour: for tables by hour of the decision; None when empty.
        newest_hour: likewise.
    """

    name: str
    rows: int
    estimated: bool
    oldest_hour: datetime | None = None
    newest_hour: datetime | None = None


@dataclass(frozen=True, slots=True)
class CodingReport:
    """Hash of a coding, and the event time from which it applies (None: from the beginning)."""

    effective_from: datetime | None
    hash: str


@dataclass(frozen=True, slots=True)
class IdKeyReport:
    """Name of a key that ids are hashed with, and its days; never the key itself.

    Attributes:
        effective_from: the first day it is for; None: from the beginning.
        free_from: the day of event time from which it may be destroyed; None: it is the newest.
    """

    id: str
    effective_from: datetime | None
    free_from: datetime | None


@dataclass(frozen=True, slots=True)
class ContractReport:
    """Version of a contract that was in force, and when it was recorded."""

    name: str
    version: str
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class ResumptionReport:
    """Gap that a person moved a shard over, in offsets and event time, with the reason."""

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
    """Known-bad data left out of tables: span, version (None: all), reason and owner."""

    id: int
    starts_at: datetime
    ends_at: datetime
    version: str | None
    reason: str
    owner: str
    excluded_at: datetime


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Status of the whole service, as ``slicewatch db status`` reports it.

    Attributes:
        database: its URL, without passwords.
        schema: version of the schema; None for an empty database.
        schema_needed: version that this program needs. While the two differ, the rest is unknown.
        problems: problems for a person, a line each; empty when there are none.
        watermark: event time up to which decisions are complete.
        evaluator: None before the first evaluation.
        shards: in (topic, partition) order.
        tables: sizes of the tables that grow.
        codings: in order of the event time from which they hold.
        id_keys: likewise.
        contracts: all versions there were.
        resumptions: oldest first.
        exclusions: exclusions in force, oldest first.
        published: newest published span of each group-by, and what it waits for.
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
    """Return the status of the whole service, read from its database without a lock.

    Args:
        engine: the store.
        url: name of the store; without passwords.
        decisions_topic: topic whose watermark is the service's.
        lease_length: microseconds an evaluator's lease lasts.
        horizon: microseconds after a decision within which its labels may come.
        blind: reasons why the service is blind, as judged elsewhere.
    """
    revision, needed = database.schema_revision(engine), database.head_revision()
    if revision != needed:
        problem = (
            f"schema is {revision or 'empty'}, this version needs {needed}: slicewatch db migrate"
        )
        return StoreStatus(url, revision, needed, (problem,))
    with database.reading(engine) as connection:
        shards = tuple(_shards(connection))
        return StoreStatus(
            database=url,
            schema=revision,
            schema_needed=needed,
            problems=(*blind, *_problems(shards)),
            watermark=optional_datetime(read_watermark(connection, decisions_topic)),
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


def _problems(shards: Iterable[ShardReport]) -> Iterator[str]:
    """Yield a sentence for each parked partition and for offsets or events that do not add up."""
    for shard in shards:
        if shard.parked is not None and shard.retired_at is None:
            yield f"{shard.shard} is parked: {shard.parked}"
        for balance, unit in (
            (shard.offsets_balance, "messages"),
            (shard.events_balance, "events"),
        ):
            if balance:
                yield f"{shard.shard}: {balance} {unit} ended nowhere; this is a bug, report it"


def _shards(connection: sa.Connection) -> Iterator[ShardReport]:
    """Yield the report of each partition, with the number of deltas that wait to be folded."""
    # Cursors are read first, so that deltas folded meanwhile never make a negative count.
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
    """Return a partition's status as a report; ``waiting`` deltas are not yet folded."""
    has_times = newest is not None and status.watermark is not None
    return ShardReport(
        topic=status.shard.topic,
        partition=status.shard.partition,
        owner=status.owner,
        epoch=status.epoch,
        next_offset=status.next_offset,
        newest=optional_datetime(status.max_decided_at),
        watermark=optional_datetime(status.watermark),
        behind_seconds=max(0, (newest or 0) - (status.watermark or 0)) / SECOND
        if has_times
        else None,
        holds_back=status.holds_back,
        flushed_at=optional_datetime(status.flushed_at),
        parked=status.parked,
        retired_at=optional_datetime(status.retired_at),
        offsets_balance=status.offsets_balance,
        events_balance=status.tallies.balance,
        deltas_waiting=waiting,
    )


def _evaluator(connection: sa.Connection, length: int) -> EvaluatorReport | None:
    """Return who holds the lease, until when, and its age in seconds; None if nobody has."""
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
    """Return the server's row estimate of a table too large to count; None if it is not."""
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
    """Return the first and last hour of a table; None for an empty one."""
    # Two statements, for each of which SQLite looks at one end: for one it would scan the table.
    ends = [
        connection.execute(sa.text(f"SELECT {end}(hour) FROM {name}")).scalar()
        for end in ("MIN", "MAX")
    ]
    first, last = (None if hour is None else pane_start(hour, Grain.HOUR) for hour in ends)
    return optional_datetime(first), optional_datetime(last)


def _codings(connection: sa.Connection) -> Iterator[CodingReport]:
    query = sa.select(coding.c.effective_from, coding.c.hash).order_by(coding.c.effective_from)
    for row in connection.execute(query):
        yield CodingReport(optional_datetime(row.effective_from or None), row.hash)


def _id_keys(connection: sa.Connection, horizon: int) -> Iterator[IdKeyReport]:
    marks = read_marks(connection)
    last = ends(marks)
    for mark in marks:
        free = free_day(last[mark.id], horizon) if mark.id in last else None
        since = None if mark.start == BEGINNING else mark.start
        yield IdKeyReport(mark.id, optional_datetime(since), optional_datetime(free))


def _contracts(connection: sa.Connection) -> Iterator[ContractReport]:
    columns = (contract.c.name, contract.c.version, contract.c.recorded_at)
    query = sa.select(*columns).order_by(contract.c.name, contract.c.recorded_at)
    for row in connection.execute(query):
        yield ContractReport(row.name, row.version, to_datetime(row.recorded_at))


def _resumptions(connection: sa.Connection) -> Iterator[ResumptionReport]:
    """Yield each stored ``db resume-from``, oldest first."""
    for row in connection.execute(sa.select(resumption).order_by(resumption.c.resumed_at)):
        yield ResumptionReport(
            topic=row.topic,
            partition=row.part,
            from_offset=row.from_offset,
            to_offset=row.to_offset,
            reason=row.reason,
            resumed_at=to_datetime(row.resumed_at),
            lost_from=optional_datetime(row.lost_from),
            lost_until=optional_datetime(row.lost_until),
        )


def _exclusions(connection: sa.Connection) -> Iterator[ExclusionReport]:
    """Yield the exclusions that are not lifted."""
    for excluded in read_exclusions(connection):
        if excluded.lifted_at is None:
            yield ExclusionReport(
                id=excluded.id,
                starts_at=to_datetime(excluded.declared.span.start),
                ends_at=to_datetime(excluded.declared.span.end),
                version=excluded.declared.version,
                reason=excluded.declared.reason,
                owner=excluded.declared.owner,
                excluded_at=to_datetime(excluded.excluded_at),
            )
