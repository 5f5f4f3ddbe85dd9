"""``slicewatch probe``: matched pairs that are sent to a router in production."""

from __future__ import annotations

import click

from monitor.commands.probe.keys import router_key_command
from monitor.commands.probe.run import run
from monitor.commands.probe.status import status


@click.group("probe")
def command() -> None:
    """Send matched pairs to a router, publish its decisions, and show the results.

    Example: slicewatch probe run pairs.jsonl --target https://router.example/probe
    """


for _one in (run, status, router_key_command):
    command.add_command(_one)
