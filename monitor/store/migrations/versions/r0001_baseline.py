"""The schema of the first release.

Nothing has been released yet, so it is that of :mod:`monitor.store.schema`. The first change after
a release freezes it here, table by table.
"""

from __future__ import annotations

from alembic import op

from monitor.store.schema import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_COMPRESSED = (("delta", "payload"), ("snapshot", "body"), ("calendar_table", "body"))


def upgrade() -> None:
    """Create every table and index of the schema."""
    metadata.create_all(op.get_bind())
    if op.get_bind().dialect.name == "postgresql":
        # Compressed already: compressing again only costs time.
        for table, column in _COMPRESSED:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL")
