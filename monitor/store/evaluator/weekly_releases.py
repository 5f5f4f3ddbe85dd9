"""Releases of closed weeks, revision by revision, and the signatures of people.

Only the evaluator writes Releases, in the transaction of a cycle. Signatures are appended by the
people who sign, and both are deleted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from monitor.core.publish.act_input import ActInput
from monitor.core.publish.release import (
    OpenIncidents,
    Release,
    Revision,
    Signature,
    StoredReport,
    StoredWeek,
    decode,
    encode,
    open_incidents,
)
from monitor.core.publish.snapshot import decode as decode_snapshot
from monitor.core.time import IsoWeek
from monitor.store.database import reading, writing
from monitor.store.schema import release_signature, snapshot, weekly_release

_ALL = 1 << 31
WEEKS_BEFORE = 3
"""Earlier weeks of a report: with the week itself, its trend has four."""
_COLUMNS = tuple(weekly_release.c[name] for name in ("week", "number", "as_of", "body"))
_NEWEST_STORED = (
    sa.select(weekly_release.c.week, sa.func.min(weekly_release.c.stored_at))
    .group_by(weekly_release.c.week)
    .order_by(weekly_release.c.week.desc())
    .limit(1)
)


def stored_weeks(connection: sa.Connection) -> list[str]:
    """Return the names of the weeks that have a Release, the oldest first."""
    week = weekly_release.c.week
    return list(connection.execute(sa.select(week).distinct().order_by(week)).scalars())


def find_revision(
    connection: sa.Connection, week: str, number: int | None = None
) -> Revision | None:
    """Return a revision of a week by its number, or the newest; None where there is none."""
    query = sa.select(*_COLUMNS).where(weekly_release.c.week == week)
    if number is not None:
        query = query.where(weekly_release.c.number == number)
    row = connection.execute(query.order_by(weekly_release.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else _revision(row)


def _revision(row: sa.Row[Any]) -> Revision:
    return Revision(row.week, row.number, row.as_of, bytes(row.body))


def weeks_before(connection: sa.Connection, week: IsoWeek, most: int) -> list[Revision]:
    """Return the newest revision of each stored week among the ``most`` weeks before, in order."""
    names: list[str] = []
    for _ in range(most):
        week = week.before
        names.append(week.name)
    column = weekly_release.c
    newest = (
        sa.select(column.week, sa.func.max(column.number).label("number"))
        .where(column.week.in_(names))
        .group_by(column.week)
        .subquery()
    )
    is_newest = (column.week == newest.c.week) & (column.number == newest.c.number)
    query = sa.select(*_COLUMNS).join(newest, is_newest).order_by(column.week)
    return [_revision(row) for row in connection.execute(query)]


def all_revisions(connection: sa.Connection, week: str) -> list[Revision]:
    """Return all stored revisions of a week, ascending."""
    query = sa.select(*_COLUMNS).where(weekly_release.c.week == week)
    rows = connection.execute(query.order_by(weekly_release.c.number))
    return [_revision(row) for row in rows]


def stored_report(
    connection: sa.Connection, week: IsoWeek, number: int | None = None
) -> StoredReport | None:
    """Return a revision of a week with its history and signatures; None if it is not stored.

    Changes are since the newest earlier revision that is signed, else the first: both are kept.

    Args:
        connection: of the store.
        week: the week.
        number: number of the revision; by default the newest.
    """
    newest = find_revision(connection, week.name)
    revision = newest if number is None else find_revision(connection, week.name, number)
    if newest is None or revision is None:
        return None
    history = tuple(weeks_before(connection, week, WEEKS_BEFORE))
    before = next(
        (earlier_week for earlier_week in history if earlier_week.week == week.before.name), None
    )
    signatures = tuple(read_signatures(connection, week.name))
    signed = (
        signature.revision for signature in signatures if signature.revision < revision.number
    )
    against = max(signed, default=1)
    earlier = find_revision(connection, week.name, against) if against != revision.number else None
    return StoredReport(
        revision,
        newest.number,
        before,
        signatures,
        earlier,
        history,
        last_signed=_last_signed(connection, revision),
        open_now=_open_now(connection),
    )


def _last_signed(connection: sa.Connection, revision: Revision) -> Revision | None:
    """Return the newest signed revision that is older than ``revision``; None without one."""
    signed, stored = release_signature.c, weekly_release.c
    is_older = (stored.week < revision.week) | (
        (stored.week == revision.week) & (stored.number < revision.number)
    )
    is_signed = sa.exists().where(signed.week == stored.week, signed.revision == stored.number)
    query = (
        sa.select(*_COLUMNS)
        .where(is_older, is_signed)
        .order_by(stored.week.desc(), stored.number.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else _revision(row)


def _open_now(connection: sa.Connection) -> OpenIncidents | None:
    body = connection.execute(
        sa.select(snapshot.c.body).order_by(snapshot.c.id.desc()).limit(1)
    ).scalar()
    return None if body is None else open_incidents(decode_snapshot(bytes(body)))


def newest_stored(connection: sa.Connection) -> tuple[str, int] | None:
    """Return the newest week with a Release and when it was first stored (wall clock), or None."""
    row = connection.execute(_NEWEST_STORED).one_or_none()
    return None if row is None else (row[0], row[1])


def newest_weeks(connection: sa.Connection, limit: int) -> list[StoredWeek]:
    """Return the newest weeks that have a Release, with revisions and signatures, newest first.

    Args:
        connection: of the store.
        limit: most weeks to return.
    """
    weeks = stored_weeks(connection)[::-1][:limit]
    return [_stored_week(connection, week) for week in weeks]


def _stored_week(connection: sa.Connection, week: str) -> StoredWeek:
    column = weekly_release.c
    query = sa.select(column.number, sa.func.length(column.body)).where(column.week == week)
    rows = connection.execute(query.order_by(column.number)).all()
    numbers = tuple(row.number for row in rows)
    return StoredWeek(week, numbers, rows[-1][1], tuple(read_signatures(connection, week)))


def write_revisions(
    connection: sa.Connection, revisions: Iterable[Revision], stored_at: int
) -> None:
    """Insert new revisions; ``stored_at`` is the wall clock."""
    for revision in revisions:
        values = {**asdict(revision), "stored_at": stored_at}
        connection.execute(sa.insert(weekly_release).values(values))


def read_signatures(connection: sa.Connection, week: str) -> list[Signature]:
    """Return the signatures of a week, in their order."""
    table = release_signature
    query = sa.select(table).where(table.c.week == week).order_by(table.c.number)
    return [
        Signature(row.week, row.number, row.revision, row.digest, row.at, row.by, row.note)
        for row in connection.execute(query)
    ]


def sign(engine: sa.Engine, revision: Revision, act_input: ActInput, now: int) -> Signature:
    """Record that a person signs a revision; return the signature. ``now`` is the wall clock."""
    with writing(engine) as connection:
        # Locked, so that the second of two who sign at once gets the next number.
        locked_row = sa.select(weekly_release.c.number).where(
            weekly_release.c.week == revision.week
        )
        connection.execute(locked_row.with_for_update())
        number = len(read_signatures(connection, revision.week)) + 1
        signature = Signature(
            revision.week,
            number,
            revision.number,
            revision.digest,
            now,
            act_input.by,
            act_input.note,
        )
        connection.execute(sa.insert(release_signature).values(asdict(signature)))
    return signature


def thin_before(engine: sa.Engine, before: int) -> None:
    """Delete revisions of old weeks, except the first, the newest and the signed ones.

    Args:
        engine: the store.
        before: event time (microseconds); no week before it gets another revision.
    """
    with reading(engine) as connection:
        weeks = newest_weeks(connection, _ALL)
    for week in weeks:
        signed = {signature.revision for signature in week.signatures}
        kept = {week.revisions[0], week.newest, *signed}
        gone = [number for number in week.revisions if number not in kept]
        if gone and IsoWeek.named(week.week).end < before:
            column = weekly_release.c
            with writing(engine) as connection:
                # Asked again in the transaction: a signature given meanwhile keeps its revision.
                is_signed = sa.exists().where(
                    release_signature.c.week == week.week,
                    release_signature.c.revision == column.number,
                )
                connection.execute(
                    sa.delete(weekly_release).where(
                        column.week == week.week, column.number.in_(gone), ~is_signed
                    )
                )


def delete_before(engine: sa.Engine, before: int) -> None:
    """Delete Releases and signatures of weeks that ended before an instant of event time."""
    with reading(engine) as connection:
        weeks = stored_weeks(connection)
    for week in (week for week in weeks if IsoWeek.named(week).end < before):
        with writing(engine) as connection:
            for table in (weekly_release, release_signature):
                connection.execute(sa.delete(table).where(table.c.week == week))


def rewrite(connection: sa.Connection, without: Callable[[Release], Release]) -> None:
    """Replace every stored Release by the result of a function; signatures stay as they are."""
    keys = weekly_release.c.week, weekly_release.c.number
    for key in connection.execute(sa.select(*keys)).all():
        this_revision = sa.and_(
            weekly_release.c.week == key.week, weekly_release.c.number == key.number
        )
        body = connection.execute(sa.select(weekly_release.c.body).where(this_revision)).scalar()
        if body is None:
            continue  # retention has deleted it meanwhile
        before = decode(bytes(body))
        after = without(before)
        if after != before:
            values = {"body": encode(after)}
            connection.execute(sa.update(weekly_release).where(this_revision).values(values))
