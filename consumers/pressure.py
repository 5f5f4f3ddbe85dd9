"""Back-pressure between the two topics: neither may run far ahead of the other."""

from __future__ import annotations

from collections.abc import Iterable

from consumers.shard import ShardState
from monitor.core.time import HOUR
from monitor.ports import Shard

LABELS_AHEAD = HOUR
"""Labels whose decisions are this much later than the watermark wait in the broker."""


def paused_shards(states: Iterable[ShardState], horizon: int) -> set[Shard]:
    """Which shards should not be read now.

    Labels pause while they are more than an hour ahead of decisions still to be read (they
    would only fill ``waiting_label``); decisions pause while unread labels lie more than half
    the horizon behind (their ``pending`` rows would expire first).
    """
    states = list(states)
    decisions = [s for s in states if s.is_decisions]
    labels = [s for s in states if not s.is_decisions]
    lagging = [s.clock.newest for s in decisions if not s.caught_up]
    paused: set[Shard] = set()
    if lagging:
        slowest = min((at for at in lagging if at is not None), default=None)
        for state in labels:
            newest = state.clock.newest
            if newest is not None and (slowest is None or newest > slowest + LABELS_AHEAD):
                paused.add(state.shard)
    unread = [s.clock.newest for s in labels if not s.caught_up and s.clock.newest is not None]
    if unread:
        for state in decisions:
            newest = state.clock.newest
            if newest is not None and newest - min(unread) > horizon // 2:
                paused.add(state.shard)
    return paused
