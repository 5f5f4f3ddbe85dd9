"""A data subject's erasure: everything that is kept under a decision's id is removed.

What was counted stays: sums are of no person. Rows are found by primary key, hour by hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa

from monitor.ports import Shard, Tallies
from monitor.store import bulk
from monitor.store.database import reading, writing
from monitor.store.schema import (
    double_label,
    label_state,
    meta,
    ownership,
    pending,
    waiting_label,
)
from monitor.store.shard_rows import is_shard, lock_shards

FORGOTTEN = "forgotten"
"""Reason why a waiting label that was removed is unmatched."""
NO_DECISION = "no_decision"
"""Reason why one that waited in vain is unmatched."""

_NEVER = -(1 << 62)
# What a worker that has decisions in memory looks at in each flush; in ``meta``.
_FORGOTTEN_COUNT, _DROPPED_BEFORE = "decisions forgotten", "decisions dropped before hour"
_COUNT = sa.text(
    "INSERT INTO meta (name, value) VALUES (:name, '1') ON CONFLICT (name)"
    " DO UPDATE SET value = CAST(CAST(meta.value AS BIGINT) + 1 AS TEXT)"
)
_RAISE = sa.text(
    "INSERT INTO meta (name, value) VALUES (:name, :hour) ON CONFLICT (name)"
    " DO UPDATE SET value = excluded.value"
    " WHERE CAST(meta.value AS BIGINT) < CAST(excluded.value AS BIGINT)"
)


@dataclass(frozen=True, slots=True)
class Deletions:
    """Rows of ``pending`` that were deleted without fencing whoever may have them in memory.

    Attributes:
        forgotten: changes with every decision that is forgotten.
        before: rows of the hours before it may be gone.
    """

    forgotten: int = 0
    before: int = _NEVER


def forget(engine: sa.Engine, key: int) -> dict[str, int]:
    """Remove what is stored under the keyed hash of a decision id.

    All shards are locked first, so that no flush that is under way brings back what was removed.
    A shard that loses a waiting label is taken from its worker, whose totals would be wrong now:
    it claims the shard again.

    Returns:
        Rows removed, by table.
    """
    with writing(engine) as connection:
        shards = lock_shards(connection)
        removed = {
            table.name: _forget_in(connection, table, key)
            for table in (pending, label_state, double_label)
        }
        if any(removed.values()):
            connection.execute(_COUNT, {"name": _FORGOTTEN_COUNT})
        waiting = 0
        for shard, row in shards.items():
            where = {"topic": shard.topic, "part": shard.partition}
            if number := _forget_in(connection, waiting_label, key, **where):
                _close_waiting(connection, shard, row.tallies, number, FORGOTTEN)
                waiting += number
        return {**removed, waiting_label.name: waiting}


def read_deletions(connection: sa.Connection) -> Deletions:
    """Deletions, as a flush sees them that has passed its fence."""
    known = (_FORGOTTEN_COUNT, _DROPPED_BEFORE)
    found = {
        row.name: int(row.value)
        for row in connection.execute(sa.select(meta).where(meta.c.name.in_(known)))
    }
    return Deletions(found.get(_FORGOTTEN_COUNT, 0), found.get(_DROPPED_BEFORE, _NEVER))


def note_dropped(engine: sa.Engine, end: int) -> None:
    """Keep that the decisions of the hours before ``end`` go, before they do."""
    with reading(engine) as connection:
        if not connection.execute(sa.select(sa.exists().where(pending.c.hour < end))).scalar_one():
            return
    with writing(engine) as connection:
        connection.execute(_RAISE, {"name": _DROPPED_BEFORE, "hour": str(end)})


def _forget_in(connection: sa.Connection, table: sa.Table, key: int, **where: Any) -> int:
    """Remove the id from every hour of a table, or of the part of it that one shard has."""
    hours = _hours(connection, table, where)
    columns = {name: [value] * len(hours) for name, value in where.items()}
    return bulk.delete(connection, table, {**columns, "hour": hours, "id": [key] * len(hours)})


def _hours(connection: sa.Connection, table: sa.Table, where: Mapping[str, Any]) -> range:
    """All hours from the first to the last; each end is a look-up of its own in the index."""
    same = [table.c[name] == value for name, value in where.items()]
    first, last = (
        connection.execute(sa.select(end(table.c.hour)).where(*same)).scalar()
        for end in (sa.func.min, sa.func.max)
    )
    return range(0) if first is None or last is None else range(first, last + 1)


def expire_waiting(engine: sa.Engine, end: int) -> None:
    """Remove labels that wait for decisions of the hours before ``end``: none can come any more.

    Their own shard does so after a day, unless nobody has it or its data is gone.
    """
    where = waiting_label.c.hour < end
    with reading(engine) as connection:
        if not connection.execute(sa.select(sa.exists().where(where))).scalar_one():
            return
    with writing(engine) as connection:
        drop_waiting(connection, NO_DECISION, where)


def drop_waiting(connection: sa.Connection, reason: str, *where: sa.ColumnElement[bool]) -> int:
    """Remove waiting labels of every shard, counted as unmatched; returns how many there were."""
    total = 0
    for shard, row in lock_shards(connection).items():
        ours = (waiting_label.c.topic == shard.topic, waiting_label.c.part == shard.partition)
        if number := connection.execute(sa.delete(waiting_label).where(*ours, *where)).rowcount:
            _close_waiting(connection, shard, row.tallies, number, reason)
            total += number
    return total


def _close_waiting(
    connection: sa.Connection, shard: Shard, stored: str, number: int, reason: str
) -> None:
    """Count labels that waited in a shard with these tallies as unmatched, and fence the shard."""
    tallies = msgspec.json.decode(stored, type=Tallies)
    tallies.waiting -= number
    tallies.unmatched[reason] = tallies.unmatched.get(reason, 0) + number
    connection.execute(
        sa.update(ownership)
        .where(is_shard(shard))
        .values(epoch=ownership.c.epoch + 1, tallies=msgspec.json.encode(tallies).decode())
    )
