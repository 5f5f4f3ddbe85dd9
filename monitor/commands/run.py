"""``slicewatch run``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands import logs
from monitor.commands.options import load_settings, on_stop, settings_option
from monitor.commands.service import Parts, Service


@click.command("run")
@settings_option
def command(path: Path) -> None:
    """Ingest, evaluate and serve in one process.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch run --settings slicewatch.toml
    """
    logs.configure()
    service = Service(load_settings(path), Parts())
    on_stop(service.ask_to_stop)
    service.run()
