"""Database access of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.options import load_settings
from monitor.errors import StoreError
from monitor.settings import Settings

if TYPE_CHECKING:
    import sqlalchemy as sa


@contextmanager
def opened(
    path: Path, *, at_head: bool = True, contract: Path | None = None
) -> Iterator[tuple[Settings, sa.Engine]]:
    """Yield (settings, engine) of a database that exists; dispose of the engine afterwards.

    Args:
        path: settings file.
        contract: file whose use cases replace those of the settings.
        at_head: require the schema of this version.

    Raises:
        StoreError: there is no such database, or it has another schema.
    """
    from monitor.store import database

    settings = load_settings(path, contract=contract)
    engine = database.create_engine(settings.store.url)
    try:
        if not database.is_there(engine):
            raise StoreError(f"database {settings.store.url.masked} does not exist yet")
        if at_head:
            database.require_head(engine)
        yield settings, engine
    finally:
        engine.dispose()
