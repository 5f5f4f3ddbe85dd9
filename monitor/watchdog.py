"""Watchdog of the consumer: it asks the broker what the client does not report, and logs it.

A client polls on in silence when its broker is gone or refuses it. When it cannot receive a
message, it behaves as if there were none.
"""

from __future__ import annotations

import logging

from alerts.exposition.service_metrics import ServiceMetrics
from consumers.ingest import Ingest
from monitor.composition.brokers import ask_ends, check_access
from monitor.errors import AccessError, SourceError
from monitor.ports import Clock
from monitor.records import Shard
from monitor.settings import Settings

log = logging.getLogger("slicewatch.service")

ACCESS_SECONDS = 10.0
"""Interval of checks that a broker grants access to all topics that are read."""
ENDS_SECONDS = 15.0
"""Shortest interval of asking for end offsets that the client does not report."""


class Watchdog:
    """Watchdog of one ingest worker, exporting its state; a thread calls :meth:`look`."""

    def __init__(
        self, settings: Settings, ingest: Ingest, metrics: ServiceMetrics, clock: Clock
    ) -> None:
        self._settings = settings
        self._ingest = ingest
        self._metrics = metrics
        self._clock = clock
        self._reported: tuple[str, str | None] | None = None
        self._next_access = clock.monotonic() + ACCESS_SECONDS
        self._next_ends = clock.monotonic()
        # The first look may wait for the broker, and a scrape before it wants a state too.
        metrics.set_consumer_state(ingest.health.state(clock.monotonic()).value)

    def look(self) -> None:
        """Check access and ends when due, set the state metric, and log a new state or reason."""
        now, health = self._clock.monotonic(), self._ingest.health
        if now >= self._next_access:
            health.access_error = self._access_error()
            self._next_access = self._clock.monotonic() + ACCESS_SECONDS
        if health.unknown and not health.access_error and now >= self._next_ends:
            self._ask_ends()
            self._next_ends = self._clock.monotonic() + ENDS_SECONDS
        state, stuck = health.state(now).value, health.stuck(now)
        self._metrics.set_consumer_state(state)
        if (state, stuck) != self._reported:
            level = logging.ERROR if stuck else logging.INFO
            log.log(level, "consumer is %s", state, extra={"why": stuck} if stuck else {})
        self._reported = state, stuck

    def _access_error(self) -> str | None:
        """Return why the broker refuses us; None if it does not."""
        try:
            check_access(self._settings)
        except AccessError as error:
            return str(error)
        return None

    def _ask_ends(self) -> None:
        """Ask the broker for ends of partitions that ingest does not know; None if silent."""
        shards = self._ingest.health.unknown
        if self._settings.stream.embedded:
            self._ingest.set_end_offsets({s: self._ingest.source.high_water(s) for s in shards})
            return
        ends: dict[Shard, int | None] = dict.fromkeys(shards)
        try:
            ends |= ask_ends(self._settings, shards)
        except SourceError as error:
            log.warning("nobody says where partitions end: %s", error)
        self._ingest.set_end_offsets(ends)
