"""``slicewatch serve``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands import logs
from monitor.commands.options import load_settings, on_stop, settings_option
from monitor.commands.service import Parts, Service


@click.command("serve")
@settings_option
def command(path: Path) -> None:
    """Evaluate what was ingested and serve metrics.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch serve --settings slicewatch.toml
    """
    logs.configure()
    service = Service(load_settings(path), Parts(ingest=False))
    on_stop(service.ask_to_stop)
    service.run()
