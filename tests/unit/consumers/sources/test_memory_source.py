"""What only the broker in memory can show; the rest is in the contract suite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_source import MemoryBroker, MemorySource, Ownership

from monitor.errors import DataLossError, MissingTopicError, SourceError
from monitor.records import Shard, Start

SHARD = Shard("decisions", 0)


def started(broker: MemoryBroker, offset: int = 0) -> MemorySource:
    source = MemorySource(broker, ["decisions"])
    source.poll(0)
    source.begin(SHARD, offset)
    return source


def test_a_zombie_reads_on_but_cannot_prove_it() -> None:
    broker = MemoryBroker({"decisions": 1})
    zombie = started(broker)
    assert zombie.is_member([SHARD])
    broker.leave(zombie)
    heir = started(broker)
    assert heir.is_member([SHARD])
    assert not zombie.is_member([SHARD])
    polled = zombie.poll(0)  # it joins again, and learns first that it lost what it had
    assert polled.revoked == [SHARD]
    assert polled.records == []


def test_taken_away_and_given_back_is_both() -> None:
    broker = MemoryBroker({"decisions": 1})
    source = started(broker)
    broker.produce("decisions", [b"one"])
    broker.move("slicewatch", SHARD, source)
    assert not source.is_member([SHARD])
    polled = source.poll(0)
    assert (polled.revoked, polled.assigned, polled.records) == ([SHARD], [SHARD], [])
    assert source.is_member([SHARD])


def test_holes_are_passed_and_the_position_runs_ahead() -> None:
    broker = MemoryBroker({"decisions": 1})
    broker.produce("decisions", [b"one"])
    broker.skip(SHARD, 2)
    broker.produce("decisions", [None], timestamps_ms=[77])
    broker.skip(SHARD)
    source = started(broker)
    (records,) = source.poll(0).records
    assert (records.offsets, records.values) == ([0, 3], [b"one", None])
    assert records.timestamps == [-1, 77]
    assert source.position(SHARD) == source.high_water(SHARD) == 5


def test_retention_and_a_new_topic_lose_data_while_reading() -> None:
    broker = MemoryBroker({"decisions": 1})
    broker.produce("decisions", [b"x"] * 10)
    source = started(broker, 3)
    broker.trim(SHARD, 5)
    with pytest.raises(DataLossError, match=r"offset 3 .* holds 5 to 10"):
        source.poll(0)
    source.begin(SHARD, 5)
    assert source.poll(0).records[0].offsets == [5, 6, 7, 8, 9]
    before = source.topic_id("decisions")
    broker.create_topic("decisions")
    assert source.topic_id("decisions") != before
    with pytest.raises(DataLossError, match=r"offset 10 .* holds 0 to 0"):
        source.poll(0)


def test_resolves_where_a_shard_begins() -> None:
    broker = MemoryBroker({"decisions": 1})
    broker.produce("decisions", [b"x"] * 4, timestamps_ms=[1, 2, 3, 4])
    broker.trim(SHARD, 1)
    source = started(broker, 1)
    starts = [Start(), Start("latest"), Start("time", 3_000), Start("time", 3_001)]
    assert [source.first_offset(SHARD, one) for one in starts] == [1, 4, 2, 3]
    assert source.first_offset(SHARD, Start("time", 9_000)) == 4


def test_reported_positions_can_be_seen() -> None:
    broker = MemoryBroker({"decisions": 1})
    started(broker).report({SHARD: 5})
    assert broker.reported("slicewatch") == {SHARD: 5}


def test_no_shard_is_starved() -> None:
    broker = MemoryBroker({"decisions": 2})
    for partition in range(2):
        broker.produce("decisions", [b"x"] * 100, partition)
    source = MemorySource(broker, ["decisions"], max_records=10)
    for shard in source.poll(0).assigned:
        source.begin(shard, 0)
    seen = [source.poll(0).records[0].shard.partition for _ in range(6)]
    assert seen == [0, 1, 0, 1, 0, 1]


def test_an_unknown_topic_is_refused() -> None:
    with pytest.raises(SourceError, match="topic labels does not exist"):
        MemorySource(MemoryBroker(), ["labels"])


@given(st.integers(1, 9), st.lists(st.booleans(), max_size=12))
def test_shares_are_even_and_only_what_must_moves(partitions: int, steps: list[bool]) -> None:
    broker = MemoryBroker({"decisions": partitions})
    shards = broker.shards("decisions")
    members: list[MemorySource] = []

    def owner(shard: Shard) -> Ownership | None:
        return broker.owner("slicewatch", shard)

    def owners() -> list[Ownership | None]:
        return [owner(shard) for shard in shards]

    def load(member: MemorySource) -> int:
        return sum(held is not None and held[0] is member for held in map(owner, shards))

    for join in steps:
        before = owners()
        if join or len(members) < 2:
            members.append(MemorySource(broker, ["decisions"]))
            members[-1].poll(0)
            must_move = load(members[-1])
        else:
            must_move = load(members[0])
            members.pop(0).close()
        loads = [load(member) for member in members]
        assert sum(loads) == partitions
        assert max(loads) - min(loads) <= 1
        assert sum(then != now for then, now in zip(before, owners(), strict=True)) == must_move


def test_a_topic_that_is_not_there_has_no_identity() -> None:
    source = MemorySource(MemoryBroker({"decisions": 1}), ["decisions"])
    with pytest.raises(MissingTopicError, match="labels does not exist"):
        source.topic_id("labels")
