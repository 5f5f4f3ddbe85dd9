"""Several workers and several servers on one store: who does what, and who takes over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import sqlalchemy as sa
from chaos import LEASE_FENCED, LEASE_SECONDS, ChaosProcess, snapshot_lines
from sites import Site, until

from monitor.evaluate.evaluator import MAX_DELTAS
from monitor.store.evaluator.records import RecordStore

SHARDS = 12
CYCLE_SECONDS = 0.5
PATIENT = {"SLICEWATCH__STREAM__SESSION_TIMEOUT": "30s"}
"""For workers that nobody kills: a busy machine must not take their shards from them."""


@contextmanager
def started(site: Site, command: str, *names: str, **more: str) -> Iterator[list[ChaosProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(ChaosProcess(site, command, n, **more)) for n in names]


def worker_of(site: Site) -> ChaosProcess:
    return ChaosProcess(site, "ingest", "worker")


def all_owned(site: Site, *workers: ChaosProcess) -> bool:
    """Whether each has a part, nothing is left over, and each reads all it owns.

    Who drops a shard for a newcomer stays its owner in the store until the newcomer claims it.
    """
    shares = [worker.owned(site) for worker in workers]
    if not all(shares) or sum(map(len, shares)) != SHARDS:
        return False
    return all(
        worker.reading() == set(map(str, share))
        for worker, share in zip(workers, shares, strict=True)
    )


def exact_after_the_rest(site: Site, *processes: ChaosProcess) -> None:
    site.produce(1)
    until(site.everything_read, "everything read", processes)
    until(site.exact, "exact counts", processes)
    assert [process.stop() for process in processes] == [0] * len(processes)
    site.assert_exact()


@pytest.mark.full
@pytest.mark.parametrize("database", ["postgresql"])
def test_a_worker_added_takes_a_part_and_the_others_keep_theirs(
    site: Site, server: ChaosProcess
) -> None:
    with started(site, "ingest", "first", "second", **PATIENT) as (first, second):
        until(lambda: all_owned(site, first, second), "two share", [first, second])
        epochs, shares = site.epochs(), [first.owned(site), second.owned(site)]
        site.produce(0.3)
        with started(site, "ingest", "third", **PATIENT) as (third,):
            until(lambda: all_owned(site, first, second, third), "three share", [third])
            kept = (shares[0] & first.owned(site)) | (shares[1] & second.owned(site))
            assert kept == first.owned(site) | second.owned(site)  # none moved between the two
            assert {s: site.epochs()[s] for s in kept} == {s: epochs[s] for s in kept}
            exact_after_the_rest(site, server, first, second, third)


@pytest.mark.full
def test_a_worker_removed_leaves_its_part_to_the_others(site: Site, server: ChaosProcess) -> None:
    workers = started(site, "ingest", "first", "second", "third", **PATIENT)
    with workers as (first, second, third):
        until(lambda: all_owned(site, first, second, third), "three share", [first, second])
        epochs, kept = site.epochs(), first.owned(site) | second.owned(site)
        site.produce(0.3)
        assert third.stop() == 0
        until(lambda: all_owned(site, first, second), "two share", [first, second])
        assert {s: site.epochs()[s] for s in kept} == {s: epochs[s] for s in kept}
        exact_after_the_rest(site, server, first, second)


@pytest.mark.full
@pytest.mark.parametrize("ending", ["killed", "terminated"])
def test_a_named_worker_that_is_back_in_time_keeps_its_shards(
    site: Site, server: ChaosProcess, ending: str
) -> None:
    """Static membership: within the session timeout nobody else notices."""
    with ExitStack() as stack:
        first, second, third = workers = [
            stack.enter_context(
                ChaosProcess(site, "ingest", name, SLICEWATCH__STREAM__INSTANCE=name, **PATIENT)
            )
            for name in ("first", "second", "third")
        ]
        until(lambda: all_owned(site, *workers), "three share", workers)
        epochs, share = site.epochs(), second.owned(site)
        others = first.owned(site) | third.owned(site)
        site.produce(0.3)
        if ending == "killed":
            second.kill()
        else:
            assert second.stop() == 0
        second.restart()
        until(lambda: second.owned(site) == share, "the same shards again", workers)
        exact_after_the_rest(site, server, *workers)
        assert {s: site.epochs()[s] for s in others} == {s: epochs[s] for s in others}


def evaluator(site: Site, *servers: ChaosProcess) -> ChaosProcess | None:
    """The server that holds the lease."""
    with site.engine.begin() as connection:
        owner = connection.execute(sa.text("SELECT owner FROM lease")).scalar()
    return next((one for one in servers if one.is_named(owner)), None)


def working(site: Site, *servers: ChaosProcess) -> tuple[ChaosProcess, ChaosProcess]:
    """(who evaluates, the other one), once both answer."""

    def ready() -> bool:
        return all(one.get("/readyz")[0] == 200 for one in servers)

    until(lambda: ready() and evaluator(site, *servers) is not None, "servers ready", servers)
    first, second = servers
    return (first, second) if evaluator(site, first) is first else (second, first)


@pytest.mark.full
@pytest.mark.parametrize("database", ["postgresql"])
def test_all_servers_show_the_same_snapshot(site: Site) -> None:
    with (
        started(site, "serve", "one", "two") as (one, two),
        started(site, "ingest", "in") as (worker,),
    ):
        site.produce(1)
        until(site.everything_read, "everything read", [one, two, worker])
        until(site.exact, "exact counts", [one, two, worker])
        assert worker.stop() == 0

        def same() -> bool:
            lines = snapshot_lines(one)
            return len(lines) > 100 and lines == snapshot_lines(two)

        until(lambda: newest_snapshot_stays(site) and same(), "one page", [one, two])
        assert [one.stop(), two.stop()] == [0, 0]
    site.assert_exact()


def newest_snapshot_stays(site: Site) -> bool:
    """Whether two evaluations left the stored bytes as they were."""
    records = RecordStore(site.engine)
    before = records.newest_snapshot(0)
    time.sleep(2 * CYCLE_SECONDS)
    return records.newest_snapshot(0) == before


@pytest.mark.full
@pytest.mark.parametrize("database", ["postgresql"])
def test_a_killed_evaluator_is_replaced_within_its_lease(site: Site) -> None:
    with (
        started(site, "serve", "one", "two") as servers,
        started(site, "ingest", "in") as (worker,),
    ):
        busy, idle = working(site, *servers)
        site.produce(0.5)
        until(site.everything_read, "the first half read", [*servers, worker])
        busy.order("crash", "in_commit")
        site.produce(0.1)
        until(lambda: not busy.alive, "the evaluator crashes in its transaction")
        died = time.monotonic()
        until(lambda: evaluator(site, idle) is idle, "the other takes over", [idle])
        assert time.monotonic() - died < LEASE_SECONDS + 15  # the rest is a slow machine's
        exact_after_the_rest(site, idle, worker)


@pytest.mark.parametrize(
    ("database", "point"),
    [
        ("sqlite", "before_commit"),
        pytest.param("postgresql", "before_commit", marks=pytest.mark.full),
        pytest.param("postgresql", "after_commit", marks=pytest.mark.full),
    ],
)
def test_an_evaluator_that_slept_through_its_lease_is_fenced(site: Site, point: str) -> None:
    """It goes on with what it had computed, and finds that it is not the evaluator any more."""
    with (
        started(site, "serve", "one", "two") as servers,
        started(site, "ingest", "in") as (worker,),
    ):
        asleep, other = working(site, *servers)
        asleep.order("stop", point)
        site.produce(0.6)
        until(lambda: asleep.stopped, f"stopped at {point}")
        until(lambda: evaluator(site, other) is other, "the other takes over", [other, worker])
        until(site.everything_read, "read", [other, worker])
        until(site.folded, "folded by the other", [other, worker])
        asleep.resume()
        if point == "before_commit":
            until(lambda: asleep.said(LEASE_FENCED) == 1, "the sleeper is fenced", servers)
        exact_after_the_rest(site, asleep, other, worker)


@pytest.mark.full
def test_an_evaluator_that_was_away_catches_up(site: Site) -> None:
    """Hours of event time wait, more deltas than one transaction folds."""
    with worker_of(site) as worker:
        until(lambda: len(worker.owned(site)) == SHARDS, "all shards owned", [worker])
        with started(site, "serve", "before") as (before,):
            site.produce(0.05)
            until(site.everything_read, "a little read", [worker])
            until(site.folded, "and folded", [worker, before])
            before.kill()
        seen = deltas(site)
        while deltas(site) - seen <= 2 * MAX_DELTAS:
            site.produce(0.04)
            until(site.everything_read, "a part read", [worker])
        with started(site, "serve", "after") as (after,):
            exact_after_the_rest(site, after, worker)


def deltas(site: Site) -> int:
    return sum(status.seq for status in site.statuses())
