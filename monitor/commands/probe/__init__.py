"""``slicewatch probe``: send matched pairs to a router in production."""

from __future__ import annotations

import click

from monitor.commands.probe.access import router_key_command
from monitor.commands.probe.probe_status import status
from monitor.commands.probe.send import run

__all__ = ["command"]


@click.group("probe", commands=(run, status, router_key_command))
def command() -> None:
    """Send matched pairs to a router, publish its decisions, and show the results.

    Example: slicewatch probe run pairs.jsonl --target https://router.example/probe
    """
