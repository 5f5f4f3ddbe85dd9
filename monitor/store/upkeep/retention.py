"""Deletion of overdue rows: events by event time, the rest by wall clock."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import sqlalchemy as sa

from monitor.core.publish.release import AFTER_HORIZON
from monitor.core.time import DAY, HOUR, Grain, pane_of
from monitor.store.database import reading, writing
from monitor.store.erasure import expire_waiting, note_dropped
from monitor.store.evaluator import calendar_tables, published_tables, weekly_releases
from monitor.store.id_keys import expire_own_key
from monitor.store.ingest import decision_arrivals, label_arrivals
from monitor.store.schema import (
    bias_score,
    cluster_day,
    cohort,
    counts,
    crossing,
    dead_letter,
    decision_arrival,
    double_label,
    incident,
    incident_act,
    incident_crossing,
    incident_stream,
    label_arrival,
    label_state,
    pending,
    route_cohort,
)
from monitor.store.upkeep.retention_guard import (
    HOURS_KEPT_AFTER_HORIZON,
    RetentionPolicy,
    first_of,
    of_grain,
    require_moderate,
)

_FIRST = -(1 << 62)
_PORTION = 1_000
"""Deltas deleted per transaction: each may be as large as all rows of a small hour."""


def apply(
    engine: sa.Engine,
    policy: RetentionPolicy,
    slowest: int | None,
    now: int,
    *,
    confirmed: bool = False,
) -> None:
    """Delete whole hours, panes and rows that are older than their retention period.

    Transactions are short and many: after a long outage there is much to delete, and on SQLite
    nobody else can write meanwhile.

    Args:
        engine: the store.
        policy: retention periods.
        slowest: event time of the slowest shard of either topic, at most now. None while unknown:
            then nothing is deleted by event time.
        now: wall clock.
        confirmed: a person wants it, however much it deletes.

    Raises:
        RetentionRefusedError: it would delete most of a table; nothing was deleted.
    """
    if not confirmed:
        require_moderate(engine, policy, slowest, now)
    if slowest is not None:
        slowest = min(slowest, now)
        past = pane_of(slowest - policy.horizon, Grain.HOUR)
        _drop_decisions(engine, past)
        expire_waiting(engine, past)
        expire_own_key(engine, policy.horizon)
        _drop_counts(engine, policy, slowest)
        _drop_detection(engine, policy, slowest)
        published_tables.delete_before(engine, slowest - policy.snapshots)
        weekly_releases.delete_before(engine, slowest - policy.snapshots)
        fine = policy.horizon + calendar_tables.FINE_KEPT_AFTER_HORIZON
        calendar_tables.delete_before(engine, slowest - fine, slowest - policy.snapshots)
        weekly_releases.thin_before(engine, slowest - policy.horizon - AFTER_HORIZON)
    while _drop_deltas(engine, policy, slowest) == _PORTION:
        pass
    _drop_arrivals(engine, label_arrival.c.hour, label_arrivals.KEPT_HOURS, now)
    _drop_arrivals(engine, decision_arrival.c.hour, decision_arrivals.KEPT_HOURS, now)
    _drop(engine, bias_score, bias_score.c.day < (now - policy.snapshots) // DAY)
    _drop_before(engine, dead_letter.c.seen_at, now - policy.dead_letters, HOUR)
    _thin_snapshots(engine, now - policy.snapshots)


def _drop_decisions(engine: sa.Engine, end: int) -> None:
    """Delete decisions of hours before ``end``; their labels go one run later.

    A flush may have matched a decision already and be about to let its label compete. So the label
    that counts is deleted one run after its decision, or the new label would count as the first.
    """
    for table in (label_state, double_label):
        for hour in _starts(engine, table.c.hour, end, 1):
            has_decision = sa.exists().where(pending.c.hour == hour)
            _drop(engine, table, table.c.hour == hour, ~has_decision)
    note_dropped(engine, end)  # a worker may have them in memory
    _drop_before(engine, pending.c.hour, end, 1)


def _drop_counts(engine: sa.Engine, policy: RetentionPolicy, slowest: int) -> None:
    """Delete counts that are older than kept, reckoned from the slowest shard."""
    for grain, kept in (
        (Grain.HOUR, policy.horizon + HOURS_KEPT_AFTER_HORIZON),
        (Grain.DAY, policy.aggregates),
        (Grain.WEEK, policy.aggregates),
    ):
        end, step = pane_of(slowest - kept, grain), max(1, HOUR // grain)
        _drop_before(engine, counts.c.pane, end, step, of_grain(grain))


def _drop_detection(engine: sa.Engine, policy: RetentionPolicy, slowest: int) -> None:
    """Delete overdue cohorts, unit sizes, crossings, incidents, and the acts on incidents.

    The newest of each stay: the next cohort and the next id follow them. Acts of people on an
    incident go even where the incident stays.
    """
    oldest = slowest - policy.horizon - HOURS_KEPT_AFTER_HORIZON
    for hour in (cohort.c.hour, route_cohort.c.hour):
        _drop_before(engine, hour, pane_of(oldest, Grain.HOUR), 1, _has_later(hour))
    _drop_before(engine, cluster_day.c.day, pane_of(oldest, Grain.DAY), 1)
    before = slowest - policy.aggregates
    _drop_before(engine, crossing.c.resolved_at, before, HOUR, _has_later(crossing.c.id))
    _drop_before(engine, incident.c.resolved_at, before, HOUR, _has_later(incident.c.id))
    for table in (incident_act, incident_crossing, incident_stream):
        with writing(engine) as connection:  # each on its own: others write in between
            connection.execute(_deletion_of_parts(table), {"before": before})


@cache
def _deletion_of_parts(table: sa.Table) -> sa.Delete:
    """Return the DELETE of rows whose incident is missing or was resolved before ``before``."""
    resolved = incident.c.resolved_at
    kept = sa.or_(resolved.is_(None), resolved >= sa.bindparam("before"))
    return sa.delete(table).where(~sa.exists().where(incident.c.id == table.c.incident, kept))


@cache
def _has_later(column: sa.Column[int]) -> sa.ColumnElement[bool]:
    later = column.table.alias()
    return sa.exists().where(later.c[column.name] > column)


def _drop_arrivals(engine: sa.Engine, hour: sa.Column[int], kept: int, now: int) -> None:
    """Delete arrivals over ``kept`` hours before the newest hour that is not in the future."""
    with reading(engine) as connection:
        past = sa.select(sa.func.max(hour)).where(hour <= now // HOUR)
        newest = connection.execute(past).scalar()
    if newest is not None:
        _drop(engine, hour.table, hour < newest - kept)


def _drop_before(
    engine: sa.Engine, column: sa.Column[int], end: int, step: int, *also: sa.ColumnElement[bool]
) -> None:
    """Delete the rows below ``end``, ``step`` units of the column per transaction."""
    for first in _starts(engine, column, end, step, *also):
        last = min(first + step, end) - 1
        _drop(engine, column.table, column.between(first, last), *also)


def _starts(
    engine: sa.Engine, column: sa.Column[int], end: int, step: int, *also: sa.ColumnElement[bool]
) -> Iterator[int]:
    """Yield the start of each run of ``step`` units that has rows below ``end``."""
    query, at = first_of(column, *also), _FIRST
    while True:
        with reading(engine) as connection:
            first = connection.execute(query, {"least": at, "before": end}).scalar()
        if first is None:
            return
        yield first
        at = first + step


def _drop(engine: sa.Engine, table: sa.Table, *where: sa.ColumnElement[bool]) -> None:
    with writing(engine) as connection:
        connection.execute(sa.delete(table).where(*where))


def _drop_deltas(engine: sa.Engine, policy: RetentionPolicy, slowest: int | None) -> int:
    """Delete a portion of the folded deltas that recognise no duplicate; return their number.

    Deltas have the keyed ids of their decisions. So they go at the horizon even where their own
    shard has been silent since.
    """
    window = policy.dedupe_window
    past = _FIRST if slowest is None else slowest - max(policy.horizon, window)
    with writing(engine) as connection:
        return connection.execute(
            sa.text(
                "DELETE FROM delta WHERE (topic, part, seq) IN (SELECT d.topic, d.part, d.seq"
                " FROM delta d, fold_cursor f, ownership o"
                " WHERE f.topic = d.topic AND f.part = d.part AND f.seq >= d.seq"
                " AND o.topic = d.topic AND o.part = d.part"
                " AND (d.arrived IS NULL"
                " OR d.arrived * 60000000 < o.max_decided_at - :window - 60000000"
                " OR d.arrived * 60000000 < :past)"
                " LIMIT :portion)"
            ),
            {"window": window, "past": past, "portion": _PORTION},
        ).rowcount


def _thin_snapshots(engine: sa.Engine, before: int) -> None:
    """Delete Snapshots, except the newest, the last per hour since ``before``, and incidents'."""
    with writing(engine) as connection:
        connection.execute(
            sa.text(
                "DELETE FROM snapshot WHERE id < (SELECT MAX(id) FROM snapshot) AND id NOT IN"
                " (SELECT snapshot FROM incident WHERE snapshot IS NOT NULL)"
                " AND (stored_at < :before OR id NOT IN"
                f" (SELECT MAX(id) FROM snapshot GROUP BY stored_at / {HOUR}))"
            ),
            {"before": before},
        )
