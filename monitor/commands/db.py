"""``slicewatch db``: look into the database and change its schema."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from monitor.commands.clock import SystemClock
from monitor.commands.options import load_settings, settings_option
from monitor.core.time import to_datetime
from monitor.ports import Shard
from monitor.store import database
from monitor.store.records import Records
from monitor.store.shards import resume_from


@click.group("db")
def command() -> None:
    """Look into the database and change its schema.

    Example: slicewatch db dead-letters --limit 20
    """


@command.command("migrate")
@settings_option
def migrate(path: Path) -> None:
    """Bring the database to the schema this version needs.

    Example: slicewatch db migrate --settings slicewatch.toml
    """
    engine = database.create_engine(load_settings(path).store.url)
    before = database.schema_revision(engine)
    database.migrate(engine)
    click.echo(f"schema {before or 'empty'} -> {database.head_revision()}")


@command.command("resume-from")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@settings_option
@click.option("--reason", required=True, help="Why; kept with the gap.")
def resume(topic: str, partition: int, offset: int, path: Path, reason: str) -> None:
    """Let a parked partition go on at another offset after data loss, and keep the gap.

    Example: slicewatch db resume-from decisions 0 81234 --reason "topic was truncated"
    """
    engine = database.create_engine(load_settings(path).store.url)
    database.require_head(engine)
    shard = Shard(topic, partition)
    before = resume_from(engine, shard, offset, reason, SystemClock().now())
    stood = "was never read" if before is None else f"stood at {before}"
    click.echo(f"{shard} {stood}, goes on at {offset}")


@command.command("dead-letters")
@settings_option
@click.option("--limit", default=50, show_default=True, help="How many, newest first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def dead_letters(path: Path, limit: int, as_json: bool) -> None:
    """List events that could not be counted: where each was and why, never what it said.

    Example: slicewatch db dead-letters --limit 20 --json
    """
    engine = database.create_engine(load_settings(path).store.url)
    database.require_head(engine)
    found = Records(engine).dead_letters(limit)
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
