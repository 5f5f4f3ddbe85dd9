"""``slicewatch db migrate``."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.commands.options import load_settings, settings_option
from monitor.store import database


@click.command("migrate")
@settings_option
def migrate(path: Path) -> None:
    """Bring the database to the schema this version needs.

    Example: slicewatch db migrate --settings slicewatch.toml
    """
    engine = database.create_engine(load_settings(path).store.url)
    before = database.schema_revision(engine)
    database.migrate(engine)
    engine.dispose()
    click.echo(f"schema {before or 'empty'} -> {database.head_revision()}")
