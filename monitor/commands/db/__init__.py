"""``slicewatch db``: look into the database, repair it, change its schema."""

from __future__ import annotations

import click

from monitor.commands.db.clock import repair_clock, resume
from monitor.commands.db.erasure import exclude, forget
from monitor.commands.db.keys import drop_key, new_key
from monitor.commands.db.status import status
from monitor.commands.db.upkeep import dead_letters, migrate, prune


@click.group("db")
def command() -> None:
    """Inspect, repair and migrate the database.

    Example: slicewatch db status
    """


for _one in (
    *(dead_letters, drop_key, exclude, forget, migrate),
    *(new_key, prune, repair_clock, resume, status),
):
    command.add_command(_one)
