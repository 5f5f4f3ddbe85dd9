"""Parked shards: why one is not read, kept where every process can see it.

``resume_from`` in :mod:`monitor.store.shards` is the way out; nothing else clears it, since a lost
position can look valid again once the topic has grown past it.
"""

from __future__ import annotations

import sqlalchemy as sa

from monitor.ports import Shard
from monitor.store.database import writing
from monitor.store.schema import ownership
from monitor.store.shards import is_shard


def park(engine: sa.Engine, shard: Shard, epoch: int, reason: str) -> None:
    """Keep why a shard is not read; a worker that was fenced out keeps nothing.

    Raises:
        StoreError: the database cannot be written.
    """
    with writing(engine) as connection:
        connection.execute(
            sa.update(ownership)
            .where(is_shard(shard), ownership.c.epoch == epoch)
            .values(parked=reason)
        )
