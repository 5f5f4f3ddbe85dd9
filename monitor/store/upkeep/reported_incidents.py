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
)
from monitor.store.schema import incident

Shown = Mapping[int, ShownIncident]


def all_reports(engine: sa.Engine, now: int, *, resolved: bool) -> list[IncidentReport]:
    """Reports of unresolved incidents, or of ``resolved`` ones too, by id."""
    with reading(engine) as connection:
        found = read_incidents(connection, resolved=resolved)
        acts = read_acts(connection, sa.true() if resolved else None)
    return _reports(engine, found, acts, now)


def one_report(engine: sa.Engine, number: int, now: int) -> IncidentReport:
    """One incident.

    Raises:
        StoreError: there is no such incident.
    """
    with reading(engine) as connection:
        found = find_incident(connection, number)
        acts = read_acts(connection, incident.c.id == number)
    if found is None:
        raise StoreError(
            f"there is no incident {number}; to list all: slicewatch incident list --all"
        )
    return _reports(engine, [found], acts, now)[0]


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
