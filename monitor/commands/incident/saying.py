"""Who acts on an incident, and why: as typed, and as it may be kept."""

from __future__ import annotations

import click

from monitor.commands.options import LONGEST_NAME, LONGEST_NOTE, Command, plain_line
from monitor.errors import SlicewatchError
from monitor.store.incident_acts import Said


def said_options(function: Command) -> Command:
    """The options ``--by`` and ``--note``."""
    note = click.option("--note", metavar="TEXT", help="Why; kept with it. No personal data.")
    by = click.option("--by", metavar="NAME", help="Who says so: a person on duty or a team.")
    return by(note(function))


def told(command: str, by: str | None, note: str | None) -> Said:
    """What was typed, checked.

    Raises:
        SlicewatchError: nobody is named, or a text is no single line, or too long.
    """
    if by is None or not by.strip():
        raise SlicewatchError(
            f"--by is missing; slicewatch incident {command} --help has an example"
        )
    why = plain_line("--note", note or "", LONGEST_NOTE)
    return Said(plain_line("--by", by, LONGEST_NAME), why)
