"""``slicewatch incident show``."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from monitor.commands.clock import SystemClock
from monitor.commands.db.opening import opened
from monitor.commands.incident.reading import one_report
from monitor.commands.incident.tables import acts_table, console, details
from monitor.commands.options import incident_argument, settings_option


@click.command("show")
@incident_argument
@settings_option
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def show(number: int, path: Path, *, as_json: bool) -> None:
    """Show an incident: its slice, its numbers, and all that people said of it.

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
