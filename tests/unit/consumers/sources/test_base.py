"""Which shards may be delivered, as all sources keep it."""

from __future__ import annotations

from consumers.sources.base import Delivery
from monitor.records import Shard

ONE, OTHER = Shard("decisions", 0), Shard("decisions", 1)


def test_a_shard_that_is_assigned_again_waits_and_its_pause_is_forgotten() -> None:
    delivery = Delivery()
    delivery.assign([ONE, OTHER])
    for shard in (ONE, OTHER):
        delivery.begin(shard, 7)
    delivery.pause([ONE, OTHER])
    delivery.assign([ONE])
    assert not delivery.flows(ONE)
    assert ONE not in delivery.positions, "where it begins is said anew"
    delivery.begin(ONE, 9)
    assert delivery.flows(ONE)
    assert not delivery.flows(OTHER), "it was not assigned again"
