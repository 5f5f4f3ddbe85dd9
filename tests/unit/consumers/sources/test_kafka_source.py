"""What the rebalance listener tells the client and us, and what comes without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock, patch

import pytest
from kafka import TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaError, NodeNotReadyError, TopicAuthorizationFailedError

from consumers.sources import kafka_admin, kafka_source
from consumers.sources.base import ShardChanges
from consumers.sources.kafka_source import KafkaSource, RebalanceNotes
from monitor.records import Shard


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


@pytest.mark.parametrize("error", [NodeNotReadyError, TopicAuthorizationFailedError])
def test_while_the_broker_is_away_or_refuses_nothing_comes(error: type[KafkaError]) -> None:
    client = Mock()
    client.poll.side_effect = error("no")
    consumer = patch.object(kafka_source, "open_consumer", Mock(return_value=client))
    with consumer, patch.object(kafka_admin, "KafkaTopics"):
        source = KafkaSource(Mock(), ["decisions"], "slicewatch")
    polled = source.poll(0.0)
    assert (polled.records, polled.assigned, polled.revoked) == ([], [], [])
