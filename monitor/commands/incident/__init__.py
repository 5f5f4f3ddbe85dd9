"""``slicewatch incident``: unresolved incidents, and what people say of them."""

from __future__ import annotations

import click

from monitor.commands.incident.answers import ack, close
from monitor.commands.incident.views import listing, show


@click.group("incident")
def command() -> None:
    """List incidents, acknowledge them and record their outcome.

    Slices and numbers are the published ones; what the privacy guards hide is withheld here, too.

    Example: slicewatch incident list
    """


for _one in (listing, show, ack, close):
    command.add_command(_one)
