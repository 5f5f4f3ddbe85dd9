"""``slicewatch db`` commands for upkeep of the store: schema, retention, keys, clocks."""

from __future__ import annotations

import json
from pathlib import Path

import click

from consumers.dead_letters import REASONS
from monitor.clock import SystemClock
from monitor.commands.open_store import opened
from monitor.commands.options import (
    LONGEST_TOPIC,
    instant,
    load_settings,
    settings_option,
    write_key,
)
from monitor.core.plain_text import LONGEST_NAME, LONGEST_NOTE, plain_line
from monitor.core.publish.words import counted, iso_text
from monitor.errors import SlicewatchError
from monitor.present.document import table
from monitor.present.terminal import show_tables
from monitor.records import Shard


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
    from monitor.composition.store import contract_records
    from monitor.store import database
    from monitor.store.evaluator.records import RecordStore
    from monitor.store.upkeep.recode import drop_unlisted

    settings = load_settings(path)
    engine = database.create_engine(settings.store.url)
    try:
        before = database.schema_revision(engine)
        database.migrate(engine)
        click.echo(f"schema {before or 'empty'} -> {database.head_revision()}")
        if drop_attributes:
            # A comparison must not vanish from a contract version that people know.
            RecordStore(engine).refuse_changes(contract_records(settings))
            deleted = drop_unlisted(engine, settings.coding)
            database.compact(engine)
            names = ", ".join(deleted) or "nothing: the settings list all that is stored"
            click.echo(f"deleted: {names}")
    finally:
        engine.dispose()


@click.command("backup")
@settings_option
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def backup(path: Path, target: Path) -> None:
    """Copy an SQLite database into a new file, while the service writes to it.

    The copy is of one moment, for offsets and counts alike, and only its owner can open it. A
    database on a server is backed up with pg_dump.

    Example: slicewatch db backup slicewatch-backup.db
    """
    from monitor.store.upkeep.backup import back_up

    with opened(path) as (_, engine):
        size = back_up(engine, target)
    click.echo(f"{target}: {size:,} bytes")


@click.command("prune")
@settings_option
@click.option("--confirm", is_flag=True, help="Delete it, no matter how much.")
def prune(path: Path, *, confirm: bool) -> None:
    """Show what is past its retention, and delete it with --confirm.

    The service does this every ten minutes by itself, but refuses to delete most of what is stored
    at once, because a clock may be wrong. Check the clocks of your machines before you confirm;
    only a backup brings back what was deleted.

    Example: slicewatch db prune
    """
    from monitor.composition.store import retention_policy
    from monitor.store.evaluator.records import RecordStore
    from monitor.store.upkeep import retention
    from monitor.store.upkeep.retention_guard import portions

    now = SystemClock().now()
    with opened(path) as (settings, engine):
        policy = retention_policy(settings)
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
    from monitor.store.evaluator.records import RecordStore

    with opened(path) as (_, engine):
        letters = RecordStore(engine).dead_letters(limit, reason)
    names = ("seen", "shard", "offset", "index", "reason", "field", "payload hash")
    rows = [
        (
            iso_text(stored.seen_at, "seconds"),
            str(stored.shard),
            stored.letter.offset,
            stored.letter.index,
            stored.letter.reason,
            stored.letter.field,
            stored.letter.payload_hash,
        )
        for stored in letters
    ]
    if as_json:
        for row in rows:
            click.echo(json.dumps(dict(zip(names, row, strict=True))))
        return
    if not rows:
        click.echo("there are no dead letters")
        return
    texts, count = (map(str, row) for row in rows), counted(len(rows), "dead letter")
    show_tables(*table("|".join(names), texts, f"{count}, newest first"))


@click.command("new-key")
@click.argument("file", type=click.Path(path_type=Path))
def new_key(file: Path) -> None:
    """Create a random key and write it to a new FILE that only its owner can read.

    The key is never printed, and no file is ever overwritten. Name the file in the settings:
    privacy.id_key_file (or key_file of one of privacy.id_keys) for the ids of decisions,
    probes.key_file for probes. Use a separate key for each.

    Example: slicewatch db new-key /etc/slicewatch/id_key
    """
    write_key(file)
    click.echo(f"a new key is in {file}; keep a copy with your other secrets")


@click.command("drop-key")
@click.argument("key_id", metavar="KEY")
@settings_option
def drop_key(key_id: str, path: Path) -> None:
    """Give up an id key early, and erase what is stored under ids hashed with it.

    For a key that is lost, has leaked, or was announced by mistake. KEY is its id, as in db status.
    Counts stay; later labels for the decisions of its days count as unmatched, and so do their
    corrections. Running processes are fenced: restart all of them with settings without the key.
    Only a backup brings back what is erased. For a key whose days are past the horizon this is not
    needed: remove it from the settings.

    Example: slicewatch db drop-key 2026
    """
    from monitor.store import database
    from monitor.store.id_keys import drop_key as drop

    key_id = plain_line("KEY", key_id, LONGEST_NAME)
    with opened(path) as (_, engine):
        removed = drop(engine, key_id)
        rows = ", ".join(f"{number} from {table}" for table, number in removed.items())
        click.echo(f'id key "{key_id}" is given up; rows removed: {rows}')
        database.compact(engine)


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
    from monitor.store.shard_rows import ShardTime, resume_from

    shard = Shard(plain_line("TOPIC", topic, LONGEST_TOPIC), partition)
    checked_reason = _why(reason)
    newest = None if clock is None else instant("--clock", clock)
    with opened(path) as (settings, engine):
        time = None if newest is None else ShardTime(newest, settings.stream.lateness)
        now = SystemClock().now()
        resumed = resume_from(engine, shard, offset, checked_reason, now, force=force, time=time)
    before = "was never read" if resumed.before is None else f"was at {resumed.before}"
    recounted = f"; {resumed.again} offsets will be counted again" if resumed.again else ""
    click.echo(f"{shard} {before}, continues at {offset}{recounted}")


def _why(reason: str) -> str:
    if not reason.strip():
        raise SlicewatchError(
            "--reason is missing; slicewatch db resume-from --help has an example"
        )
    return plain_line("--reason", reason, LONGEST_NOTE)
