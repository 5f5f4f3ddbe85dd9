"""Published tables of calendar spans, and the settings they are made by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1017"
down_revision = "1016"
branch_labels = None
depends_on = None


def _ids(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(n, sa.BigInteger(), primary_key=True, autoincrement=False) for n in names]


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "calendar_layout",
        sa.Column("use_case", sa.Text(), primary_key=True),
        *_ids("starts_at"),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        comment="Settings of calendar tables, by the first instant of the spans they hold for.",
    )
    op.create_table(
        "calendar_table",
        sa.Column("use_case", sa.Text(), primary_key=True),
        *_ids("kind", "starts_at"),
        sa.Column("measure", sa.Text(), primary_key=True),
        sa.Column("edition", sa.Text(), primary_key=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        comment="Bands of all rows in one calendar span, never changed; kind is its length.",
    )
    op.create_table(
        "calendar_labels",
        sa.Column("use_case", sa.Text(), primary_key=True),
        *_ids("kind", "starts_at"),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        comment="Exact label counts of a first edition, until the final one is made.",
    )
