"""Published limits that a slice has of its own; NULL before, and where it has the contract's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1005"
down_revision = "1003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    for name in ("own_max_gap", "own_min_ratio", "own_min_level", "own_max_level"):
        op.add_column("published_rate", sa.Column(name, sa.Double()))
