"""``slicewatch db new-key``."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from monitor.commands.key_file import write_key

KEY_BYTES = 32


@click.command("new-key")
@click.argument("file", type=click.Path(path_type=Path))
def new_key(file: Path) -> None:
    """Make a random key and write it to a new FILE that only its owner can read.

    It is never printed, and no file is ever overwritten. Name the file in the settings:
    privacy.id_key_file (or key_file of one of privacy.id_keys) for ids of decisions,
    probes.key_file for probes. Each has a key of its own.

    Example: slicewatch db new-key /etc/slicewatch/id_key
    """
    write_key(file, secrets.token_hex(KEY_BYTES))
    click.echo(f"a new key is in {file}; keep a copy where your secrets are kept")
