"""Known-bad and lost data: exclusions that people declared, and gaps of shards.

An exclusion is a span of event time whose tables are left out. Its row changes only when it is
lifted, so the record shows what was left out when, by whom and why.

A loss is a gap that a shard was moved over. It is open until the first event after it shows where
event time goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import sqlalchemy as sa

from monitor.core.counts.cells import content_id
from monitor.core.publish.words import iso_text
from monitor.core.time import HOUR, Grain, TimeSpan, pane_of
from monitor.errors import StoreError
from monitor.flushes import ShardFlush
from monitor.records import Shard
from monitor.store.database import writing
from monitor.store.schema import cell, counts, exclusion, resumption, version

_NAMED_VERSIONS = 10  # as many as an error can name and still be read
_EXCLUSIONS = sa.select(exclusion).order_by(exclusion.c.id)
_LOSSES = (
    sa.select(resumption)
    .where(resumption.c.from_offset.is_not(None))
    .order_by(resumption.c.resumed_at, resumption.c.topic, resumption.c.part)
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """Known-bad data as a person declared it: span, version, reason and owner.

    Attributes:
        span: event time of the decisions.
        version: version tuple, for hours in which it decided anything; None: all hours.
        owner: person who answers for it.
    """

    span: TimeSpan
    version: str | None
    reason: str
    owner: str


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Declaration of bad data on record, with its number and times.

    Attributes:
        id: gap-free, from 1 on.
        excluded_at: wall clock.
        lifted_at: wall clock; None while it is in force.
    """

    id: int
    declared: Declaration
    excluded_at: int
    lifted_at: int | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Gap of a shard after data loss, in event time (microseconds).

    Attributes:
        topic: topic of the shard.
        after: newest event read before the gap; None if none was.
        before: first event time read after the gap; None while nothing was read.
    """

    topic: str
    after: int | None
    before: int | None


def add_exclusion(engine: sa.Engine, declared: Declaration, now: int) -> Exclusion:
    """Record a declaration of bad data; return the exclusion, in force from the next cycle on.

    Raises:
        StoreError: no decision of that version was ever counted.
    """
    with writing(engine) as connection:
        if declared.version is not None:
            _require_version(connection, declared.version)
        if connection.dialect.name != "sqlite":  # there all writers take turns anyway
            # Readers go on. A second writer waits, or both would take the same id.
            connection.execute(sa.text("LOCK TABLE exclusion IN SHARE ROW EXCLUSIVE MODE"))
        newest = connection.execute(sa.select(sa.func.max(exclusion.c.id))).scalar()
        added = Exclusion((newest or 0) + 1, declared, now)
        connection.execute(
            sa.insert(exclusion).values(
                id=added.id,
                starts_at=declared.span.start,
                ends_at=declared.span.end,
                version=declared.version,
                reason=declared.reason,
                owner=declared.owner,
                excluded_at=now,
            )
        )
    return added


def lift_exclusion(engine: sa.Engine, number: int, now: int) -> Exclusion:
    """Record that an exclusion is lifted, so its tables return; return the exclusion.

    Raises:
        StoreError: there is no such exclusion, or it was lifted before.
    """
    with writing(engine) as connection:
        lifted = connection.execute(
            sa.update(exclusion)
            .where(exclusion.c.id == number, exclusion.c.lifted_at.is_(None))
            .values(lifted_at=now)
        )
        stored = next(
            (excluded for excluded in read_exclusions(connection) if excluded.id == number), None
        )
        if stored is None:
            raise StoreError(
                f"there is no exclusion {number}; those there are: slicewatch db exclude --list"
            )
        if lifted.rowcount != 1:
            lifted_at = iso_text(stored.lifted_at)
            raise StoreError(f"exclusion {number} was lifted at {lifted_at} already")
    return stored


def read_exclusions(connection: sa.Connection) -> list[Exclusion]:
    """Return all exclusions, lifted ones too, by id."""
    return [
        Exclusion(
            row.id,
            Declaration(TimeSpan(row.starts_at, row.ends_at), row.version, row.reason, row.owner),
            row.excluded_at,
            row.lifted_at,
        )
        for row in connection.execute(_EXCLUSIONS)
    ]


def excluded_spans(connection: sa.Connection) -> tuple[TimeSpan, ...]:
    """Return the spans of event time whose tables are left out now; spans may overlap.

    For a version these are the hours in which it decided anything, or the days where only their
    counts are kept.
    """
    return tuple(
        span
        for excluded in read_exclusions(connection)
        if excluded.lifted_at is None
        for span in _spans(connection, excluded.declared)
    )


def _spans(connection: sa.Connection, declared: Declaration) -> Iterator[TimeSpan]:
    """Yield the spans to leave out: the declared one, or its hours with the declared version."""
    if declared.version is None:
        yield declared.span
        return
    start, end = declared.span.start, declared.span.end
    for first, last in _runs(_hours_of_version(connection, declared.version, declared.span)):
        yield TimeSpan(max(start, first * HOUR), min(end, (last + 1) * HOUR))


def _hours_of_version(connection: sa.Connection, text: str, span: TimeSpan) -> list[int]:
    """Return the hours (pane indices) of a span in which a version decided anything, sorted.

    Counts of hours are deleted long before the windows are past them. For a day without any, all of
    its hours are returned.
    """
    hours = set(_panes_of_version(connection, text, span, Grain.HOUR))
    days = set(_panes_of_version(connection, text, span, Grain.DAY)) - {
        hour // 24 for hour in hours
    }
    hours.update(hour for day in days for hour in range(24 * day, 24 * day + 24))
    first, last = pane_of(span.start, Grain.HOUR), pane_of(span.end - 1, Grain.HOUR)
    return sorted(hour for hour in hours if first <= hour <= last)


def _panes_of_version(
    connection: sa.Connection, text: str, span: TimeSpan, grain: Grain
) -> Sequence[int]:
    """Return the panes of a grain within a span that count decisions of a version."""
    first, last = pane_of(span.start, grain), pane_of(span.end - 1, grain)
    cells = sa.select(cell.c.id).where(cell.c.version == content_id(text))
    return (
        connection.execute(
            sa.select(counts.c.pane)
            .where(counts.c.grain == int(grain), counts.c.pane.between(first, last))
            .where(counts.c.n != 0, counts.c.cell.in_(cells))
            .distinct()
        )
        .scalars()
        .all()
    )


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of successive integers."""
    for _, run in groupby(enumerate(numbers), lambda place: place[1] - place[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]


def _require_version(connection: sa.Connection, text: str) -> None:
    """Raise an error that lists the counted versions, unless ``text`` is one of them."""
    versions = (
        connection.execute(sa.select(version.c.text).order_by(version.c.text)).scalars().all()
    )
    if text in versions:
        return
    named = "; ".join(versions[:_NAMED_VERSIONS]) or "none, nothing was counted yet"
    more = len(versions) - _NAMED_VERSIONS
    rest = f"; and {more} more" if more > 0 else ""
    raise StoreError(f"--version: no such version was counted; there are: {named}{rest}")


def read_losses(connection: sa.Connection) -> tuple[Loss, ...]:
    """Return all gaps that shards were moved over, the oldest first."""
    return tuple(
        Loss(row.topic, row.lost_from, row.lost_until) for row in connection.execute(_LOSSES)
    )


def open_losses(connection: sa.Connection, shards: Collection[Shard]) -> set[Shard]:
    """Return the given shards that have read no event since they were moved over a gap."""
    query = sa.select(resumption.c.topic, resumption.c.part).where(
        resumption.c.lost_until.is_(None)
    )
    at_gap = {Shard(row.topic, row.part) for row in connection.execute(query)}
    return at_gap & set(shards)


def close_loss(connection: sa.Connection, flush: ShardFlush, now: int) -> bool:
    """Record the event time after a shard's gap; return False if the flush has no event.

    The time is at most the wall clock ``now``: one event of a far future would make all windows
    lack data. For decisions it is the time of the first one. A lost label was given before the
    first
    label after the gap, so no decision newer than that label can lack one.
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
