"""When decisions arrive, and since when what waits is not read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1016"
down_revision = "1015"
branch_labels = None
depends_on = None

_SLOTS = [f"m{minute:02}" for minute in range(0, 60, 5)]


def upgrade() -> None:
    """Make the table and the column; what is usual is learned from now on."""
    op.create_table(
        "decision_arrival",
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("hour", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("part", sa.Integer(), primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _SLOTS),
        comment="How many decisions came to the broker in every five minutes of an hour.",
        sqlite_with_rowid=False,
    )
    op.add_column("ownership", sa.Column("unread_since", sa.BigInteger()))
