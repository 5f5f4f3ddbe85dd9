"""``slicewatch ingest``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands import logs
from monitor.commands.options import load_settings, on_stop, settings_option
from monitor.commands.service import Parts, Service


@click.command("ingest")
@settings_option
def command(path: Path) -> None:
    """Consume decisions and labels; one of any number of workers in a consumer group.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch ingest --settings slicewatch.toml
    """
    logs.configure()
    service = Service(load_settings(path), Parts(serve=False))
    on_stop(service.ask_to_stop)
    service.run()
