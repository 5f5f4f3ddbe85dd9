"""``slicewatch db migrate``, ``prune`` and ``dead-letters``: schema, retention, unread events."""

from __future__ import annotations

import json
from pathlib import Path

import click
import sqlalchemy as sa
from rich.console import Console
from rich.table import Table

from consumers.dead_letters import REASONS
from monitor import composition
from monitor.clock import SystemClock
from monitor.commands.db.access import opened
from monitor.commands.options import load_settings, settings_option
from monitor.composition import contract_records
from monitor.core.time import to_datetime
from monitor.settings import Settings
from monitor.store import database
from monitor.store.evaluator.records import RecordStore
from monitor.store.upkeep import retention
from monitor.store.upkeep.recode import drop_unlisted
from monitor.store.upkeep.retention_guard import portions


@click.command("migrate")
@settings_option
@click.option(
    "--drop-attributes",
    is_flag=True,
    help="Delete the data of attributes and values that are no longer in the settings.",
)
def migrate(path: Path, drop_attributes: bool) -> None:
    """Upgrade the database to the schema this version needs.

    With --drop-attributes it also deletes, from everything that is stored, the attributes and
    values that are no longer in the settings. Only a backup brings them back.

    Example: slicewatch db migrate --settings slicewatch.toml
    """
    settings = load_settings(path)
    engine = database.create_engine(settings.store.url)
    try:
        before = database.schema_revision(engine)
        database.migrate(engine)
        click.echo(f"schema {before or 'empty'} -> {database.head_revision()}")
        if drop_attributes:
            _drop_attributes(settings, engine)
    finally:
        engine.dispose()


def _drop_attributes(settings: Settings, engine: sa.Engine) -> None:
    # A comparison must not vanish from a contract version that people know.
    RecordStore(engine).refuse_changes(contract_records(settings))
    gone = drop_unlisted(engine, settings.coding)
    database.compact(engine)
    click.echo(f"deleted: {', '.join(gone) or 'nothing: the settings list all that is stored'}")


@click.command("prune")
@settings_option
@click.option("--confirm", is_flag=True, help="Delete it, no matter how much.")
def prune(path: Path, *, confirm: bool) -> None:
    """Show what is past its retention, and delete it with --confirm.

    The service does this every ten minutes by itself, but refuses to delete most of what is stored
    at once, because a clock may be wrong. See slicewatch db repair-clock before you confirm; only
    a backup brings back what was deleted.

    Example: slicewatch db prune
    """
    now = SystemClock().now()
    with opened(path) as (settings, engine):
        policy = composition.retention_policy(settings)
        slowest = RecordStore(engine).slowest_event_time()
        for portion in portions(engine, policy, slowest, now):
            click.echo(f"{portion}{' (the service refuses it)' if portion.refused else ''}")
        if confirm:
            retention.apply(engine, policy, slowest, now, confirmed=True)
    click.echo("deleted" if confirm else "nothing was deleted; to delete it, add --confirm")


@click.command("dead-letters")
@settings_option
@click.option("--limit", default=50, show_default=True, help="How many, newest first.")
@click.option("--reason", type=click.Choice(REASONS), help="Only those refused for this reason.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def dead_letters(path: Path, limit: int, reason: str | None, as_json: bool) -> None:
    """List events that could not be counted: where each was and why, never its content.

    Example: slicewatch db dead-letters --limit 20 --json
    """
    with opened(path) as (_, engine):
        found = RecordStore(engine).dead_letters(limit, reason)
    names = ("seen", "shard", "offset", "index", "reason", "field", "payload hash")
    rows = [
        (
            to_datetime(one.seen_at).isoformat(timespec="seconds"),
            str(one.shard),
            one.letter.offset,
            one.letter.index,
            one.letter.reason,
            one.letter.field,
            one.letter.payload_hash,
        )
        for one in found
    ]
    if as_json:
        for row in rows:
            click.echo(json.dumps(dict(zip(names, row, strict=True))))
        return
    table = Table(*names, title=f"{len(rows)} dead letters, newest first")
    for row in rows:
        table.add_row(*(str(value) for value in row))
    Console().print(table)
