"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "atom",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "cell",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("atom", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("stratum", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "coding",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("effective_from", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
        comment="How decisions are coded, with the event time from which on.",
    )
    op.create_table(
        "contract",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("numbers", sa.Text(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version"),
        comment="Every version of every contract that was ever in force.",
    )
    op.create_table(
        "counts",
        sa.Column("grain", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("pane", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cell", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("q", sa.BigInteger(), nullable=False),
        sa.Column("labelled", sa.BigInteger(), nullable=False),
        sa.Column("ready", sa.BigInteger(), nullable=False),
        sa.Column("undecidable", sa.BigInteger(), nullable=False),
        sa.Column("complaints", sa.BigInteger(), nullable=False),
        sa.Column("revised", sa.BigInteger(), nullable=False),
        sa.Column("blind", sa.BigInteger(), nullable=False),
        sa.Column("blind_ready", sa.BigInteger(), nullable=False),
        sa.Column("delay_0", sa.BigInteger(), nullable=False),
        sa.Column("delay_1", sa.BigInteger(), nullable=False),
        sa.Column("delay_2", sa.BigInteger(), nullable=False),
        sa.Column("delay_3", sa.BigInteger(), nullable=False),
        sa.Column("delay_4", sa.BigInteger(), nullable=False),
        sa.Column("delay_5", sa.BigInteger(), nullable=False),
        sa.Column("delay_6", sa.BigInteger(), nullable=False),
        sa.Column("delay_7", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("grain", "pane", "cell"),
        comment="Integer sums by grain (microseconds), pane index and cell.",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "dead_letter",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("msg_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("item", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("payload_hash", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "part", "msg_offset", "item"),
        comment="Where an unreadable event was and why; never what it said.",
    )
    op.create_index("dead_letter_seen_at", "dead_letter", ["seen_at"], unique=False)
    op.create_table(
        "delta",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_offset", sa.BigInteger(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("arrived", sa.BigInteger(), nullable=True),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "part", "seq"),
        comment="What one flush of one shard added, append only, gap-free per shard.",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "fold_cursor",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "part"),
        comment="The last delta of each shard that the evaluator has folded.",
    )
    op.create_table(
        "label_state",
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("complaint", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.SmallInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("labelled_at", sa.BigInteger(), nullable=False),
        sa.Column("label", sa.BigInteger(), nullable=False),
        sa.Column("ready", sa.SmallInteger(), nullable=False),
        sa.Column("blind", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "id", "complaint"),
        comment="The label that counts for a decision: the greatest seen so far.",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "lease",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("role"),
        comment="Who evaluates: a fence like ownership, with an end on the database's clock.",
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        comment="Facts of this store that are made once, such as its id key.",
    )
    op.create_table(
        "ownership",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("topic_id", sa.Text(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("start_offset", sa.BigInteger(), nullable=True),
        sa.Column("next_offset", sa.BigInteger(), nullable=True),
        sa.Column("max_decided_at", sa.BigInteger(), nullable=True),
        sa.Column("watermark", sa.BigInteger(), nullable=True),
        sa.Column("holds_back", sa.Boolean(), nullable=False),
        sa.Column("tallies", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "part"),
        comment="One row a shard: the fence (epoch, next_offset), its clock and its tallies.",
    )
    op.create_table(
        "pending",
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ts", sa.BigInteger(), nullable=False),
        sa.Column("cell", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "id"),
        comment="Decisions that can get a label, by hour and keyed hash of the id.",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "resumption",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("from_offset", sa.BigInteger(), nullable=True),
        sa.Column("to_offset", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("resumed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "part", "epoch"),
        comment="Offsets that a person moved a shard over after data loss, and why.",
    )
    op.create_table(
        "snapshot",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("stored_at", sa.BigInteger(), nullable=False),
        sa.Column("watermark", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        comment="Published Snapshots, byte for byte; id is gap-free.",
    )
    op.create_table(
        "version",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "waiting_label",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("label", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ts", sa.BigInteger(), nullable=False),
        sa.Column("complaint", sa.SmallInteger(), nullable=False),
        sa.Column("rank", sa.SmallInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("labelled_at", sa.BigInteger(), nullable=False),
        sa.Column("ready", sa.SmallInteger(), nullable=False),
        sa.Column("blind", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "part", "hour", "id", "label"),
        comment="Labels that came before their decision, kept by the shard that read them.",
        sqlite_with_rowid=False,
    )
