"""Published limits on the ratio of two rates; NULL before, since no contract could set one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1002"
down_revision = "1001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("published_limit", sa.Column("min_ratio", sa.Double()))
