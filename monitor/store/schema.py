"""Tables of the store; the migrations make them, and a test compares the two.

Event times are microseconds, hours are pane indexes of the hour grain, ids are 63-bit content
hashes. So every number fits a signed 64-bit integer on SQLite and PostgreSQL alike.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

from monitor.core.counts.cells import Counter

metadata = MetaData()

COUNTER_COLUMNS = tuple(counter.name.lower() for counter in Counter)
_LATER = ("pairs_ready", "pairs_not_ready", "pairs_apart")  # columns added later: 0 by default
_RATE = ("value", "lower", "upper", "at_least", "at_most")
_OWN_LIMITS = ("own_max_gap", "own_min_ratio", "own_min_level", "own_max_level")
_GAP = ("gap", "gap_lower", "gap_upper", "ratio", "ratio_lower", "ratio_upper")


def _ids(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, primary_key=True, autoincrement=False) for name in names]


def _columns(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _nullable(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


def _counters() -> tuple[Column[int], ...]:
    return tuple(
        Column(name, BigInteger, nullable=False, server_default="0" if name in _LATER else None)
        for name in COUNTER_COLUMNS
    )


def _reviewer() -> Column[int]:
    return Column("reviewer", Integer, nullable=False, server_default="0")


def _shard() -> tuple[Column[str], Column[int]]:
    return (
        Column("topic", Text, primary_key=True),
        Column("part", Integer, primary_key=True, autoincrement=False),
    )


def _published_key(*names: str) -> tuple[Column[Any], ...]:
    """Return the key columns of a published table: a UTC day, and these text columns."""
    return (
        Column("day", Date, primary_key=True),
        *(Column(name, Text, primary_key=True) for name in names),
    )


def _instant(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


ownership = Table(
    "ownership",
    metadata,
    *_shard(),
    Column("topic_id", Text),
    *_columns(BigInteger, "epoch", "seq"),
    Column("owner", Text),
    *_nullable(BigInteger, "start_offset", "next_offset", "max_decided_at", "watermark"),
    Column("holds_back", Boolean, nullable=False),
    Column("tallies", Text, nullable=False),
    Column("parked", Text),
    Column("flushed_at", BigInteger),
    Column("flushes", BigInteger, nullable=False, server_default="0"),  # a fence of its own
    Column("seen_at", BigInteger),  # when its worker was last alive, by the database's clock
    Column("unstored_since", BigInteger),  # since when its worker cannot store, by the same clock
    Column("unread_since", BigInteger),  # since when it reads nothing though events wait
    Column("retired_at", BigInteger),  # since when its topic is not in the settings
    comment="One row a shard: the fence (epoch, next_offset), its clock and its tallies.",
)

lease = Table(
    "lease",
    metadata,
    Column("role", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("owner", Text),
    Column("until", BigInteger, nullable=False),
    comment="Who evaluates: a fence like ownership, with an end on the database's clock.",
)

delta = Table(
    "delta",
    metadata,
    *_shard(),
    *_ids("seq"),
    *_columns(BigInteger, "start_offset", "next_offset"),
    Column("arrived", BigInteger),
    Column("payload", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
    comment="What one flush of one shard added, append only, gap-free per shard.",
)

fold_cursor = Table(
    "fold_cursor",
    metadata,
    *_shard(),
    Column("seq", BigInteger, nullable=False),
    comment="The last delta of each shard that the evaluator has folded.",
)

atom = Table("atom", metadata, *_ids("id"), Column("text", Text, nullable=False))
version = Table("version", metadata, *_ids("id"), Column("text", Text, nullable=False))
cell = Table(
    "cell",
    metadata,
    *_ids("id"),
    *_columns(BigInteger, "atom", "version"),
    Column("stratum", Integer, nullable=False),
)

counts = Table(
    "counts",
    metadata,
    *_ids("grain", "pane", "cell"),
    *_counters(),
    sqlite_with_rowid=False,
    comment="Integer sums by grain (microseconds), pane index and cell.",
)

pending = Table(
    "pending",
    metadata,
    *_ids("hour", "id"),
    *_columns(BigInteger, "ts", "cell"),
    Column("request", SmallInteger, nullable=False),
    Column("part", SmallInteger, nullable=False),
    sqlite_with_rowid=False,
    comment="Decisions that can get a label, by hour and keyed hash of the id.",
)

label_state = Table(
    "label_state",
    metadata,
    *_ids("hour", "id"),
    Column("complaint", SmallInteger, primary_key=True, autoincrement=False),
    Column("rank", SmallInteger, nullable=False),
    *_columns(BigInteger, "revision", "labelled_at", "label"),
    Column("ready", SmallInteger, nullable=False),
    Column("blind", Boolean, nullable=False),
    _reviewer(),
    sqlite_with_rowid=False,
    comment="The label that counts for a decision: the greatest seen so far.",
)

double_label = Table(
    "double_label",
    metadata,
    *_ids("hour", "id"),
    *_columns(BigInteger, "first_labelled_at", "first_label"),
    Column("first_reviewer", Integer, nullable=False),
    Column("first_ready", SmallInteger, nullable=False),
    *_columns(BigInteger, "second_labelled_at", "second_label"),
    Column("second_reviewer", Integer, nullable=False),
    Column("second_ready", SmallInteger, nullable=False),
    sqlite_with_rowid=False,
    comment="Of decisions with several labels: what the first two reviewers said themselves.",
)

waiting_label = Table(
    "waiting_label",
    metadata,
    *_shard(),
    *_ids("hour", "id", "label"),
    Column("ts", BigInteger, nullable=False),
    *_columns(SmallInteger, "complaint", "rank"),
    *_columns(BigInteger, "revision", "labelled_at"),
    Column("ready", SmallInteger, nullable=False),
    Column("blind", Boolean, nullable=False),
    Column("other_id", BigInteger, nullable=False, server_default="0"),
    _reviewer(),
    sqlite_with_rowid=False,
    comment="Labels that came before their decision, kept by the shard that read them.",
)

label_arrival = Table(
    "label_arrival",
    metadata,
    Column("topic", Text, primary_key=True),
    *_ids("hour"),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("n", BigInteger, nullable=False),
    sqlite_with_rowid=False,
    comment="How many labels came in each hour of the database's clock: their usual pace.",
)

SLOT_COLUMNS = tuple(f"m{minute:02}" for minute in range(0, 60, 5))
"""Columns of the twelve slots of an hour, by the minute in which they begin."""

decision_arrival = Table(
    "decision_arrival",
    metadata,
    Column("topic", Text, primary_key=True),
    *_ids("hour"),
    Column("part", Integer, primary_key=True, autoincrement=False),
    *_columns(Integer, *SLOT_COLUMNS),
    sqlite_with_rowid=False,
    comment="How many decisions came to the broker in every five minutes of an hour.",
)

dead_letter = Table(
    "dead_letter",
    metadata,
    *_shard(),
    Column("msg_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("item", Integer, primary_key=True, autoincrement=False),
    *_columns(Text, "reason", "field", "payload_hash"),
    Column("seen_at", BigInteger, nullable=False),
    comment="Where an unreadable event was and why; never what it said.",
)
Index("dead_letter_seen_at", dead_letter.c.seen_at)


cluster_day = Table(
    "cluster_day",
    metadata,
    *_ids("day", "population"),
    *_columns(BigInteger, "named", "largest", "served"),
    *_columns(BigInteger, "size_squares", "size_times_served", "served_squares"),
    *_columns(BigInteger, "tested", "alike", "by_chance"),
    comment="By UTC day and population: sums over all units, the largest unit, repetition.",
)


def _cohorts(name: str, comment: str) -> Table:
    """Return a table with a row per hour that was consumed, and with the counts of it."""
    return Table(
        name,
        metadata,
        *_ids("hour"),
        Column("state", Text, nullable=False),
        Column("live", Boolean, nullable=False),
        Column("consumed_at", BigInteger, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        comment=comment,
    )


cohort = _cohorts(
    "cohort", "What became of the cohort of every hour, and the counts that the detectors consumed."
)
route_cohort = _cohorts(
    "route_cohort",
    "The same of what needs no labels: hours have their turn as soon as they are closed.",
)

detector = Table(
    "detector",
    metadata,
    Column("name", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    comment="State of the detectors after the newest cohort, in named parts.",
)

probe_set = Table(
    "probe_set",
    metadata,
    Column("name", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    comment="Where each declared probe set stands; digest is the content hash of the set.",
)

crossing = Table(
    "crossing",
    metadata,
    *_ids("id"),
    Column("stream", Text, nullable=False),
    Column("hour", BigInteger, nullable=False),
    Column("live", Boolean, nullable=False),
    *_columns(BigInteger, "crossed_at", "latest"),
    *_nullable(BigInteger, "resolved_at", "began"),
    comment="Streams that crossed their limit, by event time; id is gap-free.",
)
Index(
    "crossing_standing",
    crossing.c.stream,
    unique=True,
    sqlite_where=crossing.c.resolved_at.is_(None),
    postgresql_where=crossing.c.resolved_at.is_(None),
)

incident = Table(
    "incident",
    metadata,
    *_ids("id"),
    *_columns(Text, "kind", "contract", "metric"),
    *_columns(BigInteger, "opened_at", "opened_wall"),
    *_nullable(Text, "group_by", "slice", "share", "further"),
    *_nullable(Double, "first_value", "first_lower", "first_upper"),
    *_nullable(
        BigInteger,
        "first_at",
        "began",
        "versions_changed_at",
        "settings_changed_at",
        "snapshot",
        "resolved_at",
    ),
    comment="One cause of one or more crossings, by event time; id is gap-free.",
)

incident_crossing = Table(
    "incident_crossing",
    metadata,
    *_ids("crossing"),
    Column("incident", BigInteger, nullable=False),
    comment="Which incident a crossing belongs to, for good.",
)

incident_stream = Table(
    "incident_stream",
    metadata,
    *_ids("incident"),
    Column("stream", Text, primary_key=True),
    comment="The streams of incidents that the weekly list added.",
)

incident_act = Table(
    "incident_act",
    metadata,
    *_ids("incident", "number"),
    Column("at", BigInteger, nullable=False),
    *_columns(Text, "action", "by"),
    Column("outcome", Text),
    Column("until", BigInteger),
    Column("note", Text, nullable=False),
    comment="What people said of incidents, append only; number is gap-free per incident.",
)

exclusion = Table(
    "exclusion",
    metadata,
    *_ids("id"),
    *_columns(BigInteger, "starts_at", "ends_at"),
    Column("version", Text),
    *_columns(Text, "reason", "owner"),
    Column("excluded_at", BigInteger, nullable=False),
    Column("lifted_at", BigInteger),
    comment="Known-bad data: published tables that are left out of every window.",
)

resumption = Table(
    "resumption",
    metadata,
    *_shard(),
    *_ids("epoch"),
    Column("from_offset", BigInteger),
    Column("to_offset", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("resumed_at", BigInteger, nullable=False),
    *_nullable(BigInteger, "lost_from", "lost_until"),
    comment="Offsets that a person moved a shard over after data loss, and why.",
)

contract = Table(
    "contract",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    *_columns(Text, "numbers", "record"),
    Column("recorded_at", BigInteger, nullable=False),
    comment="Every version of every contract that was ever in force.",
)

coding = Table(
    "coding",
    metadata,
    *_ids("effective_from"),
    *_columns(Text, "hash", "body"),
    comment="How decisions are coded, by the event time from which on.",
)

id_key = Table(
    "id_key",
    metadata,
    Column("id", Text, primary_key=True),
    Column("effective_from", BigInteger, nullable=False),
    Column("fingerprint", Text, nullable=False),
    comment="Keys that ids are hashed with, by the event time from which on; not the keys.",
)

snapshot = Table(
    "snapshot",
    metadata,
    *_ids("id"),
    Column("stored_at", BigInteger, nullable=False),
    Column("watermark", BigInteger),
    Column("body", LargeBinary, nullable=False),
    comment="Published Snapshots, byte for byte; id is gap-free.",
)


weekly_release = Table(
    "weekly_release",
    metadata,
    Column("week", Text, primary_key=True),
    *_ids("number"),
    *_columns(BigInteger, "as_of", "stored_at"),
    Column("body", LargeBinary, nullable=False),
    comment="Releases of closed ISO weeks; number, of the revision, is gap-free per week.",
)

calendar_layout = Table(
    "calendar_layout",
    metadata,
    Column("use_case", Text, primary_key=True),
    *_ids("starts_at"),
    *_columns(Text, "digest", "body"),
    comment="Settings of calendar tables, by the first instant of the spans they hold for.",
)

calendar_table = Table(
    "calendar_table",
    metadata,
    Column("use_case", Text, primary_key=True),
    *_ids("kind", "starts_at"),
    Column("measure", Text, primary_key=True),
    Column("edition", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("effect", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
    comment="Bands of all rows in one calendar span, never changed; kind is its length.",
)

calendar_labels = Table(
    "calendar_labels",
    metadata,
    Column("use_case", Text, primary_key=True),
    *_ids("kind", "starts_at"),
    Column("digest", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    comment="Exact label counts of a first edition, until the final one is made.",
)

bias_score = Table(
    "bias_score",
    metadata,
    Column("dimension", Text, primary_key=True),
    *_ids("day"),
    Column("score", Double, nullable=False),
    Column("items", BigInteger, nullable=False),
    *_columns(Text, "probe_set", "probe_version", "model", "rubric"),
    comment="Results of bias evaluations; day since 1970, the last one to come.",
)

release_signature = Table(
    "release_signature",
    metadata,
    Column("week", Text, primary_key=True),
    *_ids("number"),
    Column("revision", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    *_columns(Text, "by", "note"),
    comment="Who signed which revision of a Release, by its SHA-256; append only.",
)


published_contract = Table(
    "published_contract",
    metadata,
    *_published_key("contract"),
    *_columns(Text, "version", "owner"),
    Column("synthetic", Boolean, nullable=False),
    Column("k", Integer, nullable=False),
    Column("verdict_window", Text, nullable=False),
    _instant("complete_to"),
    _instant("labels_mature_to", nullable=True),
    sqlite_with_rowid=False,
    comment="Published: the contracts of a UTC day, and how far its newest publication goes.",
)

published_limit = Table(
    "published_limit",
    metadata,
    *_published_key("contract", "metric"),
    *_nullable(Double, "max_gap", "min_level", "max_level"),
    Column("min_support", Integer),
    Column("min_ratio", Double),
    sqlite_with_rowid=False,
    comment="Published: what a contract allows; NULL is not limited.",
)

published_window = Table(
    "published_window",
    metadata,
    *_published_key("contract", "window_name", "group_by", "kind"),
    _instant("starts_at"),
    _instant("ends_at"),
    *_columns(Boolean, "data_lost", "excluded"),
    sqlite_with_rowid=False,
    comment="Published: the event time that rates of a kind (decisions, labelled) are about.",
)

published_rate = Table(
    "published_rate",
    metadata,
    *_published_key("contract", "window_name", "group_by", "slice", "metric"),
    *_columns(Text, "kind", "state"),
    *_nullable(Double, *_RATE),
    Column("support", Integer),
    Column("reference", Text),
    *_nullable(Double, *_GAP),
    Column("verdict", Text),
    *_nullable(Double, "as_labelled", "completeness"),
    *_nullable(Double, *_OWN_LIMITS),
    sqlite_with_rowid=False,
    comment="Published: rates and gaps of every slice, a day a row; NULL is withheld.",
)

published_calibration = Table(
    "published_calibration",
    metadata,
    *_published_key("contract", "window_name", "group_by", "slice", "band"),
    *_nullable(Double, *_RATE),
    Column("support", Integer),
    sqlite_with_rowid=False,
    comment="Published: P(ready) of a slice by score band, a day a row; NULL is withheld.",
)

PUBLISHED = (
    published_contract,
    published_limit,
    published_window,
    published_rate,
    published_calibration,
)
"""Tables that the reporter's login may read."""

meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    comment="Facts of this store: its own id key, and settings as the last start had them.",
)
