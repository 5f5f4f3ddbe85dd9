"""What the rebalance listener tells the client and us."""

from __future__ import annotations

from types import SimpleNamespace

from kafka import TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from consumers.sources.base import ShardChanges
from consumers.sources.kafka_source import RebalanceNotes
from monitor.ports import Shard


def test_a_member_that_was_lost_announces_no_shard_when_it_joins_again() -> None:
    """Else the leader withholds what it wants to move, and it belongs to nobody."""
    assignor = CooperativeStickyAssignor()
    where = TopicPartition("decisions", 0)
    assignor.member_assignment = [where]
    assert assignor.metadata(["decisions"]).owned_partitions
    consumer = SimpleNamespace(config={"partition_assignment_strategy": [assignor]})
    changes = ShardChanges()
    notes = RebalanceNotes(consumer, changes)
    notes.on_partitions_lost([where])
    assert not assignor.metadata(["decisions"]).owned_partitions
    assert changes.drain() == ([Shard("decisions", 0)], [])
