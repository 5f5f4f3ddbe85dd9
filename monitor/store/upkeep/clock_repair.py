"""Finds and repairs a store whose event time is beyond the present.

One event of a far future could once carry the watermark along: what followed was refused as too
old, and panes were closed that time has not come to yet. What was counted stays as it is; clocks,
marks and cohorts are brought back to the newest hour that anything was counted of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from monitor.core.time import DAY, HOUR, Grain, pane_of, pane_start
from monitor.ports import Shard
from monitor.store.database import reading, writing
from monitor.store.evaluator import calendar_tables, published_tables, weekly_releases
from monitor.store.evaluator.lease import ROLE
from monitor.store.schema import (
    cohort,
    counts,
    dead_letter,
    detector,
    lease,
    ownership,
    release_edge,
    release_map,
    release_mark,
    route_cohort,
    snapshot,
)
from monitor.store.shard_rows import ShardTime, is_shard, lock_shards, set_clock

BLOCK_GRID = 6 * HOUR
"""Blocks of all families may end at these instants, labels included."""

_MARKS = ("decisions", "labels", "begins")
_STOPS = ("sifted", "looked")
"""The next stop, and when late counts were looked at: neither comes while it is in the future."""
_WEEKS = ("maps_week",)


@dataclass(frozen=True, slots=True)
class PoisonedShard:
    """A shard whose clock is beyond the present.

    Attributes:
        shard: which.
        stood: the event time it has (microseconds).
        refused: dead letters of it that were refused as too old.
        first: offset of the first of these; None when there is none.
    """

    shard: Shard
    stood: int
    refused: int = 0
    first: int | None = None


@dataclass(frozen=True, slots=True)
class Poisoned:
    """Findings beyond the present; empty when all is well.

    Attributes:
        back_to: where event time is brought back to (microseconds).
        shards: whose clock is beyond it.
        marks: names of the evaluator's marks that are.
        cohorts: hours that the detectors were led through and that have not come yet.
        snapshots: published Snapshots of a future.
    """

    back_to: int
    shards: Sequence[PoisonedShard] = ()
    marks: Sequence[str] = ()
    cohorts: int = 0
    snapshots: int = 0

    def __bool__(self) -> bool:
        return bool(self.shards or self.marks or self.cohorts or self.snapshots)


def find(engine: sa.Engine, now: int, tolerance: int = DAY) -> Poisoned:
    """Find what lies beyond the present by more than a tolerance (both in microseconds)."""
    with reading(engine) as connection:
        return _find(connection, now, now + tolerance)


def repair(engine: sa.Engine, now: int, lateness: int, tolerance: int = DAY) -> Poisoned:
    """Bring everything back that :func:`find` finds; returns what it was.

    Workers claim the shards anew, and the evaluator begins from the store. What was published of
    the blocks that were open is abandoned: publishing them again, with more in them, would reveal
    the difference.
    """
    with writing(engine) as connection:
        rows = lock_shards(connection)
        found = _find(connection, now, now + tolerance)
        for one in found.shards:
            values = set_clock(rows[one.shard].watermark, ShardTime(found.back_to, lateness))
            connection.execute(
                sa.update(ownership)
                .where(is_shard(one.shard))
                .values(epoch=ownership.c.epoch + 1, **values)
            )
        if found:
            _repair_evaluation(connection, found.back_to)
            connection.execute(
                sa.update(lease)
                .where(lease.c.role == ROLE)
                .values(epoch=lease.c.epoch + 1, owner=None, until=0)
            )
    return found


def _find(connection: sa.Connection, now: int, limit: int) -> Poisoned:
    mark = release_mark.c
    marks = connection.execute(sa.select(mark.name).where(mark.name.in_(_MARKS), mark.at > limit))
    hours = sa.union(sa.select(cohort.c.hour), sa.select(route_cohort.c.hour)).subquery()
    beyond = sa.select(sa.func.count()).where(hours.c.hour > pane_of(limit, Grain.HOUR))
    shown = sa.select(sa.func.count()).where(snapshot.c.watermark > limit)
    return Poisoned(
        back_to=_newest_counted(connection, now),
        shards=tuple(_shards(connection, limit)),
        marks=tuple(sorted(marks.scalars())),
        cohorts=connection.execute(beyond).scalar_one(),
        snapshots=connection.execute(shown).scalar_one(),
    )


def _newest_counted(connection: sa.Connection, now: int) -> int:
    """End of the newest hour that anything was counted of; now where none, or beyond."""
    query = sa.select(sa.func.max(counts.c.pane)).where(
        counts.c.grain == int(Grain.HOUR), counts.c.pane <= pane_of(now, Grain.HOUR)
    )
    hour = connection.execute(query).scalar()
    return now if hour is None else min(now, pane_start(hour + 1, Grain.HOUR))


def _shards(connection: sa.Connection, limit: int) -> Iterator[PoisonedShard]:
    beyond = sa.or_(ownership.c.max_decided_at > limit, ownership.c.watermark > limit)
    rows = connection.execute(
        sa.select(ownership).where(beyond).order_by(ownership.c.topic, ownership.c.part)
    )
    for row in rows.all():
        letters = sa.select(sa.func.count(), sa.func.min(dead_letter.c.msg_offset)).where(
            dead_letter.c.topic == row.topic,
            dead_letter.c.part == row.part,
            dead_letter.c.reason == "too_old",
        )
        number, first = connection.execute(letters).one()
        stood = max(row.max_decided_at or 0, row.watermark or 0)
        yield PoisonedShard(Shard(row.topic, row.part), stood, number, first)


def _repair_evaluation(connection: sa.Connection, back_to: int) -> None:
    """Bring the evaluator's own time back to the end of the blocks that hold ``back_to``."""
    end = -(-back_to // BLOCK_GRID) * BLOCK_GRID
    _end_blocks(connection, end)
    mark = release_mark.c
    for names, latest in ((_MARKS + _STOPS, end), (_WEEKS, pane_of(end, Grain.WEEK))):
        connection.execute(
            sa.update(release_mark).where(mark.name.in_(names), mark.at > latest).values(at=latest)
        )
    _forget_future(connection, end)


def _end_blocks(connection: sa.Connection, end: int) -> None:
    """Abandon the blocks that reach beyond ``end``, and let the next ones begin there."""
    edge = release_edge.c
    beyond = connection.execute(
        sa.select(edge.family, edge.labels).where(edge.at > end).distinct()
    ).all()
    connection.execute(sa.delete(release_edge).where(edge.at > end))
    left = {
        (row.family, row.labels)
        for row in connection.execute(sa.select(edge.family, edge.labels).distinct())
    }
    if any((row.family, row.labels) not in left for row in beyond):
        # Nothing is left to begin from: all blocks are made anew.
        connection.execute(sa.delete(release_edge))
        connection.execute(sa.delete(release_map))
        return
    for row in beyond:
        there = sa.exists().where(
            edge.family == row.family, edge.labels == row.labels, edge.at == end
        )
        if not connection.execute(sa.select(there)).scalar():
            values = {"family": row.family, "labels": row.labels, "at": end, "burned": True}
            connection.execute(sa.insert(release_edge).values(values))


def _forget_future(connection: sa.Connection, end: int) -> None:
    """Delete cohorts, Snapshots and published tables of a time that has not come yet."""
    for table in (cohort, route_cohort):
        future = table.c.hour >= pane_of(end, Grain.HOUR)
        consumed = sa.select(sa.func.count()).where(future, table.c.state == "consumed")
        if connection.execute(consumed).scalar_one():
            connection.execute(sa.delete(detector))  # they have learned from what never was
        connection.execute(sa.delete(table).where(future))
    connection.execute(sa.delete(snapshot).where(snapshot.c.watermark > end))
    published_tables.delete_after(connection, end)
    weekly_releases.delete_after(connection, end)
    calendar_tables.delete_after(connection, end)
