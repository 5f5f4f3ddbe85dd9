"""Incidents as people may see them: from the stored Snapshots, with what people said of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from monitor.core.publish.incident_reports import IncidentReport, report
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import ShownIncident, decode
from monitor.errors import StoreError
from monitor.store.database import reading
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.stored_incidents import (
    Acts,
    find_incident,
    read_acts,
    read_incidents,
    select_incidents,
)
from monitor.store.schema import incident

Shown = Mapping[int, ShownIncident]


def all_reports(engine: sa.Engine, now: int, *, resolved: bool) -> list[IncidentReport]:
    """Reports of unresolved incidents, or of ``resolved`` ones too, by id."""
    with reading(engine) as connection:
        found = read_incidents(connection, resolved=resolved)
        acts = read_acts(connection, sa.true() if resolved else None)
    return _reports(engine, found, acts, now)


def newest_reports(engine: sa.Engine, now: int, limit: int) -> list[IncidentReport]:
    """Reports of the newest incidents, resolved ones too, the newest first."""
    with reading(engine) as connection:
        found = read_incidents(connection, resolved=True)[-limit:]
        acts = read_acts(connection, incident.c.id.in_([one.id for one in found]))
    return _reports(engine, found[::-1], acts, now)


def reports_between(engine: sa.Engine, start: int, end: int, now: int) -> list[IncidentReport]:
    """Reports of incidents that were not resolved throughout a span of event time, by id."""
    unresolved = sa.or_(incident.c.resolved_at.is_(None), incident.c.resolved_at > start)
    where = sa.and_(incident.c.opened_at < end, unresolved)
    with reading(engine) as connection:
        found = select_incidents(connection, where)
        acts = read_acts(connection, where)
    return _reports(engine, found, acts, now)


def find_report(engine: sa.Engine, number: int, now: int) -> IncidentReport | None:
    """One incident; None where there is none."""
    with reading(engine) as connection:
        found = find_incident(connection, number)
        acts = read_acts(connection, incident.c.id == number)
    return None if found is None else _reports(engine, [found], acts, now)[0]


def one_report(engine: sa.Engine, number: int, now: int) -> IncidentReport:
    """One incident.

    Raises:
        StoreError: there is no such incident.
    """
    found = find_report(engine, number, now)
    if found is None:
        raise StoreError(
            f"there is no incident {number}; to list all: slicewatch incident list --all"
        )
    return found


def _reports(
    engine: sa.Engine, found: Iterable[Incident], acts: Acts, now: int
) -> list[IncidentReport]:
    pages = _Pages(RecordStore(engine))
    return [report(one, acts.get(one.id, ()), pages.of(one), now) for one in found]


class _Pages:
    """Incidents as Snapshots show them; each Snapshot is read once."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records
        newest = records.newest_snapshot()
        self._newest = _shown(newest[1] if newest else None)
        self._older: dict[int, Shown] = {}

    def of(self, one: Incident) -> ShownIncident | None:
        """An incident as shown now; one that is over, as the Snapshot showed it that it links to.

        For one that is not resolved no older Snapshot is used: the newest may hide it.
        """
        if one.id in self._newest or one.resolved_at is None or one.snapshot is None:
            return self._newest.get(one.id)
        if one.snapshot not in self._older:
            self._older[one.snapshot] = _shown(self._records.snapshot_at(one.snapshot))
        return self._older[one.snapshot].get(one.id)


def _shown(body: bytes | None) -> Shown:
    tables = decode(body).contracts if body is not None else ()
    return {one.id: one for table in tables for one in table.incidents}
