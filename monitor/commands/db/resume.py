"""``slicewatch db resume-from``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands.clock import SystemClock
from monitor.commands.db.opening import opened
from monitor.commands.options import settings_option
from monitor.ports import Shard
from monitor.store.shards import resume_from


@click.command("resume-from")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@settings_option
@click.option("--reason", required=True, help="Why; kept with the gap.")
@click.option("--force", is_flag=True, help="Also when it is not parked, or backwards.")
def resume(
    topic: str, partition: int, offset: int, path: Path, *, reason: str, force: bool
) -> None:
    """Let a parked partition go on at another offset after data loss, and keep the gap.

    Windows that the gap touches say so. A partition that is not parked is refused: a worker can
    read on from where it stands, and moving it would leave events uncounted or count them twice.
    So is one that would go backwards in the same topic. With --force it is moved all the same.

    Example: slicewatch db resume-from decisions 0 81234 --reason "topic was truncated"
    """
    shard = Shard(topic, partition)
    with opened(path) as (_, engine):
        found = resume_from(engine, shard, offset, reason, SystemClock().now(), force=force)
    stood = "was never read" if found.before is None else f"stood at {found.before}"
    again = f"; {found.again} offsets will be counted again" if found.again else ""
    click.echo(f"{shard} {stood}, goes on at {offset}{again}")
