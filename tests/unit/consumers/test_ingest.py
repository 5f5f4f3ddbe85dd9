"""When what was read is stored, and what becomes of a shard that another worker has claimed."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock, patch

import lesson
import pytest
from pipeline import DECISIONS, Pipeline, flushed_by, messages

from consumers.worker_health import STUCK_SECONDS
from monitor.errors import FencedError, StoreError
from monitor.records import Shard
from monitor.shard_status import ShardStatus, Tallies


@pytest.mark.parametrize(("events", "stored"), [(2, False), (3, True)])
def test_a_flush_waits_for_the_interval_or_for_enough_events(
    tmp_path: Path, events: int, stored: bool
) -> None:
    with Pipeline(
        tmp_path,
        constants=flushed_by(3) | {"monitor.composition.ingest.FLUSH_SECONDS": 30.0},
        evaluate__cycle="150s",
        stream__clock="live",
    ) as pipeline:
        worker = pipeline.worker()
        for _ in range(5):
            pipeline.step(worker)
        pipeline.broker.produce(DECISIONS, messages(list(lesson.decisions())[:events]))
        for _ in range(5):
            pipeline.step(worker)
        assert pipeline.drained() == stored


def test_a_shard_that_another_worker_has_claimed_is_reported_no_more(tmp_path: Path) -> None:
    shard = Shard(DECISIONS, 0)
    with Pipeline(tmp_path, constants=flushed_by(1), stream__clock="live") as pipeline:
        store = Mock(wraps=pipeline.store)
        worker = pipeline.worker(store)
        for _ in range(5):
            pipeline.step(worker)
        store.flush.side_effect = FencedError(shard)
        pipeline.broker.produce(DECISIONS, messages([next(lesson.decisions())]))
        with patch.object(pipeline.seen, "drop_shard") as drop_shard:
            pipeline.step(worker)
            drop_shard.assert_called_with(shard)


def test_a_worker_that_has_its_shards_is_not_stuck_however_long_nothing_comes(
    tmp_path: Path,
) -> None:
    with Pipeline(tmp_path) as pipeline:
        worker = pipeline.worker()
        for _ in range(3):
            pipeline.step(worker, STUCK_SECONDS)
        assert worker.health.stuck(pipeline.clock.monotonic()) is None


@pytest.mark.parametrize("begun", [True, False])
def test_a_worker_whose_store_stays_away_is_stuck(tmp_path: Path, begun: bool) -> None:
    with Pipeline(tmp_path, constants=flushed_by(1), stream__clock="live") as pipeline:
        store = Mock(wraps=pipeline.store)
        worker = pipeline.worker(store)
        for _ in range(5 * begun):
            pipeline.step(worker)
        store.flush.side_effect = store.claim.side_effect = StoreError("away")
        pipeline.broker.produce(DECISIONS, messages([next(lesson.decisions())]))
        for _ in range(int(STUCK_SECONDS) + 2):
            pipeline.step(worker, 1.0)
        stuck = worker.health.stuck(pipeline.clock.monotonic())
        assert stuck == "what was read could not be stored"


@pytest.mark.parametrize("ended", [True, False])
def test_events_that_wait_for_more_are_taken_when_their_file_has_ended(
    tmp_path: Path, ended: bool
) -> None:
    with Pipeline(tmp_path) as pipeline:
        worker = pipeline.worker()
        for _ in range(5):
            pipeline.step(worker)
        pipeline.broker.produce(DECISIONS, messages(list(lesson.decisions())[:2]))
        with patch.object(worker.source, "ended", Mock(return_value=ended)):
            pipeline.step(worker)
        assert worker.states[Shard(DECISIONS, 0)].next_offset == (2 if ended else 0)


def test_a_shard_that_nobody_read_and_somebody_reads_now_is_forgotten_once(tmp_path: Path) -> None:
    shard = Shard(DECISIONS, 7)
    waiting = ShardStatus(shard, 1, 0, None, 0, 5, None, None, Tallies(messages=5))
    with Pipeline(tmp_path) as pipeline, patch.object(pipeline.seen, "drop_shard") as drop_shard:
        worker = pipeline.worker()
        unread = worker._reconciler.unread
        unread.review([waiting], [], [DECISIONS])
        worker.set_end_offsets({shard: 9})
        pipeline.step(worker)
        assert not drop_shard.called
        unread.review([], [], [DECISIONS])
        for _ in range(3):
            pipeline.step(worker)
        drop_shard.assert_called_once_with(shard)
