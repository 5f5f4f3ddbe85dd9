"""The published tables say what the Snapshot says: all of it, nothing else, the newest of a day."""

from __future__ import annotations

import json
import re
from collections import Counter as Counted
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from cubes import contract as contract_of
from id_keys import WITH_KEY
from published_lesson import BOTH, T0, full, hidden, lesson

import monitor
from monitor.core.contract import GroupBy, OwnLimits
from monitor.core.metric import Metric
from monitor.core.publish.calendar_contract import own_limits
from monitor.core.publish.snapshot import LimitKind, OwnLimit, SliceRow, Snapshot, decode, encode
from monitor.core.time import DAY, HOUR
from monitor.settings import contract_numbers, contract_record, load
from monitor.settings.sections import GroupBySettings, OwnLimitSettings
from monitor.store import bulk
from monitor.store import database as db
from monitor.store.evaluator import published_values
from monitor.store.evaluator import store as evaluator_store
from monitor.store.evaluator.published_tables import delete_before, write_published
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.schema import PUBLISHED, contract, metadata, snapshot

TODAY = date(2024, 10, 4)
SOURCES = Path(monitor.__file__).parents[1]
QUICKSTART = Path(__file__).parents[2] / "deploy" / "examples" / "quickstart.toml"


def publish(engine: sa.Engine, snapshot: Snapshot) -> None:
    with db.writing(engine) as connection:
        write_published(connection, snapshot)


def read(engine: sa.Engine, name: str) -> list[dict[str, Any]]:
    table = metadata.tables[name]
    with db.reading(engine) as connection:
        found = connection.execute(sa.select(table).order_by(*table.primary_key)).mappings()
        return [dict(row) for row in found]


def everything(engine: sa.Engine) -> dict[str, list[dict[str, Any]]]:
    return {table.name: read(engine, table.name) for table in PUBLISHED}


def rate(engine: sa.Engine, name: str, metric: Metric) -> dict[str, Any]:
    rows = read(engine, "published_rate")
    (found,) = (row for row in rows if (row["slice"], row["metric"]) == (name, metric))
    return found


def numbers(value: Any) -> Counted[float]:
    """All numbers below a value that are shares, bounds or supports, and how often each."""
    if isinstance(value, Mapping):
        return sum(map(numbers, value.values()), Counted())
    if isinstance(value, list | tuple):
        return sum(map(numbers, value), Counted())
    counts = isinstance(value, int | float) and not isinstance(value, bool)
    return Counted([float(value)]) if counts else Counted()


def test_every_metric_of_every_slice_is_a_row(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH))
    rows = read(engine, "published_rate")
    assert [(row["group_by"], row["slice"], row["metric"]) for row in rows] == [
        (group, name, metric)
        for group, name in (("", ""), ("channel", "channel=chat"), ("channel", "channel=email"))
        for metric in sorted(Metric)
    ]
    assert {(row["day"], row["contract"], row["window_name"]) for row in rows} == {
        (TODAY, "lesson", "7d")
    }


def test_a_row_says_what_the_slice_says(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH))
    found = rate(engine, "channel=chat", Metric.TPR)
    key = ("day", "contract", "window_name", "group_by", "slice", "metric")
    assert {name: value for name, value in found.items() if name not in key} == {
        "kind": "labelled",
        "state": "inconclusive",
        **{"value": 0.83, "lower": 0.43, "upper": 0.98, "at_least": None, "at_most": None},
        **{"support": 26, "reference": "channel=chat"},
        **{"gap": 0.33, "gap_lower": -0.1, "gap_upper": 0.7},
        **{"ratio": 0.6, "ratio_lower": 0.2, "ratio_upper": 1.1},
        "verdict": "insufficient_support",
        **{"as_labelled": 0.17, "completeness": 0.98},
        **dict.fromkeys(("own_max_gap", "own_min_ratio", "own_min_level", "own_max_level")),
    }
    selection = rate(engine, "channel=chat", Metric.SELECTION)
    assert (selection["kind"], selection["completeness"]) == ("decisions", None)
    assert (selection["value"], selection["at_least"], selection["support"]) == (None, 0.97, 41)
    assert rate(engine, "channel=chat", Metric.BLOCKED)["at_most"] == 0.03


def test_what_is_withheld_is_null(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH))
    for metric in Metric:
        found = rate(engine, "channel=email", metric)
        told = {name for name, value in found.items() if value is not None}
        key = {"day", "contract", "window_name", "group_by", "slice", "metric"}
        assert told == {*key, "kind", "state"}
        assert found["state"] == "suppressed"


def test_calibration_by_band(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH))
    rows = [r for r in read(engine, "published_calibration") if r["slice"] == "channel=chat"]
    told = [(row["band"], row["value"], row["lower"], row["support"]) for row in rows]
    assert told == [("below 0.70", 0.83, 0.43, 26), ("no score", None, None, None)]


def instant(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def test_windows_contracts_and_limits(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH))
    windows = read(engine, "published_window")
    assert [
        (w["group_by"], w["kind"], instant(w["starts_at"]), instant(w["ends_at"]),
         w["data_lost"], w["excluded"])
        for w in windows
    ] == [
        ("", "decisions", datetime(2024, 9, 27, 9, tzinfo=UTC),
         datetime(2024, 10, 4, 9, tzinfo=UTC), True, False),
        ("channel", "decisions", datetime(2024, 9, 27, 9, tzinfo=UTC),
         datetime(2024, 10, 4, 9, tzinfo=UTC), True, False),
        ("channel", "labelled", datetime(2024, 9, 25, 9, tzinfo=UTC),
         datetime(2024, 10, 4, 9, tzinfo=UTC), False, True),
    ]  # fmt: skip
    (contract,) = read(engine, "published_contract")
    instants = [instant(contract.pop(name)) for name in ("complete_to", "labels_mature_to")]
    assert instants == [datetime(2024, 10, 4, hour, tzinfo=UTC) for hour in (9, 8)]
    assert contract == {
        **{"day": TODAY, "contract": "lesson", "version": "3", "owner": "triage team"},
        **{"synthetic": True, "k": 11, "verdict_window": "7d"},
    }
    limits = read(engine, "published_limit")
    assert [tuple(row.values())[1:] for row in limits] == [
        ("lesson", "fpr", 0.2, None, 0.3, 30, None),
        ("lesson", "tpr", 0.1, 0.6, None, 50, None),
    ]


def test_a_slice_has_its_own_limits_beside_its_rates(engine: sa.Engine) -> None:
    """Those of its group-by where it has none; the total has the contract's alone."""
    shown = lesson(*BOTH)
    own = (
        OwnLimit("channel", "", Metric.TPR, LimitKind.MAX_GAP, 0.3),
        OwnLimit("channel", "channel=chat", Metric.TPR, LimitKind.MAX_GAP, 0.05),
        OwnLimit("channel", "channel=chat", Metric.SELECTION, LimitKind.MIN_RATIO, 0.9),
        OwnLimit("channel", "channel=email", Metric.FPR, LimitKind.MAX_LEVEL, 0.4),
        OwnLimit("region", "", Metric.TPR, LimitKind.MIN_LEVEL, 0.7),
    )
    contract = replace(shown.contracts[0], own_limits=own)
    publish(engine, replace(shown, contracts=(contract,)))
    names = ("own_max_gap", "own_min_ratio", "own_min_level", "own_max_level")
    found = {
        (row["slice"], row["metric"]): tuple(row[name] for name in names)
        for row in read(engine, "published_rate")
        if any(row[name] is not None for name in names)
    }
    assert found == {
        ("channel=chat", "tpr"): (0.05, None, None, None),
        ("channel=email", "tpr"): (0.3, None, None, None),
        ("channel=chat", "selection"): (None, 0.9, None, None),
        ("channel=email", "fpr"): (None, None, None, 0.4),
    }


def test_every_number_is_the_snapshots(engine: sa.Engine) -> None:
    """Neither more nor less: as often as the Snapshot shows it, but for what repeats by metric."""
    rows = (full("channel=a", 0.5), full("channel=b", 0.75), hidden("channel=c"))
    shown = lesson(*rows)
    publish(engine, shown)
    stored = numbers(list(everything(engine).values()))
    slices = (shown.contracts[0].windows[0].total, *rows)
    labelled = sum(metric.labelled for metric in Metric)
    expected = sum((_numbers_of(row, labelled) for row in slices), Counted[float]())
    assert stored == expected + numbers([0.1, 0.2, 0.6, 0.3, 50, 30, 11])


def _numbers_of(row: SliceRow, labelled: int) -> Counted[float]:
    plain = msgspec.to_builtins((row.rates, row.gaps, row.as_labelled, row.calibration))
    completeness = [] if row.completeness is None else [row.completeness] * labelled
    return numbers(plain) + numbers(completeness)


def test_the_newest_of_a_day_replaces_what_was_there(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH, full("channel=gone")))
    later = lesson(hidden("channel=chat"), full("channel=new"), at=T0 + 2 * HOUR)
    publish(engine, later)
    twice = everything(engine)
    assert {row["slice"] for row in twice["published_rate"]} == {"", "channel=chat", "channel=new"}
    assert rate(engine, "channel=chat", Metric.TPR)["value"] is None
    with db.writing(engine) as connection:
        for table in PUBLISHED:
            connection.execute(sa.delete(table))
    publish(engine, later)
    assert everything(engine) == twice, "as if it had been the only one"


def test_another_day_is_kept_beside_it(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH))
    first = everything(engine)
    publish(engine, lesson(*BOTH, at=T0 + DAY))
    both = everything(engine)
    for name, rows in first.items():
        assert [row for row in both[name] if row["day"] == TODAY] == rows
        assert len(both[name]) == 2 * len(rows)


def test_what_stays_the_same_is_not_written_again(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH))
    written: list[int] = []

    def tell(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("INSERT", "DELETE", "UPDATE")):
            written.append(cursor.rowcount)

    sa.event.listen(engine, "after_cursor_execute", tell)
    publish(engine, lesson(*BOTH))
    assert sum(written) == 0
    publish(engine, lesson(full("channel=chat", 0.5), hidden("channel=email")))
    labelled = sum(metric.labelled for metric in Metric)
    assert sum(written) == labelled, "completeness stands beside every labelled rate"


def test_before_the_first_watermark_nothing_is_published(engine: sa.Engine) -> None:
    publish(engine, replace(lesson(*BOTH), watermark=None))
    assert not any(everything(engine).values())


def test_a_contract_without_windows_is_published(engine: sa.Engine) -> None:
    shown = lesson()
    table = replace(shown.contracts[0], windows=(), max_gaps={}, min_levels={}, max_levels={})
    publish(engine, Snapshot(T0, None, (replace(table, min_supports={}),)))
    found = everything(engine)
    assert {name for name, rows in found.items() if rows} == {"published_contract"}
    assert found["published_contract"][0]["labels_mature_to"] is None


def fail_after_writing(engine: sa.Engine) -> None:
    with db.writing(engine) as connection:
        write_published(connection, lesson(*BOTH))
        raise ZeroDivisionError


def test_a_failed_publication_leaves_no_row(engine: sa.Engine) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_after_writing(engine)
    assert not any(everything(engine).values())


def test_days_past_their_time_are_deleted_whole(engine: sa.Engine) -> None:
    for days in range(4):
        publish(engine, lesson(*BOTH, at=T0 + days * DAY))
    before = everything(engine)
    delete_before(engine, T0 - T0 % DAY)
    assert everything(engine) == before, "a day goes once all of it is past its time"
    delete_before(engine, T0 + 2 * DAY + 5 * HOUR)
    for name, rows in everything(engine).items():
        assert rows == [row for row in before[name] if row["day"] >= date(2024, 10, 6)]
        assert rows
    delete_before(engine, T0 + 9 * DAY)
    assert not any(everything(engine).values())


def test_each_day_goes_in_a_transaction_of_its_own(engine: sa.Engine) -> None:
    for days in range(3):
        publish(engine, lesson(*BOTH, at=T0 + days * DAY))
    days_of: list[set[Any]] = [set()]

    def tell(_: Any, cursor: Any, statement: str, parameters: Any, *more: Any) -> None:
        if statement.startswith("DELETE"):
            values = parameters.values() if isinstance(parameters, dict) else parameters
            days_of[-1] |= {str(value) for value in values}

    sa.event.listen(engine, "before_cursor_execute", tell)
    sa.event.listen(engine, "commit", lambda _: days_of.append(set()))
    delete_before(engine, T0 + 9 * DAY)
    assert [days for days in days_of if days] == [
        {"2024-10-04"}, {"2024-10-05"}, {"2024-10-06"}
    ]  # fmt: skip


# Nothing is sent twice


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Rows that were sent to the database, by table."""
    rows: dict[str, int] = {}
    real = bulk.insert

    def insert(connection: sa.Connection, table: sa.Table, columns: Any, *more: Any) -> int:
        rows[table.name] = rows.get(table.name, 0) + len(next(iter(columns.values())))
        return real(connection, table, columns, *more)

    monkeypatch.setattr(bulk, "insert", insert)
    return rows


class Cycles:
    """Commits of one evaluator after the other."""

    def __init__(self, engine: sa.Engine, sent: dict[str, int]) -> None:
        self.engine, self.store, self._sent = engine, EvaluatorStore(engine, "decisions"), sent

    def publish(self, snapshot: Snapshot, owner: str = "me") -> dict[str, int]:
        """Rows that were sent to the published tables."""
        epoch = self.store.lease.acquire(owner, DAY)
        assert epoch is not None
        self._sent.clear()
        self.store.commit(epoch, Cycle(snapshot=snapshot), T0)
        return {table.name: self._sent.get(table.name, 0) for table in PUBLISHED}

    def shows(self, snapshot: Snapshot) -> bool:
        """The tables show what a first publication of it would make them show."""
        found = everything(self.engine)
        with db.writing(self.engine) as connection:
            for table in PUBLISHED:
                connection.execute(sa.delete(table))
            write_published(connection, snapshot)
        return found == everything(self.engine)


@pytest.fixture
def cycles(engine: sa.Engine, sent: dict[str, int]) -> Cycles:
    return Cycles(engine, sent)


def test_only_what_differs_from_the_last_cycle_is_sent(cycles: Cycles) -> None:
    first = cycles.publish(lesson(*BOTH))
    assert all(first[name] for name in ("published_contract", "published_window", "published_rate"))
    assert not any(cycles.publish(lesson(*BOTH)).values())
    later = cycles.publish(lesson(*BOTH, at=T0 + HOUR))
    assert later["published_contract"] == 1
    more = cycles.publish(lesson(*BOTH, full("channel=phone"), at=T0 + HOUR))
    assert more["published_contract"] == 0
    assert 0 < more["published_rate"] < first["published_rate"]
    fewer = cycles.publish(lesson(BOTH[0], at=T0 + HOUR))
    assert not fewer["published_rate"], "rows that go are deleted, and nothing else is touched"
    assert cycles.shows(lesson(BOTH[0], at=T0 + HOUR))


@pytest.mark.parametrize("slices", [BOTH, BOTH[:1], (*BOTH, full("channel=phone"))])
@pytest.mark.parametrize("later", [DAY, 3 * DAY, -DAY])
def test_a_new_day_is_a_copy_of_the_last_one_and_what_differs(
    cycles: Cycles, slices: tuple[SliceRow, ...], later: int
) -> None:
    first = cycles.publish(lesson(*BOTH))
    known = everything(cycles.engine)
    sent = cycles.publish(lesson(*slices, at=T0 + later))
    assert sent["published_contract"] == 1
    assert sent["published_rate"] < first["published_rate"]
    found = everything(cycles.engine)
    assert {name: [r for r in rows if r["day"] == TODAY] for name, rows in found.items()} == known
    with db.writing(cycles.engine) as connection:
        for table in PUBLISHED:
            connection.execute(sa.delete(table).where(table.c.day != TODAY))
        write_published(connection, lesson(*slices, at=T0 + later))
    assert found == everything(cycles.engine)


def test_a_new_day_is_sent_whole_where_rows_of_the_last_one_are_missing(cycles: Cycles) -> None:
    first = cycles.publish(lesson(*BOTH))
    with db.writing(cycles.engine) as connection:
        connection.execute(sa.delete(metadata.tables["published_calibration"]))
    assert cycles.publish(lesson(*BOTH, at=T0 + DAY)) == first
    assert len(read(cycles.engine, "published_calibration")) == first["published_calibration"]


def test_rows_of_a_day_that_comes_again_go(cycles: Cycles) -> None:
    cycles.publish(lesson(*BOTH, full("channel=phone")))
    cycles.publish(lesson(*BOTH, at=T0 + DAY))
    cycles.publish(lesson(*BOTH))
    rows = [row for row in read(cycles.engine, "published_rate") if row["day"] == TODAY]
    assert rows
    assert "channel=phone" not in {row["slice"] for row in rows}


def test_after_a_restart_or_another_evaluator_everything_is_sent_once(cycles: Cycles) -> None:
    first = cycles.publish(lesson(*BOTH))
    old, cycles.store = cycles.store, EvaluatorStore(cycles.engine, "decisions")
    assert cycles.publish(lesson(*BOTH)) == first
    assert not any(cycles.publish(lesson(*BOTH)).values())
    cycles.store.lease.release("me")
    cycles.publish(lesson(BOTH[0]), "other")
    cycles.store.lease.release("other")
    cycles.store = old
    assert cycles.publish(lesson(*BOTH)) == first
    assert cycles.shows(lesson(*BOTH))


def test_after_a_restore_of_the_database_everything_is_sent_once(cycles: Cycles) -> None:
    first = cycles.publish(lesson(*BOTH))
    cycles.publish(lesson(BOTH[0]))
    with db.writing(cycles.engine) as connection:  # back to the first Snapshot
        connection.execute(sa.delete(snapshot).where(snapshot.c.id == 2))
        write_published(connection, lesson(*BOTH))
    assert cycles.publish(lesson(BOTH[0]))["published_rate"] > 0
    assert cycles.shows(lesson(BOTH[0]))
    assert first["published_rate"] > 0


def test_a_cycle_that_failed_is_not_taken_for_published(
    cycles: Cycles, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles.publish(lesson(*BOTH))
    real = db.writing

    @contextmanager
    def failing(engine: sa.Engine) -> Iterator[sa.Connection]:
        with real(engine) as connection:
            yield connection
            raise ZeroDivisionError

    monkeypatch.setattr(evaluator_store, "writing", failing)
    with pytest.raises(ZeroDivisionError):
        cycles.publish(lesson(BOTH[0]))
    monkeypatch.setattr(evaluator_store, "writing", real)
    cycles.publish(lesson(BOTH[0]))
    assert cycles.shows(lesson(BOTH[0]))


# What is forgotten


def forget(engine: sa.Engine, *listed: tuple[str, str | None]) -> None:
    with db.writing(engine) as connection:
        published_values.forget_published(connection, listed)


def test_a_forgotten_attribute_goes_as_the_snapshot_loses_it(engine: sa.Engine) -> None:
    _same_as_the_snapshot(engine, ("channel", None))
    assert {row["group_by"] for row in read(engine, "published_rate")} == {""}


def test_a_forgotten_value_goes_with_what_was_compared_with_it(engine: sa.Engine) -> None:
    _same_as_the_snapshot(engine, ("channel", "chat"))
    compared = rate(engine, "channel=phone", Metric.TPR)
    assert (compared["value"], compared["reference"], compared["gap"]) == (0.83, None, None)
    assert (compared["verdict"], compared["ratio_upper"]) == (None, None)
    assert rate(engine, "channel=phone", Metric.FPR)["reference"] == "complement"
    assert "chat" not in repr(everything(engine))


OWN = (
    OwnLimits("channel", "", (("max_fpr", Fraction("0.2")),)),
    OwnLimits("channel", "channel=chat", (("max_tpr_gap", Fraction("0.05")),)),
    OwnLimits("region", "", (("min_tpr", Fraction("0.5")),)),
)


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        (("channel", "chat"), [("channel", ""), ("region", "")]),
        (("channel", None), [("region", "")]),
        (("region", "north"), [(own.group_by, own.slice) for own in OWN]),
    ],
)
def test_limits_of_what_is_forgotten_go_from_snapshots_and_contracts(
    engine: sa.Engine, listed: tuple[str, str | None], left: list[tuple[str, str]]
) -> None:
    groups = GroupBy(("channel",)), GroupBy(("region",))
    made = replace(contract_of(*groups), own_limits=OWN)
    shown = lesson(*BOTH)
    (table,) = shown.contracts
    told = replace(table, own_limits=tuple(own_limits(made)))
    use_case = load(QUICKSTART, WITH_KEY).use_case[0]
    own = tuple(
        OwnLimitSettings(group_by=(one.group_by,), slice=one.slice, **dict(one.limits))
        for one in OWN
    )
    use_case = msgspec.structs.replace(
        use_case,
        group_bys=tuple(GroupBySettings(attributes=group.attributes) for group in groups),
        limit=own,
    )
    with db.writing(engine) as connection:
        body = encode(replace(shown, contracts=(told,)))
        row = {"id": 1, "stored_at": T0, "watermark": T0, "body": body}
        connection.execute(sa.insert(snapshot).values(row))
        version = {"numbers": contract_numbers(use_case), "record": contract_record(use_case)}
        connection.execute(
            sa.insert(contract).values(name="lesson", version="3", recorded_at=T0, **version)
        )
    forget(engine, listed)
    with db.reading(engine) as connection:
        (kept,) = decode(connection.execute(sa.select(snapshot.c.body)).scalar_one()).contracts
        found = connection.execute(sa.select(contract.c.numbers, contract.c.record)).one()
    assert [(one.group_by, one.slice) for one in kept.own_limits] == left
    numbers, record = json.loads(found.numbers), json.loads(found.record)
    assert [(name, text) for name, text, _ in numbers["own_limits"]] == left
    assert [("+".join(one["group_by"]), one["slice"]) for one in record["limit"]] == left


def _same_as_the_snapshot(engine: sa.Engine, *listed: tuple[str, str | None]) -> None:
    """Forgetting and then publishing what is left of the Snapshot changes nothing more."""
    shown = lesson(*BOTH, full("channel=phone"))
    with db.writing(engine) as connection:
        write_published(connection, shown)
        row = {"id": 1, "stored_at": T0, "watermark": T0, "body": encode(shown)}
        connection.execute(sa.insert(snapshot).values(row))
    before = everything(engine)
    forget(engine, *listed)
    found = everything(engine)
    assert found != before
    with db.reading(engine) as connection:
        body = connection.execute(sa.select(snapshot.c.body)).scalar_one()
    publish(engine, decode(body))
    assert everything(engine) == found


def test_nothing_forgotten_changes_nothing(engine: sa.Engine) -> None:
    publish(engine, lesson(*BOTH))
    before = everything(engine)
    forget(engine, ("region", None), ("channel", "phone"))
    assert everything(engine) == before


# Who writes


def test_no_other_module_that_can_write_names_these_tables() -> None:
    """All that gets in comes through ``write_published``, which takes a Snapshot and nothing."""
    names = re.compile("|".join([*(table.name for table in PUBLISHED), r"\bPUBLISHED\b"]))
    database = re.compile(r"sqlalchemy|alembic|monitor\.store|psycopg|sqlite3")
    packages = [SOURCES / name for name in ("monitor", "consumers", "alerts")]
    texts = {path: path.read_text() for one in packages for path in one.rglob("*.py")}
    writers = {path for path, text in texts.items() if names.search(text) and database.search(text)}
    store = SOURCES / "monitor" / "store"
    assert len(texts) > 200
    assert writers == {
        store / "schema.py",
        store / "evaluator" / "published_tables.py",
        store / "upkeep" / "published_reader.py",  # selects alone
    }


def test_every_published_table_is_among_them() -> None:
    named = {name for name in metadata.tables if name.startswith("published")}
    assert {table.name for table in PUBLISHED} == named
