"""``slicewatch db resume-from``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands.clock import SystemClock
from monitor.commands.db.opening import opened
from monitor.commands.options import (
    LONGEST_NOTE,
    LONGEST_TOPIC,
    instant,
    plain_line,
    settings_option,
)
from monitor.errors import SlicewatchError
from monitor.ports import Shard
from monitor.store.shards import ShardTime, resume_from


@click.command("resume-from")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@settings_option
@click.option("--reason", required=True, help="Why; kept with the gap.")
@click.option("--clock", metavar="TIME", help="Event time it goes on at, as 2026-06-01T10:00:00Z.")
@click.option("--force", is_flag=True, help="Also when it is not parked, or backwards.")
def resume(
    topic: str,
    partition: int,
    offset: int,
    path: Path,
    *,
    reason: str,
    clock: str | None,
    force: bool,
) -> None:
    """Let a parked partition go on at another offset after data loss, and keep the gap.

    Windows that the gap touches say so. A partition that is not parked is refused: a worker can
    read on from where it stands, and moving it would leave events uncounted or count them twice.
    So is one that would go backwards in the same topic. With --force it is moved all the same.
    With --clock its event time is set as well: it refuses what is older by more than the horizon.

    Example: slicewatch db resume-from decisions 0 81234 --reason "topic was truncated"
    """
    shard, why = Shard(plain_line("TOPIC", topic, LONGEST_TOPIC), partition), _why(reason)
    newest = None if clock is None else instant("--clock", clock)
    with opened(path) as (settings, engine):
        time = None if newest is None else ShardTime(newest, settings.stream.lateness)
        now = SystemClock().now()
        found = resume_from(engine, shard, offset, why, now, force=force, time=time)
    stood = "was never read" if found.before is None else f"stood at {found.before}"
    again = f"; {found.again} offsets will be counted again" if found.again else ""
    click.echo(f"{shard} {stood}, goes on at {offset}{again}")


def _why(reason: str) -> str:
    if not reason.strip():
        raise SlicewatchError(
            "--reason is missing; slicewatch db resume-from --help has an example"
        )
    return plain_line("--reason", reason, LONGEST_NOTE)
