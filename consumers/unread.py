"""Shards that nobody reads: they were just added, or wait for a person. They lag all the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from monitor.ports import Shard, ShardStatus, Tallies


@dataclass(frozen=True, slots=True)
class UnreadLag:
    """Lag of a shard that is not read.

    Attributes:
        shard: which.
        tallies: its totals as stored.
        offsets: next offset minus start offset.
        messages: messages behind the end.
        seconds: since when at least; 0 when nothing is there to be read.
    """

    shard: Shard
    tallies: Tallies
    offsets: int
    messages: int
    seconds: float


class UnreadShards:
    """Follows the shards that nobody reads and this worker can report."""

    def __init__(self) -> None:
        self._statuses: dict[Shard, ShardStatus] = {}
        self._since: dict[Shard, float] = {}

    @property
    def shards(self) -> frozenset[Shard]:
        """Shards whose end is to be asked for."""
        return frozenset(self._statuses)

    def review(
        self, statuses: Iterable[ShardStatus], parked: Collection[Shard], topics: Collection[str]
    ) -> None:
        """Take in what the store says.

        Args:
            statuses: all shards.
            parked: those that wait for a person and were given to this worker.
            topics: of the settings.
        """
        self._statuses = {
            status.shard: status
            for status in statuses
            if status.next_offset is not None
            and status.shard.topic in topics
            and (status.owner is None or status.shard in parked)
        }
        self._since = {s: at for s, at in self._since.items() if s in self._statuses}

    def set_end_offsets(self, ends: Mapping[Shard, int | None], now: float) -> Iterator[UnreadLag]:
        """Lag of shards by their end offsets; None where nobody knows these.

        Args:
            ends: next offset to be written.
            now: monotonic seconds.
        """
        for shard in self._statuses.keys() & ends.keys():
            status, end = self._statuses[shard], ends[shard]
            if end is None or status.next_offset is None:
                continue
            messages = max(0, end - status.next_offset)
            since = self._since.setdefault(shard, now) if messages else now
            if not messages:
                self._since.pop(shard, None)
            offsets = status.next_offset - (status.start_offset or 0)
            yield UnreadLag(shard, status.tallies, offsets, messages, now - since)
