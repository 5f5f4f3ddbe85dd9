"""The access log: who read what about slices, and how often; never what it said."""

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
"""Readers beyond those that are counted separately."""
MAX_TALLIES = 256  # readers x paths x statuses; names of certificates are not ours to limit


@dataclass(frozen=True, slots=True)
class _Pace:
    """Number of lines in a period after which the rest becomes one line with a count."""

    period: float  # seconds
    lines: int


_SERVED = _Pace(3600.0, 1)  # a scrape every 15 s is a line an hour, not 5,760 a day
_REFUSED = _Pace(60.0, 10)  # someone's mistakes one by one, no flood as more than 11 lines a minute


class _Key(NamedTuple):
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
    ends: float  # monotonic
    since: int  # wall clock
    logged: int = 0
    unlogged: int = 0


@dataclass(frozen=True, slots=True)
class _Line:
    key: _Key
    count: int
    since: int


class AccessLog:
    """Counts accesses by reader, path and status; the counts of all lines sum to all accesses.

    The first access of a reader is logged at once, the following ones of the hour in one line at
    its end. Refusals are logged at once, too, up to ten a minute. Any thread may use it.
    """

    def __init__(self, clock: Clock) -> None:
        """Nothing has been read yet; ``clock`` says when a period ends."""
        self._clock = clock
        self._lock = threading.Lock()
        self._tallies: dict[_Key, _Tally] = {}

    def record(self, reader: str, path: str, status: HTTPStatus) -> None:
        """One access was answered. ``path`` is one of ours, never as sent."""
        key = _Key(reader, path, status)
        with self._lock:
            lines = self._ended()
            key, tally = self._tally(key)
            if tally.logged < key.pace.lines:
                tally.logged += 1
                lines.append(_Line(key, 1, self._clock.now()))
            else:
                tally.unlogged += 1
        _write(lines)

    def sweep(self) -> None:
        """Log the counts of periods that have ended."""
        with self._lock:
            lines = self._ended()
        _write(lines)

    def close(self) -> None:
        """Log all that is left to be logged."""
        with self._lock:
            lines = [_line(key, tally) for key, tally in self._tallies.items() if tally.unlogged]
            self._tallies.clear()
        _write(lines)

    def _tally(self, key: _Key) -> tuple[_Key, _Tally]:
        if key not in self._tallies and len(self._tallies) >= MAX_TALLIES:
            key = key._replace(reader=OTHERS)
        if key not in self._tallies:
            self._tallies[key] = self._begin(key)
        return key, self._tallies[key]

    def _begin(self, key: _Key, logged: int = 0) -> _Tally:
        return _Tally(self._clock.monotonic() + key.pace.period, self._clock.now(), logged)

    def _ended(self) -> list[_Line]:
        now = self._clock.monotonic()
        ended = [(key, tally) for key, tally in self._tallies.items() if tally.ends <= now]
        lines = []
        for key, tally in ended:
            del self._tallies[key]
            if tally.unlogged:
                lines.append(_line(key, tally))
                # Whoever goes on reading is not new: the next line is the next count.
                self._tallies[key] = self._begin(key, logged=key.pace.lines)
        return lines


def _line(key: _Key, tally: _Tally) -> _Line:
    return _Line(key, tally.unlogged, tally.since)


def _write(lines: list[_Line]) -> None:
    """Outside the lock: writing a log may wait for whoever reads it."""
    for line in lines:
        level, event = (
            (logging.WARNING, "access refused") if line.key.refused else (logging.INFO, "access")
        )
        since = datetime.fromtimestamp(line.since / SECOND, UTC).isoformat(timespec="seconds")
        fields = {
            "reader": line.key.reader,
            "path": line.key.path,
            "status": line.key.status.value,
            "count": line.count,
            "since": since,
        }
        _log.log(level, event, extra=fields)
