"""What the release of numbers needs: closed panes, blocks, merge maps, exclusions.

What was counted so far is taken over as if it had come in time.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_COUNTERS = (
    *("n", "q", "labelled", "ready", "undecidable", "complaints", "revised", "blind"),
    *("blind_ready", "delay_0", "delay_1", "delay_2", "delay_3", "delay_4", "delay_5"),
    *("delay_6", "delay_7"),
)
_MINUTES5, _HOUR = 300_000_000, 3_600_000_000


def upgrade() -> None:
    """Make the tables; the 5-minute panes move, the hours are copied."""
    _make_counts("released", ("grain", "pane", "cell"), _RELEASED)
    _make_counts("held_back", ("pane", "cell"), _HELD_BACK)
    names = ", ".join(("grain", "pane", "cell", *_COUNTERS))
    op.execute(
        f"INSERT INTO released ({names}) SELECT {names} FROM counts"
        f" WHERE grain IN ({_MINUTES5}, {_HOUR})"
    )
    op.execute(f"DELETE FROM counts WHERE grain = {_MINUTES5}")
    _make_release()
    _make_exclusion()


_RELEASED = "What every published window is a sum of: counts that came before their pane closed."
_HELD_BACK = "Counts by hour and cell that came too late, or are too few, to be published."


def _make_counts(name: str, keys: tuple[str, ...], comment: str) -> None:
    op.create_table(
        name,
        *(sa.Column(key, sa.BigInteger(), autoincrement=False, nullable=False) for key in keys),
        *(sa.Column(counter, sa.BigInteger(), nullable=False) for counter in _COUNTERS),
        sa.PrimaryKeyConstraint(*keys),
        sqlite_with_rowid=False,
        comment=comment,
    )


def _make_release() -> None:
    op.create_table(
        "release_mark",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        comment="Event time up to which panes have been closed, and other instants of the release.",
    )
    op.create_table(
        "release_edge",
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("labels", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("burned", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("family", "labels", "at"),
        comment="Where the release blocks of a family end; a burned block is never published.",
    )
    op.create_table(
        "release_map",
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("condition", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("family"),
        comment="Which values of a family keep their name this week, and under which condition.",
    )


def _make_exclusion() -> None:
    op.create_table(
        "exclusion",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("starts_at", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("excluded_at", sa.BigInteger(), nullable=False),
        sa.Column("lifted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        comment="Known-bad data: whole release blocks that are left out of every window.",
    )
