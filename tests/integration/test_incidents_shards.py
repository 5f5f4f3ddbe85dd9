"""Lost data, shard by shard, on the broker in memory: nothing is reset in silence.

The same incidents on a real broker are in ``test_incidents_kafka.py``; here every moment can be
chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock, patch

import lesson
import pytest
from pipeline import DECISIONS, LABELS, Pipeline, total

from consumers.ingest import Ingest
from consumers.reconcile import REVIEW_SECONDS, TOPICS_SECONDS
from monitor.errors import MissingTopicError, SourceError, StoreError
from monitor.records import Shard
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.shard_rows import resume_from

D0, D1, L0 = Shard(DECISIONS, 0), Shard(DECISIONS, 1), Shard(LABELS, 0)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path, partitions=(2, 1), stream__clock="live") as pipeline:
        yield pipeline


def event(topic: str, key: str) -> dict[str, object]:
    if topic == LABELS:
        return lesson.label(key, lesson.START, True)
    attributes = {"language_variety": "formal", "channel": "chat"}
    return lesson.decision(key, lesson.START, 0.8, attributes=attributes)


def send(pipeline: Pipeline, shard: Shard, count: int, start: int = 0) -> None:
    events = [event(shard.topic, f"{shard.partition}-{start + i}") for i in range(count)]
    values: Sequence[bytes | None] = [json.dumps(one).encode() for one in events]
    pipeline.broker.produce(shard.topic, values, partition=shard.partition)


def run(pipeline: Pipeline, seconds: float) -> None:
    for _ in range(int(seconds)):
        for worker in pipeline.workers:
            pipeline.step(worker, 1.0)


def parked(pipeline: Pipeline) -> dict[Shard, str | None]:
    return {s.shard: s.parked for s in pipeline.statuses() if s.parked}


def offsets(pipeline: Pipeline) -> list[int | None]:
    return [status.next_offset for status in pipeline.statuses()]


def resume(pipeline: Pipeline, shard: Shard, offset: int, *, force: bool = False) -> None:
    resume_from(pipeline.engine, shard, offset, "test", pipeline.clock.now(), force=force)


@contextmanager
def asked(worker: Ingest, answer: SourceError) -> Iterator[Mock]:
    """What a topic is, nobody says; the worker gets this answer."""
    with patch.object(worker.source, "topic_id", Mock(side_effect=answer)) as mock:
        yield mock


def test_a_topic_created_again_while_nobody_looked(pipeline: Pipeline) -> None:
    """Its offsets look valid: only its identity tells."""
    for shard in (D0, D1, L0):
        send(pipeline, shard, 3)
    worker = pipeline.worker()
    pipeline.drain()
    pipeline.kill(worker)
    pipeline.broker.create_topic(DECISIONS, 2)
    for shard in (D0, D1):
        send(pipeline, shard, 5, start=100)
    send(pipeline, L0, 4, start=3)
    pipeline.worker()
    run(pipeline, 20)
    assert parked(pipeline).keys() == {D0, D1} == pipeline.seen.parked
    assert "created again" in str(parked(pipeline)[D1])
    assert f"resume-from {DECISIONS} 1 OFFSET" in str(parked(pipeline)[D1])
    assert offsets(pipeline) == [3, 3, 7], "the other topic goes on"
    resume(pipeline, D1, 0)
    run(pipeline, 2 * REVIEW_SECONDS)
    assert parked(pipeline).keys() == {D0} == pipeline.seen.parked
    assert offsets(pipeline) == [3, 5, 7]
    assert total(pipeline.statuses(), DECISIONS, "counted") == 3 + 3 + 5
    pipeline.check_conservation()


def test_a_topic_created_again_while_it_is_read(pipeline: Pipeline) -> None:
    send(pipeline, D0, 3)
    worker = pipeline.worker()
    pipeline.drain()
    pipeline.broker.create_topic(DECISIONS, 2)
    send(pipeline, D0, 3, start=100)  # as many as before: no offset is out of range
    run(pipeline, TOPICS_SECONDS + 1)
    assert parked(pipeline).keys() == {D0, D1}
    assert worker.health.parked
    send(pipeline, D0, 2, start=103)
    send(pipeline, L0, 2)
    run(pipeline, 10)
    assert offsets(pipeline) == [3, 0, 2]
    resume(pipeline, D0, 0)
    resume(pipeline, D1, 0)
    run(pipeline, 2 * REVIEW_SECONDS)
    assert parked(pipeline) == {}
    assert not worker.health.parked
    assert offsets(pipeline) == [5, 0, 2]
    assert total(pipeline.statuses(), DECISIONS, "counted") == 3 + 5
    pipeline.check_conservation()


def test_of_a_topic_that_was_seen_to_be_gone_nothing_is_read_before_it_is_known(
    pipeline: Pipeline,
) -> None:
    send(pipeline, D0, 3)
    worker = pipeline.worker()
    pipeline.drain()
    with asked(worker, MissingTopicError("gone")):
        run(pipeline, TOPICS_SECONDS + 1)
        assert worker.health.missing
        pipeline.broker.create_topic(DECISIONS, 2)
        send(pipeline, D0, 5, start=100)  # the offset that was reached is there again
        run(pipeline, 3)
    run(pipeline, 3)
    assert parked(pipeline).keys() == {D0, D1}
    assert total(pipeline.statuses(), DECISIONS, "counted") == 3
    resume(pipeline, D0, 0)
    run(pipeline, 2 * REVIEW_SECONDS)
    assert total(pipeline.statuses(), DECISIONS, "counted") == 3 + 5
    pipeline.check_conservation()


def test_a_topic_that_was_wrongly_said_to_be_gone_goes_on_without_a_loss(
    pipeline: Pipeline,
) -> None:
    send(pipeline, D0, 3)
    worker = pipeline.worker()
    pipeline.drain()
    with asked(worker, MissingTopicError("gone")):
        run(pipeline, TOPICS_SECONDS - 1)
        send(pipeline, D0, 2, start=3)
        run(pipeline, 3)
        send(pipeline, D0, 2, start=5)
        run(pipeline, 3)
    run(pipeline, 3)
    assert parked(pipeline) == {}
    assert total(pipeline.statuses(), DECISIONS, "counted") == 7
    run(pipeline, TOPICS_SECONDS)
    assert worker.health.ready(pipeline.clock.monotonic()) == (True, "ok")
    pipeline.check_conservation()


def test_a_shorter_topic_is_told_from_one_that_was_cut(pipeline: Pipeline) -> None:
    """Its offset is gone before anybody has looked at its identity: that is asked for first."""
    send(pipeline, D0, 3)
    worker = pipeline.worker()
    pipeline.drain()
    pipeline.broker.create_topic(DECISIONS, 2)
    with asked(worker, SourceError("nobody says")) as away:
        run(pipeline, 3)
        assert away.called
        assert parked(pipeline) == {}
    run(pipeline, 3)
    assert "created again" in str(parked(pipeline)[D0])
    resume(pipeline, D0, 0)
    assert offsets(pipeline)[0] == 0


def test_what_was_read_before_a_loss_is_stored(pipeline: Pipeline) -> None:
    """The flush comes later than the poll that brings the news."""
    send(pipeline, D0, 3)
    worker = pipeline.worker()
    run(pipeline, 3)
    pipeline.clock.seconds += 0.01
    send(pipeline, D0, 4, start=3)
    worker.step(0)
    assert offsets(pipeline)[0] == 3
    pipeline.broker.trim(D0, 9)
    pipeline.broker.log(D0).high = 9
    worker.step(0)
    assert offsets(pipeline)[0] == 7
    assert parked(pipeline).keys() == {D0}


def test_a_lost_position_stays_lost_when_the_topic_has_grown_past_it(pipeline: Pipeline) -> None:
    send(pipeline, D0, 9)
    worker = pipeline.worker()
    pipeline.drain()
    log = pipeline.broker.log(D0)
    log.messages, log.high = {0: log.messages[0]}, 1
    run(pipeline, 2)
    assert parked(pipeline).keys() == {D0}
    send(pipeline, D0, 20, start=100)
    run(pipeline, 60)
    pipeline.kill(worker)
    pipeline.worker()
    run(pipeline, 60)
    assert offsets(pipeline)[0] == 9, "neither time nor a restart makes it good"
    assert parked(pipeline).keys() == {D0}


class FailingParks:
    """A store that cannot be written at the wrong moment."""

    def __init__(self, store: IngestStore) -> None:
        self._store = store
        self.away = True

    def __getattr__(self, name: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(self._store, name)
        return found

    def park(self, shard: Shard, epoch: int, reason: str) -> None:
        if self.away:
            raise StoreError("away")
        self._store.park(shard, epoch, reason)


def test_a_shard_parked_while_the_store_is_away_is_told_later(pipeline: Pipeline) -> None:
    send(pipeline, D0, 3)
    store = FailingParks(pipeline.store)
    worker = pipeline.worker(store)  # type: ignore[arg-type]
    pipeline.drain()
    pipeline.broker.trim(D0, 9)
    pipeline.broker.log(D0).high = 9
    run(pipeline, 2)
    assert worker.health.parked
    assert parked(pipeline) == {}
    send(pipeline, D1, 1)
    store.away = False
    run(pipeline, 2 * REVIEW_SECONDS)
    assert parked(pipeline).keys() == {D0}
    assert offsets(pipeline)[:2] == [3, 1]
    assert worker.health.store_ok


def test_a_shard_that_is_moved_while_it_is_quiet_goes_on_elsewhere(pipeline: Pipeline) -> None:
    """No flush would find out that its offset was changed."""
    send(pipeline, D0, 3)
    pipeline.worker()
    pipeline.drain()
    pipeline.broker.skip(D0, 5)  # never delivered
    resume(pipeline, D0, 6, force=True)
    run(pipeline, REVIEW_SECONDS + 2)
    send(pipeline, D0, 1, start=50)
    run(pipeline, 5)
    assert offsets(pipeline)[0] == 9
    assert total(pipeline.statuses(), DECISIONS, "counted") == 4
    pipeline.check_conservation()
