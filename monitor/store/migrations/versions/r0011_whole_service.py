"""Facts by which the whole service is judged: who still works, what is read no more, what comes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them; of rows that are there already nobody knows."""
    op.add_column(
        "ownership", sa.Column("flushes", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("ownership", sa.Column("seen_at", sa.BigInteger()))
    op.add_column("ownership", sa.Column("unstored_since", sa.BigInteger()))
    op.add_column("ownership", sa.Column("retired_at", sa.BigInteger()))
    op.add_column(
        "pending", sa.Column("part", sa.SmallInteger(), nullable=False, server_default="-1")
    )
    op.create_table(
        "label_arrival",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "hour", "part"),
        sqlite_with_rowid=False,
        comment="How many labels came in each hour of the database's clock: their usual pace.",
    )
    if op.get_bind().dialect.name == "postgresql":
        op.create_table_comment(
            "meta",
            "Facts of this store: its own id key, and settings as the last start had them.",
        )
