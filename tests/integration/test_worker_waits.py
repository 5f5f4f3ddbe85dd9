"""A worker that cannot go on waits, and is ready again by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import lesson
import pytest
from pipeline import DECISIONS, LABELS, Pipeline

from consumers.backpressure import HELD_SECONDS
from consumers.ingest import Ingest
from consumers.reconcile import REVIEW_SECONDS
from consumers.worker_health import SILENT_SECONDS, STUCK_SECONDS
from monitor.core.time import HOUR
from monitor.errors import RetiredTopicError, SourceError, StoreError
from monitor.records import Shard, Start
from monitor.store.retired import ConfiguredTopics, RetiredTopics
from monitor.store.shard_rows import park

D0, D1, L0 = Shard(DECISIONS, 0), Shard(DECISIONS, 1), Shard(LABELS, 0)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, partitions=(2, 1), stream__clock="live") as pipeline:
        yield pipeline


def send(pipeline: Pipeline, shard: Shard, key: str, hours: int = 0) -> None:
    attributes = {"language_variety": "formal", "channel": "chat"}
    at = lesson.START + timedelta(hours=hours)
    event = lesson.decision(key, at, 0.8, attributes=attributes)
    pipeline.broker.produce(shard.topic, [json.dumps(event).encode()], partition=shard.partition)


def run(pipeline: Pipeline, worker: Ingest, seconds: float) -> None:
    for _ in range(int(seconds)):
        pipeline.step(worker, 1.0)


def ready(pipeline: Pipeline, worker: Ingest) -> tuple[bool, str]:
    return worker.health.ready(pipeline.clock.monotonic())


def marks(pipeline: Pipeline) -> tuple[int, int]:
    """Watermarks of both decision shards."""
    first, second, _ = (status.watermark or 0 for status in pipeline.statuses())
    return first, second


def go_away(*_: object) -> None:
    raise StoreError("away")


@pytest.mark.parametrize("spare", [True, False])
def test_a_worker_without_a_shard_to_read_outlives_a_store_that_was_away(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, spare: bool
) -> None:
    worker = pipeline.worker()
    run(pipeline, worker, 2)
    if spare:
        other = pipeline.worker()
        for shard in (D0, D1, L0):
            pipeline.broker.move("slicewatch", shard, other.source)  # type: ignore[arg-type]
    else:
        for status in pipeline.statuses():
            park(pipeline.engine, status.shard, status.epoch, "its data is gone")
        pipeline.kill(worker)
        worker = pipeline.worker()
    run(pipeline, worker, 2)
    assert not worker.states
    with monkeypatch.context() as patch:
        patch.setattr(worker.store, "statuses", go_away)
        run(pipeline, worker, REVIEW_SECONDS + 1)
        assert ready(pipeline, worker) == (False, "the store cannot be written")
    run(pipeline, worker, REVIEW_SECONDS + 1)
    why = "ok" if spare else "a shard is parked after data loss"
    assert ready(pipeline, worker) == (spare, why)


def test_a_worker_that_lost_its_shards_to_workers_with_other_topics_ends(
    pipeline: Pipeline,
) -> None:
    """It has nothing to claim or to store, so that neither can tell it."""
    worker = pipeline.worker()
    run(pipeline, worker, 2)
    other = pipeline.worker()
    for shard in (D0, D1, L0):
        pipeline.broker.move("slicewatch", shard, other.source)  # type: ignore[arg-type]
    run(pipeline, worker, 2)
    assert not worker.states
    RetiredTopics(pipeline.engine).keep(ConfiguredTopics(DECISIONS, "labels-2"), 5)
    with pytest.raises(RetiredTopicError, match=f"topic {LABELS} is retired"):
        run(pipeline, worker, REVIEW_SECONDS + 1)


def test_a_claim_that_only_finds_parked_shards_has_reached_the_store(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = pipeline.worker()
    for status in pipeline.statuses():
        park(pipeline.engine, status.shard, status.epoch, "its data is gone")
    with monkeypatch.context() as patch:
        patch.setattr(worker.store, "claim", go_away)
        run(pipeline, worker, 3)
        assert not worker.health.store_ok
    run(pipeline, worker, 3)
    assert worker.health.store_ok


def test_a_shard_whose_first_position_nobody_tells_waits_alone(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(pipeline, D0, "a")
    send(pipeline, D1, "b")
    worker = pipeline.worker()
    known = worker.source.first_offset

    def unknown(shard: Shard, start: Start) -> int:
        if shard == D1:
            raise SourceError("the leader is away")
        return known(shard, start)

    with monkeypatch.context() as patch:
        patch.setattr(worker.source, "first_offset", unknown)
        run(pipeline, worker, STUCK_SECONDS + 5)
        assert [s.next_offset for s in pipeline.statuses()] == [1, None, 0]
        assert ready(pipeline, worker) == (False, "assigned partitions could not be taken over")
    run(pipeline, worker, 5)
    assert pipeline.drained()
    assert ready(pipeline, worker) == (True, "ok")


@pytest.mark.parametrize("told", [True, False], ids=["its end is told", "nobody knows its end"])
def test_a_shard_whose_leader_is_away_is_not_taken_for_a_quiet_one(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """It was read to its end, and the client never says that its fetches fail."""
    worker = pipeline.worker()
    source, log = worker.source, pipeline.broker.log
    for shard in (D0, D1):
        send(pipeline, shard, "a")
    run(pipeline, worker, 5)

    def watchdog() -> None:
        knows = {s: log(s).high if told or s != D1 else None for s in worker.health.unknown}
        worker.set_end_offsets(knows)

    with monkeypatch.context() as patch:
        delivery, water = source._delivery, source.high_water  # type: ignore[attr-defined]
        flowing = delivery.flowing
        patch.setattr(delivery, "flowing", lambda: [s for s in flowing() if s != D1])
        patch.setattr(source, "high_water", lambda s: 1 if s == D1 else water(s))
        for hour in range(1, 9):
            for shard in (D0, D1):
                send(pipeline, shard, f"{hour}", hour)
            run(pipeline, worker, SILENT_SECONDS / 2)
            watchdog()
        ready_now, why = ready(pipeline, worker)
        assert not ready_now
        assert f"messages of {D1} are waiting" in why, "and none of the quiet topic"
        ahead, behind = marks(pipeline)
        assert behind <= ahead - 4 * HOUR
    run(pipeline, worker, 2 * REVIEW_SECONDS)
    assert pipeline.drained()
    assert ready(pipeline, worker) == (True, "ok")
    assert len(set(marks(pipeline))) == 1


def test_a_quiet_shard_takes_over_the_time_of_others_unless_it_is_paused(
    pipeline: Pipeline,
) -> None:
    worker = pipeline.worker()
    for shard in (D0, D1):
        send(pipeline, shard, "a")
    run(pipeline, worker, 5)
    send(pipeline, D0, "b", 1)
    run(pipeline, worker, 4)
    now = pipeline.clock.monotonic() + REVIEW_SECONDS
    for paused in ({D1}, set[Shard]()):
        idle = worker._reconciler.review(now, paused, wall=pipeline.clock.now()) or []
        assert (D1 in [state.shard for state in idle]) is not (D1 in paused)
        now += REVIEW_SECONDS


def test_a_shard_that_waits_for_others_still_waits_when_it_was_claimed_back(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(pipeline, D0, "a")
    worker = pipeline.worker()
    monkeypatch.setattr("consumers.ingest.paused_shards", lambda *_: {D1})
    run(pipeline, worker, 3)
    before = worker.states[D1].claim.epoch
    worker.store.claim([D1], "another", {DECISIONS: None})
    run(pipeline, worker, REVIEW_SECONDS + 5)
    assert worker.states[D1].claim.epoch > before + 1, "claimed back"
    send(pipeline, D1, "b")
    run(pipeline, worker, 5)
    assert [s.next_offset for s in pipeline.statuses()] == [1, 0, 0]
    monkeypatch.undo()
    run(pipeline, worker, 5)
    assert pipeline.drained()


def offsets(pipeline: Pipeline) -> list[int | None]:
    return [status.next_offset for status in pipeline.statuses()]


@pytest.fixture
def labels_ahead(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Ingest:
    """A worker that has read a label whose decision waits in the broker."""
    worker = pipeline.worker()
    monkeypatch.setattr("consumers.ingest.paused_shards", lambda *_: {D1})
    run(pipeline, worker, 3)
    send(pipeline, D0, "a")
    send(pipeline, D1, "b", 1)
    label = lesson.label("b", lesson.START + timedelta(hours=1), True)
    pipeline.broker.produce(LABELS, [json.dumps(label).encode()])
    run(pipeline, worker, 5)
    assert offsets(pipeline) == [1, 0, 0]
    assert worker.states[L0].next_offset == 1, "it was read"
    return worker


def test_labels_that_are_ahead_are_stored_when_their_decisions_are_read(
    pipeline: Pipeline, labels_ahead: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are never written as waiting, and what a crash has lost of them is read again."""
    pipeline.kill(labels_ahead)
    worker = pipeline.worker()
    run(pipeline, worker, 5)
    assert offsets(pipeline) == [1, 0, 0]
    monkeypatch.undo()
    with monkeypatch.context() as patch:
        patch.setattr("monitor.store.ingest.join._start_waiting", lambda *a: len(a[2]) and 1 / 0)
        run(pipeline, worker, 5)
    assert pipeline.drained()
    assert pipeline.statuses()[2].tallies.counted == 1
    pipeline.check_conservation()


def test_labels_wait_for_decisions_in_memory_for_a_limited_time(
    pipeline: Pipeline, labels_ahead: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(pipeline, labels_ahead, HELD_SECONDS)
    assert offsets(pipeline) == [1, 0, 1]
    assert pipeline.statuses()[2].tallies.waiting == 1
    monkeypatch.undo()
    run(pipeline, labels_ahead, 5)
    assert pipeline.drained()
    assert pipeline.statuses()[2].tallies.counted == 1


def test_a_worker_that_stops_stores_labels_that_are_ahead(
    pipeline: Pipeline, labels_ahead: Ingest
) -> None:
    labels_ahead.stop()
    labels_ahead.run()
    assert offsets(pipeline) == [1, 0, 1]
