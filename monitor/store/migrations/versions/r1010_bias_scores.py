"""Results of bias evaluations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1010"
down_revision = "1005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "bias_score",
        sa.Column("dimension", sa.Text(), primary_key=True, autoincrement=False),
        sa.Column("day", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("items", sa.BigInteger(), nullable=False),
        sa.Column("probe_set", sa.Text(), nullable=False),
        sa.Column("probe_version", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("rubric", sa.Text(), nullable=False),
        comment="Results of bias evaluations; day since 1970, the last one to come.",
    )
