"""Releases of closed weeks, revision by revision, and what people signed of them.

Only the evaluator writes Releases, in the transaction of a cycle; signatures are appended by
whoever signs, and both are deleted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict

import sqlalchemy as sa

from monitor.core.publish.act_input import ActInput
from monitor.core.publish.release import Release, Revision, Signature, decode, encode
from monitor.core.time import IsoWeek
from monitor.store.database import reading, writing
from monitor.store.schema import release_signature, weekly_release

_COLUMNS = tuple(weekly_release.c[name] for name in ("week", "number", "as_of", "body"))


def stored_weeks(connection: sa.Connection) -> list[str]:
    """Weeks that have a Release, the oldest first."""
    week = weekly_release.c.week
    return list(connection.execute(sa.select(week).distinct().order_by(week)).scalars())


def find_revision(
    connection: sa.Connection, week: str, number: int | None = None
) -> Revision | None:
    """A revision of a week, by default the newest; None where there is none."""
    query = sa.select(*_COLUMNS).where(weekly_release.c.week == week)
    if number is not None:
        query = query.where(weekly_release.c.number == number)
    row = connection.execute(query.order_by(weekly_release.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else Revision(row.week, row.number, row.as_of, bytes(row.body))


def weeks_before(connection: sa.Connection, week: IsoWeek, most: int) -> list[Revision]:
    """The newest revisions of the stored weeks before one, the oldest of ``most`` first."""
    found: list[Revision] = []
    for _ in range(most):
        week = week.before
        one = find_revision(connection, week.name)
        found += [] if one is None else [one]
    return found[::-1]


def write_revisions(
    connection: sa.Connection, revisions: Iterable[Revision], stored_at: int
) -> None:
    """Store new revisions; ``stored_at`` is the wall clock."""
    for one in revisions:
        values = {**asdict(one), "stored_at": stored_at}
        connection.execute(sa.insert(weekly_release).values(values))


def read_signatures(connection: sa.Connection, week: str) -> list[Signature]:
    """Signatures of a week, in their order."""
    table = release_signature
    query = sa.select(table).where(table.c.week == week).order_by(table.c.number)
    return [
        Signature(row.week, row.number, row.revision, row.digest, row.at, row.by, row.note)
        for row in connection.execute(query)
    ]


def sign(engine: sa.Engine, revision: Revision, said: ActInput, now: int) -> Signature:
    """Put on record that somebody signs a revision; ``now`` is the wall clock."""
    with writing(engine) as connection:
        # Locked, so that of two who sign at once the second gets the next number.
        one = sa.select(weekly_release.c.number).where(weekly_release.c.week == revision.week)
        connection.execute(one.with_for_update())
        number = len(read_signatures(connection, revision.week)) + 1
        made = Signature(
            revision.week, number, revision.number, revision.digest, now, said.by, said.note
        )
        connection.execute(sa.insert(release_signature).values(asdict(made)))
    return made


def delete_before(engine: sa.Engine, before: int) -> None:
    """Delete weeks that ended before an instant of event time, with what was signed."""
    with reading(engine) as connection:
        weeks = stored_weeks(connection)
    for one in (week for week in weeks if IsoWeek.named(week).end < before):
        with writing(engine) as connection:
            for table in (weekly_release, release_signature):
                connection.execute(sa.delete(table).where(table.c.week == one))


def delete_after(connection: sa.Connection, end: int) -> None:
    """Delete revisions that were made after an instant of event time, with what was signed."""
    revision, signed = weekly_release.c, release_signature.c
    connection.execute(sa.delete(weekly_release).where(revision.as_of > end))
    there = sa.exists().where(revision.week == signed.week, revision.number == signed.revision)
    connection.execute(sa.delete(release_signature).where(~there))


def rewrite(connection: sa.Connection, left: Callable[[Release], Release]) -> None:
    """Take something out of all Releases; what was signed is then of other bytes."""
    keys = weekly_release.c.week, weekly_release.c.number
    for key in connection.execute(sa.select(*keys)).all():
        one = sa.and_(weekly_release.c.week == key.week, weekly_release.c.number == key.number)
        body = connection.execute(sa.select(weekly_release.c.body).where(one)).scalar()
        if body is None:
            continue  # retention has deleted it meanwhile
        before = decode(bytes(body))
        after = left(before)
        if after != before:
            values = {"body": encode(after)}
            connection.execute(sa.update(weekly_release).where(one).values(values))
