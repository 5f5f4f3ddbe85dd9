"""Whose the decisions are, by hash bucket: no cell is shown that is mostly one customer's.

It begins with the next decision that names its unit.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_COMMENT = "Decisions by atom and hash bucket of their unit, where sent: released, or held back."
_BUCKETS = 64


def upgrade() -> None:
    """Make the table."""
    keys = ("grain", "pane", "atom")
    op.create_table(
        "unit_share",
        *(sa.Column(key, sa.BigInteger(), autoincrement=False, nullable=False) for key in keys),
        sa.Column("late", sa.Boolean(), nullable=False),
        *(sa.Column(f"bucket_{i}", sa.Integer(), nullable=False) for i in range(_BUCKETS)),
        sa.PrimaryKeyConstraint(*keys, "late"),
        sqlite_with_rowid=False,
        comment=_COMMENT,
    )
