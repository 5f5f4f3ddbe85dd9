"""When shards are claimed, and when one waits for a person: its topic is another one now."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from consumers.ownership import RETRY_SECONDS, Ownership
from monitor.records import Shard
from monitor.shard_status import CREATED_AGAIN, Claim, Tallies

SHARD = Shard("decisions", 0)


@pytest.mark.parametrize(
    ("stored", "present", "parked"),
    [("a", "b", True), ("a", "a", False), (None, "b", False), ("a", None, False)],
)
def test_only_a_topic_known_to_be_another_one_parks_its_shards(
    stored: str | None, present: str | None, parked: bool
) -> None:
    claim = Claim(SHARD, 1, 5, 0, None, None, Tallies(), topic_id=stored)
    ownership = Ownership(Mock(), Mock(), Mock(), Mock())
    ownership.states[SHARD] = Mock(claim=claim, shard=SHARD)
    ownership.compare(SHARD.topic, present)
    reasons = [held.reason for held in ownership.parked.values()]
    assert len(reasons) == parked
    assert all(CREATED_AGAIN in reason for reason in reasons)


def test_a_store_that_did_not_give_a_shard_is_asked_again_after_a_pause() -> None:
    store = Mock(claim=Mock(return_value=[]))
    ownership = Ownership(Mock(), store, Mock(), Mock())
    ownership.assign([SHARD])
    asked = []
    for now in (0.0, RETRY_SECONDS / 2, RETRY_SECONDS):
        ownership.claim(now)
        asked.append(store.claim.call_count)
    assert asked == [1, 1, 2]
