"""Zombies and crashes where they hurt, one at a time and for certain: what the fences are for.

A zombie is a worker that was stopped, lost its shards to another one, and goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import sqlalchemy as sa
from chaos import SHARD_FENCED, ChaosProcess
from chaos_worker import CRASHED, EVALUATOR_POINTS, INGEST_POINTS
from sites import Site, until

SHARDS = 12
DATABASES = ["sqlite", "postgresql"]


def begin(site: Site, worker: ChaosProcess) -> None:
    """The worker owns everything and has counted a part of the traffic."""
    until(lambda: len(worker.owned(site)) == SHARDS, "all shards owned", [worker])
    site.produce(0.3)
    until(site.everything_read, "the first part read", [worker])


def stop_at(site: Site, worker: ChaosProcess, point: str) -> None:
    """More traffic comes, and the worker is stopped at the point with some of it."""
    worker.order("stop", point)
    site.produce(0.5)
    until(lambda: worker.stopped, f"stopped at {point}")


def inherit(site: Site, heir: ChaosProcess) -> None:
    """Another worker takes all shards over and reads on to the end."""
    until(lambda: len(heir.owned(site)) == SHARDS, "all shards inherited", [heir])
    until(site.everything_read, "everything read by the heir", [heir])


def finish(site: Site, zombie: ChaosProcess, everyone: Sequence[ChaosProcess]) -> None:
    """The zombie is a worker again, and nobody has forgotten a shard: all of the rest is read."""
    until(lambda: len(zombie.owned(site)) > 0, "the zombie works again", everyone)
    site.produce(1)
    until(site.everything_read, "everything read", everyone)
    until(site.exact, "exact counts", everyone)
    assert [one.stop() for one in everyone] == [0] * len(everyone)
    site.assert_exact()


@pytest.mark.parametrize(
    ("database", "client"),
    [
        ("sqlite", "kafka-python"),
        pytest.param("postgresql", "kafka-python", marks=pytest.mark.full),
        pytest.param("postgresql", "librdkafka", marks=pytest.mark.full),
    ],
)
def test_the_flush_of_a_zombie_is_refused(site: Site, server: ChaosProcess) -> None:
    with ChaosProcess(site, "ingest", "zombie") as zombie:
        begin(site, zombie)
        stop_at(site, zombie, "before_flush")
        with ChaosProcess(site, "ingest", "heir") as heir:
            inherit(site, heir)
            zombie.resume()
            everyone = [server, zombie, heir]
            until(lambda: zombie.said(SHARD_FENCED) > 0, "the zombie is fenced", everyone)
            finish(site, zombie, everyone)


@pytest.mark.full
def test_without_the_fence_a_zombie_counts_twice(site: Site, server: ChaosProcess) -> None:
    """Offsets and effects in one transaction are not enough: this is why there is a fence."""
    with ChaosProcess(site, "ingest", "zombie", CHAOS_UNFENCED="1") as zombie:
        begin(site, zombie)
        stop_at(site, zombie, "before_flush")
        with ChaosProcess(site, "ingest", "heir") as heir:
            site.produce(1)
            inherit(site, heir)
            until(site.exact, "exact before the zombie goes on", [server, heir])
            flushed = sum(s.seq for s in site.statuses())
            zombie.resume()
            until(lambda: sum(s.seq for s in site.statuses()) > flushed, "the zombie has flushed")
            until(site.folded, "it is counted", [server])
    assert site.deviation()["n"] > 0


@pytest.mark.full
@pytest.mark.parametrize("database", ["postgresql"])
def test_a_claim_waits_for_a_zombie_inside_its_transaction(
    site: Site, server: ChaosProcess
) -> None:
    """It holds the row of the fence: it commits when it goes on, and the heir begins after it."""
    with (
        ChaosProcess(site, "ingest", "zombie") as zombie,
        ChaosProcess(site, "ingest", "heir") as heir,
    ):
        everyone = [server, zombie, heir]
        until(lambda: all(one.owned(site) for one in (zombie, heir)), "both work", everyone)
        site.produce(0.3)
        until(site.everything_read, "the first part read", everyone)
        heir.order("note", "before_claim")
        stop_at(site, zombie, "in_flush")
        until(lambda: heir.obeyed and waits_for_a_lock(site), "the claim waits", [server, heir])
        zombie.resume()
        finish(site, zombie, everyone)


@pytest.mark.full
@pytest.mark.parametrize("database", ["postgresql"])
def test_the_server_ends_the_transaction_of_a_zombie(site: Site, server: ChaosProcess) -> None:
    """Nobody continues it in time: the heir does not wait for ever, and nothing is counted twice.

    The program's own limit is 30 s; here it is 4 s.
    """
    with ChaosProcess(site, "ingest", "zombie", CHAOS_IDLE="4000") as zombie:
        begin(site, zombie)
        stop_at(site, zombie, "before_delta")
        with ChaosProcess(site, "ingest", "heir") as heir:
            inherit(site, heir)
            assert zombie.stopped
            zombie.resume()
            everyone = [server, zombie, heir]
            finish(site, zombie, everyone)


@pytest.mark.full
@pytest.mark.parametrize("database", DATABASES)
def test_a_crash_at_every_point_of_a_flush_a_claim_and_a_fold(
    site: Site, server: ChaosProcess
) -> None:
    # The same member: it need not wait for the end of its last life's session.
    with ChaosProcess(site, "ingest", "only", SLICEWATCH__STREAM__INSTANCE="only") as worker:
        begin(site, worker)
        for point in INGEST_POINTS:
            worker.order("crash", point)
            if point.endswith("claim"):
                worker.kill()
                worker.restart()
            else:
                site.produce(0.2)
            crash_and_return(worker, point)
            until(site.everything_read, f"everything read after a crash {point}", [worker])
        for point in EVALUATOR_POINTS:
            server.order("crash", point)
            site.produce(0.2)
            crash_and_return(server, point)
        site.produce(1)
        until(site.everything_read, "everything read", [worker])
        until(site.exact, "exact counts", [worker, server])
        assert [worker.stop(), server.stop()] == [0, 0]
    site.assert_exact()


def crash_and_return(process: ChaosProcess, point: str) -> None:
    until(lambda: not process.alive, f"crash at {point}")
    assert process.process.returncode == CRASHED
    process.restart()


def waits_for_a_lock(site: Site) -> bool:
    query = (
        "SELECT COUNT(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with site.engine.begin() as connection:
        return bool(connection.execute(sa.text(query)).scalar_one())
