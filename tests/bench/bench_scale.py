"""Ingest processes side by side in one consumer group: 1, 2 and 4 of them, and their memory.

On two cores the broker and the database take their share: this shows that workers do not get in
each other's way, not how far they scale. Run it by ``make bench FOR=scale``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import psutil
import sqlalchemy as sa
from bench_ingest import broker
from common import QUICKSTART, Databases, Report, databases, settings_at, traffic
from id_keys import WITH_KEY
from kafka_broker import KafkaBroker, missing_tools

from monitor import composition
from monitor.clock import SystemClock
from monitor.store import database as db
from monitor.store.shard_rows import read_statuses

PARTITIONS = 4
WAIT = 300.0


class Worker:
    """One ``slicewatch ingest`` process."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "monitor", "ingest", "--settings", str(QUICKSTART)]
        self._log = (folder / "worker.log").open("ab")
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **WITH_KEY, **environment},
            stdout=self._log,
            stderr=self._log,
        )
        self._seen = psutil.Process(self._process.pid)

    def megabytes(self) -> float:
        """Resident memory now."""
        return float(self._seen.memory_info().rss) / 2**20

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()


class Bench:
    """Topics that are produced once and read by each number of processes."""

    def __init__(self, kafka: KafkaBroker, made: Databases, folder: Path, report: Report) -> None:
        self._kafka = kafka
        self._made = made
        self._folder = folder
        self._report = report
        self._alone: dict[tuple[str, str], float] = {}

    def produce(self, decisions: Sequence[bytes]) -> None:
        """The same messages in every partition's share."""
        self._events = len(decisions)
        for topic in ("decisions", "labels"):
            self._kafka.create_topic(topic, PARTITIONS)
        for partition in range(PARTITIONS):
            part = decisions[partition::PARTITIONS]
            self._kafka.produce("decisions", part, partition=partition)

    def run(self, client: str, kind: str, workers: int) -> None:
        """One row: from the moment that every partition has an owner to the last commit."""
        url = self._made.new(kind)
        name = f"scale-{client}-{kind}-{workers}"
        environment = {
            "SLICEWATCH__STORE__URL": url,
            "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": self._kafka.bootstrap,
            "SLICEWATCH__STREAM__GROUP_ID": name,
            "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
            "SLICEWATCH__STREAM__CLIENT": client,
            "SLICEWATCH__STREAM__CLOCK": "history",
            "SLICEWATCH__SERVER__PORT": "0",
        }
        composition.open_store(settings_at(url), SystemClock()).dispose()
        engine = db.create_engine(url)
        with ExitStack() as stack:
            started = (Worker(self._folder, environment) for _ in range(workers))
            running = [stack.enter_context(worker) for worker in started]
            self._until(engine, 1, running)
            before = _counted(engine)
            began = time.perf_counter()
            memory = self._until(engine, self._events, running)
            took = time.perf_counter() - began
        statuses = read_statuses(engine)
        engine.dispose()
        assert sum(s.tallies.counted for s in statuses) == self._events
        rate = (self._events - before) / took
        alone = self._alone.setdefault((client, kind), rate)
        cells = f"{rate:,.0f}", f"{rate / alone:.2f}", f"{memory:,.0f}"
        self._report.add(client, kind, workers, *cells)

    def _until(self, engine: sa.Engine, wanted: int, running: Sequence[Worker]) -> float:
        """Wait until so many decisions are stored; the most memory that any worker had."""
        deadline, most = time.monotonic() + WAIT, 0.0
        while _counted(engine) < wanted:
            assert time.monotonic() < deadline, (self._folder / "worker.log").read_text()[-2000:]
            most = max(most, *(worker.megabytes() for worker in running))
            time.sleep(0.1)
        return most


def _counted(engine: sa.Engine) -> int:
    return sum(status.tallies.counted for status in read_statuses(engine))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    n = parser.parse_args().decisions
    if missing_tools():
        print(f"skipped: {', '.join(missing_tools())} is not installed")  # noqa: T201
        return
    report = Report(
        f"Ingest processes in one group, {n:,} decisions in {PARTITIONS} partitions",
        *("client", "store", "processes", "decisions/s", "against one", "peak MB of one"),
    )
    with tempfile.TemporaryDirectory() as name, databases(Path(name)) as made, broker() as kafka:
        bench = Bench(kafka, made, Path(name), report)
        bench.produce(traffic(n).decisions)
        for client in ("kafka-python", "librdkafka"):
            for kind in made.kinds:
                for workers in (1, 2, 4):
                    bench.run(client, kind, workers)
    report.close()


if __name__ == "__main__":
    main()
