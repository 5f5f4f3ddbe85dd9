"""``slicewatch run``, and its halves ``ingest`` and ``serve``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands.options import settings_option
from monitor.commands.starting import Stop
from monitor.service import Parts, run_until_stopped


@click.command("run")
@settings_option
@click.pass_obj
def run(stop: Stop | None, path: Path) -> None:
    """Ingest, evaluate and serve in one process.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch run --settings slicewatch.toml
    """
    run_until_stopped(path, Parts(), stop)


@click.command("ingest")
@settings_option
@click.pass_obj
def ingest(stop: Stop | None, path: Path) -> None:
    """Consume decisions and labels; one of any number of workers in a consumer group.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch ingest --settings slicewatch.toml
    """
    run_until_stopped(path, Parts(serve=False), stop)


@click.command("serve")
@settings_option
@click.pass_obj
def serve(stop: Stop | None, path: Path) -> None:
    """Evaluate what was ingested and serve metrics.

    Stops cleanly on SIGTERM and Ctrl-C: what was read is stored, and the port is closed.

    Example: slicewatch serve --settings slicewatch.toml
    """
    run_until_stopped(path, Parts(ingest=False), stop)
