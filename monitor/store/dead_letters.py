"""Dead letters as they are written: limited by day, so that no producer can fill the disk."""

from __future__ import annotations

import sqlalchemy as sa

from monitor.core.time import DAY
from monitor.ports import Shard, ShardFlush
from monitor.store import bulk
from monitor.store.schema import dead_letter

MAX_DEAD_LETTERS = 10_000
"""Dead letters kept of one shard and day (UTC); beyond it they are counted only."""


def write_dead_letters(connection: sa.Connection, flush: ShardFlush, now: int) -> None:
    """Keep what there is room for; the rest is added to the tally of what was not kept.

    The shard must be fenced by this transaction: nobody else may add to it.
    """
    if not flush.dead_letters:
        return
    letters = flush.dead_letters[: _room(connection, flush.shard, now)]
    flush.tallies.unkept += len(flush.dead_letters) - len(letters)
    columns: bulk.Columns = {
        "topic": [flush.shard.topic] * len(letters),
        "part": [flush.shard.partition] * len(letters),
        "msg_offset": [letter.offset for letter in letters],
        "item": [letter.index for letter in letters],
        "reason": [letter.reason for letter in letters],
        "field": [letter.field for letter in letters],
        "payload_hash": [letter.payload_hash for letter in letters],
        "seen_at": [now] * len(letters),
    }
    bulk.insert(connection, dead_letter, columns)


def _room(connection: sa.Connection, shard: Shard, now: int) -> int:
    """How many more dead letters of a shard may be kept today."""
    kept = sa.select(sa.literal(1)).where(
        dead_letter.c.topic == shard.topic,
        dead_letter.c.part == shard.partition,
        dead_letter.c.seen_at >= now - now % DAY,
    )
    count = sa.select(sa.func.count()).select_from(kept.limit(MAX_DEAD_LETTERS).subquery())
    return MAX_DEAD_LETTERS - int(connection.execute(count).scalar_one())
