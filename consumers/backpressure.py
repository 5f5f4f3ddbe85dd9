"""Back-pressure between the two topics: neither may run far ahead of the other.

We know whether our own shards are read to their end. For another worker's shards the store only
knows up to when their event time is complete. A shard that is caught up takes over the newest event
time of all (clock ``live``). So a mark that stays behind means a shard that lags, or that nobody
reads. Under clock ``history`` a quiet shard keeps its old mark for ever: only our own shards count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from consumers.shard import ShardState
from monitor.core.time import MINUTE
from monitor.records import Shard
from monitor.shard_status import ShardStatus

LABELS_AHEAD = 10 * MINUTE
"""Labels wait in the broker when their decisions are this much later than the watermark."""
HELD_SECONDS = 30.0
"""Longest time that labels which were read before their decisions wait in memory."""
MAX_HELD = 100_000
"""Most labels that wait in memory: about 15 MB. One answer of a broker has half as many."""


@dataclass(frozen=True, slots=True)
class PeerProgress:
    """Newest event times of other workers' shards, of decisions and of labels; None: not begun.

    Parked shards are left out: they wait for a person, and no other shard waits with them. So are
    shards of retired topics.
    """

    decisions: Sequence[int | None] = ()
    labels: Sequence[int | None] = ()

    @classmethod
    def from_statuses(
        cls,
        statuses: Iterable[ShardStatus],
        own_shards: Collection[Shard],
        decisions_topic: str,
        lateness: int,
    ) -> PeerProgress:
        """Return other workers' progress by the store's statuses, without parked or retired shards.

        Args:
            statuses: statuses of all shards.
            own_shards: shards to leave out, whose state is known better.
            decisions_topic: topic that has the decisions; any other has labels.
            lateness: lag of watermarks behind the newest event, microseconds.
        """
        marks: dict[bool, list[int | None]] = {True: [], False: []}
        for status in statuses:
            waits = status.holds_back and status.parked is None and status.retired_at is None
            if status.shard in own_shards or not waits:
                continue
            mark = None if status.watermark is None else status.watermark + lateness
            marks[status.shard.topic == decisions_topic].append(mark)
        return cls(marks[True], marks[False])


def paused_shards(
    states: Iterable[ShardState], horizon: int, peers: PeerProgress = PeerProgress()
) -> set[Shard]:
    """Return the shards to pause: labels or decisions too far ahead of the other topic's.

    Labels pause while they are more than ten minutes ahead of decisions still to be read (they
    would only fill ``waiting_label``). Decisions pause while unread labels lie more than half
    the horizon behind (their ``pending`` rows would expire first).
    """
    states = list(states)
    decisions = [s for s in states if s.is_decisions]
    labels = [s for s in states if not s.is_decisions]
    lagging = [s.clock.newest for s in decisions if not s.caught_up] + [*peers.decisions]
    paused: set[Shard] = set()
    if lagging:
        slowest = min((at for at in lagging if at is not None), default=None)
        for state in labels:
            newest = state.clock.newest
            if newest is not None and (slowest is None or newest > slowest + LABELS_AHEAD):
                paused.add(state.shard)
    behind = [s.clock.newest for s in labels if not s.caught_up] + [*peers.labels]
    unread = [at for at in behind if at is not None]
    if unread:
        for state in decisions:
            newest = state.clock.newest
            if newest is not None and newest - min(unread) > horizon // 2:
                paused.add(state.shard)
    return paused


class EarlyLabels:
    """Timer of label shards kept in memory because their decisions are about to be read.

    Both topics are read from their beginning, and one answer has an hour of labels but minutes of
    decisions. Stored at once, most labels would be written to ``waiting_label``, tried, and
    deleted again, which costs more than to store a decision.
    """

    def __init__(self) -> None:
        self._since: dict[Shard, float] = {}

    def held(self, states: Collection[ShardState], now: float) -> set[Shard]:
        """Return the shards to leave unstored at ``now`` (monotonic seconds) for a short time."""
        early = [state for state in states if _is_early(state, states)]
        self._since = {state.shard: self._since.get(state.shard, now) for state in early}
        if sum(state.buffered for state in early) > MAX_HELD:
            return set()
        return {shard for shard, since in self._since.items() if now - since < HELD_SECONDS}


def _is_early(state: ShardState, states: Iterable[ShardState]) -> bool:
    """Return True if unstored labels are newer than decisions of a shard still being read.

    Other workers' reading is ignored: their progress is known too late.
    """
    newest = state.clock.newest
    if state.is_decisions or not state.dirty or newest is None:
        return False
    lagging = (
        other_state.clock.newest
        for other_state in states
        if other_state.is_decisions and not other_state.caught_up
    )
    return any(at is None or at < newest for at in lagging)
