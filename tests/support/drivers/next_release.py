"""The release after this one: its schema is ours and one revision more, its program is ours.

The revision keeps what is there and adds to it: a column, and a table that is filled from another.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from monitor.store import database

REVISION = f"{int(database.head_revision()) + 1:04}"
_MIGRATION = f'''
"""One column and one table more."""

import sqlalchemy as sa
from alembic import op

revision = "{REVISION}"
down_revision = "{database.head_revision()}"


def upgrade() -> None:
    op.add_column("contract", sa.Column("later", sa.BigInteger(), server_default="7"))
    op.create_table(
        "later",
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("part", sa.Integer(), primary_key=True),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
    )
    op.execute("INSERT INTO later SELECT topic, part, next_offset FROM ownership")
'''
_PROGRAM = """#!{python}
from pathlib import Path

from monitor.cli import main
from monitor.store import database

database._MIGRATIONS = Path("{migrations}")
main()
"""


def install(folder: Path) -> Path:
    """Its folder of programs, which has the one called ``slicewatch``."""
    migrations = _migrations(folder)
    program = folder / "bin" / "slicewatch"
    program.parent.mkdir()
    program.write_text(_PROGRAM.format(python=sys.executable, migrations=migrations))
    program.chmod(0o755)
    return program.parent


def become(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make this process the next release."""
    monkeypatch.setattr(database, "_MIGRATIONS", _migrations(folder))


def _migrations(folder: Path) -> Path:
    migrations = folder / "migrations"
    if not migrations.exists():
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(database.__file__).parent / "migrations", migrations, ignore=without)
        (migrations / "versions" / f"r{REVISION}_later.py").write_text(_MIGRATION)
    return migrations
