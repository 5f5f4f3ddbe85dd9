"""``slicewatch incident``: unresolved incidents, and what people say of them."""

from __future__ import annotations

import click

from monitor.commands.incident.answers import ack, close
from monitor.commands.incident.views import listing, show


@click.group("incident")
def command() -> None:
    """List incidents, and say who looks after one and what it came to.

    Slices and numbers are those that the pages show; what the privacy guards hide is withheld
    here, too.

    Example: slicewatch incident list
    """


for _one in (listing, show, ack, close):
    command.add_command(_one)
