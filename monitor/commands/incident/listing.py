"""``slicewatch incident list``."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from monitor.commands.clock import SystemClock
from monitor.commands.db.opening import opened
from monitor.commands.incident.reading import all_reports
from monitor.commands.incident.tables import console, table_of
from monitor.commands.options import settings_option


@click.command("list")
@settings_option
@click.option("--all", "resolved", is_flag=True, help="Those that were resolved, too.")
@click.option("--json", "as_json", is_flag=True, help="Print them as one JSON array.")
def listing(path: Path, *, resolved: bool, as_json: bool) -> None:
    """List the incidents that stand: pages and tickets, and who looks after them.

    What was closed is listed until the evaluator has taken it over.

    Example: slicewatch incident list --all
    """
    with opened(path) as (_, engine):
        found = all_reports(engine, SystemClock().now(), resolved=resolved)
    if as_json:
        click.echo(msgspec.json.encode(found))
    elif found:
        console().print(table_of(found))
    else:
        click.echo("there never was an incident" if resolved else "no incident stands")
