"""What operating needs: parked shards, when a shard was last written, losses in event time.

Codings are kept by the event time from which they count, so that one may come back.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; rebuild ``coding`` with another primary key."""
    op.add_column("ownership", sa.Column("parked", sa.Text(), nullable=True))
    op.add_column("ownership", sa.Column("flushed_at", sa.BigInteger(), nullable=True))
    op.add_column("resumption", sa.Column("lost_from", sa.BigInteger(), nullable=True))
    op.add_column("resumption", sa.Column("lost_until", sa.BigInteger(), nullable=True))
    _rebuild_coding()
    if op.get_bind().dialect.name == "postgresql":
        # Compressed already: compressing again only costs time.
        for table, column in (("delta", "payload"), ("snapshot", "body")):
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL")


def _rebuild_coding() -> None:
    rows = op.get_bind().execute(sa.text("SELECT hash, effective_from, body FROM coding")).all()
    op.drop_table("coding")
    coding = op.create_table(
        "coding",
        sa.Column("effective_from", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("effective_from"),
        comment="How decisions are coded, by the event time from which on.",
    )
    if rows:
        op.bulk_insert(coding, [dict(row._mapping) for row in rows])
