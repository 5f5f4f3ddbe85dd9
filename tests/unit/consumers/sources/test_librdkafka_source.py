"""How a poll of librdkafka waits, and how a shard is held back and read on."""

from __future__ import annotations

from unittest.mock import Mock, call, patch

from consumers.sources import kafka_admin, librdkafka_source
from consumers.sources.base import ShardChanges
from consumers.sources.librdkafka_client import Fetching
from consumers.sources.librdkafka_source import GATHER_SECONDS, MAX_RECORDS, RdkafkaSource
from monitor.records import Shard


def test_after_a_first_message_more_are_waited_for_a_moment_only() -> None:
    client = Mock(consume=Mock(side_effect=[["message"], []]))
    with (
        patch.object(librdkafka_source, "open_client", Mock(return_value=client)),
        patch.object(librdkafka_source, "Fetching"),
        patch.object(kafka_admin, "KafkaTopics"),
        patch.object(librdkafka_source, "split", Mock(return_value=([], []))),
    ):
        RdkafkaSource(Mock(), ["decisions"], "slicewatch").poll(5.0)
    waits = [call(1, 5.0), call(MAX_RECORDS - 1, GATHER_SECONDS)]
    assert client.consume.call_args_list == waits


def test_a_shard_that_was_held_back_is_read_on_without_being_assigned_anew() -> None:
    client, shard = Mock(), Shard("decisions", 0)
    fetching = Fetching(client, ShardChanges())
    fetching.run(shard, 5)
    fetching.hold(shard)
    fetching.run(shard, 7)
    assert client.incremental_assign.call_count == 1
    assert not client.incremental_unassign.called
