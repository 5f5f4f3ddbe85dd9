"""The store of unit tests: SQLite, with all tables and no row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from migrated import bring_to_head

from monitor.store import database


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    url = f"sqlite:///{tmp_path}/store.db"
    bring_to_head(url)
    made = database.create_engine(url)
    yield made
    made.dispose()
