"""Two workers flush at the very same moment, as only a server with many writers lets them.

A barrier holds both transactions at a chosen statement, so that each has read before either has
committed. SQLite has one writer at a time and cannot show any of this.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from migrated import bring_to_head
from set_clock import SetClock

from monitor.core.counts.cells import Counter, Route, Stratum
from monitor.core.counts.labels import LabelColumns
from monitor.core.time import HOUR, MINUTE
from monitor.errors import FencedError, StoreError
from monitor.flushes import DecisionColumns, Dictionary, LabelRequest, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Claim, Tallies
from monitor.store import database as db
from monitor.store.deltas import summed
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.ingest import ingest_store as ingest
from monitor.store.ingest import join
from monitor.store.ingest.ingest_store import IngestStore

T0 = 500_000 * HOUR
CELL = 77
STRATUM = Stratum(Route.HUMAN_REVIEW, 0, 0).code
DICTIONARY = Dictionary({1: "channel=chat"}, {2: "v"}, {CELL: (1, 2, STRATUM)})
NOTHING = LabelColumns.empty()
SHARDS = [Shard(topic, part) for topic in ("decisions", "labels") for part in range(4)]
D0, D1 = SHARDS[0], SHARDS[1]
L0, L1, L2, L3 = SHARDS[4:]


class Worker:
    """One process: a store of its own, and the claims it holds."""

    def __init__(self, url: str, name: str, shards: Sequence[Shard]) -> None:
        self.engine = db.create_engine(url)
        self.store = IngestStore(self.engine, "decisions", SetClock(T0))
        self.name = name
        self.claims: dict[Shard, Claim] = {}
        self.claim(shards)

    def claim(self, shards: Sequence[Shard]) -> None:
        for claim in self.store.claim(shards, self.name):
            if claim.next_offset is None:
                self.store.start(claim, 0)
            begun = replace(claim, next_offset=claim.next_offset or 0, start_offset=0)
            self.claims[claim.shard] = begun

    def flush(self, parts: dict[Shard, DecisionColumns | LabelColumns]) -> dict[Shard, Tallies]:
        flushes = [self._flush(self.claims[shard], part) for shard, part in parts.items()]
        result = self.store.flush(flushes, DICTIONARY)
        for one in flushes:
            tallies = result.tallies[one.shard]
            claim = replace(self.claims[one.shard], next_offset=one.next_offset, tallies=tallies)
            self.claims[one.shard] = claim
        return dict(result.tallies)

    def _flush(self, claim: Claim, part: DecisionColumns | LabelColumns) -> ShardFlush:
        decisions = part if isinstance(part, DecisionColumns) else None
        labels = part if isinstance(part, LabelColumns) else None
        length = len(part.ts)
        start = claim.next_offset or 0
        tallies = replace(claim.tallies, unmatched=dict(claim.tallies.unmatched))
        tallies.messages += length
        tallies.events += length
        tallies.counted += 0 if decisions is None else length
        return ShardFlush(
            shard=claim.shard,
            epoch=claim.epoch,
            expected_offset=start,
            next_offset=start + length,
            max_decided_at=T0,
            watermark=T0,
            holds_back=True,
            tallies=tallies,
            decisions=decisions,
            labels=labels,
        )


def decisions(ids: Sequence[int]) -> DecisionColumns:
    n = len(ids)

    def same(value: int) -> Any:
        return np.full(n, value, np.int64)

    keys = np.array(ids, np.int64)
    return DecisionColumns(
        ids=keys,
        ts=same(T0),
        cells=same(CELL),
        request=same(LabelRequest.KEPT),
        routes=same(1),
        arrivals=same(T0 // MINUTE),
        keys=keys * 3,
    )


def labels(ids: Sequence[int], revision: int = 1, ready: int = 1) -> LabelColumns:
    """Initial labels; every revision is another reviewer's."""
    return LabelColumns.from_rows(
        [
            (key, T0, 0, 0, revision, T0 + HOUR, key * 10 + revision, ready, 0, revision)
            for key in ids
        ]
    )


@pytest.fixture
def workers(postgres_url: str) -> Iterator[tuple[Worker, Worker]]:
    bring_to_head(postgres_url)
    engine = db.create_engine(postgres_url)
    store = IngestStore(engine, "decisions", SetClock(T0))
    store.register(SHARDS)
    engine.dispose()
    pair = (Worker(postgres_url, "one", [D0, L0, L1]), Worker(postgres_url, "two", [D1, L2, L3]))
    for worker, shard in zip(pair, (D0, D1), strict=True):
        worker.flush({shard: decisions([])})  # the dictionary is there: nobody waits for its rows
    yield pair
    for worker in pair:
        worker.engine.dispose()


def both_at(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *calls: tuple[Worker, dict[Shard, Any]],
    module: ModuleType = ingest,
) -> list[dict[Shard, Tallies]]:
    """Run flushes at once; all wait for one another before the statement ``name``."""
    barrier, real = threading.Barrier(len(calls), timeout=30), getattr(module, name)
    waited: set[int] = set()

    def meet(*arguments: Any) -> Any:
        if threading.get_ident() not in waited:
            waited.add(threading.get_ident())
            barrier.wait()
        return real(*arguments)

    with monkeypatch.context() as patch, ThreadPoolExecutor(len(calls)) as threads:
        patch.setattr(module, name, meet)
        futures = [threads.submit(worker.flush, parts) for worker, parts in calls]
        return [future.result(timeout=60) for future in futures]


def counted(engine: sa.Engine) -> dict[str, int]:
    """All counters, added up over all deltas."""
    store = EvaluatorStore(engine, "decisions")
    found = store.deltas.after({}, 10_000)
    bodies = [summed(delta.payload) for delta in found]
    total = sum((body.values.sum(axis=0) for body in bodies), np.zeros(len(Counter), np.int64))
    return {Counter(i).name: int(value) for i, value in enumerate(total) if value}


def test_a_decision_and_its_label_read_before_either_commits(
    workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither flush sees the other; the label waits, and its next flush finds the decision."""
    one, two = workers
    for turn in range(20):
        ids = list(range(turn * 100, turn * 100 + 100))
        _, told = both_at(
            monkeypatch, "_write_tallies", (one, {D0: decisions(ids)}), (two, {L2: labels(ids)})
        )
        assert told[L2].waiting == 100, "the barrier did not hold"
        told = two.flush({L2: NOTHING})
        assert (told[L2].waiting, told[L2].counted, told[L2].balance) == (0, 100 * (turn + 1), 0)
    assert counted(one.engine)["N"] == 2000
    assert counted(one.engine)["LABELLED"] == 2000


def test_labels_and_decisions_of_both_workers_at_once(
    workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker has decisions whose labels the other one reads, in the same flush."""
    one, two = workers
    for turn in range(10):
        here, there = range(turn * 200, turn * 200 + 100), range(turn * 200 + 100, turn * 200 + 200)
        both_at(
            monkeypatch,
            "_write_tallies",
            (one, {D0: decisions(here), L0: labels(there)}),
            (two, {D1: decisions(there), L2: labels(here)}),
        )
    for worker, shard in ((one, L0), (two, L2)):
        told = worker.flush({shard: NOTHING})
        assert (told[shard].waiting, told[shard].counted, told[shard].balance) == (0, 1000, 0)
    assert counted(one.engine)["LABELLED"] == 2000


def competing(monkeypatch: pytest.MonkeyPatch, one: Worker, two: Worker) -> dict[str, int]:
    """Two labels of each decision, in two partitions of two workers, at the same moment.

    The workers meet their common decisions in opposite orders of their partitions: locked one
    partition after the other they would wait for each other.
    """
    one.flush({D0: decisions(range(100))})
    low, high = range(50), range(50, 100)
    both_at(
        monkeypatch,
        "lock_states",
        (one, {L0: labels(high, 1, ready=1), L1: labels(low, 1, ready=1)}),
        (two, {L2: labels(low, 2, ready=0), L3: labels(high, 2, ready=0)}),
    )
    return counted(one.engine)


def test_two_labels_of_one_decision_in_two_partitions(
    workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = competing(monkeypatch, *workers)
    assert (found["LABELLED"], found.get("READY", 0), found["REVISED"]) == (100, 0, 100)
    assert found["PAIRS_APART"] == 100


def test_a_second_and_a_third_reviewer_in_two_partitions(
    workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of them is counted first, the pair is the first and the second."""
    one, two = workers
    one.flush({D0: decisions(range(100))})
    one.flush({L0: labels(range(100), 1, ready=1)})
    both_at(
        monkeypatch,
        "lock_states",
        (one, {L0: labels(range(50), 2, ready=0), L1: labels(range(50, 100), 3, ready=1)}),
        (two, {L2: labels(range(50, 100), 2, ready=0), L3: labels(range(50), 3, ready=1)}),
    )
    found = counted(one.engine)
    assert {name: n for name, n in found.items() if "PAIRS" in name} == {"PAIRS_APART": 100}


def test_without_the_lock_both_labels_count(
    workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the test above can fail: the same race, with nothing locked."""
    monkeypatch.setattr(ingest, "lock_states", lambda connection, matched: None)
    one, two = workers
    one.flush({D0: decisions([1])})
    parts = (one, {L0: labels([1], 1)}), (two, {L2: labels([1], 2)})
    both_at(monkeypatch, "_write_states", *parts, module=join)
    assert counted(one.engine)["LABELLED"] == 2


def test_a_claim_waits_for_the_flush_that_is_being_committed(
    workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new owner goes on behind the zombie's last flush, and the zombie can flush no more."""
    one, two = workers
    inside, go_on, real = threading.Event(), threading.Event(), ingest._write_tallies

    def stopped(*arguments: Any) -> Any:
        inside.set()
        assert go_on.wait(30)
        return real(*arguments)

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr(ingest, "_write_tallies", stopped)
        flushing = threads.submit(one.flush, {D0: decisions(range(7))})
        assert inside.wait(30)
        claiming = threads.submit(two.claim, [D0])
        with pytest.raises(TimeoutError):
            claiming.result(timeout=0.5)
        go_on.set()
        flushing.result(timeout=30)
        claiming.result(timeout=30)
    assert two.claims[D0].next_offset == 7
    with pytest.raises(FencedError):
        one.flush({D0: decisions(range(7, 9))})
    two.flush({D0: decisions(range(7, 9))})
    assert counted(one.engine)["N"] == 9


def test_repeated_ids_in_two_partitions_at_once_neither_fail_nor_lock_each_other_out(
    workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first to commit keeps its row; the other's count as repeated requests."""
    one, two = workers
    told = both_at(
        monkeypatch,
        "write_pending",
        (one, {D0: decisions(range(100))}),
        (two, {D1: decisions(range(99, -1, -1))}),
    )
    repeated = [tallies.repeated.get("human_review", 0) for one in told for tallies in one.values()]
    assert sorted(repeated) == [0, 100]
    again = [(t.late, t.cross_partition) for one in told for t in one.values()]
    assert sorted(again) == [(0, 0), (0, 100)]
    assert (
        EvaluatorStore(one.engine, "decisions").deltas.watermark() is None
    )  # two shards never read


@contextmanager
def frozen_in_copy(url: str) -> Iterator[None]:
    """A worker that stops in the middle of its flush, and finds out when it goes on."""
    with psycopg.connect(url, application_name="slicewatch") as worker:
        worker.execute("UPDATE ownership SET seq = seq")
        with worker.cursor().copy("COPY pending FROM STDIN"):
            yield


def take_over(worker: Worker) -> None:
    with pytest.raises(StoreError, match=r"lock timeout; a session .* was ended"):
        worker.claim([D0])
    worker.claim([D0])


def test_a_worker_frozen_in_a_copy_does_not_keep_its_shards(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(db._SERVER_OPTIONS, "lock_timeout", "2s")
    monkeypatch.setattr(db, "_FROZEN_SECONDS", 0.1)
    bring_to_head(postgres_url)
    next_owner = Worker(postgres_url, "two", [D0])
    with pytest.raises(psycopg.OperationalError, match="terminating"), frozen_in_copy(postgres_url):
        take_over(next_owner)
    next_owner.engine.dispose()
