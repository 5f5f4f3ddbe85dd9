"""Known-bad and lost data: exclusions as people declared them, and gaps of shards.

An exclusion is a span of event time whose tables are left out. Its row is never changed
but for being lifted, so what was left out when, by whom and why stays known.

A loss is a gap that a shard was moved over. It is open until the first event after it shows where
event time goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import sqlalchemy as sa

from monitor.core.counts.cells import content_id
from monitor.core.time import HOUR, Grain, TimeSpan, pane_of, to_datetime
from monitor.errors import StoreError
from monitor.ports import Loss, Shard, ShardFlush
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
    """Known-bad data, as somebody declared them.

    Attributes:
        span: event time of the decisions.
        version: only hours in which this version tuple decided anything; None: all.
        reason: why.
        owner: who answers for it.
    """

    span: TimeSpan
    version: str | None
    reason: str
    owner: str


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A declaration on record.

    Attributes:
        id: gap-free, from 1 on.
        declared: what was declared.
        excluded_at: wall clock.
        lifted_at: wall clock; None while it is in force.
    """

    id: int
    declared: Declaration
    excluded_at: int
    lifted_at: int | None = None


def add_exclusion(engine: sa.Engine, declared: Declaration, now: int) -> Exclusion:
    """Put a declaration on record; it is in force from the evaluator's next cycle on.

    Raises:
        StoreError: no decision of that version was ever counted.
    """
    with writing(engine) as connection:
        if declared.version is not None:
            _require_version(connection, declared.version)
        if connection.dialect.name != "sqlite":  # there all writers take turns anyway
            # Readers go on; of two that add, the second waits, or both would take the same id.
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
    """Take a declaration back: its tables are in the windows again; the row stays.

    Raises:
        StoreError: there is no such exclusion, or it was lifted before.
    """
    with writing(engine) as connection:
        lifted = connection.execute(
            sa.update(exclusion)
            .where(exclusion.c.id == number, exclusion.c.lifted_at.is_(None))
            .values(lifted_at=now)
        )
        found = next((one for one in read_exclusions(connection) if one.id == number), None)
        if found is None:
            raise StoreError(
                f"there is no exclusion {number}; those there are: slicewatch db exclude --list"
            )
        if lifted.rowcount != 1:
            when = to_datetime(found.lifted_at or 0).isoformat(timespec="seconds")
            raise StoreError(f"exclusion {number} was lifted at {when} already")
    return found


def read_exclusions(connection: sa.Connection) -> list[Exclusion]:
    """All exclusions, lifted ones too, by id."""
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
    """Event time whose tables are to be left out now; spans may overlap.

    Of a version these are the hours in which it decided anything.
    """
    return tuple(
        span
        for one in read_exclusions(connection)
        if one.lifted_at is None
        for span in _spans(connection, one.declared)
    )


def _spans(connection: sa.Connection, declared: Declaration) -> Iterator[TimeSpan]:
    if declared.version is None:
        yield declared.span
        return
    start, end = declared.span.start, declared.span.end
    for first, last in _runs(_hours(connection, declared.version, declared.span)):
        yield TimeSpan(max(start, first * HOUR), min(end, (last + 1) * HOUR))


def _hours(connection: sa.Connection, text: str, span: TimeSpan) -> Sequence[int]:
    """The hours of a span in which a version decided anything."""
    first, last = pane_of(span.start, Grain.HOUR), pane_of(span.end - 1, Grain.HOUR)
    cells = sa.select(cell.c.id).where(cell.c.version == content_id(text))
    pane = counts.c.pane
    return (
        connection.execute(
            sa.select(pane)
            .where(counts.c.grain == int(Grain.HOUR), pane.between(first, last))
            .where(counts.c.n != 0, counts.c.cell.in_(cells))
            .distinct()
            .order_by(pane)
        )
        .scalars()
        .all()
    )


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of successive numbers."""
    for _, run in groupby(enumerate(numbers), lambda place: place[1] - place[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]


def _require_version(connection: sa.Connection, text: str) -> None:
    known = connection.execute(sa.select(version.c.text).order_by(version.c.text)).scalars().all()
    if text in known:
        return
    named = "; ".join(known[:_NAMED_VERSIONS]) or "none, nothing was counted yet"
    more = len(known) - _NAMED_VERSIONS
    rest = f"; and {more} more" if more > 0 else ""
    raise StoreError(f"--version: no such version was counted; there are: {named}{rest}")


def read_losses(connection: sa.Connection) -> tuple[Loss, ...]:
    """Every gap, oldest first; a start that a person chose for a shard lost nothing."""
    return tuple(
        Loss(row.topic, row.lost_from, row.lost_until) for row in connection.execute(_LOSSES)
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
