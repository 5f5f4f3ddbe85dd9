"""A day of demo traffic in minutes, with every term of the store so short that it passes often.

Run it by ``make soak``. It drives the service's own parts by hand and in one thread: the ingest
loop, the evaluator's cycle with its retention, and scrapes over HTTP. Event time and the wall
clock are simulated. The demo's traffic flows at its own pace; only the terms are a fraction of
the real ones, in the code that keeps them too: but for the tables of a day and a week, nothing is
kept for longer than 9 hours. So a day shows what a month shows otherwise.
"""

from __future__ import annotations

import argparse
import gc
import os
import sqlite3
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
from memory_source import MemoryBroker, MemorySource
from soak_samples import Sample, growing, header, row

from monitor.core.tables.spans import SpanKind
from monitor.core.time import DAY, HOUR, MINUTE, WINDOWS, to_micros
from monitor.demo import traffic, world
from monitor.demo.traffic import DECISION_PARTITIONS, LABEL_PARTITIONS, Traffic
from monitor.demo.world import STEP, Synthetic, Truth, World
from monitor.evaluate import memory
from monitor.evaluate.publish import published_calendar
from monitor.evaluate.tables import calendar
from monitor.records import Shard
from monitor.service import Service
from monitor.settings import Settings, load
from monitor.store.evaluator import calendar_tables
from monitor.store.ingest import join
from monitor.store.shard_rows import read_statuses
from monitor.store.upkeep import retention

MONDAY = to_micros(datetime(2026, 1, 5, tzinfo=UTC))
TOPICS = ("decisions", "labels")
GROUP = "slicewatch-demo"
SETTINGS = {"STREAM__HORIZON": "3h", "RETENTION__AGGREGATES": "6h", "SERVER__LISTEN": "127.0.0.1:0"}
KEPT = 3 * HOUR + 6 * HOUR
"""Horizon and hours after it: the longest term, but for day and week panes."""
QUIET = 30.0
"""Seconds without a message: longer than a caught-up shard waits before it takes the time over."""
_SHORT_WINDOWS = {
    name: replace(window, length=min(window.length, 6 * HOUR)) for name, window in WINDOWS.items()
}


@contextmanager
def short_terms(events_per_message: int) -> Iterator[None]:
    """Terms that are no settings, and the reviewers' delays, made as short as the settings."""
    changes: Sequence[tuple[Any, str, object]] = (
        (published_calendar, "_WINDOWS_KEEP", dict.fromkeys(SpanKind, 6 * HOUR)),
        (calendar_tables, "FINE_KEPT_AFTER_HORIZON", 6 * HOUR),
        (calendar, "HOURS_KEPT_AFTER_HORIZON", 6 * HOUR),
        (retention, "HOURS_KEPT_AFTER_HORIZON", 6 * HOUR),
        (memory, "HOURS_KEPT_AFTER_HORIZON", 6 * HOUR),
        (join, "WAIT", HOUR),
        (world, "REVIEW_HOURS", 0.25),
        (world, "REVIEW_MOST", 1.0),
        (world, "AUDIT_HOURS", 0.5),
        (world, "AUDIT_MOST", 1.5),
        (world, "CORRECTION_HOURS", (0.1, 1.0)),
        (traffic, "EVENTS_PER_MESSAGE", events_per_message),
    )
    with ExitStack() as stack:
        for module, name, value in changes:
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(patch.dict(WINDOWS, _SHORT_WINDOWS))
        yield


class Producer:
    """Stands in for the Kafka client of the traffic; as much of it as the traffic uses."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def send(self, topic: str, value: bytes, partition: int, timestamp_ms: int) -> None:
        self._broker.produce(topic, [value], partition, [timestamp_ms])

    def flush(self, timeout: float) -> None: ...

    def close(self, timeout: float) -> None: ...


class SoakClock:
    """Both times moved by hand."""

    def __init__(self, now: int) -> None:
        self.micros = now
        self.seconds = 0.0

    def now(self) -> int:
        return self.micros

    def monotonic(self) -> float:
        return self.seconds


class Soak:
    """The service on a broker in memory; :meth:`run` gives a sample every half hour."""

    def __init__(self, folder: Path, hours: int, per_poll: int) -> None:
        self._path = folder / "soak.db"
        self._hours = hours
        # The day and the week turn after an eighth of the run, and what they leave behind goes six
        # hours later: before the half of the run that is judged.
        self.begins = begins = MONDAY - hours * HOUR // 8
        self.synthetic = Synthetic(7, World(begins, begins + DAY * 365))
        self.clock = SoakClock(begins)
        self.broker = MemoryBroker({TOPICS[0]: DECISION_PARTITIONS, TOPICS[1]: LABEL_PARTITIONS})
        self.service = Service(
            _settings(self._path),
            clock=self.clock,
            source=lambda _: MemorySource(self.broker, TOPICS, GROUP, max_records=per_poll),
        )
        self.turns = 0
        with patch.object(traffic, "KafkaProducer", lambda **_: Producer(self.broker)):
            self.traffic = Traffic(self.synthetic, "", TOPICS)

    def run(self, tell: Callable[[Sample], None]) -> list[Sample]:
        """Live through all hours."""
        service = self.service
        assert service.ingest is not None
        service.ingest.register()
        service.servers.start()
        samples = []
        for half in range(1, 2 * self._hours + 1):
            for _ in range(30 * MINUTE // STEP):
                self._live()
            if half % 2 == 0:
                self._rebalance()
            samples.append(self._sample(half / 2))
            tell(samples[-1])
        self._check()
        service.stop()
        return samples

    def _live(self) -> None:
        """One step of the world, poll by poll; every poll is flushed, folded and published."""
        self.clock.micros = self.synthetic.now + STEP
        self.traffic.live_until(self.clock.micros)
        self.synthetic.truth = Truth()  # the generator's own memory is not judged
        while not self._drained():
            self._turn(2.0)
        self._turn(QUIET)  # caught up: all shards take the newest time over
        for shard in self._shards():
            self.broker.trim(shard, self.broker.log(shard).high)

    def _turn(self, seconds: float) -> None:
        self.clock.seconds += seconds
        assert self.service.ingest is not None
        self.service.ingest.step(0)
        self.service.evaluate_once()
        self.turns += 1

    def _rebalance(self) -> None:
        """Every shard is taken away and given back, so all of them are claimed again."""
        for shard in self._shards():
            owner = self.broker.owner(GROUP, shard)
            assert owner is not None
            self.broker.move(GROUP, shard, owner[0])
        self._turn(2.0)

    def _shards(self) -> list[Shard]:
        return [shard for topic in TOPICS for shard in self.broker.shards(topic)]

    def _drained(self) -> bool:
        statuses = read_statuses(self.service.engine)
        return all(s.next_offset == self.broker.log(s.shard).high for s in statuses)

    def _check(self) -> None:
        """All of it was counted, and both equations hold."""
        events = self.traffic.produced
        statuses = read_statuses(self.service.engine)
        assert sum(s.tallies.messages for s in statuses) == events.messages
        assert (
            sum(s.tallies.events for s in statuses) == events.decisions + events.labels + events.bad
        )
        for status in statuses:
            assert status.tallies.balance == 0, status
            assert status.tallies.gaps == 0, status
        assert self.service.snapshot is not None
        assert self.service.snapshot.watermark is not None

    def _sample(self, hour: float) -> Sample:
        page = self._scrape()
        gc.collect()
        process = psutil.Process()
        log = Path(f"{self._path}-wal")
        size = log.stat().st_size if log.exists() else 0
        used, free, rows = self._database()
        memory = self.service.evaluator._memory
        assert self.service.ingest is not None
        return Sample(
            hour=hour,
            resident=process.memory_info().rss,
            descriptors=process.num_fds(),
            used=used,
            free=free,
            log=size,
            page=page,
            keys=len(self.service.ingest.codecs.coder.codes),
            cells=0 if memory is None else len(memory.dictionary._meaning),
            rows=rows,
        )

    def _scrape(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.service.port}/metrics") as answer:
            return len(answer.read())

    def _database(self) -> tuple[int, int, dict[str, int]]:
        """Bytes used and free after a checkpoint, and rows by table."""
        connection = sqlite3.connect(self._path)
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            size, pages, free = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "page_count", "freelist_count")
            )
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            rows = {
                name: connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0]
                for (name,) in names.fetchall()
            }
        finally:
            connection.close()
        return size * (pages - free), size * free, rows


def _settings(database: Path) -> Settings:
    overrides = {f"SLICEWATCH__{name}": value for name, value in SETTINGS.items()}
    overrides["SLICEWATCH__STORE__URL"] = f"sqlite:///{database}"
    with as_file(files("monitor.demo") / "settings.toml") as path:
        return load(path, overrides)


# As a program


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _story(soak: Soak) -> str:
    made, hours = soak.traffic.produced, (soak.clock.micros - soak.begins) // HOUR
    return (
        f"{made.decisions:,} decisions, {made.labels:,} labels and {soak.turns:,} flushes and"
        f" cycles; horizon passed {hours * HOUR / (3 * HOUR):.1f} times, the longest"
        f" term {hours * HOUR / KEPT:.1f} times"
    )


def main() -> int:
    """Soak, print the series, and say what grows; exit code 1 when anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24, help="a multiple of eight")
    parser.add_argument("--per-message", type=int, default=10, help="events in a message")
    parser.add_argument("--per-poll", type=int, default=2, help="messages in a poll")
    parser.add_argument("--keep-everything", action="store_true", help="retention does nothing")
    options = parser.parse_args()
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slicewatch-soak-")))
        stack.enter_context(short_terms(options.per_message))
        if options.keep_everything:
            stack.enter_context(patch.object(retention, "apply", lambda *_: None))
        _say(header())
        soak = Soak(folder, options.hours, options.per_poll)
        samples = soak.run(lambda sample: _say(row(sample)))
    found = growing(samples)
    for line in found:
        _say(f"grows: {line}")
    verdict = "SOMETHING GROWS" if found else "flat"
    _say(f"soak: {verdict} after {options.hours} hours of event time, {_story(soak)}")
    _say(f"      in {time.monotonic() - began:.0f} s")
    return int(bool(found))


if __name__ == "__main__":
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    sys.exit(main())
