"""Access log: who read which path about slices, and how often, without contents."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import NamedTuple

from monitor.core.time import SECOND
from monitor.ports import Clock

_log = logging.getLogger("slicewatch.access")

OTHERS = "others"
"""Name for all readers that are not counted separately."""
MAX_TALLIES = 256  # readers x paths x statuses; we do not limit the names of certificates


@dataclass(frozen=True, slots=True)
class _Pace:
    """Number of log lines per period (seconds); further accesses become one line with a count."""

    period: float  # seconds
    lines: int


_SERVED = _Pace(3600.0, 1)  # a scrape every 15 s is one line per hour, not 5,760 per day
_REFUSED = _Pace(60.0, 10)  # every single mistake, but at most 11 lines per minute of a flood


class _Key(NamedTuple):
    """Reader, path and status that accesses are counted by."""

    reader: str
    path: str
    status: HTTPStatus

    @property
    def refused(self) -> bool:
        return self.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

    @property
    def pace(self) -> _Pace:
        return _REFUSED if self.refused else _SERVED


@dataclass(slots=True)
class _Tally:
    """Accesses of a key in the present period: those logged and those not yet."""

    ends: float  # monotonic
    since: int  # wall clock
    logged: int = 0
    unlogged: int = 0


_Line = tuple[_Key, int, int]
"""Key, number of accesses to log, and the wall clock since when."""


class AccessLog:
    """Log of accesses by reader, path and status; counts in its lines sum to all accesses.

    The first access of a reader is logged at once, the others of the hour in one line at its end.
    Refusals are logged at once, too, up to ten per minute. Any thread may use it.
    """

    def __init__(self, clock: Clock) -> None:
        """Create an empty log; ``clock`` tells when a period ends."""
        self._clock = clock
        self._lock = threading.Lock()
        self._tallies: dict[_Key, _Tally] = {}

    def record(self, reader: str, path: str, status: HTTPStatus) -> None:
        """Count an answered access, and log it while its period has lines left."""
        key = _Key(reader, path, status)
        with self._lock:
            lines = self._ended()
            key, tally = self._tally(key)
            if tally.logged < key.pace.lines:
                tally.logged += 1
                lines.append((key, 1, self._clock.now()))
            else:
                tally.unlogged += 1
        _write(lines)

    def sweep(self) -> None:
        """Log the counts of periods that have ended, and begin new periods."""
        with self._lock:
            lines = self._ended()
        _write(lines)

    def close(self) -> None:
        """Log all remaining counts, and forget them."""
        with self._lock:
            lines = [(key, t.unlogged, t.since) for key, t in self._tallies.items() if t.unlogged]
            self._tallies.clear()
        _write(lines)

    def _tally(self, key: _Key) -> tuple[_Key, _Tally]:
        """Return the tally of a reader and path; beyond MAX_TALLIES readers share one."""
        if key not in self._tallies and len(self._tallies) >= MAX_TALLIES:
            key = key._replace(reader=OTHERS)
        if key not in self._tallies:
            self._tallies[key] = self._begin(key)
        return key, self._tallies[key]

    def _begin(self, key: _Key, logged: int = 0) -> _Tally:
        return _Tally(self._clock.monotonic() + key.pace.period, self._clock.now(), logged)

    def _ended(self) -> list[_Line]:
        """Return the lines of periods that have ended, and begin new periods for their readers."""
        now = self._clock.monotonic()
        ended = [(key, tally) for key, tally in self._tallies.items() if tally.ends <= now]
        lines = []
        for key, tally in ended:
            del self._tallies[key]
            if tally.unlogged:
                lines.append((key, tally.unlogged, tally.since))
                # The reader is not new any more, so the next line is a count.
                self._tallies[key] = self._begin(key, logged=key.pace.lines)
        return lines


def _write(lines: list[_Line]) -> None:
    """Write lines to the log, outside the lock because this may wait for the log's reader."""
    for key, count, since in lines:
        at = datetime.fromtimestamp(since / SECOND, UTC).isoformat(timespec="seconds")
        fields = {**key._asdict(), "status": key.status.value, "count": count, "since": at}
        level, event = (
            (logging.WARNING, "access refused") if key.refused else (logging.INFO, "access")
        )
        _log.log(level, event, extra=fields)
