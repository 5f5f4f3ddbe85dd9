"""``slicewatch serve``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands.options import settings_option
from monitor.commands.service import Parts, run_until_stopped
from monitor.commands.starting import Stop


@click.command("serve")
@settings_option
@click.pass_obj
def command(stop: Stop | None, path: Path) -> None:
    """Evaluate what was ingested and serve metrics.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch serve --settings slicewatch.toml
    """
    run_until_stopped(path, Parts(ingest=False), stop)
