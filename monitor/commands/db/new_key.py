"""``slicewatch db new-key``."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from monitor.errors import SlicewatchError

KEY_BYTES = 32


@click.command("new-key")
@click.argument("file", type=click.Path(path_type=Path))
def new_key(file: Path) -> None:
    """Make a random id key and write it to a new FILE that only its owner can read.

    It is never printed, and no file is ever overwritten. Name the file in the settings:
    privacy.id_key_file, or key_file of one of privacy.id_keys.

    Example: slicewatch db new-key /etc/slicewatch/id_key
    """
    try:
        # Made with its rights, so that nobody can open it before they are set.
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SlicewatchError(f"{file} is there already; give the name of a new file") from None
    except OSError as error:
        reason = error.strerror or "it cannot be written"
        raise SlicewatchError(f"{file}: {reason}; give the name of a new file") from None
    with os.fdopen(handle, "w") as written:
        written.write(f"{secrets.token_hex(KEY_BYTES)}\n")
    click.echo(f"a new id key is in {file}; keep a copy where your secrets are kept")
