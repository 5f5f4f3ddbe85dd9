"""The facts by which the whole service is judged, read from the store."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from statistics import median

import sqlalchemy as sa

from monitor.core.blindness import (
    DAY_HOURS,
    HARDLY_ANY,
    MISSED,
    SILENT,
    WEEK_HOURS,
    WEEKS,
    Facts,
    ReadShard,
    Reason,
    blindness,
)
from monitor.core.time import HOUR, Grain, pane_of, pane_start
from monitor.store.database import database_now, reading
from monitor.store.ingest.label_arrivals import labels_silent_since
from monitor.store.schema import counts, ownership

_WEEKS_BACK = range(WEEK_HOURS, WEEKS * WEEK_HOURS + 1, WEEK_HOURS)
_LOOKED_BACK = (DAY_HOURS, *_WEEKS_BACK)
_SHARDS = sa.select(ownership).where(
    ownership.c.topic.in_(sa.bindparam("topics", expanding=True)), ownership.c.retired_at.is_(None)
)


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """Expectations of the service.

    Attributes:
        live: it reads the present; else nothing is expected of it.
        lateness: how far watermarks are behind the newest event (microseconds).
        topics: decisions first, labels second.
        pace: seconds of event time that pass in a second; more than 1 in a simulation alone.
    """

    live: bool
    lateness: int
    topics: tuple[str, str]
    pace: float = 1.0


def read_blindness(
    engine: sa.Engine, policy: HealthPolicy, now: int, *, ingest_behind: bool = False
) -> list[Reason]:
    """Reasons why the service is blind, as far as the store shows; none under clock ``history``.

    Args:
        engine: the store.
        policy: what is expected.
        now: wall clock, microseconds.
        ingest_behind: a worker of this process has not read all that there is.
    """
    if not policy.live:
        return []
    with reading(engine) as connection:
        facts = _facts(connection, policy, now)
        newest = facts.newest
        if newest is not None and now - newest >= SILENT * policy.pace:
            facts = replace(facts, missed=missed_since(connection, newest, now))
    return blindness(replace(facts, ingest_behind=ingest_behind))


def _facts(connection: sa.Connection, policy: HealthPolicy, now: int) -> Facts:
    """All of them but the pace of decisions."""
    here = database_now(connection)  # which what workers and labels leave behind is dated by
    silent = labels_silent_since(connection, policy.topics[1], here)
    return Facts(
        now,
        policy.lateness,
        _shards(connection, policy.topics, here),
        labels_silent_since=None if silent is None else pane_start(silent, Grain.HOUR),
        pace=policy.pace,
    )


def _shards(connection: sa.Connection, topics: tuple[str, str], now: int) -> list[ReadShard]:
    rows = connection.execute(_SHARDS, {"topics": topics})
    return [
        ReadShard(
            name=f"{row.topic}/{row.part}",
            decisions=row.topic == topics[0],
            seen=None if row.seen_at is None else now - row.seen_at,
            newest=row.max_decided_at,
            watermark=row.watermark,
            awaited=row.holds_back and row.parked is None,
            unstored=None if row.unstored_since is None else now - row.unstored_since,
        )
        for row in rows
    ]


def missed_since(connection: sa.Connection, newest: int, now: int) -> float | None:
    """Decisions that usually come between two instants; None where nobody knows.

    An hour's usual number is the median of the same hour of up to four weeks before, or in the
    first week the hour of the day before. Hours before the service began are not known.

    Counted from the beginning of the silence, for a week at most and until there are enough: the
    silence itself would soon be what is usual, and an alert of it would end while it lasts.
    """
    begun = _begun(connection, newest)
    if begun is None:
        return None
    first = pane_of(newest, Grain.HOUR)
    end = min(pane_of(now, Grain.HOUR), first + WEEK_HOURS) + 1
    missed: float | None = None
    for start in range(first, end, DAY_HOURS):
        panes = range(start, min(start + DAY_HOURS, end))
        found = _decisions(connection, {h - back for h in panes for back in _LOOKED_BACK})
        usual = [(hour, _usual(hour, found, begun)) for hour in panes]
        known = [n * _share(hour, newest, now) for hour, n in usual if n is not None]
        if known:
            missed = (missed or 0.0) + sum(known)
        if missed is not None and missed >= MISSED:
            return missed
    return missed


def _usual(hour: int, found: dict[int, int], begun: int) -> float | None:
    weeks = [found.get(hour - back, 0) for back in _WEEKS_BACK if hour - back >= begun]
    if weeks:
        return median(weeks)
    return found.get(hour - DAY_HOURS, 0) if hour - DAY_HOURS >= begun else None


def _share(hour: int, newest: int, now: int) -> float:
    """Share of an hour that lies between two instants."""
    start = pane_start(hour, Grain.HOUR)
    return max(0, min(now, start + HOUR) - max(newest, start)) / HOUR


def _begun(connection: sa.Connection, newest: int) -> int | None:
    """The first hour whose count shows the pace; None when nothing was counted.

    Not the hour of the oldest decision: a few come weeks late to a service that has just begun.
    """
    query = sa.select(sa.func.min(counts.c.pane)).where(counts.c.grain == int(Grain.HOUR))
    first: int | None = connection.execute(query).scalar()
    if first is None:
        return None
    # The first hour was counted in part.
    return max(first + 1, _first_usual_day(connection, newest) * DAY_HOURS)


def _first_usual_day(connection: sa.Connection, newest: int) -> int:
    """The first of the last days before which hardly any decision lies; 0 when none was counted."""
    last = pane_of(newest, Grain.DAY)
    decided = sa.func.sum(counts.c.n).label("decided")
    found = connection.execute(
        sa.select(counts.c.pane, decided)
        .where(counts.c.grain == int(Grain.DAY), counts.c.pane > last - 7 * (WEEKS + 1))
        .group_by(counts.c.pane)
        .order_by(counts.c.pane)
    )
    by_day = {int(row.pane): int(row.decided) for row in found}
    hardly_any, before = HARDLY_ANY * sum(by_day.values()), 0
    for day, number in by_day.items():
        before += number
        if before > hardly_any:
            return day
    return 0


def _decisions(connection: sa.Connection, hours: Collection[int]) -> dict[int, int]:
    query = (
        sa.select(counts.c.pane, sa.func.sum(counts.c.n).label("decided"))
        .where(counts.c.grain == int(Grain.HOUR), counts.c.pane.in_(sorted(hours)))
        .group_by(counts.c.pane)
    )
    return {row.pane: int(row.decided) for row in connection.execute(query)}
