"""What a running service says of itself: that it is blind, and that it refuses to delete."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pipeline import DECISIONS, LABELS, ManualClock, settings_with

from monitor.core.expected_arrivals import KEPT, SLOT
from monitor.core.time import DAY, HOUR, Grain, pane_of
from monitor.records import Shard
from monitor.service import JUDGE_SECONDS, Parts, Service
from monitor.store import database
from monitor.store.ingest.decision_arrivals import add_arrivals
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.schema import label_arrival, snapshot

SHARDS = [Shard(DECISIONS, 0), Shard(DECISIONS, 1), Shard(LABELS, 0)]
SENTENCE = "no worker reads decisions/0, decisions/1, labels/0: start slicewatch ingest"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def service(tmp_path: Path, clock: ManualClock) -> Iterator[Service]:
    settings = settings_with(tmp_path, server__listen="127.0.0.1:0", stream__clock="live")
    service = Service(settings, Parts(ingest=False), clock=clock)
    yield service
    service.stop()


def value(service: Service, name: str, **labels: str) -> float | None:
    found: float | None = service.metrics.registry.get_sample_value(f"slicewatch_{name}", labels)
    return found


def ready(service: Service) -> tuple[bool, str]:
    return service.ready()


def turn(service: Service, clock: ManualClock, seconds: float = JUDGE_SECONDS) -> None:
    clock.seconds += seconds
    service.evaluate_once()


def told(caplog: pytest.LogCaptureFixture, words: str) -> int:
    return sum(words in record.getMessage() for record in caplog.records)


def test_a_service_says_that_nobody_reads(
    service: Service, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "slicewatch")
    store = IngestStore(service.engine, DECISIONS, clock)
    store.register(SHARDS)
    turn(service, clock, JUDGE_SECONDS - 1)
    assert ready(service) == (True, "ok"), "it has not looked yet"
    turn(service, clock, 1)
    is_ready, why = ready(service)
    assert not is_ready
    assert why.startswith(SENTENCE)
    assert value(service, "blind", reason="no_worker", expected="") == 1
    assert value(service, "blind", reason="behind", expected="") == 0
    assert value(service, "blind", reason="decisions_silent", expected="") == 0
    turn(service, clock)
    assert told(caplog, "the service is blind") == 1, "said once"

    store.claim(SHARDS, "a worker")
    turn(service, clock, 1)
    assert not ready(service)[0], "it looks every quarter of a minute"
    turn(service, clock)
    assert ready(service) == (True, "ok")
    assert value(service, "blind", reason="no_worker", expected="") == 0


def test_a_service_whose_evaluator_is_behind_says_so_first(
    service: Service, clock: ManualClock
) -> None:
    """Neither the router nor ingest is what has to be looked at."""
    store = IngestStore(service.engine, DECISIONS, clock)
    store.register(SHARDS)
    turn(service, clock)
    assert service._blind_texts()[0].startswith(SENTENCE)
    clock.seconds += 700
    first = "the evaluator has not finished a cycle for 12 minutes, whatever router and ingest do"
    why = ready(service)[1]
    assert why.startswith(f"{first}: look first at the log of this process")
    assert SENTENCE in why
    assert service._blind_texts()[0].startswith(first), "the page says what comes first"
    turn(service, clock, 0)
    assert ready(service)[1].startswith(SENTENCE)


def came(service: Service, *hours_before: int) -> None:
    """Twenty labels in each of these hours before the present one."""
    with database.writing(service.engine) as connection:
        here = pane_of(database.database_now(connection), Grain.HOUR)
        rows = [{"topic": LABELS, "hour": here - back, "part": 0, "n": 20} for back in hours_before]
        connection.execute(sa.insert(label_arrival), rows)


def test_a_service_says_that_labels_are_silent(
    service: Service, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    IngestStore(service.engine, DECISIONS, clock).claim(SHARDS, "a worker")
    came(service, *range(30, 900))
    turn(service, clock)
    is_ready, why = ready(service)
    assert not is_ready
    assert why.startswith("hardly any label since ")
    assert value(service, "blind", reason="labels_silent", expected="") == 1
    assert value(service, "blind", reason="decisions_silent", expected="") == 0
    assert told(caplog, "the service is blind: hardly any label since") == 1

    came(service, 0)
    turn(service, clock)
    assert ready(service) == (True, "ok")
    assert value(service, "blind", reason="labels_silent", expected="") == 0


def test_a_service_says_that_decisions_are_late_and_goes_on(
    service: Service, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch came every night of five weeks, and not last night: no reason to be blind."""
    store = IngestStore(service.engine, DECISIONS, clock)
    epochs = {claim.shard: claim.epoch for claim in store.claim(SHARDS, "a worker")}
    store.beat(epochs, storing=True, waiting={})
    last = (clock.now() - DAY) // SLOT - 15
    nights = dict.fromkeys(range(last - KEPT // SLOT, last + 1, DAY // SLOT), 500)
    with database.writing(service.engine) as connection:
        add_arrivals(connection, SHARDS[0], nights)
    turn(service, clock)
    assert ready(service) == (True, "ok")
    series = service.metrics.registry.collect()
    (said,) = [
        sample.labels
        for family in series
        for sample in family.samples
        if sample.name == "slicewatch_blind" and sample.value == 1
    ]
    assert said["reason"] == "decisions_late"
    assert said["expected"].startswith("On the last four ")
    assert told(caplog, f"decisions are late: {said['expected']}. All that came was read") == 1
    assert told(caplog, "the service is blind") == 0


def test_a_service_says_that_the_router_is_silent(service: Service, clock: ManualClock) -> None:
    """A decision came in every five minutes of five weeks, and none for two hours."""
    store = IngestStore(service.engine, DECISIONS, clock)
    claims = store.claim(SHARDS, "a worker")
    store.beat({claim.shard: claim.epoch for claim in claims}, storing=True, waiting={})
    last = (clock.now() - 2 * HOUR) // SLOT
    with database.writing(service.engine) as connection:
        arrivals = dict.fromkeys(range(last - KEPT // SLOT, last), 1)
        add_arrivals(connection, SHARDS[0], arrivals)
    turn(service, clock)
    is_ready, why = ready(service)
    assert not is_ready
    assert why.startswith("Decisions usually come at least every 5 minutes; none since ")
    assert "All that came was read: look at the router" in why
    assert value(service, "blind", reason="no_worker", expected="") == 0
    series = service.metrics.registry.collect()
    blind = {
        sample.labels["reason"]: sample.labels["expected"]
        for family in series
        for sample in family.samples
        if sample.name == "slicewatch_blind" and sample.value == 1
    }
    assert [*blind] == ["decisions_silent"]
    assert blind["decisions_silent"] in why


def test_a_service_of_a_new_store_is_not_blind(service: Service, clock: ManualClock) -> None:
    turn(service, clock)
    assert ready(service) == (True, "ok")
    assert value(service, "blind", reason="no_worker", expected="") == 0


def test_a_service_that_reads_history_is_never_blind(tmp_path: Path, clock: ManualClock) -> None:
    settings = settings_with(tmp_path, server__listen="127.0.0.1:0", stream__clock="history")
    service = Service(settings, Parts(ingest=False), clock=clock)
    IngestStore(service.engine, DECISIONS, clock).register(SHARDS)
    turn(service, clock)
    assert ready(service) == (True, "ok")
    service.stop()


def publish(service: Service, first: int, hours: int) -> None:
    rows: list[dict[str, Any]] = [
        {"id": n + 1, "stored_at": first + n * HOUR, "watermark": None, "body": b"x"}
        for n in range(hours)
    ]
    with database.writing(service.engine) as connection:
        connection.execute(sa.insert(snapshot), rows)


def published(service: Service) -> int:
    with database.reading(service.engine) as connection:
        query = sa.select(sa.func.count()).select_from(snapshot)
        return int(connection.execute(query).scalar_one())


def test_a_service_refuses_to_delete_what_a_wrong_clock_asks_for(
    service: Service, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    now = clock.now()
    publish(service, now - 40 * HOUR, 40)
    service.retain(now)
    assert value(service, "retention_refused") == 0
    assert published(service) == 40
    for _ in range(3):
        service.retain(now + 10 * 365 * DAY)
    assert value(service, "retention_refused") == 1
    assert published(service) == 40
    assert told(caplog, "retention is refused: retention would delete 40 of 40 hours") == 1
    # Somebody has set the clock right.
    service.retain(now)
    assert value(service, "retention_refused") == 0
    service.retain(now + 10 * 365 * DAY)
    assert told(caplog, "retention is refused") == 2, "it is another time"
