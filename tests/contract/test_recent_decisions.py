"""What a worker has in memory of stored decisions never says more than the store does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from set_clock import SetClock

from monitor.core.counts.labels import LabelColumns
from monitor.core.time import DAY, HOUR, MINUTE
from monitor.errors import FencedError
from monitor.flushes import DecisionColumns, Dictionary, LabelRequest, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Claim, Tallies
from monitor.store.codings import fence_all
from monitor.store.database import writing
from monitor.store.erasure import forget
from monitor.store.ingest import ingest_store, recent, stored_decisions
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import RetentionPolicy

pytestmark = pytest.mark.full

D0, L0, L1 = Shard("decisions", 0), Shard("labels", 0), Shard("labels", 1)
T0 = 20_000 * DAY
POLICY = RetentionPolicy(
    horizon=3 * DAY,
    aggregates=60 * DAY,
    dead_letters=7 * DAY,
    snapshots=30 * DAY,
    dedupe_window=HOUR,
)


@dataclass
class Worker:
    """Holds some shards without ever claiming them again, unless it is told to."""

    engine: sa.Engine
    shards: tuple[Shard, ...]
    clock: SetClock = field(default_factory=lambda: SetClock(T0))
    offsets: dict[Shard, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = IngestStore(self.engine, "decisions", self.clock)
        self.store.register([D0, L0, L1])
        self.claim()

    def claim(self) -> None:
        self.claims: dict[Shard, Claim] = {}
        for claim in self.store.claim(self.shards, "one"):
            if claim.next_offset is None:
                self.store.start(claim, 0)
            self.claims[claim.shard] = replace(claim, next_offset=claim.next_offset or 0)
        self.tallies = {shard: claim.tallies for shard, claim in self.claims.items()}

    def flush(self, shard: Shard, **more: Any) -> Tallies:
        return self.flush_all({shard: more})[shard]

    def flush_all(self, parts: dict[Shard, dict[str, Any]]) -> dict[Shard, Tallies]:
        flushes = [self._flush(shard, more) for shard, more in parts.items()]
        result = self.store.flush(flushes, Dictionary())
        for shard, tallies in result.tallies.items():
            self.tallies[shard] = tallies
            at = self.claims[shard].next_offset or 0
            self.claims[shard] = replace(self.claims[shard], next_offset=at + 1)
        return dict(result.tallies)

    def _flush(self, shard: Shard, more: dict[str, Any]) -> ShardFlush:
        claim = self.claims[shard]
        start = claim.next_offset or 0
        defaults = {"max_decided_at": T0, "watermark": T0, "holds_back": True}
        return ShardFlush(
            shard=shard,
            epoch=claim.epoch,
            expected_offset=start,
            next_offset=start + 1,
            tallies=self.tallies[shard],
            **{**defaults, **more},
        )


def decisions(ids: list[int], at: int = T0) -> DecisionColumns:
    same = np.full(len(ids), 1, np.int64)
    return DecisionColumns(
        ids=np.array(ids, np.int64),
        ts=same * at,
        cells=same * 77,
        request=same * LabelRequest.KEPT,
        routes=same,
        arrivals=same * (at // MINUTE),
        keys=np.array(ids, np.int64) * 3,
    )


def labels(ids: list[int], revision: int = 1, at: int = T0) -> LabelColumns:
    return LabelColumns.from_rows(
        [(one, at, 0, 0, revision, at + HOUR, one * 10 + revision, 1, 0, 1) for one in ids]
    )


def count(engine: sa.Engine, table: str) -> int:
    with engine.connect() as connection:
        return int(connection.execute(sa.text(f"SELECT COUNT(*) FROM {table}")).scalar_one())


@pytest.fixture
def worker(engine: sa.Engine) -> Worker:
    return Worker(engine, (D0, L0))


def test_labels_find_their_decisions_in_memory(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.flush_all({D0: {"decisions": decisions([1, 2])}, L0: {"labels": labels([1])}})
    monkeypatch.setattr(stored_decisions, "_read", _nothing_read)
    assert worker.flush(L0, labels=labels([2])).counted == 2


def _nothing_read(*_: Any) -> Any:
    pytest.fail("the table was read")


def test_a_later_label_of_a_decision_competes_with_the_first(worker: Worker) -> None:
    worker.flush(D0, decisions=decisions([1, 2, 3]))
    worker.flush(L0, labels=labels([1, 2]))
    tallies = worker.flush(L0, labels=labels([1, 1, 2, 3], revision=2))
    assert (tallies.counted, tallies.stale, tallies.duplicates) == (5, 0, 1)
    tallies = worker.flush(L0, labels=labels([1, 2, 3], revision=1))
    assert (tallies.counted, tallies.stale) == (5, 3)
    assert count(worker.engine, "label_state") == 3


def test_a_label_that_another_worker_stored_is_not_overlooked(worker: Worker) -> None:
    worker.flush(D0, decisions=decisions([1, 2, 3]))
    other = Worker(worker.engine, (L1,))
    assert other.flush(L1, labels=labels([2], revision=5)).counted == 1
    tallies = worker.flush(L0, labels=labels([1, 2, 3], revision=1))
    assert (tallies.counted, tallies.stale) == (2, 1)
    assert other.flush(L1, labels=labels([1, 3], revision=2)).counted == 3


def test_two_shards_of_one_flush_may_label_one_decision(engine: sa.Engine) -> None:
    worker = Worker(engine, (D0, L0, L1))
    worker.flush(D0, decisions=decisions([1, 2]))
    found = worker.flush_all(
        {L0: {"labels": labels([1, 2], revision=2)}, L1: {"labels": labels([1], revision=1)}}
    )
    assert (found[L0].counted, found[L1].stale, found[L1].counted) == (2, 1, 0)


def test_a_decision_that_was_forgotten_is_in_memory_no_more(worker: Worker) -> None:
    worker.flush(D0, decisions=decisions([1, 2]))
    worker.flush(L0, labels=labels([2]))
    for one in (1, 2):
        forget(worker.engine, one)
        tallies = worker.flush(L0, labels=labels([one], revision=one + 1))
        assert (tallies.counted, tallies.waiting) == (1, one)
    assert count(worker.engine, "label_state") == 0


def test_decisions_past_the_horizon_are_in_memory_no_more(worker: Worker) -> None:
    """Not even when a later one of their hours is stored again."""
    worker.flush(D0, decisions=decisions([1, 2]))
    worker.flush(L0, labels=labels([1]))
    late = T0 + POLICY.horizon + 9 * HOUR
    for _ in range(2):  # the label that counts goes with the second run
        retention.apply(worker.engine, POLICY, late, late, confirmed=True)
    assert count(worker.engine, "label_state") == 0
    worker.flush(D0, decisions=decisions([3]))
    tallies = worker.flush(L0, labels=labels([1, 2, 3], revision=2))
    assert (tallies.counted, tallies.waiting) == (2, 2)


def test_a_flush_that_failed_leaves_nothing_in_memory(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> None:
        raise RuntimeError("crash")

    with monkeypatch.context() as patch:
        patch.setattr(ingest_store, "_write_tallies", crash)
        with pytest.raises(RuntimeError, match="crash"):
            worker.flush(D0, decisions=decisions([1]))
    tallies = worker.flush(L0, labels=labels([1]))
    assert (tallies.counted, tallies.waiting) == (0, 1)


def test_who_changes_cells_fences_whoever_has_them_in_memory(worker: Worker) -> None:
    worker.flush(D0, decisions=decisions([1]))
    with writing(worker.engine) as connection:
        fence_all(connection)
        connection.execute(sa.text("DELETE FROM pending"))
    with pytest.raises(FencedError):
        worker.flush(L0, labels=labels([1]))
    worker.claim()
    assert worker.flush(L0, labels=labels([1])).waiting == 1


def test_an_early_label_is_tried_when_its_decision_may_be_there(worker: Worker) -> None:
    """In the flush that brings newer decisions; within ten seconds where its time is inexact."""
    worker.flush(L0, labels=labels([1, 2], at=T0 + 20 * MINUTE))
    stored = {"decisions": decisions([1], at=T0), "max_decided_at": T0}
    worker.flush_all({D0: stored, L0: {"labels": labels([])}})
    assert worker.tallies[L0].waiting == 2
    stored = {"decisions": decisions([2], at=T0 + 20 * MINUTE), "max_decided_at": T0 + 20 * MINUTE}
    worker.flush_all({D0: stored, L0: {"labels": labels([])}})
    assert (worker.tallies[L0].waiting, worker.tallies[L0].counted) == (0, 2)
    worker.flush(L0, labels=labels([3], at=T0 + 40 * MINUTE))
    stored = {"decisions": decisions([3], at=T0), "max_decided_at": T0 + 20 * MINUTE}
    worker.flush_all({D0: stored, L0: {"labels": labels([])}})
    assert worker.tallies[L0].waiting == 1
    worker.clock.at += int(ingest_store.FULL_SECONDS * 1e6)
    worker.flush(L0, labels=labels([]))
    assert (worker.tallies[L0].waiting, worker.tallies[L0].counted) == (0, 3)


def test_a_worker_that_keeps_nothing_counts_the_same(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent.RecentDecisions, "add", lambda *_: None)
    test_a_later_label_of_a_decision_competes_with_the_first(Worker(engine, (D0, L0)))
