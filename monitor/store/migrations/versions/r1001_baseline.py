"""The schema of the first release, in one piece.

Revisions 0001 to 0011 were steps of its development and never released; see ``database.py``.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "1001"
down_revision = None
branch_labels = None
depends_on = None

_BIG, _INTEGER, _SMALL = sa.BigInteger(), sa.Integer(), sa.SmallInteger()
_TEXT, _BYTES, _FLAG = sa.Text(), sa.LargeBinary(), sa.Boolean()
_DAY, _INSTANT = sa.Date(), sa.DateTime(timezone=True)
_NUMBER: sa.Double[float] = sa.Double()
_RATE = ("value", "lower", "upper", "at_least", "at_most")
_GAP = ("gap", "gap_lower", "gap_upper", "ratio", "ratio_lower", "ratio_upper")

Columns = list[sa.Column[Any]]


def upgrade() -> None:
    """Make every table and index."""
    _make_reading()
    _make_joining()
    _make_release()
    _make_detection()
    _make_records()
    _make_published()
    if op.get_bind().dialect.name == "postgresql":
        # Compressed already: compressing again only costs time.
        for table, column in (("delta", "payload"), ("snapshot", "body")):
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL")


def _table(name: str, *columns: Columns, comment: str | None = None, rowid: bool = True) -> None:
    op.create_table(name, *chain.from_iterable(columns), comment=comment, sqlite_with_rowid=rowid)


def _keys(kind: sa.types.TypeEngine[Any], *names: str) -> Columns:
    """Columns of the primary key."""
    return [sa.Column(name, kind, primary_key=True, autoincrement=False) for name in names]


def _shard() -> Columns:
    return _keys(_TEXT, "topic") + _keys(_INTEGER, "part")


def _columns(kind: sa.types.TypeEngine[Any], *names: str, default: str | None = None) -> Columns:
    return [sa.Column(name, kind, nullable=False, server_default=default) for name in names]


def _nullable(kind: sa.types.TypeEngine[Any], *names: str) -> Columns:
    return [sa.Column(name, kind) for name in names]


def _counters() -> Columns:
    sums = ("n", "q", "labelled", "ready", "undecidable", "complaints", "revised", "blind")
    delays = (f"delay_{number}" for number in range(8))
    pairs = ("pairs_ready", "pairs_not_ready", "pairs_apart")
    return _columns(_BIG, *sums, "blind_ready", *delays) + _columns(_BIG, *pairs, default="0")


def _make_reading() -> None:
    """Tables that workers write: where they stand and what they count."""
    _table(
        "ownership",
        _shard(),
        _nullable(_TEXT, "topic_id"),
        _columns(_BIG, "epoch", "seq"),
        _nullable(_TEXT, "owner"),
        _nullable(_BIG, "start_offset", "next_offset", "max_decided_at", "watermark"),
        _columns(_FLAG, "holds_back"),
        _columns(_TEXT, "tallies"),
        _nullable(_TEXT, "parked"),
        _nullable(_BIG, "flushed_at"),
        _columns(_BIG, "flushes", default="0"),
        _nullable(_BIG, "seen_at", "unstored_since", "retired_at"),
        comment="One row a shard: the fence (epoch, next_offset), its clock and its tallies.",
    )
    _table(
        "lease",
        _keys(_TEXT, "role"),
        _columns(_BIG, "epoch"),
        _nullable(_TEXT, "owner"),
        _columns(_BIG, "until"),
        comment="Who evaluates: a fence like ownership, with an end on the database's clock.",
    )
    _table(
        "delta",
        _shard(),
        _keys(_BIG, "seq"),
        _columns(_BIG, "start_offset", "next_offset"),
        _nullable(_BIG, "arrived"),
        _columns(_BYTES, "payload"),
        rowid=False,
        comment="What one flush of one shard added, append only, gap-free per shard.",
    )
    _table(
        "fold_cursor",
        _shard(),
        _columns(_BIG, "seq"),
        comment="The last delta of each shard that the evaluator has folded.",
    )
    _table("atom", _keys(_BIG, "id"), _columns(_TEXT, "text"))
    _table("version", _keys(_BIG, "id"), _columns(_TEXT, "text"))
    _table(
        "cell", _keys(_BIG, "id"), _columns(_BIG, "atom", "version"), _columns(_INTEGER, "stratum")
    )
    _table(
        "counts",
        _keys(_BIG, "grain", "pane", "cell"),
        _counters(),
        rowid=False,
        comment="Integer sums by grain (microseconds), pane index and cell.",
    )
    _table(
        "dead_letter",
        _shard(),
        _keys(_BIG, "msg_offset"),
        _keys(_INTEGER, "item"),
        _columns(_TEXT, "reason", "field", "payload_hash"),
        _columns(_BIG, "seen_at"),
        comment="Where an unreadable event was and why; never what it said.",
    )
    op.create_index("dead_letter_seen_at", "dead_letter", ["seen_at"])
    _table(
        "resumption",
        _shard(),
        _keys(_BIG, "epoch"),
        _nullable(_BIG, "from_offset"),
        _columns(_BIG, "to_offset"),
        _columns(_TEXT, "reason"),
        _columns(_BIG, "resumed_at"),
        _nullable(_BIG, "lost_from", "lost_until"),
        comment="Offsets that a person moved a shard over after data loss, and why.",
    )


def _make_joining() -> None:
    """Tables that labels are joined from, and how they come."""
    _table(
        "pending",
        _keys(_BIG, "hour", "id"),
        _columns(_BIG, "ts", "cell"),
        _columns(_SMALL, "request"),
        _columns(_SMALL, "part", default="-1"),
        rowid=False,
        comment="Decisions that can get a label, by hour and keyed hash of the id.",
    )
    _table(
        "label_state",
        _keys(_BIG, "hour", "id"),
        _keys(_SMALL, "complaint"),
        _columns(_SMALL, "rank"),
        _columns(_BIG, "revision", "labelled_at", "label"),
        _columns(_SMALL, "ready"),
        _columns(_FLAG, "blind"),
        _columns(_INTEGER, "reviewer", default="0"),
        rowid=False,
        comment="The label that counts for a decision: the greatest seen so far.",
    )
    _table(
        "double_label",
        _keys(_BIG, "hour", "id"),
        _columns(_BIG, "first_labelled_at", "first_label"),
        _columns(_INTEGER, "first_reviewer"),
        _columns(_SMALL, "first_ready"),
        _columns(_BIG, "second_labelled_at", "second_label"),
        _columns(_INTEGER, "second_reviewer"),
        _columns(_SMALL, "second_ready"),
        rowid=False,
        comment="Of decisions with several labels: what the first two reviewers said themselves.",
    )
    _table(
        "waiting_label",
        _shard(),
        _keys(_BIG, "hour", "id", "label"),
        _columns(_BIG, "ts"),
        _columns(_SMALL, "complaint", "rank"),
        _columns(_BIG, "revision", "labelled_at"),
        _columns(_SMALL, "ready"),
        _columns(_FLAG, "blind"),
        _columns(_BIG, "other_id", default="0"),
        _columns(_INTEGER, "reviewer", default="0"),
        rowid=False,
        comment="Labels that came before their decision, kept by the shard that read them.",
    )
    _table(
        "label_arrival",
        _keys(_TEXT, "topic"),
        _keys(_BIG, "hour"),
        _keys(_INTEGER, "part"),
        _columns(_BIG, "n"),
        rowid=False,
        comment="How many labels came in each hour of the database's clock: their usual pace.",
    )


def _make_release() -> None:
    """Tables that every published number is a sum of, and where its blocks end."""
    _table(
        "released",
        _keys(_BIG, "grain", "pane", "cell"),
        _counters(),
        rowid=False,
        comment="What every published window is a sum of: counts that came "
        "before their pane closed.",
    )
    _table(
        "held_back",
        _keys(_BIG, "pane", "cell"),
        _counters(),
        rowid=False,
        comment="Counts by hour and cell that came too late, or are too few, to be published.",
    )
    _table(
        "unit_share",
        _keys(_BIG, "grain", "pane", "atom"),
        _keys(_FLAG, "late"),
        _columns(_INTEGER, *(f"bucket_{number}" for number in range(64))),
        rowid=False,
        comment="Decisions by atom and hash bucket of their unit, where sent: "
        "released, or held back.",
    )
    _table(
        "cluster_day",
        _keys(_BIG, "day"),
        _columns(_BIG, "named", "largest", "tested", "alike", "by_chance"),
        comment="By UTC day: decisions that named a unit, the largest unit, repeated decisions.",
    )
    _table(
        "release_mark",
        _keys(_TEXT, "name"),
        _columns(_BIG, "at"),
        comment="Event time up to which panes have been closed, and other instants of the release.",
    )
    _table(
        "release_edge",
        _keys(_TEXT, "family"),
        _keys(_FLAG, "labels"),
        _keys(_BIG, "at"),
        _columns(_FLAG, "burned"),
        comment="Where the release blocks of a family end; a burned block is never published.",
    )
    _table(
        "release_map",
        _keys(_TEXT, "family"),
        _columns(_TEXT, "condition", "body"),
        comment="Which values of a family keep their name this week, and under which condition.",
    )
    _table(
        "exclusion",
        _keys(_BIG, "id"),
        _columns(_BIG, "starts_at", "ends_at"),
        _nullable(_TEXT, "version"),
        _columns(_TEXT, "reason", "owner"),
        _columns(_BIG, "excluded_at"),
        _nullable(_BIG, "lifted_at"),
        comment="Known-bad data: whole release blocks that are left out of every window.",
    )


def _make_detection() -> None:
    """Cohorts, detectors, the limits they crossed and the incidents of these."""
    _table(
        "cohort",
        _keys(_BIG, "hour"),
        _columns(_TEXT, "state"),
        _columns(_FLAG, "live"),
        _columns(_BIG, "consumed_at"),
        _columns(_BYTES, "payload"),
        comment="What became of the cohort of every hour, and the counts that "
        "the detectors consumed.",
    )
    _table(
        "detector",
        _keys(_TEXT, "name"),
        _columns(_BYTES, "body"),
        comment="State of the detectors after the newest cohort, in named parts.",
    )
    _table(
        "probe_set",
        _keys(_TEXT, "name"),
        _columns(_TEXT, "digest"),
        _columns(_BYTES, "body"),
        comment="Where each declared probe set stands; digest is the content hash of the set.",
    )
    _table(
        "crossing",
        _keys(_BIG, "id"),
        _columns(_TEXT, "stream"),
        _columns(_BIG, "hour"),
        _columns(_FLAG, "live"),
        _columns(_BIG, "crossed_at", "latest"),
        _nullable(_BIG, "resolved_at"),
        comment="Streams that crossed their limit, by event time; id is gap-free.",
    )
    standing = sa.text("resolved_at IS NULL")
    op.create_index(
        "crossing_standing",
        "crossing",
        ["stream"],
        unique=True,
        sqlite_where=standing,
        postgresql_where=standing,
    )
    _table(
        "incident",
        _keys(_BIG, "id"),
        _columns(_TEXT, "kind", "contract", "metric"),
        _columns(_BIG, "opened_at", "opened_wall"),
        _nullable(_TEXT, "group_by", "slice", "share"),
        _nullable(_NUMBER, "first_value", "first_lower", "first_upper"),
        _nullable(
            _BIG,
            "first_at",
            "versions_changed_at",
            "settings_changed_at",
            "snapshot",
            "resolved_at",
        ),
        comment="One cause of one or more crossings, by event time; id is gap-free.",
    )
    _table(
        "incident_crossing",
        _keys(_BIG, "crossing"),
        _columns(_BIG, "incident"),
        comment="Which incident a crossing belongs to, for good.",
    )
    _table(
        "incident_stream",
        _keys(_BIG, "incident"),
        _keys(_TEXT, "stream"),
        comment="The streams of incidents that are tickets.",
    )
    _table(
        "incident_act",
        _keys(_BIG, "incident", "number"),
        _columns(_BIG, "at"),
        _columns(_TEXT, "action", "by"),
        _nullable(_TEXT, "outcome"),
        _nullable(_BIG, "until"),
        _columns(_TEXT, "note"),
        comment="What people said of incidents, append only; number is gap-free per incident.",
    )


def _make_records() -> None:
    """Contracts, codings, keys and facts that are stored once; the snapshots."""
    _table(
        "contract",
        _keys(_TEXT, "name", "version"),
        _columns(_TEXT, "numbers", "record"),
        _columns(_BIG, "recorded_at"),
        comment="Every version of every contract that was ever in force.",
    )
    _table(
        "coding",
        _keys(_BIG, "effective_from"),
        _columns(_TEXT, "hash", "body"),
        comment="How decisions are coded, by the event time from which on.",
    )
    _table(
        "id_key",
        _keys(_TEXT, "id"),
        _columns(_BIG, "effective_from"),
        _columns(_TEXT, "fingerprint"),
        comment="Keys that ids are hashed with, by the event time from which on; not the keys.",
    )
    _table(
        "snapshot",
        _keys(_BIG, "id"),
        _columns(_BIG, "stored_at"),
        _nullable(_BIG, "watermark"),
        _columns(_BYTES, "body"),
        comment="Published Snapshots, byte for byte; id is gap-free.",
    )
    _table(
        "meta",
        _keys(_TEXT, "name"),
        _columns(_TEXT, "value"),
        comment="Facts of this store: its own id key, and settings as the last start had them.",
    )


def _make_published() -> None:
    """All that the reporter's login may read."""
    _table(
        "published_contract",
        _keys(_DAY, "day"),
        _keys(_TEXT, "contract"),
        _columns(_TEXT, "version", "owner"),
        _columns(_FLAG, "synthetic"),
        _columns(_INTEGER, "k"),
        _columns(_TEXT, "verdict_window"),
        _columns(_INSTANT, "complete_to"),
        _nullable(_INSTANT, "labels_mature_to"),
        rowid=False,
        comment="Published: the contracts of a UTC day, and how far its newest publication goes.",
    )
    _table(
        "published_limit",
        _keys(_DAY, "day"),
        _keys(_TEXT, "contract", "metric"),
        _nullable(_NUMBER, "max_gap", "min_level", "max_level"),
        _nullable(_INTEGER, "min_support"),
        rowid=False,
        comment="Published: what a contract allows; NULL is not limited.",
    )
    _table(
        "published_window",
        _keys(_DAY, "day"),
        _keys(_TEXT, "contract", "window_name", "group_by", "kind"),
        _columns(_INSTANT, "starts_at", "ends_at"),
        _columns(_FLAG, "data_lost", "excluded"),
        rowid=False,
        comment="Published: the event time that rates of a kind (decisions, labelled) are about.",
    )
    _table(
        "published_rate",
        _keys(_DAY, "day"),
        _keys(_TEXT, "contract", "window_name", "group_by", "slice", "metric"),
        _columns(_TEXT, "kind", "state"),
        _nullable(_NUMBER, *_RATE),
        _nullable(_INTEGER, "support"),
        _nullable(_TEXT, "reference"),
        _nullable(_NUMBER, *_GAP),
        _nullable(_TEXT, "verdict"),
        _nullable(_NUMBER, "as_labelled", "completeness"),
        rowid=False,
        comment="Published: rates and gaps of every slice, a day a row; NULL is withheld.",
    )
    _table(
        "published_calibration",
        _keys(_DAY, "day"),
        _keys(_TEXT, "contract", "window_name", "group_by", "slice", "band"),
        _nullable(_NUMBER, *_RATE),
        _nullable(_INTEGER, "support"),
        rowid=False,
        comment="Published: P(ready) of a slice by score band, a day a row; NULL is withheld.",
    )
