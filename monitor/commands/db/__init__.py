"""``slicewatch db``: look into the database, repair it, change its schema."""

from __future__ import annotations

import click

from monitor.commands.db.dead_letters import dead_letters
from monitor.commands.db.drop_key import drop_key
from monitor.commands.db.exclude import exclude
from monitor.commands.db.forget import forget
from monitor.commands.db.migrate import migrate
from monitor.commands.db.new_key import new_key
from monitor.commands.db.prune import prune
from monitor.commands.db.repair_clock import repair_clock
from monitor.commands.db.resume import resume
from monitor.commands.db.status import status


@click.group("db")
def command() -> None:
    """Look into the database, repair it, change its schema.

    Example: slicewatch db status
    """


for _one in (
    *(dead_letters, drop_key, exclude, forget, migrate),
    *(new_key, prune, repair_clock, resume, status),
):
    command.add_command(_one)
