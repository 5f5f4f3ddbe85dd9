"""Erasure for a data subject: everything that is stored under a decision's id is removed.

Counts stay: sums are not personal data. Rows are found by primary key, hour by hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa

from monitor.records import Shard
from monitor.store import bulk
from monitor.store.database import reading, writing
from monitor.store.schema import double_label, label_state, meta, ownership, pending, waiting_label
from monitor.store.shard_rows import is_shard, lock_shards, tallies_of

FORGOTTEN = "forgotten"
"""Reason of unmatched labels that were removed while they waited."""
NO_DECISION = "no_decision"
"""Reason of unmatched labels that waited in vain."""

_NEVER = -(1 << 62)
# Names in ``meta`` that a worker with decisions in memory reads in each flush.
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
    """Marks by which workers notice rows deleted from ``pending``: a number, and an hour's bound.

    Attributes:
        forgotten: number that changes with every forgotten decision.
        before: rows of hours before it may be gone.
    """

    forgotten: int = 0
    before: int = _NEVER


def forget(engine: sa.Engine, key: int) -> dict[str, int]:
    """Remove all rows of a decision id's keyed hash; return the number removed by table.

    All shards are locked first, so that no running flush brings removed rows back. A shard that
    loses a waiting label is fenced, because its worker's totals are wrong now: the worker claims
    the shard again.

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
            shard_key = {"topic": shard.topic, "part": shard.partition}
            if number := _forget_in(connection, waiting_label, key, **shard_key):
                _close_waiting(connection, shard, row, number, FORGOTTEN)
                waiting += number
        return {**removed, waiting_label.name: waiting}


def read_deletions(connection: sa.Connection) -> Deletions:
    """Return the stored marks of deletions, for a flush that has passed its fence."""
    names = (_FORGOTTEN_COUNT, _DROPPED_BEFORE)
    values = {
        row.name: int(row.value)
        for row in connection.execute(sa.select(meta).where(meta.c.name.in_(names)))
    }
    return Deletions(values.get(_FORGOTTEN_COUNT, 0), values.get(_DROPPED_BEFORE, _NEVER))


def note_dropped(engine: sa.Engine, end: int) -> None:
    """Record that decisions of hours before ``end`` are about to be deleted, if there are any."""
    with reading(engine) as connection:
        if not connection.execute(sa.select(sa.exists().where(pending.c.hour < end))).scalar_one():
            return
    with writing(engine) as connection:
        connection.execute(_RAISE, {"name": _DROPPED_BEFORE, "hour": str(end)})


def _forget_in(connection: sa.Connection, table: sa.Table, key: int, **shard_key: Any) -> int:
    """Delete an id's rows in a table, or in one shard's rows of it; return how many."""
    hours = _stored_hours(connection, table, shard_key)
    columns = {name: [value] * len(hours) for name, value in shard_key.items()}
    return bulk.delete(connection, table, {**columns, "hour": hours, "id": [key] * len(hours)})


def _stored_hours(
    connection: sa.Connection, table: sa.Table, shard_key: Mapping[str, Any]
) -> range:
    """Return the range from the first to the last stored hour of a table; empty without rows."""
    conditions = [table.c[name] == value for name, value in shard_key.items()]
    first, last = (
        connection.execute(sa.select(end(table.c.hour)).where(*conditions)).scalar()
        for end in (sa.func.min, sa.func.max)
    )
    return range(0) if first is None or last is None else range(first, last + 1)


def expire_waiting(engine: sa.Engine, end: int) -> None:
    """Delete labels waiting for decisions of hours before ``end``; count them as unmatched.

    Their own shard does so after a day, unless nobody owns it or its data is gone.
    """
    where = waiting_label.c.hour < end
    with reading(engine) as connection:
        if not connection.execute(sa.select(sa.exists().where(where))).scalar_one():
            return
    with writing(engine) as connection:
        drop_waiting(connection, NO_DECISION, where)


def drop_waiting(connection: sa.Connection, reason: str, *where: sa.ColumnElement[bool]) -> int:
    """Delete waiting labels that meet conditions, count them as unmatched; return their number."""
    total = 0
    for shard, row in lock_shards(connection).items():
        of_shard = (waiting_label.c.topic == shard.topic, waiting_label.c.part == shard.partition)
        if number := connection.execute(sa.delete(waiting_label).where(*of_shard, *where)).rowcount:
            _close_waiting(connection, shard, row, number, reason)
            total += number
    return total


def _close_waiting(
    connection: sa.Connection, shard: Shard, row: sa.Row[Any], number: int, reason: str
) -> None:
    """Count a number of a shard's waiting labels as unmatched for a reason; fence the shard."""
    tallies = tallies_of(row)
    tallies.waiting -= number
    tallies.unmatched[reason] = tallies.unmatched.get(reason, 0) + number
    connection.execute(
        sa.update(ownership)
        .where(is_shard(shard))
        .values(epoch=ownership.c.epoch + 1, tallies=msgspec.json.encode(tallies).decode())
    )
