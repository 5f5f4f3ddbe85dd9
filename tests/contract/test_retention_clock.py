"""The clock is moved far ahead: nothing older than its horizon is found in any table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from published_lesson import BOTH, T0, lesson

from monitor.core.publish.snapshot import encode
from monitor.core.time import DAY, HOUR, MINUTE, WEEK, Grain, IsoWeek, pane_of, to_micros
from monitor.id_key import BEGINNING
from monitor.records import Shard
from monitor.settings.sections import STORE_KEY
from monitor.shard_status import Tallies
from monitor.store import database as db
from monitor.store.evaluator.published_tables import write_published
from monitor.store.schema import metadata
from monitor.store.shard_rows import read_statuses
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import RetentionPolicy

HORIZON = 30 * DAY
POLICY = RetentionPolicy(
    horizon=HORIZON,
    aggregates=395 * DAY,
    dead_letters=7 * DAY,
    snapshots=395 * DAY,
    dedupe_window=HOUR,
)
NOW = T0 + 3 * 365 * DAY
YOUNG = NOW - 10 * MINUTE
DECISIONS, LABELS = Shard("decisions", 0), Shard("labels", 0)
SILENT = Shard("decisions", 1)


@dataclass(frozen=True)
class Clock:
    """How old what a table holds may be.

    Attributes:
        column: says when it was.
        kept: for how long (microseconds).
        start: instant of a value of the column.
    """

    column: str
    kept: int
    start: Callable[[Any], int] = int


def hours(pane: int) -> int:
    return int(pane) * HOUR


def days(day: date | str) -> int:
    at = date.fromisoformat(str(day))
    return to_micros(datetime(at.year, at.month, at.day, tzinfo=UTC))


def weeks(name: Any) -> int:
    return IsoWeek.named(name).start


PUBLISHED = Clock("day", 396 * DAY, days)
CLOCKS = {
    "pending": Clock("hour", HORIZON + HOUR, hours),
    "label_state": Clock("hour", HORIZON + HOUR, hours),
    "double_label": Clock("hour", HORIZON + HOUR, hours),
    "waiting_label": Clock("hour", HORIZON + HOUR, hours),
    "delta": Clock("arrived", HORIZON + MINUTE, lambda minute: int(minute) * MINUTE),
    "dead_letter": Clock("seen_at", 7 * DAY),
    "label_arrival": Clock("hour", 35 * DAY + HOUR, hours),
    "decision_arrival": Clock("hour", 35 * DAY + HOUR, hours),
    "cohort": Clock("hour", HORIZON + 8 * DAY + HOUR, hours),
    "route_cohort": Clock("hour", HORIZON + 8 * DAY + HOUR, hours),
    "cluster_day": Clock("day", HORIZON + 9 * DAY, lambda day: int(day) * DAY),
    "crossing": Clock("resolved_at", 395 * DAY),
    "incident": Clock("resolved_at", 395 * DAY),
    "incident_act": Clock("at", 395 * DAY),
    "snapshot": Clock("stored_at", 395 * DAY),
    "weekly_release": Clock("week", 396 * DAY + WEEK, weeks),
    "release_signature": Clock("week", 396 * DAY + WEEK, weeks),
    "bias_score": Clock("day", 396 * DAY, lambda day: int(day) * DAY),
    "calendar_table": Clock("starts_at", HORIZON + 35 * DAY + HOUR),
    "calendar_labels": Clock("starts_at", HORIZON + 35 * DAY),
    **dict.fromkeys(
        (
            *("published_contract", "published_limit", "published_window"),
            *("published_rate", "published_calibration"),
        ),
        PUBLISHED,
    ),
}
PANES = {Grain.HOUR: HORIZON + 8 * DAY, Grain.DAY: 395 * DAY, Grain.WEEK: 395 * DAY}
"""How long counts are kept, by grain."""
OF_NO_EVENT = {
    *("ownership", "lease", "fold_cursor"),  # where things stand: always of now
    *("atom", "version", "cell"),  # names from the allow-lists and of the router's versions
    "calendar_layout",  # settings of tables
    *("coding", "contract"),  # settings
    *("exclusion", "resumption"),  # what people declared
    *("incident_crossing", "incident_stream"),  # which rows belong together: they go with them
    "detector",  # where the detectors stand; their evidence is of sums
    "probe_set",  # where declared sets stand: their requests are synthetic, of nobody
    "id_key",  # fingerprints, as long as the settings have the key; the store's own key goes
    "meta",
}


def insert(connection: sa.Connection, table: str, **values: Any) -> None:
    """A row with zeros and empty texts where nothing is said."""
    full = {
        column.name: values.get(column.name, "" if isinstance(column.type, sa.Text) else 0)
        for column in metadata.tables[table].columns
    }
    booleans = {c.name for c in metadata.tables[table].columns if isinstance(c.type, sa.Boolean)}
    full |= {name: bool(full[name]) for name in booleans}
    binary = {c.name for c in metadata.tables[table].columns if isinstance(c.type, sa.LargeBinary)}
    full |= {name: full[name] or b"x" for name in binary}
    connection.execute(sa.insert(metadata.tables[table]), full)


def at(shard: Shard) -> dict[str, Any]:
    return {"topic": shard.topic, "part": shard.partition}


def fill(engine: sa.Engine) -> None:
    """Everything that a store can hold: of then, and of now."""
    tallies = msgspec.json.encode(Tallies(events=2, waiting=2)).decode()
    none = msgspec.json.encode(Tallies()).decode()
    with db.writing(engine) as connection:
        for shard in (DECISIONS, LABELS, SILENT):
            newest = T0 if shard == SILENT else NOW
            row = {"watermark": NOW, "max_decided_at": newest, "next_offset": 2, "epoch": 1}
            held = tallies if shard == LABELS else none
            insert(
                connection,
                "ownership",
                **at(shard),
                **row,
                tallies=held,
                holds_back=True,
                retired_at=None,
            )
            insert(connection, "fold_cursor", **at(shard), seq=99)
        for number, moment in enumerate((T0, YOUNG)):
            hour, minute = pane_of(moment, Grain.HOUR), moment // MINUTE
            for table in ("pending", "label_state", "double_label"):
                insert(connection, table, hour=hour, id=number)
            insert(connection, "label_arrival", **at(LABELS), hour=hour)
            insert(connection, "decision_arrival", **at(DECISIONS), hour=hour)
            insert(connection, "waiting_label", **at(LABELS), hour=hour, id=number, ts=moment)
            for shard in (DECISIONS, SILENT):
                insert(connection, "delta", **at(shard), seq=number + 1, arrived=minute)
            insert(connection, "delta", **at(LABELS), seq=number + 1, arrived=None)
            letter = {"msg_offset": number, "seen_at": moment}
            insert(connection, "dead_letter", **at(DECISIONS), **letter)
            for grain in PANES:
                insert(connection, "counts", grain=int(grain), pane=pane_of(moment, grain))
            insert(connection, "cohort", hour=hour)
            insert(connection, "route_cohort", hour=hour)
            week = {"week": IsoWeek.containing(moment).name, "number": 1}
            insert(connection, "weekly_release", **week)
            insert(connection, "release_signature", **week)
            insert(connection, "bias_score", dimension="refusals", day=moment // DAY)
            for table in ("calendar_table", "calendar_labels"):
                insert(connection, table, kind=HOUR, starts_at=moment)
            insert(connection, "cluster_day", day=moment // DAY)
            insert(connection, "crossing", id=number + 1, stream=str(number), resolved_at=moment)
            link = {"incident": number + 1}
            insert(connection, "incident", id=number + 1, resolved_at=moment)
            insert(connection, "incident_act", **link, number=1, at=moment)
            insert(connection, "incident_crossing", **link, crossing=number + 1)
            insert(connection, "incident_stream", **link, stream=str(number))
            body = encode(lesson(*BOTH, at=moment))
            insert(connection, "snapshot", id=number + 1, stored_at=moment, body=body)
            write_published(connection, lesson(*BOTH, at=moment))
        insert(connection, "id_key", id=STORE_KEY, effective_from=BEGINNING)
        insert(connection, "id_key", id="mine", effective_from=T0 + DAY)
        insert(connection, "meta", name="id_key", value="00" * 32)
        for table in ("exclusion", "contract", "coding", "resumption"):
            insert(connection, table)
        insert(connection, "detector")


def rows(engine: sa.Engine, table: str) -> list[dict[str, Any]]:
    with db.reading(engine) as connection:
        found = connection.execute(sa.select(metadata.tables[table])).mappings()
        return [dict(row) for row in found]


def oldest(engine: sa.Engine, table: str) -> int | None:
    clock = CLOCKS[table]
    instants = [row[clock.column] for row in rows(engine, table)]
    return min((clock.start(one) for one in instants if one is not None), default=None)


def test_every_table_has_a_horizon_or_is_of_no_event() -> None:
    timed = {*CLOCKS, "counts"}
    assert set(metadata.tables) == timed | OF_NO_EVENT
    assert not timed & OF_NO_EVENT


def test_nothing_older_than_its_horizon_is_found_anywhere(engine: sa.Engine) -> None:
    fill(engine)
    before = {table: oldest(engine, table) for table in CLOCKS}
    assert all(first is not None and first <= T0 for first in before.values())

    for _ in range(2):  # a label that stands goes with the run after its decision's
        retention.apply(engine, POLICY, NOW, NOW)

    for table, clock in CLOCKS.items():
        first = oldest(engine, table)
        assert first is not None, f"{table}: what is young stays"
        assert first >= NOW - clock.kept, table
    for grain, kept in PANES.items():
        (pane,) = (row["pane"] for row in rows(engine, "counts") if row["grain"] == grain)
        assert pane >= pane_of(NOW - kept, grain), grain


def test_a_label_that_waited_beyond_the_horizon_is_unmatched(engine: sa.Engine) -> None:
    """Its partition has nobody, so nobody settles it; the books still balance."""
    fill(engine)
    retention.apply(engine, POLICY, NOW, NOW)
    (left,) = rows(engine, "waiting_label")
    assert left["hour"] == pane_of(YOUNG, Grain.HOUR)
    (status,) = (s for s in read_statuses(engine) if s.shard == LABELS)
    assert (status.tallies.waiting, status.tallies.unmatched) == (1, {"no_decision": 1})
    assert status.tallies.balance == 0
    assert status.epoch == 2, "whoever had other totals in memory claims it anew"


def test_labels_that_wait_within_the_horizon_fence_nobody(engine: sa.Engine) -> None:
    fill(engine)
    retention.apply(engine, POLICY, T0 + HORIZON, NOW)
    assert len(rows(engine, "waiting_label")) == 2
    assert {status.epoch for status in read_statuses(engine)} == {1}


def test_the_ids_of_a_silent_partition_go_with_the_others(engine: sa.Engine) -> None:
    fill(engine)
    retention.apply(engine, POLICY, NOW, NOW)
    left = {(row["part"], row["arrived"]) for row in rows(engine, "delta")}
    assert left == {(part, YOUNG // MINUTE) for part in (0, 1)}


def test_tables_are_kept_as_long_as_windows_and_weekly_reports_need_them(engine: sa.Engine) -> None:
    """Labels may be a horizon late, and a window of four weeks ends with the newest of them."""
    ends = {
        HOUR: NOW - HORIZON - 35 * DAY,
        DAY: NOW - HORIZON - 35 * DAY,
        WEEK: NOW - 395 * DAY,
        4 * WEEK: NOW - 395 * DAY,
    }
    with db.writing(engine) as connection:
        for kind, end in ends.items():
            for at in (end - kind - 1, end - kind, NOW - kind):
                insert(connection, "calendar_table", kind=kind, starts_at=at)
    retention.apply(engine, POLICY, NOW, NOW)
    kept = sorted((row["kind"], row["starts_at"]) for row in rows(engine, "calendar_table"))
    assert kept == [(kind, at - kind) for kind, end in ends.items() for at in (end, NOW)]


def test_the_newest_table_of_each_kind_stays_whatever_its_age(engine: sa.Engine) -> None:
    """After it the next is made: no span may be published twice."""
    keys = [(name, kind) for name in ("a", "b") for kind in (HOUR, DAY, WEEK, 4 * WEEK)]
    with db.writing(engine) as connection:
        for name, kind in keys:
            for at in (T0, T0 + kind):
                insert(connection, "calendar_table", use_case=name, kind=kind, starts_at=at)
    retention.apply(engine, POLICY, NOW, NOW)
    kept = [
        (row["use_case"], row["kind"], row["starts_at"]) for row in rows(engine, "calendar_table")
    ]
    assert sorted(kept) == [(name, kind, T0 + kind) for name, kind in keys]


def test_the_store_s_own_key_is_destroyed_with_what_it_hashed(engine: sa.Engine) -> None:
    fill(engine)
    retention.apply(engine, POLICY, NOW, NOW)
    retention.apply(engine, POLICY, NOW, NOW)
    assert [row["id"] for row in rows(engine, "id_key")] == ["mine"]
    assert "id_key" not in {row["name"] for row in rows(engine, "meta")}


def test_what_is_published_is_kept_for_as_long_as_snapshots(engine: sa.Engine) -> None:
    fill(engine)
    retention.apply(engine, POLICY, T0 + POLICY.snapshots, NOW)
    assert len({row["day"] for row in rows(engine, "published_rate")}) == 2
    retention.apply(engine, POLICY, T0 + POLICY.snapshots + DAY, NOW)
    assert len({row["day"] for row in rows(engine, "published_rate")}) == 1
