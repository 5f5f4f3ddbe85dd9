"""Record of the tables of a week that have had its rest; NULL where that was not kept yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1014"
down_revision = "1010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("weekly_release", sa.Column("rests", sa.Text()))
