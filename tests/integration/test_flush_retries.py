"""A flush that cannot be stored is kept and tried again: exactly once, and people are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import pytest
from counting_oracle import instant
from histories import Histories
from manual import DATABASE, Administrator
from pipeline import (
    DECISIONS,
    ID_KEY,
    LABELS,
    SETTINGS,
    Counted,
    Pipeline,
    attributes_in,
    messages,
    total,
)
from postgres import PostgresServer
from psycopg import sql

from consumers.ingest import FIRST_SECONDS, LONGEST_SECONDS, Ingest, Retry
from consumers.worker_health import STUCK_SECONDS
from monitor.errors import StoreError
from monitor.flushes import Dictionary, FlushResult, ShardFlush
from monitor.records import Shard
from monitor.shard_status import ConsumerState
from monitor.store.ingest.ingest_store import IngestStore

D0, D1, L0 = Shard(DECISIONS, 0), Shard(DECISIONS, 1), Shard(LABELS, 0)
OUTAGE = 130.0
STEP = 0.5
SIZE = 120


class Failing:
    """A store whose flushes fail as long as ``fails`` says so.

    Attributes:
        fails: before or after the commit; None: they do not.
        tried: when a flush was asked for.
    """

    def __init__(self, store: IngestStore, now: Callable[[], float]) -> None:
        self.fails: str | None = None
        self.tried: list[float] = []
        self._store, self._now = store, now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def flush(self, flushes: Sequence[ShardFlush], dictionary: Dictionary) -> FlushResult:
        self.tried.append(self._now())
        if self.fails == "before":
            raise StoreError("gone before the commit")
        result = self._store.flush(flushes, dictionary)
        if self.fails == "after":
            raise StoreError("gone after the commit")
        return result


class Site:
    """A worker whose store fails when it is told to, and a history that is counted by hand."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.history = Histories(11, SIZE)
        # In the order of time: the watermark has passed no decision that is yet to come.
        self.history.decisions.sort(key=lambda one: instant(one["decided_at"]))
        self.store = Failing(pipeline.store, pipeline.clock.monotonic)
        self.worker = pipeline.worker(self.store)
        self._sent = 0

    def send(self, end: int) -> None:
        """Decisions up to a number, over both partitions, and their labels."""
        decisions = self.history.decisions[self._sent : end]
        for part in (0, 1):
            self.pipeline.broker.produce(DECISIONS, messages(decisions[part::2]), part)
        ids = {d["decision_id"] for d in decisions}
        labels = [one for one in self.history.labels if one["decision_id"] in ids]
        if end == SIZE:
            labels += [x for x in self.history.labels if x["decision_id"].startswith("none-")]
        self.pipeline.broker.produce(LABELS, messages(labels))
        self._sent = end

    def run(self, seconds: float, worker: Ingest | None = None) -> None:
        for _ in range(int(seconds / STEP)):
            self.pipeline.step(worker or self.worker, STEP)

    def until_failed(self) -> None:
        """A first try that fails."""
        before = self.pipeline.seen.failures
        for _ in range(40):
            self.run(STEP)
            if self.pipeline.seen.failures > before:
                return
        raise AssertionError("no flush failed")

    def epochs(self) -> list[int]:
        return [status.epoch for status in self.pipeline.statuses()]

    def state(self) -> ConsumerState:
        return self.worker.health.state(self.pipeline.clock.monotonic())

    def ready(self) -> tuple[bool, str]:
        return self.worker.health.ready(self.pipeline.clock.monotonic())

    def is_exact(self) -> None:
        """Everything is sent, stored once, and evaluated."""
        self.send(SIZE)
        self.pipeline.drain()
        for _ in range(20):  # labels wait for decisions that another worker reads
            if not total(self.pipeline.statuses(), LABELS, "waiting"):
                break
            self.pipeline.flush_again()
        self.pipeline.fold()
        self.pipeline.check_conservation()
        self.pipeline.check_counts(expected(self.history))


def expected(history: Histories) -> Counted:
    rules = oracle.Rules(attributes_in(), ID_KEY.encode())
    return oracle.count(rules, history.decisions, history.labels).counts


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, partitions=(2, 1)) as pipeline:
        yield pipeline


@pytest.fixture
def site(pipeline: Pipeline) -> Site:
    site = Site(pipeline)
    site.send(30)
    pipeline.drain()
    return site


def seconds_until_stuck(site: Site) -> float:
    """From the first failure."""
    failed = site.pipeline.clock.seconds
    while site.state() is not ConsumerState.STUCK:
        site.run(STEP)
        assert site.pipeline.clock.seconds - failed < 2 * STUCK_SECONDS, "it is never told"
    return site.pipeline.clock.seconds - failed


FAILS = pytest.mark.parametrize("fails", [pytest.param("before", marks=pytest.mark.full), "after"])


def test_pauses_grow_to_half_a_minute_and_begin_anew() -> None:
    retry = Retry()
    assert not retry.waits
    assert [retry.failed() for _ in range(9)] == [1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert retry.waits
    retry.succeeded()
    assert not retry.waits
    assert retry.failed() == FIRST_SECONDS


def test_a_failing_flush_keeps_its_claim_and_is_told(site: Site) -> None:
    epochs = site.epochs()
    site.store.fails = "before"
    site.send(60)
    site.until_failed()
    assert site.ready() == (False, "the store cannot be written")
    assert site.state() is ConsumerState.PAUSED
    took = seconds_until_stuck(site)
    assert took <= STUCK_SECONDS + 2 * STEP
    assert site.worker.health.stuck(site.pipeline.clock.monotonic()) == (
        "what was read could not be stored"
    )
    read = [site.worker.source.position(shard) for shard in (D0, D1, L0)]
    site.send(90)
    site.run(OUTAGE - took)
    assert site.epochs() == epochs, "nothing is claimed anew"
    assert [site.worker.source.position(shard) for shard in (D0, D1, L0)] == read, "no more is read"
    assert site.state() is ConsumerState.STUCK

    site.store.fails = None
    site.run(LONGEST_SECONDS + 5)
    assert site.ready() == (True, "ok")
    assert site.state() is not ConsumerState.STUCK
    assert site.epochs() == epochs
    site.is_exact()


def test_tries_come_at_longer_and_longer_intervals(site: Site) -> None:
    site.store.fails = "before"
    site.send(60)
    site.until_failed()
    first = len(site.store.tried) - 1
    site.run(OUTAGE)
    at = site.store.tried[first:]
    pauses = [later - one for one, later in pairwise(at)]
    assert pauses[:7] == pytest.approx([1, 2, 4, 8, 16, 30, 30], abs=STEP)
    # The alert looks at three minutes: every failure is told, none is further away.
    assert site.pipeline.seen.failures == len(at)
    site.store.fails = None
    site.run(LONGEST_SECONDS + 5)
    # A second outage begins with short pauses again.
    site.store.fails = "before"
    site.send(90)
    site.until_failed()
    again = len(site.store.tried) - 1
    site.run(4)
    at = site.store.tried[again:]
    assert at[1] - at[0] == pytest.approx(FIRST_SECONDS, abs=STEP)
    site.store.fails = None
    site.is_exact()


def test_a_commit_whose_answer_was_lost_is_not_stored_twice(site: Site) -> None:
    epochs = site.epochs()
    site.store.fails = "after"
    site.send(60)
    site.until_failed()
    site.store.fails = None
    site.run(10)
    # Whoever finds out that it was stored is fenced, and claims once.
    assert all(0 <= now - before <= 1 for now, before in zip(site.epochs(), epochs, strict=True))
    assert sum(site.epochs()) > sum(epochs)
    assert site.ready() == (True, "ok")
    assert site.worker.storing
    site.is_exact()


def test_the_answer_is_lost_and_then_the_store_is_away(site: Site) -> None:
    """For minutes nobody knows whether it was stored; nothing is claimed until somebody does."""
    epochs = site.epochs()
    site.store.fails = "after"
    site.send(60)
    site.until_failed()
    site.store.fails = "before"
    # The positions that the store has are not those the worker has written: a look at the store
    # finds out before a flush can.
    site.run(OUTAGE)
    assert all(0 <= now - before <= 1 for now, before in zip(site.epochs(), epochs, strict=True))
    site.store.fails = None
    site.run(LONGEST_SECONDS + 5)
    assert site.ready() == (True, "ok")
    assert all(0 <= now - before <= 1 for now, before in zip(site.epochs(), epochs, strict=True))
    site.is_exact()


@FAILS
def test_one_of_the_shards_goes_to_another_worker(site: Site, fails: str) -> None:
    site.store.fails = fails
    site.send(60)
    site.until_failed()
    other = site.pipeline.worker()
    site.pipeline.broker.move("slicewatch", D1, other.source)  # type: ignore[arg-type]
    site.store.fails = "before"
    for _ in range(40):
        site.run(STEP)
        site.run(STEP, other)
    site.store.fails = None
    site.run(LONGEST_SECONDS + 5)
    assert site.ready() == (True, "ok")
    site.is_exact()


def test_a_stop_while_it_waits_ends(site: Site) -> None:
    site.store.fails = "before"
    site.send(60)
    site.until_failed()
    site.worker.stop()
    site.worker.run()
    site.pipeline.workers.remove(site.worker)
    site.worker = site.pipeline.worker()
    site.is_exact()


# On a real server


@pytest.fixture
def manual(own_postgres: PostgresServer, tmp_path: Path) -> Administrator:
    """Roles and logins as in the manual."""
    administrator = Administrator(own_postgres, tmp_path, SETTINGS)
    administrator.follow("Roles")
    return administrator


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$
"""
BREAKS = {
    "a full disk": "CREATE TRIGGER full_disk BEFORE INSERT ON delta"
    " FOR EACH STATEMENT EXECUTE FUNCTION full_disk()",
    "a right that is taken away": "REVOKE INSERT ON delta FROM slicewatch_writer",
}
MENDS = {
    "a full disk": "DROP TRIGGER full_disk ON delta",
    "a right that is taken away": "GRANT INSERT ON delta TO slicewatch_writer",
}


@pytest.mark.full
def test_what_the_server_refuses_is_told_and_stored_once(
    manual: Administrator, tmp_path: Path
) -> None:
    """Claims, signs of life and looks at the store succeed all the while."""
    manual.server.execute(sql.SQL(FULL), DATABASE)
    folder = tmp_path / "pipeline"
    folder.mkdir()
    url = manual.url("slicewatch_service")
    with Pipeline(folder, partitions=(2, 1), store__url=url) as pipeline:
        site = Site(pipeline)
        site.send(30)
        pipeline.drain()
        epochs = site.epochs()
        for number, how in enumerate(BREAKS):
            manual.server.execute(sql.SQL(BREAKS[how]), DATABASE)
            site.send(50 + 20 * number)
            site.until_failed()
            took = seconds_until_stuck(site)
            assert took <= STUCK_SECONDS + 2 * STEP, how
            site.run(OUTAGE - took)
            assert site.epochs() == epochs, how
            assert site.ready() == (False, "the store cannot be written"), how
            manual.server.execute(sql.SQL(MENDS[how]), DATABASE)
            site.run(LONGEST_SECONDS + 5)
            assert site.ready() == (True, "ok"), how
        assert site.epochs() == epochs
        site.is_exact()
