"""Incidents, what they are made of, and what people said of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_ACT = "What people said of incidents, append only; number is gap-free per incident."


def upgrade() -> None:
    """Make the tables."""
    _make_incident()
    _make_links()
    _make_act()


def _id(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def _make_incident() -> None:
    op.create_table(
        "incident",
        _id("id"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("contract", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("opened_wall", sa.BigInteger(), nullable=False),
        sa.Column("group_by", sa.Text(), nullable=True),
        sa.Column("slice", sa.Text(), nullable=True),
        sa.Column("share", sa.Text(), nullable=True),
        sa.Column("first_value", sa.Double(), nullable=True),
        sa.Column("first_lower", sa.Double(), nullable=True),
        sa.Column("first_upper", sa.Double(), nullable=True),
        sa.Column("first_at", sa.BigInteger(), nullable=True),
        sa.Column("versions_changed_at", sa.BigInteger(), nullable=True),
        sa.Column("settings_changed_at", sa.BigInteger(), nullable=True),
        sa.Column("snapshot", sa.BigInteger(), nullable=True),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        comment="One cause of one or more crossings, by event time; id is gap-free.",
    )


def _make_links() -> None:
    op.create_table(
        "incident_crossing",
        _id("crossing"),
        sa.Column("incident", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("crossing"),
        comment="Which incident a crossing belongs to, for good.",
    )
    op.create_table(
        "incident_stream",
        _id("incident"),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("incident", "stream"),
        comment="The streams of incidents that are tickets.",
    )


def _make_act() -> None:
    op.create_table(
        "incident_act",
        _id("incident"),
        _id("number"),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("incident", "number"),
        comment=_ACT,
    )
