"""What ingest and the evaluator may rely on, whatever the database.

The fixture ``url`` is the list of databases: another one joins by a parameter.
"""

from __future__ import annotations

import traceback
from collections import Counter as Counted
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from set_clock import SetClock
from stored import sum_counts

from monitor.core.counts.cells import Counter, PaneCounts, Route, Stratum
from monitor.core.counts.completeness import CohortState
from monitor.core.counts.labels import LabelColumns
from monitor.core.publish.snapshot import Snapshot, decode, encode
from monitor.core.tables.settings import TableSettings
from monitor.core.time import DAY, HOUR, MINUTE, Grain, pane_of
from monitor.errors import FencedError, StoreError
from monitor.flushes import DeadLetter, DecisionColumns, Dictionary, LabelRequest, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Claim, Tallies
from monitor.store import database as db
from monitor.store.codings import fence_all
from monitor.store.erasure import forget
from monitor.store.evaluator import published_values
from monitor.store.evaluator.calendar_tables import CalendarChange, Era
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.evaluator.stored_detection import Crossing, DetectionChange, FrozenCohort
from monitor.store.ingest import ingest_store as ingest
from monitor.store.ingest import join
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.schema import metadata
from monitor.store.shard_rows import read_statuses, resume_from
from monitor.store.upkeep import recode, retention
from monitor.store.upkeep.retention_guard import RetentionPolicy

D0, D1 = Shard("decisions", 0), Shard("decisions", 1)
L0, L1 = Shard("labels", 0), Shard("labels", 1)
T0 = 500_000 * HOUR
SHARD = {"topic": "decisions", "part": 0}
CELL = 77
SETTINGS = TableSettings((), (), (), 1)
STRATUM = Stratum(Route.HUMAN_REVIEW, 0, 0).code
SNAPSHOT = Snapshot(T0, T0, ())
DICTIONARY = Dictionary({1: "channel=chat"}, {2: "v"}, {CELL: (1, 2, STRATUM)})


@pytest.fixture
def store(engine: sa.Engine) -> IngestStore:
    store = IngestStore(engine, "decisions", SetClock(10 * DAY))
    store.register([D0, D1, L0, L1])
    return store


@pytest.fixture
def evaluator(engine: sa.Engine) -> EvaluatorStore:
    return EvaluatorStore(engine, "decisions")


def begin(store: IngestStore, shard: Shard, owner: str = "one") -> Claim:
    (claim,) = store.claim([shard], owner)
    if claim.next_offset is None:
        store.start(claim, 0)
        return replace(claim, next_offset=0, start_offset=0)
    return claim


def decisions(ids: list[int], at: int = T0, kept: bool = True) -> DecisionColumns:
    n = len(ids)

    def same(value: int) -> Any:
        return np.full(n, value, np.int64)

    return DecisionColumns(
        ids=np.array(ids, np.int64),
        ts=same(at),
        cells=same(CELL),
        request=np.full(n, LabelRequest.KEPT if kept else LabelRequest.THINNED),
        routes=same(1),
        arrivals=same(at // MINUTE),
        keys=np.array(ids, np.int64) * 3,
    )


def labels(rows: list[tuple[int, int, int]], at: int = T0, complaint: int = 0) -> LabelColumns:
    """Rows of (decision id, revision, ready)."""
    return LabelColumns.from_rows(
        [
            (key, at, complaint, 0, revision, at + HOUR, key * 10 + revision, ready, 0, 1)
            for key, revision, ready in rows
        ]
    )


def flush(claim: Claim, end: int, **more: Any) -> ShardFlush:
    start = claim.next_offset or 0
    events = sum(len(part) for part in (more.get("labels"), more.get("dead_letters")) if part)
    counted = len(more["decisions"].ts) if more.get("decisions") else 0
    tallies = Tallies(messages=end - start, events=events + counted, counted=counted)
    defaults = {"max_decided_at": T0, "watermark": T0, "holds_back": True,
                "tallies": tallies}  # fmt: skip
    return ShardFlush(
        shard=claim.shard,
        epoch=claim.epoch,
        expected_offset=start,
        next_offset=end,
        **{**defaults, **more},
    )


def rows(engine: sa.Engine, table: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(f"SELECT * FROM {table}"))]


def everything(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    return {table.name: sorted(rows(engine, table.name), key=repr) for table in
            metadata.sorted_tables}  # fmt: skip


def fold(evaluator: EvaluatorStore, owner: str = "evaluator") -> int:
    """Fold all deltas as one week pane a cell; returns how many there were."""
    epoch = evaluator.lease.acquire(owner, 60_000_000)
    assert epoch is not None
    found = evaluator.deltas.after(evaluator.deltas.cursors(), 1000)
    evaluator.commit(epoch, replace(cycle_of(found), folded=evaluator.deltas.cursors()), 0)
    return len(found)


def cycle_of(deltas: list[Any]) -> Cycle:
    from monitor.core.counts.cells import Counts

    increments = [
        PaneCounts(int(Grain.HOUR), int(pane) // 12, Counts(cells[None], values[None]))
        for body in (delta.payload for delta in deltas)
        for pane, cells, values in zip(body.panes, body.cells, body.values, strict=True)
    ]
    return Cycle({}, {delta.shard: delta.seq for delta in deltas}, increments)


def complete(cycle: Cycle) -> Cycle:
    """Something to write in every table that a cycle writes."""
    calendar = CalendarChange("replies", eras=[Era(T0, SETTINGS)])
    detection = DetectionChange(
        parts={"a": b"state"},
        cohorts=[FrozenCohort(T0 // HOUR, CohortState.CONSUMED, True)],
        opened=[Crossing(1, "a stream", T0 // HOUR, True, T0, T0)],
    )
    return replace(cycle, snapshot=SNAPSHOT, calendar=[calendar], detection=detection)


@pytest.mark.parametrize(
    ("label_shards", "expected"),
    [
        ([], None),
        ([(7, False)], None),
        ([(7, True), (5, True), (3, False)], 5),
        ([(7, True), (None, True)], "long ago"),
    ],
)
def test_how_far_labels_are_read_is_told_by_the_slowest_that_is_awaited(
    engine: sa.Engine, label_shards: list[tuple[int | None, bool]], expected: int | str | None
) -> None:
    """No hour is passed over for labels that wait in a shard which lags, or has not begun."""
    shards = [("decisions", 90, True), *(("labels", *shard) for shard in label_shards)]
    with db.writing(engine) as connection:
        for part, (topic, mark, awaited) in enumerate(shards):
            row = {"topic": topic, "part": part, "epoch": 1, "seq": 0, "tallies": "{}"}
            connection.execute(
                sa.insert(metadata.tables["ownership"]),
                row | {"watermark": mark, "holds_back": awaited},
            )
    found = EvaluatorStore(engine, "decisions").deltas.news({}, 0).labels_read_to
    if expected == "long ago":
        assert found is not None
        assert found < -(10**18)
    else:
        assert found == expected


def counted(evaluator: EvaluatorStore) -> dict[str, int]:
    table = sum_counts(evaluator.engine, Grain.HOUR).values.sum(axis=0)
    return {Counter(i).name: int(v) for i, v in enumerate(table) if v}


# Schema


def test_migrations_make_the_declared_schema(url: str) -> None:
    engine = db.create_engine(url)
    db.migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    assert db.schema_revision(engine) == db.head_revision()
    engine.dispose()


def test_a_copy_of_a_migrated_database_is_like_it(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    db.require_head(engine)


def test_migrating_twice_changes_nothing(engine: sa.Engine, store: IngestStore) -> None:
    begin(store, D0)
    before = everything(engine)
    db.migrate(engine)
    db.require_head(engine)
    assert everything(engine) == before


def test_an_empty_database_is_refused(tmp_path: Path) -> None:
    engine = db.create_engine(f"sqlite:///{tmp_path}/empty.db")
    with pytest.raises(StoreError, match="db migrate"):
        db.require_head(engine)
    engine.dispose()


def test_an_unreachable_database_is_a_store_error(tmp_path: Path) -> None:
    engine = db.create_engine(f"sqlite:///{tmp_path}/no/such/folder/x.db")
    with pytest.raises(StoreError, match="cannot be used"):
        db.schema_revision(engine)
    engine.dispose()


def test_a_url_that_cannot_be_read_is_a_store_error_without_the_password() -> None:
    url = "postgresql://user:hun@ter2:x@host/db"
    with pytest.raises(StoreError, match=r"store\.url") as caught:
        db.create_engine(url)
    assert "ter2" not in "".join(traceback.format_exception(caught.value))


# Ownership


def test_registering_again_keeps_what_is_there(engine: sa.Engine, store: IngestStore) -> None:
    claim = begin(store, D0)
    store.flush([flush(claim, 5, decisions=decisions([1]))], DICTIONARY)
    before = rows(engine, "ownership")
    store.register([D0, D1, L0, L1])
    assert rows(engine, "ownership") == before


def identity(store: IngestStore, present: str | None) -> str | None:
    (claim,) = store.claim([D0], "one", {"decisions": present})
    return claim.topic_id


def test_a_claim_tells_which_topic_its_offsets_belong_to(
    engine: sa.Engine, store: IngestStore
) -> None:
    assert identity(store, "d-1") == "d-1"
    assert identity(store, "d-2") == "d-2", "nothing was read of the first"
    (claim,) = store.claim([D0], "one", {"decisions": "d-2"})
    store.start(claim, 0)
    assert identity(store, "d-3") == "d-2"
    assert identity(store, None) == "d-2"
    assert (identity(store, "d-2"), begin(store, D0).topic_id) == ("d-2", "d-2")
    resume_from(engine, D0, 5, "created again", 1, force=True)
    assert identity(store, None) is None
    assert identity(store, "d-3") == "d-3"
    assert identity(store, "d-4") == "d-3"


def test_a_parked_shard_stays_so_whoever_claims_it_until_it_is_resumed(
    engine: sa.Engine, store: IngestStore
) -> None:
    claim = begin(store, D0)
    begin(store, D1)
    store.park(D0, claim.epoch, "it is gone")
    assert [s.parked for s in read_statuses(engine) if s.shard in (D0, D1)] == ["it is gone", None]
    assert begin(store, D0, "two").parked == "it is gone"
    resume_from(engine, D0, 5, "created again", 1)
    store.park(D0, claim.epoch + 1, "a worker that has not heard of it")
    assert begin(store, D0).parked is None


def test_a_claim_goes_on_where_the_last_flush_ended(store: IngestStore) -> None:
    claim = begin(store, D0)
    store.flush([flush(claim, 5, decisions=decisions([1]), watermark=T0 - 1)], DICTIONARY)
    again = begin(store, D0, "two")
    assert (again.epoch, again.next_offset, again.start_offset) == (claim.epoch + 1, 5, 0)
    assert (again.max_decided_at, again.watermark) == (T0, T0 - 1)
    assert again.tallies.counted == 1


def test_a_flush_that_moves_no_offset_is_stored_once(engine: sa.Engine, store: IngestStore) -> None:
    """Labels that waited are joined without a message; whether that was stored may be unknown."""
    claim = begin(store, L0)
    first = flush(claim, 1, labels=labels([(1, 1, 1)]), flushes=claim.flushes)
    store.flush([first], Dictionary())
    store.flush([flush(begin(store, D0), 1, decisions=decisions([1]))], DICTIONARY)
    again = replace(claim, next_offset=1)
    idle = flush(again, 1, labels=labels([]), flushes=1)
    waiting = Tallies(messages=1, events=1, waiting=1)
    store.flush([replace(idle, tallies=deepcopy(waiting))], Dictionary())
    joined = everything(engine)
    with pytest.raises(FencedError):
        store.flush([replace(idle, tallies=deepcopy(waiting))], Dictionary())
    assert everything(engine) == joined
    (status,) = (one for one in read_statuses(engine) if one.shard == L0)
    assert (status.tallies.waiting, status.tallies.counted) == (0, 1)


def test_the_second_claim_fences_the_first(engine: sa.Engine, store: IngestStore) -> None:
    claim, other = begin(store, D0), begin(store, L0)
    begin(store, D0, "two")
    before = everything(engine)
    late = [
        flush(other, 3, labels=labels([(1, 1, 1)])),
        flush(claim, 5, decisions=decisions([1]), dead_letters=[DeadLetter(0, 0, "x", "", "")]),
    ]
    with pytest.raises(FencedError) as caught:
        store.flush(late, DICTIONARY)
    assert caught.value.shard == D0
    assert everything(engine) == before
    with pytest.raises(FencedError):
        store.start(claim, 9)
    assert everything(engine) == before


@pytest.mark.parametrize("start", [0, 4, 6])
def test_a_flush_from_the_wrong_offset_is_fenced(
    engine: sa.Engine, store: IngestStore, start: int
) -> None:
    claim = begin(store, D0)
    store.flush([flush(claim, 5, decisions=decisions([1]))], DICTIONARY)
    before = everything(engine)
    with pytest.raises(FencedError):
        store.flush([flush(replace(claim, next_offset=start), 7)], DICTIONARY)
    assert everything(engine) == before


STATEMENTS = [
    (ingest, "write_dictionary"),
    (ingest, "write_pending"),
    (ingest, "read_watermark"),
    (ingest, "write_delta"),
    (ingest, "write_dead_letters"),
    (ingest, "_write_tallies"),
    (ingest, "lock_states"),
    (join, "_read_waiting"),
    (join, "find_decisions"),
    (join, "_insert_firsts"),
    (join, "_write_states"),
    (join, "_start_waiting"),
    (join, "_stop_waiting"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", STATEMENTS, ids=lambda place: place[1])
def test_a_crash_between_statements_leaves_no_trace(
    engine: sa.Engine,
    store: IngestStore,
    monkeypatch: pytest.MonkeyPatch,
    place: tuple[Any, str],
    when: str,
) -> None:
    module, name = place
    first, second = begin(store, D0), begin(store, L0)
    store.flush([flush(second, 1, labels=labels([(1, 1, 1)]))], Dictionary())  # one waits
    batch = [
        flush(first, 5, decisions=decisions([1, 2]), dead_letters=[DeadLetter(0, 0, "x", "", "")]),
        flush(replace(second, next_offset=1), 4, labels=labels([(2, 1, 0), (2, 2, 1), (9, 1, 0)])),
    ]
    before, real = everything(engine), getattr(module, name)

    def crash(*arguments: Any) -> Any:
        if when == "after":
            real(*arguments)
        raise RuntimeError("crash")

    with monkeypatch.context() as patch:
        patch.setattr(module, name, crash)
        with pytest.raises(RuntimeError, match="crash"):
            store.flush(batch, DICTIONARY)
    assert everything(engine) == before
    store.flush([flush(first, 5, decisions=decisions([1, 2]))], DICTIONARY)
    assert len(rows(engine, "cell")) == 1, "the dictionary is written again after a rollback"


def test_a_full_database_is_a_store_error(engine: sa.Engine, store: IngestStore) -> None:
    """Also when it is the bulk insert that fails: ingestion pauses, it does not die."""
    claim = begin(store, D0)
    with db.writing(engine) as connection:
        connection.execute(sa.text("DROP TABLE pending"))
    with pytest.raises(StoreError, match="cannot be used"):
        store.flush([flush(claim, 5, decisions=decisions([1]))], DICTIONARY)
    assert read_statuses(engine)[0].next_offset == 0


# Deltas and labels


def test_deltas_are_gap_free_and_empty_ones_are_not_written(
    engine: sa.Engine, store: IngestStore, evaluator: EvaluatorStore
) -> None:
    claim = begin(store, D0)
    for number in range(6):
        part = decisions([number]) if number % 2 else None
        store.flush([flush(claim, number + 1, decisions=part)], DICTIONARY)
        claim = replace(claim, next_offset=number + 1)
    assert [delta.seq for delta in evaluator.deltas.after({}, 100)] == [1, 2, 3]
    assert [delta.seq for delta in evaluator.deltas.after({D0: 2}, 100)] == [3]
    assert [delta.seq for delta in evaluator.deltas.after({}, 2)] == [1, 2]
    assert read_statuses(engine)[0].seq == 3


@pytest.mark.parametrize("label_first", [True, False])
@pytest.mark.parametrize("shards", [(L0, L0), (L0, L1)])
def test_label_and_correction_in_any_order_and_partition(
    store: IngestStore, evaluator: EvaluatorStore, label_first: bool, shards: tuple[Shard, Shard]
) -> None:
    first, then = ([(1, 1, 1)], [(1, 2, 0)]) if label_first else ([(1, 2, 0)], [(1, 1, 1)])
    store.flush([flush(begin(store, D0), 1, decisions=decisions([1]))], DICTIONARY)
    store.flush([flush(begin(store, shards[0]), 1, labels=labels(first))], Dictionary())
    store.flush([flush(begin(store, shards[1]), 2, labels=labels(then))], Dictionary())
    fold(evaluator)
    assert counted(evaluator) == {"N": 1, "Q": 1, "LABELLED": 1, "REVISED": 1, "DELAY_1": 1}


def test_a_label_waits_and_joins_in_a_flush_without_new_labels(
    engine: sa.Engine, store: IngestStore, evaluator: EvaluatorStore
) -> None:
    label = begin(store, L0)
    store.flush([flush(label, 1, labels=labels([(1, 1, 1), (2, 1, 0)]))], Dictionary())
    assert len(rows(engine, "waiting_label")) == 2
    store.flush([flush(begin(store, D0), 1, decisions=decisions([1]))], DICTIONARY)
    again = flush(replace(label, next_offset=1), 1, labels=LabelColumns.empty())
    result = store.flush([again], Dictionary())
    assert len(rows(engine, "waiting_label")) == 1
    assert result.tallies[L0].counted == 1
    assert result.tallies[L0].waiting == -1
    fold(evaluator)
    assert counted(evaluator) == {"N": 1, "Q": 1, "LABELLED": 1, "READY": 1, "DELAY_1": 1}


def test_a_label_finds_its_decision_in_a_neighbouring_hour(
    store: IngestStore, evaluator: EvaluatorStore
) -> None:
    """The reviewer's tool may cut the time down to seconds or round it."""
    first = decisions([1, 3], at=T0)
    last = decisions([2], at=T0 + HOUR - 1)
    store.flush([flush(begin(store, D0), 1, decisions=first)], DICTIONARY)
    store.flush([flush(begin(store, D1), 1, decisions=last)], DICTIONARY)
    earlier, later = labels([(1, 1, 1)], at=T0 - 1), labels([(2, 1, 1)], at=T0 + HOUR)
    another = labels([(3, 1, 1)], at=T0 + HOUR + 1)  # an hour later the same id is another decision
    all_three = LabelColumns.concat([earlier, later, another])
    result = store.flush([flush(begin(store, L0), 3, labels=all_three)], Dictionary())
    assert (result.tallies[L0].counted, result.tallies[L0].waiting) == (2, 1)
    fold(evaluator)
    assert sum_counts(evaluator.engine, Grain.HOUR, T0 // HOUR, T0 // HOUR + 1).values[0, 2] == 2


def test_labels_of_thinned_requests_count_nothing(
    store: IngestStore, evaluator: EvaluatorStore
) -> None:
    store.flush([flush(begin(store, D0), 1, decisions=decisions([1], kept=False))], DICTIONARY)
    result = store.flush([flush(begin(store, L0), 1, labels=labels([(1, 1, 1)]))], Dictionary())
    assert (result.tallies[L0].thinned, result.tallies[L0].balance) == (1, 0)
    fold(evaluator)
    assert counted(evaluator) == {"N": 1}


def test_more_labels_than_one_look_up_holds(store: IngestStore) -> None:
    many = list(range(1, 12_002))
    store.flush([flush(begin(store, D0), 1, decisions=decisions(many))], DICTIONARY)
    wanted = labels([(key, 1, 1) for key in many])
    result = store.flush([flush(begin(store, L0), 1, labels=wanted)], Dictionary())
    assert result.tallies[L0].counted == len(many)


def copies(tallies: Tallies) -> tuple[int, int]:
    return tallies.late, tallies.cross_partition


def test_a_copy_that_is_counted_again_is_told_by_where_the_first_was_read(
    engine: sa.Engine, store: IngestStore
) -> None:
    first = flush(begin(store, D0), 1, decisions=decisions([1, 2, 3]))
    told = store.flush([first], DICTIONARY).tallies
    assert copies(told[D0]) == (0, 0)
    assert {row[-1] for row in rows(engine, "pending")} == {0}

    late = flush(begin(store, D0), 2, decisions=decisions([1, 1, 4]))
    other = flush(begin(store, D1), 1, decisions=decisions([2, 3, 4, 5, 5]))
    told = store.flush([other, late], DICTIONARY).tallies
    assert copies(told[D0]) == (2, 0)
    assert copies(told[D1]) == (1, 3), "4 came in the same flush, from the partition before it"
    assert {row[1]: row[-1] for row in rows(engine, "pending")} == {1: 0, 2: 0, 3: 0, 4: 0, 5: 1}
    assert told[D1].repeated == {"human_review": 4}
    assert told[D1].balance == 0, "they are counted, and no part of the equation"


def test_partitions_of_files_are_kept_in_fifteen_bits(
    engine: sa.Engine, store: IngestStore
) -> None:
    one, two = Shard("decisions", 2**31 - 2), Shard("decisions", 2**31 - 1)
    store.flush([flush(begin(store, one), 1, decisions=decisions([1]))], DICTIONARY)
    assert rows(engine, "pending")[0][-1] == 2**15 - 2
    told = [
        store.flush([flush(begin(store, shard), end, decisions=decisions([1]))], DICTIONARY)
        for shard, end in ((one, 2), (two, 1))
    ]
    assert [copies(result.tallies[shard]) for result, shard in zip(told, (one, two), strict=True)] \
        == [(1, 0), (0, 1)]  # fmt: skip


def test_keys_of_duplicates_come_back_by_minute(store: IngestStore) -> None:
    claim = begin(store, D0)
    for number in range(4):
        part = decisions([number], at=T0 + number * 30 * MINUTE)
        store.flush([flush(claim, number + 1, decisions=part)], DICTIONARY)
        claim = replace(claim, next_offset=number + 1)
    keys, arrivals = store.duplicate_keys(D0, (T0 + 30 * MINUTE) // MINUTE)
    assert keys.tolist() == [3, 6, 9]
    assert (np.diff(arrivals) == 30).all()
    assert store.duplicate_keys(D1, 0)[0].tolist() == []


def test_a_claim_sends_dictionary_rows_again(engine: sa.Engine, store: IngestStore) -> None:
    """The database may have gone back in time, to where they were not stored yet."""
    claim = begin(store, D0)
    store.flush([flush(claim, 1, decisions=decisions([1]))], DICTIONARY)
    with db.writing(engine) as connection:
        connection.execute(sa.text("DELETE FROM cell"))
    again = begin(store, D0)
    store.flush([flush(again, 2, decisions=decisions([2]))], DICTIONARY)
    assert rows(engine, "cell") == [(CELL, 1, 2, STRATUM)]


# The evaluator's side


def test_two_evaluators_fold_every_delta_once(
    engine: sa.Engine, store: IngestStore, evaluator: EvaluatorStore
) -> None:
    store.flush([flush(begin(store, D0), 1, decisions=decisions([1, 2]))], DICTIONARY)
    first = evaluator.lease.acquire("a", -1)  # a lease that has ended already
    second = evaluator.lease.acquire("b", 60_000_000)
    assert first is not None
    assert second == first + 1
    deltas = evaluator.deltas.after(evaluator.deltas.cursors(), 100)
    before = everything(engine)
    with pytest.raises(FencedError):
        evaluator.commit(first, replace(cycle_of(deltas), snapshot=SNAPSHOT), 0)
    assert everything(engine) == before
    evaluator.commit(second, cycle_of(deltas), 0)
    assert evaluator.deltas.after(evaluator.deltas.cursors(), 100) == []
    assert counted(evaluator) == {"N": 2, "Q": 2}


def test_a_cycle_that_began_from_other_cursors_is_fenced(
    engine: sa.Engine, store: IngestStore, evaluator: EvaluatorStore
) -> None:
    """After a restore the epoch may be what it was, and the deltas others of the same number."""
    claim = begin(store, D0)
    store.flush([flush(claim, 1, decisions=decisions([1]))], DICTIONARY)
    fold(evaluator)
    store.flush([flush(replace(claim, next_offset=1), 2, decisions=decisions([2]))], DICTIONARY)
    epoch = evaluator.lease.acquire("evaluator", 60_000_000)
    assert epoch is not None
    cycle, before = (
        cycle_of(evaluator.deltas.after(evaluator.deltas.cursors(), 100)),
        everything(engine),
    )
    others: list[dict[Shard, int]] = [{}, {D0: 2}, {D0: 1, D1: 1}]
    for folded in others:
        with pytest.raises(FencedError):
            evaluator.commit(epoch, replace(cycle, folded=folded), 0)
        with pytest.raises(FencedError):
            evaluator.deltas.news(folded, 0)
    assert everything(engine) == before
    evaluator.commit(epoch, replace(cycle, folded={D0: 1}), 0)
    news = evaluator.deltas.news({D0: 2}, 0)
    assert (news.watermark, news.losses) == (None, ())
    assert counted(evaluator)["N"] == 2


def test_the_newest_snapshot_is_told_unless_it_was_seen(engine: sa.Engine) -> None:
    records = RecordStore(engine)
    assert records.newest_snapshot() is None
    with db.writing(engine) as connection:
        for number in (3, 4):
            _insert(connection, "snapshot", {"id": number, "body": b"%d" % number})
    assert records.newest_snapshot(3) == (4, b"4")
    assert records.newest_snapshot(4) is None
    assert records.newest_snapshot(5) == (4, b"4"), "the database has gone back in time"


def test_the_lease_is_held_renewed_and_given_back(evaluator: EvaluatorStore) -> None:
    epoch = evaluator.lease.acquire("a", 60_000_000)
    assert evaluator.lease.acquire("a", 60_000_000) == epoch
    assert evaluator.lease.acquire("b", 60_000_000) is None
    evaluator.lease.release("b")
    assert evaluator.lease.acquire("b", 60_000_000) is None
    evaluator.lease.release("a")
    assert evaluator.lease.acquire("b", 60_000_000) == (epoch or 0) + 1


@pytest.mark.parametrize("name", ["add_counts", "write_calendar", "move_cursors",
                                  "_store_snapshot", "write_published"])  # fmt: skip
def test_a_crash_of_a_cycle_leaves_no_trace(
    engine: sa.Engine, store: IngestStore, evaluator: EvaluatorStore,
    monkeypatch: pytest.MonkeyPatch, name: str,
) -> None:  # fmt: skip
    from monitor.store.evaluator import store as module

    store.flush([flush(begin(store, D0), 1, decisions=decisions([1]))], DICTIONARY)
    epoch = evaluator.lease.acquire("a", 60_000_000)
    assert epoch is not None
    cycle = complete(cycle_of(evaluator.deltas.after({}, 100)))
    before, real = everything(engine), getattr(module, name)

    def crash(*arguments: Any) -> None:
        real(*arguments)
        raise RuntimeError("crash")

    monkeypatch.setattr(module, name, crash)
    with pytest.raises(RuntimeError, match="crash"):
        evaluator.commit(epoch, cycle, 0)
    assert everything(engine) == before


def test_the_watermark_is_the_slowest_of_the_decision_shards(
    store: IngestStore, evaluator: EvaluatorStore
) -> None:
    assert evaluator.deltas.watermark() is None
    store.flush([flush(begin(store, D0), 1, watermark=T0)], Dictionary())
    assert evaluator.deltas.watermark() is None, "one that was never read holds it back"
    other = begin(store, D1)
    store.flush([flush(other, 1, watermark=T0 - DAY)], Dictionary())
    assert evaluator.deltas.watermark() == T0 - DAY
    empty = flush(replace(other, next_offset=1), 1, watermark=None, holds_back=False)
    store.flush([empty], Dictionary())
    assert evaluator.deltas.watermark() == T0, (
        "one that is read to its end and empty does not count"
    )


# What a person does while others work


def fence(engine: sa.Engine) -> None:
    with db.writing(engine) as connection:
        fence_all(connection)


@pytest.mark.parametrize("act", [lambda engine: forget(engine, 1), fence], ids=["forget", "fence"])
def test_all_shards_are_locked_one_by_one_in_the_order_of_flushes(
    engine: sa.Engine, store: IngestStore, act: Callable[[sa.Engine], None]
) -> None:
    """A database may sort text otherwise, and two orders can wait for each other for ever."""
    store.register([Shard("Zebra", 0), Shard("apple", 0)])
    locked: list[Any] = []

    def tell(_: Any, cursor: Any, statement: str, parameters: Any, *more: Any) -> None:
        if statement.startswith("SELECT ownership") and "WHERE" in statement:
            locked.append(parameters if isinstance(parameters, tuple) else (*parameters.values(),))

    sa.event.listen(engine, "before_cursor_execute", tell)
    act(engine)
    assert locked == [
        *(("Zebra", 0), ("apple", 0)),
        *(("decisions", 0), ("decisions", 1)),
        *(("labels", 0), ("labels", 1)),
    ]


def test_what_retention_deletes_meanwhile_is_not_recoded(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen, nothing = decode, 0, encode(Snapshot(None, None, ()))
    with db.writing(engine) as connection:
        for number in (1, 2):
            _insert(connection, "delta", {**SHARD, "seq": number, "payload": b"x"})
            _insert(connection, "snapshot", {"id": number, "body": nothing})

        def decoded(body: bytes) -> Snapshot:
            nonlocal seen
            seen += 1
            connection.execute(sa.text("DELETE FROM snapshot"))
            return real(body)

        monkeypatch.setattr(published_values, "decode", decoded)
        published_values.forget_published(connection, [("channel", None)])
        deltas = recode._payloads(connection)
        next(deltas)
        connection.execute(sa.text("DELETE FROM delta"))
        assert (seen, list(deltas)) == (1, [])


# Retention


POLICY = RetentionPolicy(
    horizon=3 * DAY, aggregates=60 * DAY, dead_letters=7 * DAY, snapshots=30 * DAY,
    dedupe_window=HOUR,
)  # fmt: skip


def test_retention_deletes_what_is_past_its_horizon_and_nothing_else(engine: sa.Engine) -> None:
    now = 20_000 * DAY + 5 * MINUTE + 7
    ages = {
        "pending": ("hour", Grain.HOUR, 3 * DAY),
        "label_state": ("hour", Grain.HOUR, 3 * DAY),
        "double_label": ("hour", Grain.HOUR, 3 * DAY),
    }
    counted = {Grain.HOUR: 11 * DAY, Grain.DAY: 60 * DAY, Grain.WEEK: 60 * DAY}
    with db.writing(engine) as connection:
        for table, (column, grain, kept) in ages.items():
            edge = pane_of(now - kept, grain)
            for at in (edge - 1, edge, edge + 1):
                _insert(connection, table, {column: at, "id": at, "cell": at})
        for grain, kept in counted.items():
            edge = pane_of(now - kept, grain)
            for at in (edge - 1, edge, edge + 1):
                _insert(connection, "counts", {"grain": int(grain), "pane": at, "cell": 1})
        for age in (7 * DAY + 1, 7 * DAY, 0):
            _insert(connection, "dead_letter", {"msg_offset": age, "seen_at": now - age})
    kept_always = {t: rows(engine, t) for t in ("ownership", "atom", "cell", "waiting_label")}
    for run in range(2):
        retention.apply(engine, POLICY, now, now)
        for table in ages if run else ("pending",):
            edge = pane_of(now - ages[table][2], Grain.HOUR)
            assert sorted(row[0] for row in rows(engine, table)) == [edge, edge + 1]
        left = sorted((row[0], row[1]) for row in rows(engine, "counts"))
        assert left == sorted(
            (int(grain), pane_of(now - kept, grain) + i)
            for grain, kept in counted.items()
            for i in (0, 1)
        )
        assert sorted(row[2] for row in rows(engine, "dead_letter")) == [0, 7 * DAY]
        assert {t: rows(engine, t) for t in kept_always} == kept_always


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)  # SQLite: one writer
def test_a_label_is_forgotten_only_after_no_flush_can_have_found_its_decision(
    engine: sa.Engine, store: IngestStore, evaluator: EvaluatorStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Retention runs between a flush's look-up of the decision and the new label's turn."""
    store.flush([flush(begin(store, D0), 1, decisions=decisions([1]))], DICTIONARY)
    claim = begin(store, L0)
    store.flush([flush(claim, 1, labels=labels([(1, 1, 1)]))], Dictionary())
    late, real = T0 + POLICY.horizon + 9 * HOUR, join.match

    def found_and_gone(*arguments: Any) -> Any:
        matched = real(*arguments)
        retention.apply(engine, POLICY, late, late)
        return matched

    monkeypatch.setattr(ingest, "match", found_and_gone)
    store.flush([flush(replace(claim, next_offset=1), 2, labels=labels([(1, 2, 0)]))], Dictionary())
    assert rows(engine, "pending") == []
    fold(evaluator)
    found = counted(evaluator)
    assert (found["LABELLED"], found["REVISED"]) == (1, 1)
    retention.apply(engine, POLICY, late, late)
    assert rows(engine, "label_state") == []


def test_a_long_outage_is_cleaned_up_after_in_short_transactions(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite nobody else can write meanwhile, and nobody waits for ever."""
    now, hours = 20_000 * DAY, range(5)
    first = pane_of(now - 100 * DAY, Grain.HOUR)
    with db.writing(engine) as connection:
        for at in hours:
            _insert(connection, "pending", {"hour": first + at, "id": at})
            for table in ("label_state", "double_label"):
                _insert(connection, table, {"hour": first + 10 + at, "id": at})
            _insert(connection, "dead_letter", {"msg_offset": at, "seen_at": at * HOUR})
            for cell in range(12):
                pane = {"grain": int(Grain.HOUR), "pane": first + at, "cell": cell}
                _insert(connection, "counts", pane)
            _insert(connection, "delta", {**SHARD, "seq": at, "arrived": None, "payload": b""})
        _insert(connection, "ownership", SHARD)
        _insert(connection, "fold_cursor", {**SHARD, "seq": 9})
    monkeypatch.setattr(retention, "_PORTION", 2)
    deleted: Counted[str] = Counted()
    sizes: list[int] = []

    def tell(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE FROM "):
            sizes.append(cursor.rowcount)
            deleted[statement.split()[2]] += cursor.rowcount

    sa.event.listen(engine, "after_cursor_execute", tell)
    commits: list[int] = []
    sa.event.listen(engine, "commit", lambda _: commits.append(len(sizes)))
    retention.apply(engine, POLICY, now, now)
    assert +deleted == {"pending": 5, "label_state": 5, "double_label": 5, "dead_letter": 5,
                        "delta": 5, "counts": 60}  # fmt: skip
    assert max(sizes) == 12
    assert set(range(1, len(sizes) + 1)) <= set(commits), "each in a transaction of its own"


def test_what_wall_clock_limits_goes_also_while_no_event_time_is_known(engine: sa.Engine) -> None:
    now = 1000 * DAY
    with db.writing(engine) as connection:
        _insert(connection, "dead_letter", {"seen_at": 0})
        _insert(connection, "pending", {})
        for number in (1, 2):
            _insert(connection, "snapshot", {"id": number, "body": b"x"})
    retention.apply(engine, POLICY, None, now)
    left = {table: len(rows(engine, table)) for table in ("dead_letter", "snapshot", "pending")}
    assert left == {"dead_letter": 0, "snapshot": 1, "pending": 1}


def _insert(connection: sa.Connection, table: str, values: dict[str, Any]) -> None:
    """A row with zeros and empty texts where nothing is said."""
    full = {
        column.name: values.get(column.name, "" if isinstance(column.type, sa.Text) else 0)
        for column in metadata.tables[table].columns
    }
    connection.execute(sa.insert(metadata.tables[table]), full)


def test_deltas_stay_until_folded_and_until_no_duplicate_needs_them(
    engine: sa.Engine, store: IngestStore, evaluator: EvaluatorStore
) -> None:
    claim = begin(store, D0)
    for number in range(4):
        at = T0 + number * HOUR
        part = flush(claim, number + 1, decisions=decisions([number], at=at), max_decided_at=at)
        store.flush([part], DICTIONARY)
        claim = replace(claim, next_offset=number + 1)
    newest = T0 + 3 * HOUR
    retention.apply(engine, POLICY, newest, newest)
    assert len(rows(engine, "delta")) == 4, "nothing is folded yet"
    assert fold(evaluator) == 4
    retention.apply(engine, POLICY, newest, newest)
    keys, _ = store.duplicate_keys(D0, (newest - HOUR) // MINUTE)
    assert keys.tolist() == [6, 9]
    assert [row[2] for row in rows(engine, "delta")] == [3, 4]
    assert fold(evaluator) == 0
    assert counted(evaluator)["N"] == 4


def test_snapshots_are_thinned_to_hours(engine: sa.Engine) -> None:
    now = 1000 * DAY
    ages = [31 * DAY, 29 * DAY, 29 * DAY - MINUTE, 29 * DAY - 2 * HOUR, 2 * MINUTE, MINUTE]
    with db.writing(engine) as connection:
        for number, age in enumerate(ages, start=1):
            _insert(connection, "snapshot", {"id": number, "stored_at": now - age, "body": b"x"})
    retention.apply(engine, POLICY, now, now)
    assert [row[0] for row in rows(engine, "snapshot")] == [3, 4, 6]
    retention.apply(engine, POLICY, now, now + 1000 * DAY)
    assert [row[0] for row in rows(engine, "snapshot")] == [6], "the newest always stays"


def test_versions_of_the_kept_hours_are_live(
    engine: sa.Engine, store: IngestStore, evaluator: EvaluatorStore
) -> None:
    store.flush([flush(begin(store, D0), 1, decisions=decisions([1]))], DICTIONARY)
    assert store.live_versions() == []
    fold(evaluator)
    assert store.live_versions() == ["v"]
    with db.writing(engine) as connection:
        connection.execute(sa.text("DELETE FROM counts"))
    assert store.live_versions() == []
