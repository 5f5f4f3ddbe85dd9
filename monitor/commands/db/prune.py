"""``slicewatch db prune``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands import wiring
from monitor.commands.clock import SystemClock
from monitor.commands.db.opening import opened
from monitor.commands.options import settings_option
from monitor.store import retention
from monitor.store.records import Records
from monitor.store.retention_guard import portions


@click.command("prune")
@settings_option
@click.option("--confirm", is_flag=True, help="Delete it, however much it is.")
def prune(path: Path, *, confirm: bool) -> None:
    """Say what is past its time, and delete it with --confirm.

    The service does this every ten minutes by itself, but refuses to delete most of what is kept
    at once: then a clock may be wrong. See slicewatch db repair-clock before you confirm; only a
    backup brings back what was deleted.

    Example: slicewatch db prune
    """
    now = SystemClock().now()
    with opened(path) as (settings, engine):
        policy = wiring.retention_policy(settings)
        slowest = Records(engine).slowest_event_time()
        for portion in portions(engine, policy, slowest, now):
            click.echo(f"{portion}{' (the service refuses it)' if portion.refused else ''}")
        if confirm:
            retention.apply(engine, policy, slowest, now, confirmed=True)
    click.echo("deleted" if confirm else "nothing was deleted; to delete it, add --confirm")
