"""Protocols that the ingest loop asks of others, and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from monitor.core.time import Grain
from monitor.ports import (
    Claim,
    Dictionary,
    FlushResult,
    Shard,
    ShardFlush,
    ShardStatus,
    Start,
    Tallies,
)


class Store(Protocol):
    """The store, as far as ingest needs it."""

    def register(self, shards: Sequence[Shard]) -> None:
        """Make every partition known."""

    def claim(
        self, shards: Sequence[Shard], owner: str, topic_ids: Mapping[str, str | None]
    ) -> list[Claim]:
        """Take shards over, of topics that have these identities now."""

    def park(self, shard: Shard, epoch: int, reason: str) -> None:
        """Keep why a shard of ours is not read."""

    def beat(
        self, epochs: Mapping[Shard, int], *, storing: bool, waiting: Mapping[Shard, bool]
    ) -> None:
        """Say that the owner of these shards is there, whether it can store, and what waits."""

    def start(self, claim: Claim, offset: int) -> None:
        """Store a first position."""

    def duplicate_keys(
        self, shard: Shard, since_minute: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Keys that arrived since a minute."""

    def statuses(self) -> list[ShardStatus]:
        """All shards."""

    def live_versions(self) -> list[str]:
        """Version tuples that decisions of the kept hours have."""

    def flush(self, flushes: Sequence[ShardFlush], dictionary: Dictionary) -> FlushResult:
        """Write one flush."""


class Observer(Protocol):
    """Observer of what happens in the loop; metrics, mostly."""

    def set_shard(
        self,
        shard: Shard,
        tallies: Tallies,
        lag_messages: int | None,
        lag_seconds: float | None,
        *,
        offsets: int | None,
    ) -> None:
        """New committed totals of an owned shard, and the offsets they account for."""

    def drop_shard(self, shard: Shard) -> None:
        """A shard is not ours any more."""

    def set_parked(self, shard: Shard, parked: bool) -> None:
        """Set whether a shard of ours waits for a person."""

    def set_ahead(self, shard: Shard, micros: int) -> None:
        """Set how far events of an owned shard were dated ahead of the wall clock lately."""

    def flushed(self, seconds: float) -> None:
        """A flush took this long."""

    def store_failed(self) -> None:
        """The store could not be written."""

    def observe_label_delays(self, seconds: npt.ArrayLike, *, joined_at: int | None) -> None:
        """Delays from decision to label that were counted, and when (wall clock)."""

    def add_unknown_values(self, attribute: str, count: int) -> None:
        """Decisions had a value outside the allow-list."""

    def add_doubtful_probes(self, unsigned: int, undeclared: int) -> None:
        """Counted decisions that called themselves probes: not signed, and of no declared set."""

    def add_unreadable(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Events could not be read, by reason and field."""

    def add_unknown_fields(self, event: str, counts: Mapping[str, int]) -> None:
        """Fields of readable events were dropped, by names that may be shown.

        ``event`` is decision or label.
        """

    def add_below_threshold(self, count: int) -> None:
        """Counted decisions were served automatically with a score below their own threshold."""

    def set_cardinality(self, unlisted: Mapping[str, int], versions_turned_away: int) -> None:
        """About how many distinct ones today, by attribute; version tuples without room, ever."""


@dataclass(frozen=True, slots=True)
class IngestPolicy:
    """Settings of the ingest loop.

    Attributes:
        decisions_topic: topic of decisions.
        labels_topic: topic of labels.
        owner: name of this worker.
        start: where unknown shards begin.
        flush_events: flush after so many events.
        flush_seconds: and after so many seconds.
        dead_letter_stop_share: stop when more than this share is unreadable,
        dead_letter_min_events: among at least so many events.
        closes: the pane of a file's last event that its end completes: the day, or the hour where
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
        """Both topics."""
        return self.decisions_topic, self.labels_topic
