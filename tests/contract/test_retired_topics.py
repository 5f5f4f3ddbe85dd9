"""Shards of topics that are not in the settings any more: on both databases alike."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from pipeline import ManualClock

from consumers.backpressure import PeerProgress
from monitor.core.time import HOUR
from monitor.errors import FencedError, OutdatedError, StoreError
from monitor.flushes import Dictionary, ShardFlush
from monitor.records import Shard
from monitor.shard_status import Tallies
from monitor.store import database as db
from monitor.store.ingest.ingest_store import IngestStore
from monitor.store.retired import ConfiguredTopics, RetiredTopics
from monitor.store.shard_rows import (
    behind_of,
    list_statuses,
    read_slowest,
    read_statuses,
    read_watermark,
)

D0, D1, OLD, NEW = Shard("d", 0), Shard("d", 1), Shard("old", 0), Shard("new", 0)
BEFORE, AFTER = ConfiguredTopics("d", "old"), ConfiguredTopics("d", "new")
T0 = 500_000 * HOUR


@pytest.fixture
def store(engine: sa.Engine) -> IngestStore:
    return IngestStore(engine, "d", ManualClock())


def advance(
    store: IngestStore, shard: Shard, to: int, tallies: Tallies | None = None
) -> ShardFlush:
    """Claim a shard and bring its event time to an instant; returns the flush."""
    (claim,) = store.claim([shard], "a worker")
    if claim.next_offset is None:
        store.start(claim, 0)
    at = claim.next_offset or 0
    flush = ShardFlush(
        shard=shard,
        epoch=claim.epoch,
        expected_offset=at,
        next_offset=at,
        max_decided_at=to,
        watermark=to,
        holds_back=True,
        tallies=tallies or Tallies(),
    )
    store.flush([flush], Dictionary())
    return flush


def states(engine: sa.Engine) -> dict[Shard, bool]:
    return {one.shard: one.retired_at is not None for one in read_statuses(engine)}


def test_what_is_not_configured_any_more_is_retired_and_comes_back(
    engine: sa.Engine, store: IngestStore
) -> None:
    topics = RetiredTopics(engine)
    assert topics.keep(BEFORE, 1) == []
    store.register([D0, OLD])
    assert topics.changes(BEFORE) == []
    (announced,) = topics.changes(AFTER)
    assert "topic old is not in the settings any more" in announced
    assert topics.keep(AFTER, 5) == [announced]
    assert states(engine) == {D0: False, OLD: True}
    assert (topics.changes(AFTER), topics.keep(AFTER, 6)) == ([], [])
    (back,) = topics.keep(BEFORE, 7)
    assert "topic old was retired and is in the settings again" in back
    assert states(engine) == {D0: False, OLD: False}


def test_a_retired_shard_holds_nothing_back(engine: sa.Engine, store: IngestStore) -> None:
    """The labels that nobody reads are two hours behind."""
    store.register([D0, OLD])
    advance(store, D0, T0)
    advance(store, OLD, T0 - 2 * HOUR)
    with db.reading(engine) as connection:
        assert (
            read_slowest(connection) == behind_of(list_statuses(connection), "d") == T0 - 2 * HOUR
        )
    assert PeerProgress.from_statuses(read_statuses(engine), [], "d", 0).labels == [T0 - 2 * HOUR]
    RetiredTopics(engine).keep(AFTER, 5)
    store.register([NEW])
    advance(store, NEW, T0 - HOUR)
    with db.reading(engine) as connection:
        assert read_slowest(connection) == behind_of(list_statuses(connection), "d") == T0 - HOUR
        assert read_watermark(connection, "d") == T0
        assert read_watermark(connection, "old") is None
    assert PeerProgress.from_statuses(read_statuses(engine), [], "d", 0).labels == [T0 - HOUR]


def test_a_worker_with_the_old_settings_can_neither_flush_nor_claim(
    engine: sa.Engine, store: IngestStore
) -> None:
    store.register([D0, OLD])
    last = advance(store, OLD, T0)
    RetiredTopics(engine).keep(AFTER, 5)
    with pytest.raises(FencedError):
        store.flush([last], Dictionary())
    with pytest.raises(OutdatedError, match=r"topic old is retired: .* restart this worker"):
        store.claim([OLD], "a worker")
    # Also of a partition that the store does not know yet.
    with pytest.raises(OutdatedError, match="restart this worker"):
        store.register([Shard("old", 1)])
    assert states(engine) == {D0: False, OLD: True}


def test_a_topic_configured_again_goes_on_where_it_stood(
    engine: sa.Engine, store: IngestStore
) -> None:
    store.register([D0, OLD])
    (claim,) = store.claim([OLD], "a worker")
    store.start(claim, 41)
    RetiredTopics(engine).keep(AFTER, 5)
    RetiredTopics(engine).keep(BEFORE, 6)
    (claim,) = store.claim([OLD], "a worker")
    assert claim.next_offset == 41


@pytest.mark.parametrize(
    ("topics", "key", "had"),
    [
        (ConfiguredTopics("old", "new"), "stream.decisions_topic", "labels"),
        (ConfiguredTopics("new", "d"), "stream.labels_topic", "decisions"),
    ],
)
def test_topics_are_not_exchanged(
    engine: sa.Engine, store: IngestStore, topics: ConfiguredTopics, key: str, had: str
) -> None:
    store.register([D0, OLD])
    advance(store, D0, T0, Tallies(requested={"auto_serve": 1}))
    advance(store, OLD, T0, Tallies(unmatched={"no_decision": 1}))
    for call in (RetiredTopics(engine).changes, lambda one: RetiredTopics(engine).keep(one, 5)):
        with pytest.raises(StoreError, match=f"{key}: topic .* had {had} so far"):
            call(topics)
    assert states(engine) == {D0: False, OLD: False}


def test_a_partition_that_was_added_begins_at_its_first_offset(store: IngestStore) -> None:
    """All partitions of a first start begin as the settings say, whoever claims them when."""
    store.register([D0, D1])
    assert [one.next_offset for one in store.claim([D0], "a worker")] == [None]
    store.register([D0, D1, Shard("d", 2)])
    found = store.claim([D0, D1, Shard("d", 2), Shard("d", 3)], "another")
    assert [one.next_offset for one in found] == [None, None, 0, 0]
    assert [one.start_offset for one in found] == [None, None, 0, 0]
