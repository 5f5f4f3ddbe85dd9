"""Decisions that two reviewers labelled: how often they agree.

It begins with the labels that are read from now on: who gave those before is not known.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_COMMENT = "Of decisions with several labels: what the first two reviewers said themselves."
_PAIRS = ("pairs_ready", "pairs_not_ready", "pairs_apart")


def upgrade() -> None:
    """Add the counters and the reviewer, make the table."""
    for table in ("counts", "released", "held_back"):
        for name in _PAIRS:
            op.add_column(
                table, sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")
            )
    for table in ("label_state", "waiting_label"):
        op.add_column(
            table, sa.Column("reviewer", sa.Integer(), nullable=False, server_default="0")
        )
    op.create_table(
        "double_label",
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        *_review("first"),
        *_review("second"),
        sa.PrimaryKeyConstraint("hour", "id"),
        sqlite_with_rowid=False,
        comment=_COMMENT,
    )


def _review(which: str) -> tuple[sa.Column[int], ...]:
    return (
        sa.Column(f"{which}_labelled_at", sa.BigInteger(), nullable=False),
        sa.Column(f"{which}_label", sa.BigInteger(), nullable=False),
        sa.Column(f"{which}_reviewer", sa.Integer(), nullable=False),
        sa.Column(f"{which}_ready", sa.SmallInteger(), nullable=False),
    )
