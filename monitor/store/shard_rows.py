"""Shards in the store: locks, status, watermarks, parking, and moves to another offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from monitor.errors import StoreError
from monitor.records import Shard
from monitor.shard_status import CREATED_AGAIN, Claim, ShardStatus, Tallies
from monitor.store.database import reading, writing
from monitor.store.schema import ownership, resumption

ShardRecord = TypeVar("ShardRecord", Claim, ShardStatus)

_ALL = sa.select(ownership).order_by(ownership.c.topic, ownership.c.part)
_NEWEST = sa.select(sa.func.max(ownership.c.max_decided_at)).where(
    ownership.c.topic == sa.bindparam("of")
)
_IN_USE = ownership.c.retired_at.is_(None)
"""Condition for shards of a topic in the settings; nothing is awaited of a retired shard."""


def is_shard(shard: Shard) -> sa.ColumnElement[bool]:
    """Return the SQL condition for a shard's row of ``ownership``."""
    return sa.and_(ownership.c.topic == shard.topic, ownership.c.part == shard.partition)


def lock_shards(connection: sa.Connection) -> dict[Shard, sa.Row[Any]]:
    """Lock the rows of all shards until the transaction ends; return them by shard.

    Rows are locked one by one in the order of flushes, which is Python's. A database sorts text by
    its own rules, and two that lock in different orders could wait for each other for ever.
    """
    rows = connection.execute(sa.select(ownership.c.topic, ownership.c.part)).all()
    locked_row = sa.select(ownership).with_for_update()
    return {
        shard: connection.execute(locked_row.where(is_shard(shard))).one()
        for shard in sorted(Shard(row.topic, row.part) for row in rows)
    }


def read_statuses(engine: sa.Engine) -> list[ShardStatus]:
    """Return the status of every shard, in (topic, partition) order."""
    with reading(engine) as connection:
        return list_statuses(connection)


def list_statuses(connection: sa.Connection) -> list[ShardStatus]:
    """Return the status of every shard, in (topic, partition) order, within a transaction."""
    return [shard_record(ShardStatus, row) for row in connection.execute(_ALL)]


def shard_record(kind: type[ShardRecord], row: sa.Row[Any]) -> ShardRecord:
    """Return a row of ``ownership`` as a record whose fields are named like the columns."""
    names = {field.name for field in fields(kind)} - {"shard", "tallies"}
    values = {name: getattr(row, name) for name in names}
    return kind(shard=Shard(row.topic, row.part), tallies=tallies_of(row), **values)


def tallies_of(row: sa.Row[Any]) -> Tallies:
    """Return the totals of a shard, as its row of ``ownership`` has them."""
    return msgspec.json.decode(row.tallies, type=Tallies)


def read_watermark(connection: sa.Connection, topic: str) -> int | None:
    """Return the event time up to which a topic is complete (its slowest shard's), or None.

    Two kinds of shards do not count: those that never had an event and are read to the end, and
    files that have ended. A shard that nobody reads, or that lags, holds the watermark back. When
    every shard has ended it is the latest of them. None while nothing is known.
    """
    query = sa.select(ownership.c.watermark, ownership.c.holds_back)
    rows = connection.execute(query.where(ownership.c.topic == topic, _IN_USE)).all()
    return _slowest([(row.watermark, row.holds_back) for row in rows])


def watermark_of(statuses: Iterable[ShardStatus], topic: str) -> int | None:
    """Return a topic's watermark, as :func:`read_watermark`, from statuses already read."""
    shards = (status for status in _in_use(statuses) if status.shard.topic == topic)
    return _slowest([(status.watermark, status.holds_back) for status in shards])


def _slowest(marks: Sequence[tuple[int | None, bool]]) -> int | None:
    """Return the lowest of the watermarks that hold back, or the highest if none does."""
    awaited = [mark for mark, holds_back in marks if holds_back]
    marks_awaited = [mark for mark in awaited if mark is not None]
    if awaited:
        return min(marks_awaited) if len(marks_awaited) == len(awaited) else None
    return max((mark for mark, _ in marks if mark is not None), default=None)


def read_newest(connection: sa.Connection, topic: str) -> int | None:
    """Return the newest event time that any shard of a topic has stored; None before the first."""
    newest: int | None = connection.execute(_NEWEST, {"of": topic}).scalar()
    return newest


def read_slowest(connection: sa.Connection) -> int | None:
    """Return the event time that both topics have passed; None while either has not begun.

    The labels of a replay may come in a later file: what they need is kept until then.
    """
    query = sa.select(ownership.c.topic).where(_IN_USE).distinct()
    topics = connection.execute(query).scalars().all()
    marks = [read_watermark(connection, topic) for topic in topics]
    begun = [mark for mark in marks if mark is not None]
    return min(begun) if len(begun) == len(marks) > 1 else None


def behind_of(statuses: Iterable[ShardStatus], topic: str) -> int | None:
    """Return the event time that the slowest awaited shard of the other topics has reached.

    None if no shard is awaited; far in the past while an awaited one has not begun.
    """
    other_topics = [status for status in _in_use(statuses) if status.shard.topic != topic]
    marks = (status.watermark for status in other_topics if status.holds_back)
    return min((_NEVER if mark is None else mark for mark in marks), default=None)


def _in_use(statuses: Iterable[ShardStatus]) -> Iterator[ShardStatus]:
    """Yield the statuses of shards whose topics are in the settings."""
    return (status for status in statuses if status.retired_at is None)


_NEVER = -(1 << 61)


@dataclass(frozen=True, slots=True)
class Resumed:
    """Offset of a shard before it was moved, and the number of offsets counted again."""

    before: int | None
    again: int


@dataclass(frozen=True, slots=True)
class ShardTime:
    """Event time at which a shard is to go on, and the lag of its watermark behind it."""

    newest: int
    lateness: int


def resume_from(
    engine: sa.Engine,
    shard: Shard,
    offset: int,
    reason: str,
    now: int,
    *,
    force: bool = False,
    time: ShardTime | None = None,
) -> Resumed:
    """Move a shard to another offset after data loss and record the gap; return the old offset.

    Offsets that are skipped become gaps, so both conservation equations still hold; when the
    topic was created again and its offsets begin anew, the shard's own start moves along. The
    worker that reads the shard is fenced out and begins again at the new offset. The event time
    the shard had reached is kept as the beginning of the loss. With ``time`` its clock is set too:
    events that are older than the horizon before it are refused, and no others.

    Raises:
        StoreError: the store does not know the shard. Or, without ``force``: it is not parked,
            so that moving it could skip data that is still there, or offsets would be counted
            twice.
    """
    with writing(engine) as connection:
        own_row = is_shard(shard)
        row = connection.execute(
            sa.select(ownership).where(own_row).with_for_update()
        ).one_or_none()
        if row is None:
            raise StoreError(f"topic {shard.topic} partition {shard.partition} was never read")
        before: int | None = row.next_offset
        moved = 0 if before is None else offset - before
        again = 0 if CREATED_AGAIN in (row.parked or "") else max(-moved, 0)
        if before is not None and not force:
            _refuse(shard, row.parked, before, offset, again)
        tallies = tallies_of(row)
        tallies.gaps += max(moved, 0)
        tallies.jumps = 0
        start = offset if row.start_offset is None else row.start_offset + min(moved, 0)
        clock = {} if time is None else set_clock(row.watermark, time)
        connection.execute(
            sa.update(ownership)
            .where(own_row)
            .values(
                epoch=row.epoch + 1,
                topic_id=None,
                start_offset=start,
                next_offset=offset,
                parked=None,
                tallies=msgspec.json.encode(tallies).decode(),
                **clock,
            )
        )
        connection.execute(
            sa.insert(resumption).values(
                topic=shard.topic,
                part=shard.partition,
                epoch=row.epoch + 1,
                from_offset=before,
                to_offset=offset,
                reason=reason,
                resumed_at=now,
                lost_from=_loss_begin(row.max_decided_at, now, time),
            )
        )
    return Resumed(before, again)


def set_clock(watermark: int | None, time: ShardTime) -> dict[str, int | None]:
    """Return ``ownership`` values that set a shard's clock; its watermark never moves forward."""
    mark = time.newest - time.lateness
    return {
        "max_decided_at": time.newest,
        "watermark": None if watermark is None else min(watermark, mark),
    }


def _loss_begin(newest: int | None, now: int, time: ShardTime | None) -> int | None:
    """Return the event time at which a loss began, at most the present; None if unknown."""
    moments = [newest, now, None if time is None else time.newest]
    return None if newest is None else min(at for at in moments if at is not None)


def _refuse(shard: Shard, parked: str | None, before: int, offset: int, again: int) -> None:
    """Raise an error if a shard need not go on at ``offset``, or would count events again."""
    harm = (
        f"count {again} offsets again"
        if again
        else f"leave {offset - before} offsets uncounted"
        if offset > before
        else "record a loss"
    )
    if parked is None:
        raise StoreError(
            f"{shard} is not parked: it stands at {before} and a worker can read on from there;"
            f" going on at {offset} would {harm}. If its data is gone from the broker, add --force"
        )
    if again:
        raise StoreError(
            f"{shard} stands at {before}: going on at {offset} would {harm}, unless the topic was"
            " created again. If that is so, or meant, add --force"
        )


def park(engine: sa.Engine, shard: Shard, epoch: int, reason: str) -> None:
    """Record why a shard is not read, unless its epoch has changed.

    Raises:
        StoreError: the database cannot be written.
    """
    with writing(engine) as connection:
        connection.execute(
            sa.update(ownership)
            .where(is_shard(shard), ownership.c.epoch == epoch)
            .values(parked=reason)
        )
