"""What the store knows of shards: their status, and how far event time is complete."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from monitor.errors import StoreError
from monitor.ports import Shard, ShardStatus, Tallies
from monitor.store.database import reading, writing
from monitor.store.schema import ownership, resumption


def read_statuses(engine: sa.Engine) -> list[ShardStatus]:
    """What the store knows of every shard, in (topic, partition) order."""
    with reading(engine) as connection:
        return list_statuses(connection)


def list_statuses(connection: sa.Connection) -> list[ShardStatus]:
    """As :func:`read_statuses`, within a transaction."""
    rows = connection.execute(sa.select(ownership).order_by(ownership.c.topic, ownership.c.part))
    return [
        ShardStatus(
            shard=Shard(row.topic, row.part),
            epoch=row.epoch,
            seq=row.seq,
            owner=row.owner,
            start_offset=row.start_offset,
            next_offset=row.next_offset,
            max_decided_at=row.max_decided_at,
            watermark=row.watermark,
            tallies=msgspec.json.decode(row.tallies, type=Tallies),
            holds_back=row.holds_back,
            parked=row.parked,
            flushed_at=row.flushed_at,
        )
        for row in rows
    ]


def read_watermark(connection: sa.Connection, topic: str) -> int | None:
    """Event time up to which a topic is complete: the slowest shard's.

    A shard that never held an event and is read to its end does not count, nor does a file that
    has ended; one that nobody reads, or that lags, holds the watermark back. When every shard
    has ended it is the latest of them. None while nothing is known.
    """
    query = sa.select(ownership.c.watermark, ownership.c.holds_back)
    rows = connection.execute(query.where(ownership.c.topic == topic)).all()
    awaited = [row.watermark for row in rows if row.holds_back]
    if awaited:
        return None if None in awaited else min(awaited)
    return max((row.watermark for row in rows if row.watermark is not None), default=None)


def read_slowest(connection: sa.Connection) -> int | None:
    """Event time that both topics have passed; None while either has not begun.

    The labels of a replay may come in a later file: what they need is kept until then.
    """
    topics = connection.execute(sa.select(ownership.c.topic).distinct()).scalars().all()
    marks = [read_watermark(connection, topic) for topic in topics]
    known = [mark for mark in marks if mark is not None]
    return min(known) if len(known) == len(marks) > 1 else None


def resume_from(
    engine: sa.Engine, shard: Shard, offset: int, reason: str, now: int, *, force: bool = False
) -> int | None:
    """Move a shard to another offset after data loss; returns the offset it stood at.

    Offsets that are skipped become gaps, so both conservation equations still hold; when the
    topic was created again and its offsets begin anew, the shard's own start moves along. The
    worker that reads the shard is fenced out and begins again at the new offset. The event time
    the shard had reached is kept as the beginning of the loss.

    Raises:
        StoreError: the store does not know the shard, or it is not parked, so that moving it
            could skip data that is still there; ``force`` moves it all the same.
    """
    with writing(engine) as connection:
        one = sa.and_(ownership.c.topic == shard.topic, ownership.c.part == shard.partition)
        row = connection.execute(sa.select(ownership).where(one).with_for_update()).one_or_none()
        if row is None:
            raise StoreError(f"topic {shard.topic} partition {shard.partition} was never read")
        before: int | None = row.next_offset
        if row.parked is None and before is not None and not force:
            raise StoreError(_not_parked(shard, before, offset))
        tallies = msgspec.json.decode(row.tallies, type=Tallies)
        moved = 0 if before is None else offset - before
        tallies.gaps += max(moved, 0)
        start = offset if row.start_offset is None else row.start_offset + min(moved, 0)
        connection.execute(
            sa.update(ownership)
            .where(one)
            .values(
                epoch=row.epoch + 1,
                topic_id=None,
                start_offset=start,
                next_offset=offset,
                parked=None,
                tallies=msgspec.json.encode(tallies).decode(),
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
                lost_from=row.max_decided_at,
            )
        )
    return before


def _not_parked(shard: Shard, before: int, offset: int) -> str:
    what = (
        f"leave {offset - before} offsets uncounted"
        if offset > before
        else f"count {before - offset} offsets again"
        if offset < before
        else "record a loss"
    )
    return (
        f"{shard} is not parked: it stands at {before} and a worker can read on from there; going"
        f" on at {offset} would {what}. If its data is gone from the broker, add --force"
    )
