"""Closed hours whose routes were consumed, which wait for no labels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1015"
down_revision = "1014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; what was consumed with its labels so far was consumed with its routes."""
    op.create_table(
        "route_cohort",
        sa.Column("hour", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("consumed_at", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        comment="The same of what needs no labels: hours have their turn as soon as they are "
        "closed.",
    )
    op.execute(
        "INSERT INTO route_cohort (hour, state, live, consumed_at, payload)"
        " SELECT hour, state, live, consumed_at, payload FROM cohort"
    )
