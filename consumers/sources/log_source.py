"""Source that reads the event log of this machine; fulfils ``RecordSource``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain

from consumers.sources.base import Source, data_loss
from consumers.sources.event_log import MILLISECOND, EventLog
from monitor.core.time import DAY, MINUTE, SECOND
from monitor.errors import SourceError
from monitor.records import Polled, RecordBatch, Shard, Start

_log = logging.getLogger("slicewatch.sources")

MAX_RECORDS = 5000
TRIM_EVERY = MINUTE // SECOND
"""Reports of positions between two trims of a shard: about two minutes of flushes."""


class LogSource(Source):
    """Source that reads an :class:`EventLog`, whose only reader it is.

    Args:
        log: the log; :meth:`close` closes it.
        topics: topics to read.
        keep: time (us) for which messages that were counted are kept.
        max_records: most messages of a shard in one poll.
    """

    def __init__(
        self,
        log: EventLog,
        topics: Sequence[str],
        keep: int = 30 * DAY,
        max_records: int = MAX_RECORDS,
    ) -> None:
        super().__init__()
        self._log = log
        self._shards = list(chain.from_iterable(map(log.shards, topics)))
        self._keep = keep
        self._max_records = max_records
        self._reports = 0

    def shards(self, topic: str) -> Sequence[Shard]:
        """Return all partitions of a topic; raise MissingTopicError if it is unknown."""
        return self._log.shards(topic)

    def topic_id(self, topic: str) -> str:
        """Return the topic's id, drawn when the log was created."""
        return self._log.topic_id(topic)

    def poll(self, timeout: float) -> Polled:
        """Return the next messages of all shards that flow; wait for the first up to ``timeout``.

        Raises:
            SourceError: the source is closed, or the log cannot be read.
        """
        if self._closed:
            raise SourceError("the source is closed")
        assigned = self._assign_once(self._shards)
        self._log.arrived.clear()
        records = self._fetch()
        if not records and not assigned and self._log.arrived.wait(timeout):
            records = self._fetch()
        return Polled(records, assigned)

    def first_offset(self, shard: Shard, start: Start) -> int:
        """Return the first offset: earliest, latest, or the first written at a time or after."""
        first, end = self._log.extent(shard)
        if start.policy == "time" and start.at is not None:
            return self._log.at_time(shard, -(-start.at // MILLISECOND))
        return end if start.policy == "latest" else first

    def begin(self, shard: Shard, offset: int) -> None:
        """Deliver a shard from ``offset`` on; raise DataLossError if the log does not hold it."""
        self._delivery.begin(shard, offset)
        first, end = self._log.extent(shard)
        if not first <= offset <= end:
            self._delivery.park(shard)
            raise data_loss(shard, offset, f"the event log holds {first} to {end}")

    def high_water(self, shard: Shard) -> int | None:
        """Return the next offset to be written in a shard."""
        return self._log.extent(shard)[1]

    def report(self, positions: Mapping[Shard, int]) -> None:
        """Delete a few old messages below the stored positions, at every TRIM_EVERY-th call."""
        self._reports += 1
        if self._reports % TRIM_EVERY == 1:
            try:
                for shard, position in positions.items():
                    self._log.trim(shard, position, self._keep)
            except SourceError as error:
                _log.warning("old events are not deleted: %s", error)

    def close(self) -> None:
        """Close the log; later polls raise SourceError."""
        self._closed = True
        self._log.close()

    def _fetch(self) -> list[RecordBatch]:
        fetched = []
        for shard in self._delivery.flowing():
            position = self._delivery.positions[shard]
            if position < self._log.extent(shard)[1]:
                batch = self._log.read(shard, position, self._max_records)
                self._delivery.positions[shard] = batch.offsets[-1] + 1
                fetched.append(batch)
        return fetched
