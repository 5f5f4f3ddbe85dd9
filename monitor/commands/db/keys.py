"""``slicewatch db new-key`` and ``drop-key``: make a random key, give up an id key."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from monitor.commands.db.access import opened
from monitor.commands.options import LONGEST_NAME, plain_line, settings_option, write_key
from monitor.store import database
from monitor.store.id_keys import drop_key as drop

KEY_BYTES = 32


@click.command("new-key")
@click.argument("file", type=click.Path(path_type=Path))
def new_key(file: Path) -> None:
    """Create a random key and write it to a new FILE that only its owner can read.

    The key is never printed, and no file is ever overwritten. Name the file in the settings:
    privacy.id_key_file (or key_file of one of privacy.id_keys) for the ids of decisions,
    probes.key_file for probes. Use a separate key for each.

    Example: slicewatch db new-key /etc/slicewatch/id_key
    """
    write_key(file, secrets.token_hex(KEY_BYTES))
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
    key_id = plain_line("KEY", key_id, LONGEST_NAME)
    with opened(path) as (_, engine):
        removed = drop(engine, key_id)
        rows = ", ".join(f"{number} from {table}" for table, number in removed.items())
        click.echo(f'id key "{key_id}" is given up; rows removed: {rows}')
        database.compact(engine)
