"""Laws of counting: no order, repetition, batching, sharding, crash or restart can be seen.

Every history is counted by the naive oracle as well, and the two must be equal cell by cell at
every grain. ``SLICEWATCH_EXAMPLES=10`` tries ten times as many examples.
"""

from __future__ import annotations

import json
import logging
import random
import sqlite3
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import pytest
import sqlalchemy as sa
from example_counts import FEWEST, examples
from histories import START, Histories, doubled, shuffled, text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline import (
    DECISIONS,
    ID_KEY,
    LABELS,
    Counted,
    Pipeline,
    assert_conserved,
    attributes_in,
    flushed_by,
    messages,
    run_history,
    tallies_text,
    total,
)
from postgres import PostgresServer
from signed_probes import signed
from stored import sum_counts

from monitor.composition.evaluator import build_evaluator
from monitor.composition.store import owner_name
from monitor.core.counts.cells import COUNTERS, Counts
from monitor.core.counts.rollup import CellIndex, roll_up
from monitor.core.publish.snapshot import decode
from monitor.core.time import DAY, HOUR, SECOND, Grain
from monitor.errors import RetentionRefusedError, StoreError
from monitor.evaluate.dictionary import CellDictionary
from monitor.flushes import Dictionary, FlushResult, LabelRequest, ShardFlush
from monitor.records import Shard
from monitor.store.database import create_engine
from monitor.store.evaluator.records import RecordStore
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import RetentionPolicy

RULES = oracle.Rules(attributes_in(), ID_KEY.encode())
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(0, 40)


def trying(number: int, fewest: int = FEWEST) -> settings:
    return settings(
        max_examples=examples(number, fewest),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "slicewatch")


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def expected(history: Histories, rules: oracle.Rules = RULES) -> Counted:
    return oracle.count(rules, history.decisions, history.labels).counts


def probes(history: Histories) -> list[tuple[Any, ...]]:
    return oracle.count(RULES, history.decisions, []).probes


def in_order(history: Histories) -> list[dict[str, Any]]:
    return sorted(history.decisions, key=lambda event: event["decided_at"])


@trying(20)
@given(SEEDS, SIZES, st.sampled_from([1, 3, 50]), st.sampled_from([1, 7, 20_000]))
def test_order_repetition_and_batching_change_nothing(
    seed: int, size: int, poll: int, flush: int
) -> None:
    history = Histories(seed, size)
    pick = random.Random(seed)
    decisions = doubled(shuffled(history.decisions, pick), pick, 0.3, minutes=59)
    labels = doubled(shuffled(history.labels, pick), pick, 0.3)
    arrays = [pick.choice((1, 1, 2, 5, 30)) for _ in range(20)]
    with folder() as path:
        statuses = run_history(
            path,
            messages(decisions, arrays),
            messages(labels, arrays),
            expected(history),
            max_records=poll,
            constants=flushed_by(flush),
        )
    assert total(statuses, DECISIONS, "counted") == size
    assert total(statuses, DECISIONS, "duplicates") == len(decisions) - size


@trying(15)
@given(SEEDS, SIZES, st.integers(1, 4), st.integers(1, 3))
def test_shards_change_nothing(seed: int, size: int, decisions: int, labels: int) -> None:
    """Also labels of one decision spread over partitions that have nothing to do with its own."""
    history = Histories(seed, size)
    with folder() as path, Pipeline(path, (decisions, labels), max_records=9) as pipeline:
        _produce(pipeline, history, random.Random(seed))
        for _ in range(2):
            pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        pipeline.check_counts(expected(history))
        pipeline.check_probes(probes(history))
        assert_conserved(pipeline.statuses())


def _produce(
    pipeline: Pipeline, history: Histories, pick: random.Random, minutes: float = 59
) -> None:
    """Everything, in any order and repeated; copies of a decision go where it went."""
    broker = pipeline.broker
    decisions, labels = shuffled(history.decisions, pick), shuffled(history.labels, pick)
    for partition, events in enumerate(_spread(decisions, len(broker.shards(DECISIONS)))):
        copied = doubled(events, pick, 0.2, minutes=minutes)
        broker.produce(DECISIONS, messages(copied, [3, 1, 4]), partition)
    for label in doubled(labels, pick, 0.2):
        broker.produce(LABELS, messages([label]), pick.randrange(len(broker.shards(LABELS))))


def _spread(decisions: Sequence[dict[str, Any]], partitions: int) -> list[list[dict[str, Any]]]:
    """Partition by a number in the id, as a producer partitions by key."""
    parts: list[list[dict[str, Any]]] = [[] for _ in range(partitions)]
    for decision in decisions:
        parts[int(decision["decision_id"].strip("d")) % partitions].append(decision)
    return parts


class Unreliable:
    """A store whose flushes fail: before they begin, or after the commit (outcome unknown)."""

    def __init__(self, store: IngestStore, pick: random.Random, share: float) -> None:
        self._store = store
        self._pick = pick
        self._share = share

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def flush(self, flushes: Sequence[ShardFlush], dictionary: Dictionary) -> FlushResult:
        if self._pick.random() < self._share:
            raise StoreError("gone before the commit")
        result = self._store.flush(flushes, dictionary)
        if self._pick.random() < self._share:
            raise StoreError("gone after the commit")
        return result


@trying(30)
@given(SEEDS, st.integers(1, 50))
def test_crashes_rebalances_and_a_failing_store_change_nothing(seed: int, size: int) -> None:
    """Workers come, go, die and are robbed of shards; some only hear of it after the new owner."""
    _check_disorder(seed, size)


@trying(6)
@given(SEEDS, st.integers(1, 50))
def test_nor_do_they_on_postgresql(postgres: PostgresServer, seed: int, size: int) -> None:
    name = f"disorder_{uuid.uuid4().hex}"
    try:
        _check_disorder(seed, size, store__url=postgres.create_database(name))
    finally:
        postgres.drop_database(name)


def _check_disorder(seed: int, size: int, **where: str) -> None:
    history, pick = Histories(seed, size), random.Random(seed)
    partitions = pick.randint(1, 3), pick.randint(1, 3)
    window, minutes = pick.choice(((HOUR, 59), (90 * SECOND, 1), (DAY, 23 * 60)))
    flush = pick.choice((1, 5, 1000))
    options: dict[str, Any] = {
        "constants": flushed_by(flush) | {"consumers.dedupe.WINDOW": window},
        **where,
    }
    with folder() as path, Pipeline(path, partitions, pick.choice((2, 10)), **options) as pipeline:
        _produce(pipeline, history, pick, minutes)
        evaluators = [pipeline.evaluator() for _ in range(2)]
        for _ in range(60):
            _something_happens(pipeline, pick)
            for worker in pick.sample(pipeline.workers, pick.randint(0, len(pipeline.workers))):
                pipeline.step(worker, pick.choice((0.0, 0.1, 3.0)))
            if pick.random() < 0.3:
                _evaluate(evaluators, pick)
            assert_conserved(pipeline.statuses())
        for worker in list(pipeline.workers):
            pipeline.kill(worker)
        for evaluator in evaluators:
            evaluator.release_lease()
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        pipeline.check_counts(expected(history))
        pipeline.check_probes(probes(history))


def _something_happens(pipeline: Pipeline, pick: random.Random) -> None:
    event = pick.random()
    if len(pipeline.workers) < 3 and event < 0.25:
        pipeline.worker(Unreliable(pipeline.store, pick, pick.choice((0.0, 0.2))))
    elif pipeline.workers and event < 0.35:
        pipeline.kill(pick.choice(pipeline.workers))
    elif pipeline.workers and event < 0.55:
        topic = pick.choice((DECISIONS, LABELS))
        shard = pick.choice(pipeline.broker.shards(topic))
        member = pick.choice(pipeline.workers).source
        pipeline.broker.move("slicewatch", shard, member)  # type: ignore[arg-type]


def _evaluate(evaluators: list[Any], pick: random.Random) -> None:
    evaluator = pick.choice(evaluators)
    evaluator.cycle()
    if pick.random() < 0.5:
        evaluator.release_lease()


@trying(15)
@given(SEEDS, st.integers(2, 8))
def test_labels_that_tie_in_every_order_still_have_one_winner(seed: int, number: int) -> None:
    """Equal kind, version, time and even id: whichever comes first, the same one stands."""
    history, pick = Histories(seed, 1), random.Random(seed)
    decision = history.decisions[0] | {"label_requested": True, "audit_p": 1.0}
    labels = [
        history.label(decision, 0)
        | {"label_id": pick.choice("ab"), "kind": pick.choice(("initial", "correction")),
           "version": 1}
        for _ in range(number)
    ]  # fmt: skip
    outcomes = []
    for order in range(3):
        pick.shuffle(labels)
        with folder() as path, Pipeline(path, (1, 2)) as pipeline:
            pipeline.worker()
            if order != 1:
                pipeline.broker.produce(DECISIONS, messages([decision]))
            for label in labels:
                pipeline.broker.produce(LABELS, messages([label]), pick.randrange(2))
                if pick.random() < 0.5:
                    pipeline.drain()
            pipeline.broker.produce(DECISIONS, messages([decision]))
            pipeline.drain()
            pipeline.fold()
            pipeline.check_conservation()
            outcomes.append(pipeline.counts())
    assert outcomes[0] == outcomes[1] == outcomes[2]


@trying(20)
@given(SEEDS, st.integers(1, 3))
def test_pairs_of_reviewers_do_not_depend_on_what_comes_when(seed: int, partitions: int) -> None:
    """Corrections and retractions in between, before the decision too, and everything again."""
    _check_pairs(seed, partitions)


@trying(5)
@given(SEEDS, st.integers(1, 3))
def test_nor_do_pairs_on_postgresql(postgres: PostgresServer, seed: int, partitions: int) -> None:
    name = f"pairs_{uuid.uuid4().hex}"
    try:
        _check_pairs(seed, partitions, store__url=postgres.create_database(name))
    finally:
        postgres.drop_database(name)


KINDS = ("initial",) * 8 + ("correction", "correction", "adjudication", "retraction")


def _check_pairs(seed: int, partitions: int, **where: str) -> None:
    history, pick = Histories(seed, 6, hours=12), random.Random(seed)
    decisions = [d | {"label_requested": True, "audit_p": 1.0} for d in history.decisions]
    labels = [
        history.label(decision, number) | {"kind": pick.choice(KINDS), "reason": "review"}
        for decision in decisions
        for number in range(pick.randint(0, 6))
    ]
    arriving = [(LABELS, one) for one in labels + pick.sample(labels, len(labels) // 2)]
    arriving += [(DECISIONS, one) for one in decisions]
    pick.shuffle(arriving)
    options: dict[str, Any] = {"constants": flushed_by(pick.choice((1, 5, 1000))), **where}
    with folder() as path, Pipeline(path, (1, partitions), **options) as pipeline:
        for _ in range(2):
            pipeline.worker()
        for topic, event in arriving:
            partition = pick.randrange(partitions) if topic == LABELS else 0
            pipeline.broker.produce(topic, messages([event]), partition)
            if pick.random() < 0.3:
                pipeline.drain()
        pipeline.drain()
        pipeline.fold()
        wanted = oracle.count(RULES, decisions, labels)
        pipeline.check_counts(wanted.counts)
        pipeline.check_conservation()


def test_the_histories_hold_pairs_of_every_kind_and_some_that_were_taken_back() -> None:
    found = Counter[str]()
    for seed in range(20):
        history = Histories(seed, 40)
        for row in expected(history).values():
            found.update({name: row.get(name, 0) for name in row if name.startswith("pairs")})
        for decision in history.decisions:
            own = [x for x in history.labels if x["decision_id"] == decision["decision_id"]]
            standing = oracle.standing(x for x in own if x["reason"] != "complaint")
            taken_back = standing is not None and standing["kind"] == "retraction"
            found["taken back"] += taken_back and bool(oracle.pair_counters(own))
    assert {"pairs_ready", "pairs_not_ready", "pairs_apart"} <= set(found)
    assert min(found.values()) > 10


@trying(10)
@given(SEEDS, st.integers(1, 40))
def test_slices_of_every_group_by_sum_to_the_total(seed: int, size: int) -> None:
    history = Histories(seed, size)
    with folder() as path, Pipeline(path) as pipeline:
        pipeline.broker.produce(DECISIONS, messages(in_order(history)))
        pipeline.broker.produce(LABELS, messages(history.labels))
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        store = EvaluatorStore(pipeline.engine, DECISIONS)
        index, counts = CellDictionary(store.cells).index, sum_counts(pipeline.engine, Grain.WEEK)
        _assert_partition(counts, index)
        assert int(counts.values[:, 0].sum()) == size


def _assert_partition(counts: Counts, index: CellIndex) -> None:
    whole = counts.values.sum(axis=0)
    assert whole.shape == (COUNTERS,)
    for names in ((), ("channel",), ("language_variety",), ("channel", "language_variety")):
        rolled = roll_up(counts, index, names)
        assert (rolled.values.sum(axis=(0, 1)) == whole).all()
        assert (rolled.values + rolled.complements.values == rolled.total.values).all()


@trying(5, fewest=2)
@given(SEEDS, st.integers(5, 60))
def test_a_restarted_evaluator_publishes_the_same_bytes(seed: int, size: int) -> None:
    """After every cycle a fresh evaluator over a copy of the store says exactly the same."""
    history, pick = Histories(seed, size, hours=24 * 20), random.Random(seed)
    options: dict[str, Any] = {"stream__horizon": pick.choice(("72h", "240h", "720h")),
               "constants": flushed_by(1)}  # fmt: skip
    with folder() as path, Pipeline(path, (2, 2), pick.choice((1, 4)), **options) as pipeline:
        decisions = in_order(history) + [_closing(history)] * 3
        pipeline.broker.produce(DECISIONS, messages(decisions))
        pipeline.broker.produce(LABELS, messages(sorted(history.labels, key=_labelled)))
        worker, evaluator = pipeline.worker(), pipeline.evaluator()
        for _ in range(80):
            pipeline.step(worker, 3.0)
            if pick.random() < 0.3:
                assert evaluator.cycle()
                _clean(pipeline, pick)
                assert evaluator.cycle()
                assert _fresh_bytes(pipeline, path) == pipeline.snapshot()
        assert decode(pipeline.snapshot() or b"").contracts


def _labelled(label: Mapping[str, Any]) -> str:
    return str(label["labelled_at"])


def _closing(history: Histories) -> dict[str, Any]:
    last = {"decided_at": "2026-06-19T23:59:00Z", "traffic": "probe"}
    return signed(history.decision(10**6) | last)


def _clean(pipeline: Pipeline, pick: random.Random) -> None:
    """Retention as the service calls it, which may run ahead of what was evaluated."""
    for worker in pipeline.workers:
        for _ in range(pick.choice((0, 3))):
            pipeline.step(worker, 3.0)
    marks = [s.max_decided_at for s in pipeline.statuses() if s.max_decided_at is not None]
    if marks:
        policy = RetentionPolicy(
            pipeline.settings.stream.horizon, 395 * DAY, 7 * DAY, 395 * DAY, HOUR
        )
        with suppress(RetentionRefusedError):  # the service reports it and goes on
            retention.apply(pipeline.engine, policy, min(marks), pipeline.clock.now())


def _fresh_bytes(pipeline: Pipeline, path: Path) -> bytes | None:
    """What an evaluator says that begins now, over a copy of the store."""
    copy = Path(tempfile.mkdtemp(dir=path)) / "store.db"
    with closing(sqlite3.connect(pipeline.path)) as source, closing(sqlite3.connect(copy)) as to:
        source.backup(to)
        to.execute("UPDATE lease SET owner = NULL")
        to.execute("DELETE FROM snapshot")
        to.commit()
    engine = create_engine(f"sqlite:///{copy}")
    try:
        assert build_evaluator(pipeline.settings, engine, pipeline.clock).cycle()
        newest = RecordStore(engine).newest_snapshot(0)
    finally:
        engine.dispose()
    return None if newest is None else newest[1]


def test_a_window_forgets_panes_that_retention_deleted_before_it_moved() -> None:
    """A catch-up moves event time by days in one cycle, and retention may run in between."""
    with folder() as path, Pipeline(path, stream__horizon="72h") as pipeline:
        worker, evaluator = pipeline.worker(), pipeline.evaluator()
        for first, end in ((0, 12 * 24), (12 * 24, 14 * 24)):
            part = [_decision(f"d{hour}", hour, route="auto_serve") for hour in range(first, end)]
            pipeline.broker.produce(DECISIONS, messages(part, [1000]))
            # Half of the labels never come: the labelled windows lie a horizon back.
            pipeline.broker.produce(LABELS, messages([_label(one) for one in part[1::2]], [1000]))
            pipeline.drain()
            _clean(pipeline, random.Random(0))
            assert evaluator.cycle()
            assert _fresh_bytes(pipeline, path) == pipeline.snapshot()
        assert worker.health.store_ok


def test_an_unchanged_snapshot_is_not_stored_again() -> None:
    with folder() as path, Pipeline(path) as pipeline:
        pipeline.broker.produce(DECISIONS, messages([_decision("a", 0), _decision("b", 30)]))
        pipeline.worker()
        pipeline.drain()
        for _ in range(3):
            pipeline.fold()
        with pipeline.engine.connect() as connection:
            assert connection.execute(sa.text("SELECT COUNT(*) FROM snapshot")).scalar() == 1


@trying(8)
@given(SEEDS, st.integers(1, 30))
def test_gaps_in_the_offsets_are_accounted_for(seed: int, size: int) -> None:
    """Control, aborted and compacted records use offsets up and are never delivered."""
    history, pick = Histories(seed, size), random.Random(seed)
    with folder() as path, Pipeline(path, max_records=4) as pipeline:
        skipped = Counter[str]()
        for topic, events in ((DECISIONS, in_order(history)), (LABELS, history.labels)):
            for message in messages(events):
                pipeline.broker.produce(topic, [message])
                if pick.random() < 0.5:
                    gap = pick.randint(1, 3)
                    skipped[topic] += gap
                    pipeline.broker.skip(Shard(topic, 0), gap)
            pipeline.broker.produce(topic, [None])
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        pipeline.check_counts(expected(history))
        for status in pipeline.statuses():
            assert status.tallies.gaps == skipped[status.shard.topic]
        wanted = oracle.count(RULES, history.decisions, history.labels)
        thinned = sum(label["decision_id"] in wanted.thinned for label in history.labels)
        assert total(pipeline.statuses(), LABELS, "thinned") == thinned
        pipeline.check_conservation()


@pytest.mark.parametrize("audit_p", [1.0, 0.999, 0.85, 0.49, 0.39, 0.25])
def test_thinning_keeps_the_same_subset_every_time(audit_p: float) -> None:
    """The effective rate is exactly that of the grid, and a smaller one keeps a subset."""
    decisions = [
        Histories(7, 1).decisions[0]
        | {"decision_id": f"d{i}", "label_requested": True, "audit_p": audit_p}
        for i in range(2000)
    ]
    with folder() as path, Pipeline(path) as pipeline:
        pipeline.broker.produce(DECISIONS, messages(decisions, [500] * 4))
        pipeline.worker()
        pipeline.drain()
        with pipeline.engine.connect() as connection:
            rows = connection.execute(sa.text("SELECT id, request FROM pending")).all()
    wanted = {d["decision_id"] for d in decisions if oracle.kept(RULES, d["decision_id"], audit_p)}
    assert len(rows) == len(decisions), "a thinned request keeps its flagged row"
    assert sum(request == LabelRequest.KEPT for _, request in rows) == len(wanted)
    grid = max(rate for rate in RULES.rates if rate <= audit_p)
    share = Fraction(grid) / Fraction(audit_p)
    assert abs(len(wanted) / 2000 - share) < 4 * (0.25 / 2000) ** 0.5
    always = {d["decision_id"] for d in decisions if oracle.kept(RULES, d["decision_id"], 1.0)}
    assert wanted <= always


def _decision(key: str, hours: float, **more: Any) -> dict[str, Any]:
    at = text(START + timedelta(hours=hours))
    same = {"decided_at": at, "label_requested": True, "audit_p": 1.0, "traffic": "production"}
    return Histories(1, 1).decisions[0] | {"decision_id": key} | same | more


def _label(decision: dict[str, Any], **more: Any) -> dict[str, Any]:
    return Histories(1, 1).label(decision, 0) | {
        "ready": True, "kind": "initial", "reason": "review", "version": 1,
    } | more  # fmt: skip


def test_labels_wait_for_their_decision_and_are_given_up_after_a_day() -> None:
    early, never = _decision("early", 1), _decision("never", 0)
    with folder() as path, Pipeline(path, stream__lateness="10m") as pipeline:
        pipeline.worker()
        pipeline.broker.produce(LABELS, messages([_label(early), _label(never), _label(never)]))
        pipeline.drain()
        assert _label_totals(pipeline) == {"waiting": 2, "duplicates": 1}
        pipeline.broker.produce(DECISIONS, messages([early]))
        pipeline.drain()
        assert _label_totals(pipeline) == {"waiting": 1, "duplicates": 1, "counted": 1}
        # The watermark stands exactly a day after it: not passed yet.
        pipeline.broker.produce(DECISIONS, messages([_decision("x", 24 + 10 / 60)]))
        pipeline.drain()
        assert _label_totals(pipeline)["waiting"] == 1
        pipeline.broker.produce(DECISIONS, messages([_decision("y", 24.2)]))
        pipeline.drain()
        assert _label_totals(pipeline) == {"unmatched": 1, "duplicates": 1, "counted": 1}
        pipeline.broker.produce(LABELS, messages([_label(never, label_id="late")]))
        pipeline.drain()
        assert _label_totals(pipeline)["unmatched"] == 2
        pipeline.check_conservation()


def _label_totals(pipeline: Pipeline) -> dict[str, int]:
    statuses = pipeline.statuses()
    names = ("waiting", "unmatched", "counted", "duplicates", "stale", "thinned", "dead_letters")
    totals = {name: total(statuses, LABELS, name) for name in names}
    return {name: number for name, number in totals.items() if number}


def test_a_second_reading_gives_the_same_verdicts() -> None:
    """Late, leaping and repeated events end alike, however the reading was cut up."""
    pick = random.Random(5)
    hours = [0, 1, 2, 100, 3, 24 * 40, 24 * 41, 5, 24 * 9, 2, 24 * 20, 24 * 51, 24 * 20.5, 23 * 21]
    decisions = [_decision(f"d{i}", hour) for i, hour in enumerate(hours)]
    decisions += [decisions[i] for i in (3, 8, 10, 12)]
    outcomes = set()
    for poll in (1, 2, 5, 1000):
        with folder() as path, Pipeline(path, max_records=poll, constants=flushed_by(poll)) as one:
            one.broker.produce(DECISIONS, messages(decisions))
            worker = one.worker()
            for _ in range(pick.randint(0, 6)):
                one.step(worker)
            one.kill(worker)
            one.worker()
            one.drain()
            one.fold()
            outcomes.add((tallies_text(one.statuses()), json.dumps(sorted(
                (str(cell), sorted(row.items())) for cell, row in one.counts().items()
            ))))  # fmt: skip
    assert len(outcomes) == 1


def test_workers_do_not_share_a_name() -> None:
    assert owner_name() != owner_name()
