"""A shard whose topic is another one now waits for a person."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from consumers.ownership import Ownership
from monitor.ports import CREATED_AGAIN, Claim, Shard, Tallies

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
