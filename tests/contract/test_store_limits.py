"""What a producer can make up without end takes a bounded number of rows, on any database."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from set_clock import SetClock

from monitor.core.time import DAY, HOUR
from monitor.errors import FencedError
from monitor.flushes import DeadLetter, Dictionary, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Claim, Tallies
from monitor.store.evaluator.records import RecordStore
from monitor.store.ingest import ingest_store as dead_letters
from monitor.store.ingest import ingest_store as ingest
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.shard_rows import read_statuses
from monitor.store.upkeep import retention
from monitor.store.upkeep.retention_guard import RetentionPolicy

SHARDS = D0, D1 = Shard("decisions", 0), Shard("decisions", 1)
NOTHING = Dictionary({}, {}, {})
POLICY = RetentionPolicy(
    horizon=DAY, aggregates=DAY, dead_letters=7 * DAY, snapshots=DAY, dedupe_window=HOUR
)


class Worker:
    """Flushes dead letters; offsets and totals go on from flush to flush."""

    def __init__(self, engine: sa.Engine) -> None:
        self.clock = SetClock(10 * DAY)
        self.engine = engine
        self.store = IngestStore(engine, "decisions", self.clock)
        self.claims = {claim.shard: self._begun(claim) for claim in self.store.claim(SHARDS, "me")}

    def _begun(self, claim: Claim) -> Claim:
        self.store.start(claim, 0)
        return replace(claim, next_offset=0)

    def refuse(self, shard: Shard, number: int) -> int:
        """Flush so many dead letters; returns how many of all were not kept so far."""
        claim = self.claims[shard]
        start = claim.next_offset or 0
        letters = [DeadLetter(start + i, 0, "wrong_type", "", "hash") for i in range(number)]
        tallies = replace(
            claim.tallies,
            messages=claim.tallies.messages + number,
            events=claim.tallies.events + number,
            dead_letters={"wrong_type": claim.tallies.events + number},
        )
        end = start + number
        flush = ShardFlush(
            *(shard, claim.epoch, start, end, None, None, True, tallies), dead_letters=letters
        )
        told = self.store.flush([flush], NOTHING).tallies[shard]
        self.claims[shard] = replace(claim, next_offset=end, tallies=told)
        return told.unkept

    def kept(self) -> dict[Shard, int]:
        found = [one.shard for one in RecordStore(self.engine).dead_letters(10**6)]
        return {shard: found.count(shard) for shard in SHARDS}


@pytest.fixture
def worker(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setattr(dead_letters, "MAX_DEAD_LETTERS", 25)
    return Worker(engine)


def test_dead_letters_are_limited_by_shard_and_day(worker: Worker) -> None:
    assert [worker.refuse(D0, 10) for _ in range(5)] == [0, 0, 5, 15, 25]
    assert worker.refuse(D1, 24) == 0
    assert worker.kept() == {D0: 25, D1: 24}
    worker.clock.at += DAY - 1
    assert worker.refuse(D0, 1) == 26, "the same day still"
    worker.clock.at += 1
    assert worker.refuse(D0, 20) == 26, "a new day has room again"
    assert worker.refuse(D0, 20) == 41
    assert worker.kept() == {D0: 50, D1: 24}


def test_what_was_not_kept_is_in_the_store_and_every_letter_is_counted(worker: Worker) -> None:
    for _ in range(4):
        worker.refuse(D0, 10)
    (status,) = [s for s in read_statuses(worker.engine) if s.shard == D0]
    assert status.tallies.unkept == 15
    assert status.tallies.dead_letters == {"wrong_type": 40}
    assert status.tallies.balance == 0
    (again,) = worker.store.claim([D0], "next")
    assert again.tallies == status.tallies


def test_a_flush_that_is_fenced_out_changes_neither(worker: Worker) -> None:
    worker.refuse(D0, 20)
    IngestStore(worker.engine, "decisions", worker.clock).claim([D0], "another")
    with pytest.raises(FencedError):
        worker.refuse(D0, 20)
    (status,) = [s for s in read_statuses(worker.engine) if s.shard == D0]
    assert (status.tallies.unkept, worker.kept()[D0]) == (0, 20)


def test_years_of_bad_events_leave_a_week_of_them(worker: Worker) -> None:
    for _ in range(30):
        worker.refuse(D0, 40)
        worker.clock.at += DAY
        retention.apply(worker.engine, POLICY, None, worker.clock.at)
    assert 7 * 25 <= worker.kept()[D0] <= 8 * 25
    assert worker.claims[D0].tallies.unkept == 30 * 15


def test_a_worker_remembers_a_bounded_number_of_dictionary_rows(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgetting costs writing them again, which changes nothing."""
    monkeypatch.setattr(ingest, "MAX_KNOWN", 100)
    claim = worker.claims[D0]
    for start in range(0, 400, 40):
        texts = {number: f"channel=v{number}" for number in range(start, start + 40)}
        flush = ShardFlush(D0, claim.epoch, start, start + 40, None, None, True, Tallies())
        for twice in (flush, replace(flush, expected_offset=start + 40)):
            worker.store.flush([twice], Dictionary(texts, {}, {}))
        assert len(worker.store._known) <= 140
    with worker.engine.connect() as connection:
        assert connection.execute(sa.text("SELECT COUNT(*) FROM atom")).scalar_one() == 400
