"""What the store knows of shards: their status, and how far event time is complete."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from monitor.ports import Shard, ShardStatus, Tallies
from monitor.store.database import reading
from monitor.store.schema import ownership


def read_statuses(engine: sa.Engine) -> list[ShardStatus]:
    """What the store knows of every shard, in (topic, partition) order."""
    with reading(engine) as connection:
        rows = connection.execute(
            sa.select(ownership).order_by(ownership.c.topic, ownership.c.part)
        ).all()
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
        )
        for row in rows
    ]


def read_watermark(connection: sa.Connection, topic: str | None = None) -> int | None:
    """Event time up to which a topic (or, without one, all) is complete: the slowest shard's.

    A shard that never held an event and is read to its end does not count, nor does a file that
    has ended; one that nobody reads, or that lags, holds the watermark back. When every shard
    has ended it is the latest of them. None while nothing is known.
    """
    query = sa.select(ownership.c.watermark, ownership.c.holds_back)
    if topic is not None:
        query = query.where(ownership.c.topic == topic)
    rows = connection.execute(query).all()
    awaited = [row.watermark for row in rows if row.holds_back]
    if awaited:
        return None if None in awaited else min(awaited)
    return max((row.watermark for row in rows if row.watermark is not None), default=None)
