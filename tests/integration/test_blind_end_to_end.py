"""A monitor that counts nothing is told to people, at any hour: real processes, real alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import KafkaBroker
from monitoring import eventually
from notified import Watch, weekend
from running import Running
from watched_site import SETTLES, WatchedSite, ready, watched_site

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

BLIND = "SlicewatchBlind"
Body = dict[str, Any]
Make = Callable[[str], WatchedSite]


@pytest.fixture
def make(apache: KafkaBroker, topic_name: str, tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(watched_site(apache, topic_name, tmp_path, url))


def shards(worker: Running) -> int:
    """How many partitions a worker tells of."""
    return sum(name == "slicewatch_messages_consumed_total" for name, _ in worker.metrics())


def told(watch: Watch, reason: str, status: str) -> list[Body]:
    """Pages of one reason that are firing or resolved."""
    found = (one for body in watch.told.of("page", BLIND) for one in body["alerts"])
    return [x for x in found if (x["labels"]["reason"], x["status"]) == (reason, status)]


def nobody_else_was_told(watch: Watch) -> None:
    """It is the weekend: no ticket is sent."""
    paths = {path for path, _ in watch.told.posts}
    assert "/page" in paths
    assert "/ticket" not in paths


def test_both_workers_are_killed_on_a_weekend(make: Make, postgres_url: str) -> None:
    site = make(postgres_url)
    workers = [site.start("ingest", "first"), site.start("ingest", "second")]
    site.decide(datetime.now(UTC) - timedelta(minutes=1))
    for worker in workers:
        worker.until(lambda w=worker: ready(w), "a worker reads")  # type: ignore[misc]
    serve = site.start("serve", "serve")
    serve.until(lambda: ready(serve), "it evaluates")
    watch = site.watched(serve, office_days=weekend())
    watch.wait_for('slicewatch_blind{reason="no_worker"} == 0')
    assert site.status()[0] == 0

    # One of two may die: the other takes its partitions over.
    workers[0].kill()
    workers[1].until(lambda: shards(workers[1]) == 3, "it has all partitions")
    assert ready(serve)

    workers[1].kill()
    serve.until(lambda: serve.get("/readyz")[0] == 503, "it is not ready", SETTLES)
    names = f"{site.topics[0]}/0, {site.topics[0]}/1, {site.topics[1]}/0"
    words = f"no worker reads {names}: start slicewatch ingest, or look why it stopped"
    serve.until(lambda: words in serve.get("/readyz")[1], "all of them are missed")
    assert serve.get("/livez")[0] == 200, "a restart of it would mend nothing"
    code, found = site.status()
    assert code == 1
    assert any("no worker reads" in problem for problem in found["problems"])

    eventually(lambda: bool(told(watch, "no_worker", "firing")), "somebody is woken")
    (page,) = told(watch, "no_worker", "firing")[:1]
    missed = "cannot see the router: nobody reads some partitions"
    assert page["annotations"]["summary"].endswith(missed)
    assert "A breach that begins now is not detected." in page["annotations"]["description"]
    nobody_else_was_told(watch)

    workers[0].restart()
    serve.until(lambda: ready(serve), "it sees again", SETTLES)
    eventually(lambda: bool(told(watch, "no_worker", "resolved")), "it is over")
    assert site.status()[0] == 0
