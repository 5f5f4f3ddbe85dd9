"""Back-pressure between workers: each knows of the other what the store says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import lesson
import pytest
from pipeline import DECISIONS, LABELS, Pipeline, messages, total

from consumers.ingest import Ingest
from consumers.reconcile import REVIEW_SECONDS
from monitor.records import Shard
from monitor.shard_status import ConsumerState
from monitor.store.shard_rows import park

DECISION, LABEL = Shard(DECISIONS, 0), Shard(LABELS, 0)
EVENTS = 600
STEP = timedelta(hours=2)  # fifty days in all: more than the horizon
BATCH = 20


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, max_records=BATCH, stream__clock="live") as pipeline:
        attributes = {"language_variety": "formal", "channel": "chat"}
        times = [lesson.START + number * STEP for number in range(EVENTS)]
        decisions = [
            lesson.decision(f"d{number}", at, 0.8, attributes=attributes)
            for number, at in enumerate(times)
        ]
        labels = [lesson.label(f"d{number}", at, True) for number, at in enumerate(times)]
        pipeline.broker.produce(DECISIONS, messages(decisions))
        pipeline.broker.produce(LABELS, messages(labels))
        yield pipeline


def two_workers(pipeline: Pipeline) -> tuple[Ingest, Ingest]:
    """One reads decisions, the other labels."""
    first, second = pipeline.worker(), pipeline.worker()
    for worker in (first, second):
        run(pipeline, worker, 1)
    owners = {shard: worker for worker in (first, second) for shard in worker.states}
    assert len({*map(id, owners.values())}) == 2
    return owners[DECISION], owners[LABEL]


def run(pipeline: Pipeline, worker: Ingest, seconds: float) -> None:
    for _ in range(int(seconds)):
        pipeline.step(worker, 1.0)


def read(pipeline: Pipeline, shard: Shard) -> int:
    return next(s.tallies.messages for s in pipeline.statuses() if s.shard == shard)


def state(pipeline: Pipeline, worker: Ingest) -> ConsumerState:
    return worker.health.state(pipeline.clock.monotonic())


def test_labels_wait_for_the_decisions_of_another_worker(pipeline: Pipeline) -> None:
    decider, labeller = two_workers(pipeline)
    run(pipeline, labeller, 3 * REVIEW_SECONDS)
    assert state(pipeline, labeller) is ConsumerState.PAUSED
    assert read(pipeline, LABEL) - read(pipeline, DECISION) < 3 * BATCH
    run(pipeline, decider, 5)
    ahead = read(pipeline, DECISION)
    run(pipeline, labeller, 3 * REVIEW_SECONDS)
    assert 0 < read(pipeline, LABEL) - ahead < 3 * BATCH
    for _ in range(60):
        run(pipeline, decider, 5)
        run(pipeline, labeller, 5)
    pipeline.drain()
    assert total(pipeline.statuses(), LABELS, "counted") == EVENTS
    pipeline.check_conservation()


def test_what_waits_for_another_worker_goes_on_soon_after_it(pipeline: Pipeline) -> None:
    """And not only at the next review of everything."""
    decider, labeller = two_workers(pipeline)
    run(pipeline, labeller, REVIEW_SECONDS + 2)
    assert state(pipeline, labeller) is ConsumerState.PAUSED
    before = read(pipeline, LABEL)
    run(pipeline, decider, 2)
    run(pipeline, labeller, 3)
    assert read(pipeline, LABEL) > before


def test_decisions_wait_for_the_labels_of_another_worker(pipeline: Pipeline) -> None:
    decider, labeller = two_workers(pipeline)
    run(pipeline, labeller, 5)
    run(pipeline, decider, 6 * REVIEW_SECONDS)
    assert state(pipeline, decider) is ConsumerState.PAUSED
    horizon = pipeline.settings.stream.horizon / 1e6
    half = horizon / 2 / STEP.total_seconds()
    assert half < read(pipeline, DECISION) < EVENTS
    pipeline.workers.remove(labeller)
    epoch = next(s.epoch for s in pipeline.statuses() if s.shard == LABEL)
    park(pipeline.engine, LABEL, epoch, "its data is gone")
    run(pipeline, decider, 6 * REVIEW_SECONDS)
    assert read(pipeline, DECISION) == EVENTS, "nobody waits for a parked shard"
