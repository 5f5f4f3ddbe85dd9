"""Data that is gone for good: the gaps that people moved shards over, in event time."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from monitor.ports import Loss, Shard, ShardFlush
from monitor.store.schema import resumption


def read_losses(connection: sa.Connection) -> tuple[Loss, ...]:
    """Every gap, oldest first; a start that a person chose for a shard lost nothing."""
    query = (
        sa.select(resumption)
        .where(resumption.c.from_offset.is_not(None))
        .order_by(resumption.c.resumed_at, resumption.c.topic, resumption.c.part)
    )
    return tuple(
        Loss(row.topic, row.lost_from, row.lost_until) for row in connection.execute(query)
    )


def open_losses(connection: sa.Connection, shards: Collection[Shard]) -> set[Shard]:
    """Those of the shards that have read no event since they were moved over a gap."""
    query = sa.select(resumption.c.topic, resumption.c.part).where(
        resumption.c.lost_until.is_(None)
    )
    found = {Shard(row.topic, row.part) for row in connection.execute(query)}
    return found & set(shards)


def close_loss(connection: sa.Connection, flush: ShardFlush, now: int) -> bool:
    """Store where event time goes on after a gap; False while the shard brings no event.

    Not beyond the wall clock ``now``: one event of a far future would have all windows lack data.

    For decisions it is the time of the first one. A label was lost before the first one after
    it was given, so no decision that is newer than this can lack a label.
    """
    if flush.labels is not None:
        times = flush.labels.labelled_at
    elif flush.decisions is not None:
        times = flush.decisions.ts
    else:
        return False
    if not len(times):
        return False
    connection.execute(
        sa.update(resumption)
        .where(
            resumption.c.topic == flush.shard.topic,
            resumption.c.part == flush.shard.partition,
            resumption.c.lost_until.is_(None),
        )
        .values(lost_until=min(int(times[0]), now))
    )
    return True
