"""``slicewatch db migrate``."""

from __future__ import annotations

from pathlib import Path

import click
import sqlalchemy as sa

from monitor.commands.options import load_settings, settings_option
from monitor.commands.wiring import contract_records
from monitor.settings import Settings
from monitor.store import database
from monitor.store.recode import drop_unlisted
from monitor.store.records import Records


@click.command("migrate")
@settings_option
@click.option(
    "--drop-attributes",
    is_flag=True,
    help="Delete what is stored of attributes and values that the settings list no more.",
)
def migrate(path: Path, drop_attributes: bool) -> None:
    """Bring the database to the schema this version needs.

    With --drop-attributes it also deletes attributes and values that are not in the settings any
    more from everything that is stored. Nothing but a backup brings them back.

    Example: slicewatch db migrate --settings slicewatch.toml
    """
    settings = load_settings(path)
    engine = database.create_engine(settings.store.url)
    try:
        before = database.schema_revision(engine)
        database.migrate(engine)
        click.echo(f"schema {before or 'empty'} -> {database.head_revision()}")
        if drop_attributes:
            _drop_attributes(settings, engine)
    finally:
        engine.dispose()


def _drop_attributes(settings: Settings, engine: sa.Engine) -> None:
    # A comparison must not vanish from a contract version that people know.
    Records(engine).refuse_changes(contract_records(settings))
    gone = drop_unlisted(engine, settings.coding)
    database.compact(engine)
    click.echo(f"deleted: {', '.join(gone) or 'nothing, all that is stored is listed'}")
