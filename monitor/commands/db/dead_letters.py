"""``slicewatch db dead-letters``."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from consumers.letters import REASONS
from monitor.commands.db.opening import opened
from monitor.commands.options import settings_option
from monitor.core.time import to_datetime
from monitor.store.records import Records


@click.command("dead-letters")
@settings_option
@click.option("--limit", default=50, show_default=True, help="How many, newest first.")
@click.option("--reason", type=click.Choice(REASONS), help="Only those refused for this reason.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def dead_letters(path: Path, limit: int, reason: str | None, as_json: bool) -> None:
    """List events that could not be counted: where each was and why, never what it said.

    Example: slicewatch db dead-letters --limit 20 --json
    """
    with opened(path) as (_, engine):
        found = Records(engine).dead_letters(limit, reason)
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
