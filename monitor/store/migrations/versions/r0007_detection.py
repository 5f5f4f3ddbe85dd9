"""What the detectors consumed, where they stand, and which limits were crossed.

They begin with the oldest hour whose counts are kept.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_COHORT = "What became of the cohort of every hour, and the counts that the detectors consumed."


def upgrade() -> None:
    """Make the tables."""
    _make_cohort()
    _make_detector()
    _make_crossing()


def _make_cohort() -> None:
    op.create_table(
        "cohort",
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("consumed_at", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("hour"),
        comment=_COHORT,
    )


def _make_detector() -> None:
    op.create_table(
        "detector",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        comment="State of the detectors after the newest cohort, in named parts.",
    )


def _make_crossing() -> None:
    op.create_table(
        "crossing",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("crossed_at", sa.BigInteger(), nullable=False),
        sa.Column("latest", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        comment="Streams that crossed their limit, by event time; id is gap-free.",
    )
    op.create_index(
        "crossing_standing",
        "crossing",
        ["stream"],
        unique=True,
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )
