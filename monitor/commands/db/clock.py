"""``slicewatch db resume-from`` and ``repair-clock``: move a partition or its event time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from monitor.clock import SystemClock
from monitor.commands.db.access import opened
from monitor.commands.options import (
    LONGEST_NOTE,
    LONGEST_TOPIC,
    instant,
    plain_line,
    settings_option,
)
from monitor.core.time import to_datetime
from monitor.errors import SlicewatchError
from monitor.ports import Shard
from monitor.store.shards import ShardTime, resume_from
from monitor.store.upkeep import clock_repair
from monitor.store.upkeep.clock_repair import Poisoned, PoisonedShard


@click.command("resume-from")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@settings_option
@click.option("--reason", required=True, help="Why; stored with the gap.")
@click.option("--clock", metavar="TIME", help="Event time to continue at, as 2026-06-01T10:00:00Z.")
@click.option("--force", is_flag=True, help="Move it also if not parked, or backwards.")
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
    """Resume a parked partition at another offset after data loss, and record the gap.

    Windows that the gap touches say so. A partition that is not parked is refused: a worker can
    read on from its offset, and moving it would leave events uncounted or count them twice. So is
    a move backwards in the same topic. --force overrides both. With --clock the partition's event
    time is set as well: events older than that by more than the horizon are then refused.

    Example: slicewatch db resume-from decisions 0 81234 --reason "topic was truncated"
    """
    shard, why = Shard(plain_line("TOPIC", topic, LONGEST_TOPIC), partition), _why(reason)
    newest = None if clock is None else instant("--clock", clock)
    with opened(path) as (settings, engine):
        time = None if newest is None else ShardTime(newest, settings.stream.lateness)
        now = SystemClock().now()
        found = resume_from(engine, shard, offset, why, now, force=force, time=time)
    stood = "was never read" if found.before is None else f"was at {found.before}"
    again = f"; {found.again} offsets will be counted again" if found.again else ""
    click.echo(f"{shard} {stood}, continues at {offset}{again}")


def _why(reason: str) -> str:
    if not reason.strip():
        raise SlicewatchError(
            "--reason is missing; slicewatch db resume-from --help has an example"
        )
    return plain_line("--reason", reason, LONGEST_NOTE)


EXIT_FOUND = 1


@click.command("repair-clock")
@settings_option
@click.option("--confirm", is_flag=True, help="Correct what is found; otherwise only list it.")
def repair_clock(path: Path, *, confirm: bool) -> None:
    """Find and correct event time in the database that is beyond the present.

    In older versions, events dated far in the future could advance the clock of a partition, so
    that all later events were refused as too old. With --confirm the clocks go back to the newest
    hour in which anything was counted; no count changes. Check this machine's own clock first: it
    defines the present. The service may run meanwhile.

    Exit code 0 when nothing is wrong or everything was corrected, 1 when something was found.

    Example: slicewatch db repair-clock --confirm
    """
    now = SystemClock().now()
    with opened(path) as (settings, engine):
        ahead = settings.stream.max_ahead
        if confirm:
            found = clock_repair.repair(engine, now, settings.stream.lateness, ahead)
        else:
            found = clock_repair.find(engine, now, ahead)
    for line in _lines(found):
        click.echo(line)
    if not found:
        click.echo(f"nothing lies beyond the present ({_moment(now)})")
    elif confirm:
        click.echo(f"corrected: event time continues from {_moment(found.back_to)}")
    else:
        click.echo(
            f"By this machine's clock it is {_moment(now)}. If that is right, correct the database:"
            " slicewatch db repair-clock --confirm"
        )
        sys.exit(EXIT_FOUND)


def _lines(found: Poisoned) -> Iterator[str]:
    for one in found.shards:
        yield f"{one.shard}: event time is at {_moment(one.stood)}"
    if found.marks:
        yield f"the evaluator has closed panes of the future ({', '.join(found.marks)})"
    if found.cohorts:
        yield f"{found.cohorts:,} hours of the future were consumed by the sequential tests"
    if found.snapshots:
        yield f"{found.snapshots:,} published Snapshots are dated in the future"
    for one in found.shards:
        if one.first is not None:
            yield _again(one, found.back_to)


def _again(one: PoisonedShard, back_to: int) -> str:
    """Instructions to read refused events again: only a person knows if later ones were counted."""
    shard = one.shard
    clock = f"{to_datetime(back_to):%Y-%m-%dT%H:%M:%SZ}"
    return (
        f"{shard}: {one.refused:,} events were refused as too old, the first at offset {one.first}."
        " If nothing after it was counted, read them again: slicewatch db resume-from"
        f" {shard.topic} {shard.partition} {one.first} --clock {clock}"
        ' --force --reason "refused after a wrong clock"'
    )


def _moment(micros: int) -> str:
    return f"{to_datetime(micros):%Y-%m-%d %H:%M}Z"
