"""``slicewatch db``: inspect, repair and migrate the database."""

from __future__ import annotations

import click

from monitor.commands.db.db_status import status
from monitor.commands.db.removal import exclude, forget
from monitor.commands.db.send_log import send_log
from monitor.commands.db.upkeep import (
    backup,
    dead_letters,
    drop_key,
    migrate,
    new_key,
    prune,
    resume,
)

__all__ = ["command"]


@click.group(
    "db",
    commands=(
        *(backup, dead_letters, drop_key, exclude, forget, migrate),
        *(new_key, prune, resume, send_log, status),
    ),
)
def command() -> None:
    """Inspect, repair and migrate the database.

    Example: slicewatch db status
    """
