"""What nobody reads lags all the same; how far others are matters to a live stream alone."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest

from consumers.backpressure import PeerProgress
from consumers.event_time import FIRST_DAY, ClockPolicy
from consumers.reconcile import Reconciler, UnreadShards
from monitor.core.time import DAY, HOUR, MINUTE
from monitor.records import Shard
from monitor.shard_status import ShardStatus, Tallies

ADDED, PARKED, READ, ELSEWHERE = (Shard("d", part) for part in range(4))
OTHER_TOPIC = Shard("old", 0)


def status(shard: Shard, owner: str | None, next_offset: int | None = 0) -> ShardStatus:
    return ShardStatus(
        shard=shard,
        epoch=1,
        seq=0,
        owner=owner,
        start_offset=next_offset and 0,
        next_offset=next_offset,
        max_decided_at=None,
        watermark=None,
        tallies=Tallies(messages=next_offset or 0),
    )


STATUSES = [
    status(ADDED, None),
    status(PARKED, "us", 7),
    status(READ, "us", 9),
    status(ELSEWHERE, "another", 11),
    status(OTHER_TOPIC, None),
]


def unread() -> UnreadShards:
    found = UnreadShards()
    found.review(STATUSES, [PARKED], ["d", "l"])
    return found


def test_added_partitions_and_our_parked_ones_are_told_of() -> None:
    assert unread().shards == {ADDED, PARKED}


def test_a_partition_whose_first_position_is_still_to_be_resolved_has_no_lag() -> None:
    found = UnreadShards()
    found.review([status(ADDED, None, None)], [], ["d"])
    assert not found.shards


def test_lag_is_what_lies_behind_the_stored_position_and_since_when() -> None:
    found = unread()
    ends = {ADDED: 5, PARKED: 7, READ: 100}
    first = {one.shard: (one.messages, one.seconds) for one in found.set_end_offsets(ends, 10.0)}
    assert first == {ADDED: (5, 0.0), PARKED: (0, 0.0)}
    later = {
        one.shard: (one.messages, one.seconds) for one in found.set_end_offsets({ADDED: 8}, 70.0)
    }
    assert later == {ADDED: (8, 60.0)}
    (parked,) = found.set_end_offsets({PARKED: 9}, 80.0)
    assert (parked.messages, parked.seconds, parked.offsets) == (2, 0.0, 7)
    assert parked.tallies == Tallies(messages=7)


def test_where_nobody_says_nothing_is_told() -> None:
    assert list(unread().set_end_offsets({ADDED: None}, 1.0)) == []


def test_a_shard_that_was_taken_up_begins_anew_when_it_is_unread_again() -> None:
    found = unread()
    list(found.set_end_offsets({ADDED: 5}, 10.0))
    found.review([status(ADDED, "us")], [], ["d"])
    assert not found.shards
    found.review(STATUSES, [], ["d"])
    (again,) = found.set_end_offsets({ADDED: 5}, 100.0)
    assert again.seconds == 0.0


@pytest.mark.parametrize("live", [True, False])
def test_other_workers_hold_a_live_stream_back_and_never_one_of_files(live: bool) -> None:
    """Files are read to their end, in whatever order."""
    store, own = Mock(), Mock(states={})
    store.statuses.return_value = [replace(status(ELSEWHERE, "another", 11), watermark=5 * HOUR)]
    clock = ClockPolicy(live=live, horizon=24 * HOUR, max_early=MINUTE)
    codecs, policy = Mock(clock=clock, lateness=MINUTE), Mock(decisions_topic="d")
    one = Reconciler(Mock(), store, own, codecs=codecs, policy=policy, now=0.0)
    one.reconcile_peers()
    assert one.peers == (PeerProgress([5 * HOUR + MINUTE], []) if live else PeerProgress())


def test_beats_say_what_waits_and_whether_any_of_it_is_read() -> None:
    """What is held back on purpose does not stand still; what is read to its end does not wait."""
    store = Mock()
    store.statuses.return_value = []
    shards = {
        shard: Mock(caught_up=caught_up, next_offset=5, aside=0, shard=shard)
        for shard, caught_up in ((ADDED, False), (READ, False), (PARKED, False), (ELSEWHERE, True))
    }
    own = Mock(states=shards, epochs=dict.fromkeys(shards, 1), parked={})
    clock = ClockPolicy(live=False, horizon=24 * HOUR, max_early=MINUTE)
    codecs = Mock(clock=clock, lateness=MINUTE, coder=Mock(crowded=False))
    policy = Mock(decisions_topic="d", topics=("d", "l"))
    one = Reconciler(Mock(), store, own, codecs=codecs, policy=policy, now=0.0)
    one.review(10.0, [PARKED], wall=0)
    shards[READ].next_offset = 6
    one.review(20.0, [PARKED], wall=0)
    said = [call.kwargs["waiting"] for call in store.beat.call_args_list]
    assert said[1] == {ADDED: False, READ: True, PARKED: True}
    assert said[0] == {ADDED: False, READ: False, PARKED: True}


def idle_reconciler(store: Mock, *, live: bool = False, crowded: bool = False) -> Reconciler:
    """Return a reconciler, made at time 0, of a worker without shards."""
    clock = ClockPolicy(live=live, horizon=24 * HOUR, max_early=MINUTE)
    codecs = Mock(clock=clock, lateness=MINUTE, coder=Mock(crowded=crowded))
    own = Mock(states={}, epochs={}, parked={})
    policy = Mock(decisions_topic="d", topics=("d", "l"))
    return Reconciler(Mock(), store, own, codecs=codecs, policy=policy, now=0.0)


def test_a_review_finds_the_partitions_that_nobody_reads() -> None:
    reconciler = idle_reconciler(Mock(statuses=Mock(return_value=STATUSES)))
    reconciler.review(10.0, wall=0)
    assert reconciler.unread.shards == {ADDED}


def test_a_paused_worker_looks_at_the_others_every_second_from_its_start() -> None:
    store = Mock(statuses=Mock(return_value=[]))
    reconciler = idle_reconciler(store, live=True)
    looks = []
    for now in (0.5, 1.0, 1.5, 2.0):
        reconciler.review(now, [PARKED], wall=0)
        looks.append(store.statuses.call_count)
    assert looks == [0, 1, 1, 2]


def test_the_newest_event_of_the_other_shards_is_the_last_of_them() -> None:
    times = {ADDED: 9 * HOUR, READ: 5 * HOUR, ELSEWHERE: 7 * HOUR, PARKED: None}
    statuses = [replace(status(shard, None), max_decided_at=at) for shard, at in times.items()]
    reconciler = idle_reconciler(Mock(statuses=Mock(return_value=statuses)))
    assert reconciler.newest_of_others(ADDED) is None
    reconciler.review(10.0, wall=0)
    assert reconciler.newest_of_others(ADDED) == 7 * HOUR
    assert reconciler.newest_of_others(READ) == 9 * HOUR


def test_where_version_tuples_find_no_room_a_review_looks_which_have_gone() -> None:
    store = Mock(statuses=Mock(return_value=[]))
    for crowded in (False, True):
        idle_reconciler(store, crowded=crowded).review(10.0, wall=0)
        assert store.live_versions.called == crowded


@pytest.mark.parametrize(("times", "reached"), [((7, 5), 5), ((7, None), 0), ((), 0)])
def test_a_topic_has_reached_what_its_slowest_partition_has(
    times: tuple[int | None, ...], reached: int
) -> None:
    """Times are in days after the first day that is believed."""
    statuses = [
        replace(
            status(Shard("d", part), "us"),
            max_decided_at=None if days is None else FIRST_DAY + days * DAY,
        )
        for part, days in enumerate(times)
    ]
    statuses.append(replace(status(OTHER_TOPIC, None), max_decided_at=HOUR))
    reconciler = idle_reconciler(Mock(statuses=Mock(return_value=statuses)))
    reconciler.review(10.0, wall=0)
    assert reconciler.reached("d") == FIRST_DAY + reached * DAY
