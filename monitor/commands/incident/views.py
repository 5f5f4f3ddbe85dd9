"""``slicewatch incident list`` and ``show``: incidents with what Snapshots show of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import msgspec
import sqlalchemy as sa

from monitor.clock import SystemClock
from monitor.commands.db.access import opened
from monitor.commands.incident.report import IncidentReport, report
from monitor.commands.incident.tables import acts_table, details, table_of
from monitor.commands.options import incident_argument, settings_option
from monitor.commands.tables import console
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import ShownIncident, decode
from monitor.errors import StoreError
from monitor.store.database import reading
from monitor.store.evaluator.incident_acts import Acts, read_acts
from monitor.store.evaluator.incidents import find_incident, read_incidents
from monitor.store.evaluator.records import RecordStore
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


@click.command("list")
@settings_option
@click.option("--all", "resolved", is_flag=True, help="Also list resolved incidents.")
@click.option("--json", "as_json", is_flag=True, help="Print them as one JSON array.")
def listing(path: Path, *, resolved: bool, as_json: bool) -> None:
    """List the open incidents: pages and tickets, and who has acknowledged them.

    A closed incident is listed until the evaluator has applied the close.

    Example: slicewatch incident list --all
    """
    with opened(path) as (_, engine):
        found = all_reports(engine, SystemClock().now(), resolved=resolved)
    if as_json:
        click.echo(msgspec.json.encode(found))
    elif found:
        console().print(table_of(found))
    else:
        click.echo("there never was an incident" if resolved else "no incident is open")


@click.command("show")
@incident_argument
@settings_option
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def show(number: int, path: Path, *, as_json: bool) -> None:
    """Show an incident: its slice, its numbers, and everything that people recorded about it.

    Example: slicewatch incident show 3
    """
    with opened(path) as (_, engine):
        found = one_report(engine, number, SystemClock().now())
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    console().print(details(found))
    if found.acts:
        console().print(acts_table(found.acts))
