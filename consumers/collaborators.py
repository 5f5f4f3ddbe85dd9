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
    """The store, as the ingest loop uses it."""

    def register(self, shards: Sequence[Shard]) -> None:
        """Make every partition known."""

    def claim(
        self, shards: Sequence[Shard], owner: str, topic_ids: Mapping[str, str | None]
    ) -> list[Claim]:
        """Take shards over; ``topic_ids`` has the present ids of their topics."""

    def park(self, shard: Shard, epoch: int, reason: str) -> None:
        """Store why a shard of ours is not read."""

    def beat(
        self, epochs: Mapping[Shard, int], *, storing: bool, waiting: Mapping[Shard, bool]
    ) -> None:
        """Report that the owner of these shards is alive, whether it can store, and what waits."""

    def start(self, claim: Claim, offset: int) -> None:
        """Store a first position."""

    def duplicate_keys(
        self, shard: Shard, since_minute: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the keys that arrived since a minute."""

    def statuses(self) -> list[ShardStatus]:
        """Return the status of all shards."""

    def live_versions(self) -> list[str]:
        """Return the version tuples that decisions of the kept hours have."""

    def flush(self, flushes: Sequence[ShardFlush], dictionary: Dictionary) -> FlushResult:
        """Write one flush."""


class Observer(Protocol):
    """Observer of events in the loop, mostly for metrics."""

    def set_shard(
        self,
        shard: Shard,
        tallies: Tallies,
        lag_messages: int | None,
        lag_seconds: float | None,
        *,
        offsets: int | None,
    ) -> None:
        """Set new committed totals of an owned shard, and the offsets they account for."""

    def drop_shard(self, shard: Shard) -> None:
        """Forget a shard that is no longer ours."""

    def set_parked(self, shard: Shard, parked: bool) -> None:
        """Set whether a shard of ours waits for a person."""

    def set_ahead(self, shard: Shard, micros: int) -> None:
        """Set the recent lead of an owned shard's events over the wall clock."""

    def flushed(self, seconds: float) -> None:
        """Note the duration of a flush."""

    def store_failed(self) -> None:
        """Note that the store could not be written."""

    def observe_label_delays(self, seconds: npt.ArrayLike, *, joined_at: int | None) -> None:
        """Note the delays of counted labels after decisions, and the wall clock."""

    def add_unknown_values(self, attribute: str, count: int) -> None:
        """Count decisions with a value outside the allow-list."""

    def add_doubtful_probes(self, unsigned: int, undeclared: int) -> None:
        """Count decisions that called themselves probes, unsigned or of no declared set."""

    def add_unreadable(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Count unreadable events, by reason and field."""

    def add_unknown_fields(self, event: str, counts: Mapping[str, int]) -> None:
        """Count dropped fields of readable events, by names that may be shown.

        ``event`` is decision or label.
        """

    def add_below_threshold(self, count: int) -> None:
        """Count decisions that were auto-served with a score below their own threshold."""

    def set_cardinality(self, unlisted: Mapping[str, int], versions_turned_away: int) -> None:
        """Set today's distinct unlisted values, and version tuples without room ever."""


@dataclass(frozen=True, slots=True)
class IngestPolicy:
    """Settings of the ingest loop.

    Attributes:
        decisions_topic: topic of decisions.
        labels_topic: topic of labels.
        owner: name of this worker.
        start: start of unknown shards.
        flush_events: events after which a flush is due.
        flush_seconds: seconds after which a flush is due.
        dead_letter_stop_share: unreadable share above which the worker stops,
        dead_letter_min_events: among at least this many events.
        closes: pane of a file's last event that its end completes: the day, or the hour where
            more of that day is to come.
    """

    decisions_topic: str
    labels_topic: str
    owner: str
    start: Start
    flush_events: int
    flush_seconds: float
    dead_letter_stop_share: float
    dead_letter_min_events: int
    closes: Grain = Grain.DAY

    @property
    def topics(self) -> tuple[str, str]:
        """Return both topics."""
        return self.decisions_topic, self.labels_topic
