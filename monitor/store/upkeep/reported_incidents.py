"""Incidents as people may see them: from the stored Snapshots, with the acts of people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import sqlalchemy as sa

from monitor.core.publish.incident_reports import IncidentReport, report
from monitor.core.publish.incidents import Incident
from monitor.core.publish.lines import Cell, incident_cell
from monitor.core.publish.snapshot import WITHHELD, ContractTable, ShownIncident, decode
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
from monitor.store.schema import incident as incident_table

Shown = Mapping[int, ShownIncident]


def all_reports(engine: sa.Engine, now: int, *, resolved: bool) -> list[IncidentReport]:
    """Return the reports of unresolved incidents, or of ``resolved`` ones too, by id."""
    with reading(engine) as connection:
        incidents = read_incidents(connection, resolved=resolved)
        acts = read_acts(connection, sa.true() if resolved else None)
    return _reports(engine, incidents, acts, now)


def newest_reports(engine: sa.Engine, now: int, limit: int) -> list[IncidentReport]:
    """Return the reports of the newest incidents, resolved ones too, the newest first."""
    with reading(engine) as connection:
        incidents = read_incidents(connection, resolved=True)[-limit:]
        acts = read_acts(
            connection, incident_table.c.id.in_([incident.id for incident in incidents])
        )
    return _reports(engine, incidents[::-1], acts, now)


def reports_between(engine: sa.Engine, start: int, end: int, now: int) -> list[IncidentReport]:
    """Return the reports of incidents that were unresolved at some time of a span, by id."""
    unresolved = sa.or_(
        incident_table.c.resolved_at.is_(None), incident_table.c.resolved_at > start
    )
    where = sa.and_(incident_table.c.opened_at < end, unresolved)
    with reading(engine) as connection:
        incidents = select_incidents(connection, where)
        acts = read_acts(connection, where)
    return _reports(engine, incidents, acts, now)


def find_report(engine: sa.Engine, number: int, now: int) -> IncidentReport | None:
    """Return the report of an incident by its id; None where there is none."""
    with reading(engine) as connection:
        stored = find_incident(connection, number)
        acts = read_acts(connection, incident_table.c.id == number)
    return None if stored is None else _reports(engine, [stored], acts, now)[0]


def one_report(engine: sa.Engine, number: int, now: int) -> IncidentReport:
    """Return the report of an incident by its id; refuse an id that does not exist.

    Raises:
        StoreError: there is no such incident.
    """
    incident_report = find_report(engine, number, now)
    if incident_report is None:
        raise StoreError(
            f"there is no incident {number}; to list all: slicewatch incident list --all"
        )
    return incident_report


def _reports(
    engine: sa.Engine, incidents: Iterable[Incident], acts: Acts, now: int
) -> list[IncidentReport]:
    pages = _ShownIncidents(RecordStore(engine))
    return [
        report(
            incident, acts.get(incident.id, ()), pages.shown(incident), now, pages.cell(incident)
        )
        for incident in incidents
    ]


class _ShownIncidents:
    """Reader of incidents as the stored Snapshots show them; each Snapshot is read once."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records
        newest = records.newest_snapshot()
        contracts = decode(newest[1]).contracts if newest else ()
        self._tables = {table.contract: table for table in contracts}
        self._newest = _shown(contracts)
        self._older: dict[int, Shown] = {}

    def shown(self, incident: Incident) -> ShownIncident | None:
        """Return an incident as shown now, or as its own Snapshot shows it if resolved; or None.

        No older Snapshot is used while it is unresolved: the newest may hide it.
        """
        if incident.id in self._newest or incident.resolved_at is None or incident.snapshot is None:
            return self._newest.get(incident.id)
        if incident.snapshot not in self._older:
            body = self._records.snapshot_at(incident.snapshot)
            self._older[incident.snapshot] = _shown(decode(body).contracts if body else ())
        shown = self._older[incident.snapshot].get(incident.id)
        if shown is None or shown.slice == WITHHELD:
            return shown
        return replace(shown, further=self._further(incident))

    def _further(self, incident: Incident) -> tuple[str, ...]:
        """Return the slices that an incident gained, as far as a published row shows them now."""
        table = self._tables.get(incident.contract)
        groups = [group for window in (table.windows if table else ()) for group in window.groups]
        shown = {row.slice for group in groups for row in group.rows if row.rates}
        return tuple(text for text in incident.further if text in shown)

    def cell(self, incident: Incident) -> Cell | None:
        """Return the metric of an incident's slice as published now; None where it is hidden."""
        shown = self._newest.get(incident.id)
        return incident_cell(self._tables[incident.contract], shown) if shown else None


def _shown(tables: Iterable[ContractTable]) -> Shown:
    return {incident.id: incident for table in tables for incident in table.incidents}
