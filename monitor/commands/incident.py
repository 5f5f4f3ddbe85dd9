"""``slicewatch incident``: unresolved incidents, and what people answer to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import click
import msgspec
import sqlalchemy as sa

from monitor.clock import SystemClock
from monitor.commands.console import console
from monitor.commands.incident_report import IncidentReport, acts_table, details, report, table_of
from monitor.commands.open_store import opened
from monitor.commands.options import (
    LONGEST_NAME,
    LONGEST_NOTE,
    Command,
    incident_argument,
    plain_line,
    settings_option,
)
from monitor.core.publish.annotations import Outcome
from monitor.core.publish.incidents import Incident
from monitor.core.publish.snapshot import ShownIncident, decode
from monitor.core.time import DAY, to_datetime, to_micros
from monitor.errors import SlicewatchError, StoreError
from monitor.settings.kinds import duration_text
from monitor.store.database import reading
from monitor.store.evaluator import stored_incidents
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.stored_incidents import (
    ActInput,
    Acts,
    Closing,
    acknowledge,
    find_incident,
    read_acts,
    read_incidents,
)
from monitor.store.schema import incident

Shown = Mapping[int, ShownIncident]
LONGEST = 366 * DAY
"""Longest acceptance: somebody has to look again within a year."""
_OUTCOMES = "|".join(outcome.value for outcome in Outcome)


@click.group("incident")
def command() -> None:
    """List incidents, acknowledge them and record their outcome.

    Slices and numbers are the published ones; what the privacy guards hide is withheld here, too.

    Example: slicewatch incident list
    """


def act_options(function: Command) -> Command:
    """The options ``--by`` and ``--note``."""
    note = click.option("--note", metavar="TEXT", help="Why; stored with it. No personal data.")
    by = click.option("--by", metavar="NAME", help="Your name: a person on duty or a team.")
    return by(note(function))


def act_input(command: str, by: str | None, note: str | None) -> ActInput:
    """Check ``--by`` and ``--note`` as they were typed.

    Raises:
        SlicewatchError: nobody is named, or a text is no single line, or too long.
    """
    if by is None or not by.strip():
        raise SlicewatchError(
            f"--by is missing; slicewatch incident {command} --help has an example"
        )
    why = plain_line("--note", note or "", LONGEST_NOTE)
    return ActInput(plain_line("--by", by, LONGEST_NAME), why)


@command.command("close")
@incident_argument
@settings_option
@click.option("--outcome", metavar=_OUTCOMES, help="The outcome.")
@click.option("--until", metavar="DATE", help="With accepted: the last day (UTC).")
@act_options
def close(
    number: int,
    path: Path,
    *,
    outcome: str | None,
    until: str | None,
    by: str | None,
    note: str | None,
) -> None:
    """Record the outcome of an incident.

    confirmed (there was a gap, and it is repaired), false_alarm (there was none) and data_fault
    (the data were wrong) end the incident and its crossings. Their tests restarted at the
    crossing: a gap that still exists crosses again, and pages again. accepted needs --until: the
    gap is accepted and does not page until the end of that day; it stays visible, and pages again
    afterwards if it still exists.

    Example: slicewatch incident close 3 --outcome accepted --until 2026-09-01 --by "triage team"
    --note "repaired with the next release"
    """
    act, now = act_input("close", by, note), SystemClock().now()
    closing = _closing(outcome, until, now)
    with opened(path) as (settings, engine):
        stored_incidents.close(engine, number, closing, act, now)
        cycle = duration_text(settings.evaluate.cycle)
    click.echo(
        f"incident {number} is {_sentence(closing)}\n"
        f"The evaluator applies it within one cycle ({cycle}), or when it is next started."
    )


def _closing(outcome: str | None, until: str | None, now: int) -> Closing:
    known = {one.value: one for one in Outcome}
    if outcome not in known:
        raise SlicewatchError(f"--outcome must be one of {', '.join(known)}")
    if known[outcome] is not Outcome.ACCEPTED:
        if until is not None:
            raise SlicewatchError("--until is only for --outcome accepted; leave it out")
        return Closing(known[outcome])
    if until is None:
        raise SlicewatchError("--outcome accepted needs --until DATE, as in --until 2026-09-01")
    return Closing(Outcome.ACCEPTED, _end_of(until, now))


def _end_of(text: str, now: int) -> int:
    """The end of a day that is to come."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise SlicewatchError("--until must be a day, such as 2026-09-01") from None
    start = to_micros(datetime(day.year, day.month, day.day, tzinfo=UTC))
    if not now < start <= now + LONGEST:
        raise SlicewatchError("--until must be a future day, within a year")
    return start + DAY


def _sentence(closing: Closing) -> str:
    if closing.until is None:
        return f"closed as {closing.outcome.value}: a gap that still exists will page again."
    day = f"{to_datetime(closing.until - DAY):%Y-%m-%d}"
    return (
        f"accepted until the end of {day} (UTC): it stays visible, and may page again afterwards."
    )


@command.command("ack")
@incident_argument
@settings_option
@act_options
def ack(number: int, path: Path, *, by: str | None, note: str | None) -> None:
    """Acknowledge an incident; it stays open until it is resolved or closed.

    Name and note are stored with it: a person on duty or a team, and nothing about customers.

    Example: slicewatch incident ack 3 --by "triage team" --note "looking at the judge"
    """
    act = act_input("ack", by, note)
    with opened(path) as (settings, engine):
        acknowledge(engine, number, act, SystemClock().now())
        cycle = duration_text(settings.evaluate.cycle)
    click.echo(f"incident {number} is acknowledged by {act.by}; metrics show it within {cycle}")


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


@command.command("list")
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


@command.command("show")
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
