"""An id key is given up before its time: all that is stored under ids hashed with it goes too.

What was counted stays. The decisions of its days belong to the key before it, or to the next one
where it was the oldest.
"""

from __future__ import annotations

import sqlalchemy as sa

from monitor.core.time import Grain, pane_of
from monitor.errors import StoreError
from monitor.ports import Shard
from monitor.store.codings import fence_all, lock_eras
from monitor.store.database import writing
from monitor.store.forget import settle
from monitor.store.id_key_rules import ends
from monitor.store.id_keys import forget_mark, read_marks
from monitor.store.schema import double_label, label_state, pending, waiting_label
from monitor.store.shards import lock_shards


def drop_key(engine: sa.Engine, name: str) -> dict[str, int]:
    """Forget a key; whoever works is fenced, and must be started with settings without it.

    Returns:
        Rows removed, by table.

    Raises:
        StoreError: the store does not know the key.
    """
    with writing(engine) as connection:
        lock_eras(connection)
        marks = {mark.id: mark for mark in read_marks(connection)}
        if name not in marks:
            known = ", ".join(marks) or "none"
            raise StoreError(f"this store knows no such id key; it knows: {known}")
        fence_all(connection)
        start, end = marks[name].start, ends(marks.values()).get(name)
        oldest = start == min(mark.start for mark in marks.values())
        hours = (None if oldest else start, end)
        removed = {
            table.name: connection.execute(sa.delete(table).where(*_within(table, *hours))).rowcount
            for table in (pending, label_state, double_label)
        }
        removed[waiting_label.name] = _drop_waiting(connection, *hours)
        forget_mark(connection, name)
    return removed


def _within(table: sa.Table, start: int | None, end: int | None) -> list[sa.ColumnElement[bool]]:
    """The rows of decisions between two instants, edges of hours; None: no such edge."""
    conditions: list[sa.ColumnElement[bool]] = []
    if start is not None:
        conditions.append(table.c.hour >= pane_of(start, Grain.HOUR))
    if end is not None:
        conditions.append(table.c.hour < pane_of(end, Grain.HOUR))
    return conditions


def _drop_waiting(connection: sa.Connection, start: int | None, end: int | None) -> int:
    total = 0
    for shard, row in lock_shards(connection).items():
        where = (*_of(shard), *_within(waiting_label, start, end))
        if number := connection.execute(sa.delete(waiting_label).where(*where)).rowcount:
            settle(connection, shard, row.tallies, number)
            total += number
    return total


def _of(shard: Shard) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return waiting_label.c.topic == shard.topic, waiting_label.c.part == shard.partition
