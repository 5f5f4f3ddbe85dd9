"""``slicewatch incident ack``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands.clock import SystemClock
from monitor.commands.db.opening import opened
from monitor.commands.incident.saying import said_options, told
from monitor.commands.options import incident_argument, settings_option
from monitor.settings.kinds import duration_text
from monitor.store.incident_acts import acknowledge


@click.command("ack")
@incident_argument
@settings_option
@said_options
def ack(number: int, path: Path, *, by: str | None, note: str | None) -> None:
    """Say that somebody looks after an incident; it stands until it is resolved or closed.

    Name and note are kept with it: a person on duty or a team, and nothing about customers.

    Example: slicewatch incident ack 3 --by "triage team" --note "looking at the judge"
    """
    said = told("ack", by, note)
    with opened(path) as (settings, engine):
        acknowledge(engine, number, said, SystemClock().now())
        cycle = duration_text(settings.evaluate.cycle)
    click.echo(f"incident {number} is acknowledged by {said.by}; pages say so within {cycle}")
