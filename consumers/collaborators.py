"""Protocols of the ingest loop's collaborators, and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from monitor.core.time import Grain
from monitor.flushes import Dictionary, FlushResult, ShardFlush
from monitor.records import Shard, Start
from monitor.shard_status import Claim, ShardStatus, Tallies


class Store(Protocol):
    """Protocol of the store, as the ingest loop uses it."""

    def register(self, shards: Sequence[Shard]) -> None:
        """Record partitions that the store does not know yet."""

    def claim(
        self, shards: Sequence[Shard], owner: str, topic_ids: Mapping[str, str | None]
    ) -> list[Claim]:
        """Take over shards for ``owner`` and return their claims.

        ``topic_ids`` maps topics to their current ids.
        """

    def park(self, shard: Shard, epoch: int, reason: str) -> None:
        """Record why a shard of ours is not read; ``epoch`` proves that we own it."""

    def beat(
        self, epochs: Mapping[Shard, int], *, storing: bool, waiting: Mapping[Shard, bool]
    ) -> None:
        """Record that these shards' owner is alive, whether it can store, and what waits."""

    def start(self, claim: Claim, offset: int) -> None:
        """Record ``offset`` as the first position of a claimed shard."""

    def duplicate_keys(
        self, shard: Shard, since_minute: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return duplicate keys of a shard that arrived since a minute, and the minute of each."""

    def statuses(self) -> list[ShardStatus]:
        """Return the status of all shards."""

    def live_versions(self) -> list[str]:
        """Return the version tuples, as texts, of decisions in the kept hours."""

    def flush(self, flushes: Sequence[ShardFlush], dictionary: Dictionary) -> FlushResult:
        """Write several shards' flushes and new dictionary rows; return totals and label delays."""


class Observer(Protocol):
    """Protocol of the receiver of the loop's figures, mostly for metrics."""

    def set_shard(
        self,
        shard: Shard,
        tallies: Tallies,
        lag_messages: int | None,
        lag_seconds: float | None,
        *,
        offsets: int | None,
    ) -> None:
        """Record an owned shard's committed totals, its lag, and the offsets they account for."""

    def drop_shard(self, shard: Shard) -> None:
        """Remove the figures of a shard that is no longer ours."""

    def set_parked(self, shard: Shard, parked: bool) -> None:
        """Record whether a shard of ours waits for a person."""

    def set_ahead(self, shard: Shard, micros: int) -> None:
        """Record by how many microseconds an owned shard's recent events lead the wall clock."""

    def flushed(self, seconds: float) -> None:
        """Record the duration of a flush, in seconds."""

    def store_failed(self) -> None:
        """Count a failed attempt to use the store."""

    def observe_label_delays(self, seconds: npt.ArrayLike, *, joined_at: int | None) -> None:
        """Record the delays (seconds) of counted labels, and the wall-clock time of their join."""

    def add_unknown_values(self, attribute: str, count: int) -> None:
        """Add to the number of decisions with a value of this attribute outside the allow-list."""

    def add_doubtful_probes(self, unsigned: int, undeclared: int) -> None:
        """Count decisions that called themselves probes but were unsigned or of no declared set."""

    def add_unreadable(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add to the numbers of unreadable events, by reason and field."""

    def add_unknown_fields(self, event: str, counts: Mapping[str, int]) -> None:
        """Add to the numbers of dropped fields in readable events, by names that may be shown.

        ``event`` is decision or label.
        """

    def add_below_threshold(self, count: int) -> None:
        """Add decisions that were auto-served with a score below their own threshold."""

    def set_cardinality(self, unlisted: Mapping[str, int], versions_turned_away: int) -> None:
        """Record today's distinct unlisted values, and the version tuples ever turned away."""


@dataclass(frozen=True, slots=True)
class IngestPolicy:
    """Settings of the ingest loop: topics, owner, start, flush intervals and dead-letter limits.

    Attributes:
        decisions_topic: topic of decisions.
        labels_topic: topic of labels.
        owner: name of this worker.
        start: start of unknown shards.
        flush_events: events after which a flush is due.
        flush_seconds: seconds after which a flush is due.
        closes: pane of a file's last event that its end completes: the day, or the hour where
            more of that day is to come.
    """

    decisions_topic: str
    labels_topic: str
    owner: str
    start: Start
    flush_events: int
    flush_seconds: float
    closes: Grain = Grain.DAY

    @property
    def topics(self) -> tuple[str, str]:
        """Return the topics of decisions and labels, in this order."""
        return self.decisions_topic, self.labels_topic
