"""kill -9 and SIGTERM of the real process at random moments: the counts stay exact.

Flushes are small, so that most kills come between two of them or inside one. Afterwards the
store must hold what the naive oracle counts, cell by cell, and both conservation equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from brokers import Broker
from histories import Histories
from pipeline import assert_conserved
from sites import Site, until


@pytest.fixture
def site(kafka: Broker, topic_name: str, tmp_path: Path) -> Iterator[Site]:
    site = Site(kafka, topic_name, tmp_path, 2, Histories(1, 3000, hours=24))
    yield site
    site.engine.dispose()


def test_one_of_two_workers_is_killed(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    """Four partitions in one group; the survivor takes over, the evaluator goes on."""
    site = Site(kafka, topic_name, tmp_path, 4, Histories(2, 2000, hours=24))
    with ExitStack() as stack:
        stack.callback(site.engine.dispose)
        serve = stack.enter_context(site.run("serve"))
        until(lambda: serve.get("/livez")[0] == 200, "serving", [serve])
        victim, survivor = (stack.enter_context(site.run("ingest")) for _ in range(2))
        site.produce(0.5)

        def both() -> bool:
            return len({s.owner for s in site.statuses()} - {None}) == 2

        until(both, "both own shards", [serve, victim, survivor])
        victim.kill()
        site.produce(1)
        until(lambda: site.read() == site.produced, "everything read", [serve, survivor])
        until(site.exact, "exact counts", [serve, survivor])
        assert survivor.stop() == 0
        assert serve.stop() == 0
    assert site.exact()
    assert_conserved(site.statuses())
