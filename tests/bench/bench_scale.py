"""Ingest processes side by side in one consumer group on PostgreSQL: 1, 2 and 4 of them.

The broker and the database take their share of the same cores, so the CPU of each is measured
apart: what a decision costs its worker and the database is what sizes are computed from. What is
written is PostgreSQL's own count. Run it by ``make bench FOR=scale``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa
from common import Report
from id_keys import WITH_KEY
from kafka_broker import missing_tools
from measured import cpu_seconds, peak_megabytes_of
from postgres import PostgresServer, has_postgres
from results import keep
from run_topics import CLIENTS, Bench, Load, Scope, opened
from run_traffic import settings_text

from monitor.store import database as db
from monitor.store.shard_rows import read_statuses

DECISIONS = 2_000_000
WORKERS = (1, 2, 4)
WAIT_SECONDS = 300.0
LOOK_SECONDS = 0.1
ROWS = """
SELECT coalesce(sum(n_tup_ins), 0), coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_del), 0)
FROM pg_stat_user_tables
"""
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
SIZE = "SELECT pg_database_size(current_database())"
LOG = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
STATISTICS_SECONDS = 1.5
"""A session reports what it has written when it is idle, at most once a second."""


@dataclass(frozen=True)
class Written:
    """Counters of the database since its creation; log in bytes, of the whole server."""

    inserted: int
    updated: int
    deleted: int
    commits: int
    size: int
    log: int

    @classmethod
    def so_far(cls, engine: sa.Engine) -> Written:
        """As they stand now."""
        with engine.connect() as connection:
            rows = connection.execute(sa.text(ROWS)).one()
            others = [connection.scalar(sa.text(query)) for query in (COMMITS, SIZE, LOG)]
        return cls(*map(int, rows), *(int(number or 0) for number in others))

    def since(self, before: Written) -> dict[str, int]:
        """What came since."""
        return {name: now - getattr(before, name) for name, now in asdict(self).items()}


class Worker:
    """One ``slicewatch ingest`` process."""

    def __init__(self, folder: Path, settings: Path, client: str, group: str) -> None:
        more = {
            "STREAM__CLIENT": client,
            "STREAM__GROUP_ID": group,
            "SERVER__LISTEN": "127.0.0.1:0",
        }
        named = {f"SLICEWATCH__{key}": value for key, value in more.items()}
        with (folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "monitor", "ingest", "--settings", str(settings)],
                env={**os.environ, **WITH_KEY, **named},
                stdout=log,
                stderr=log,
            )

    @property
    def cpu(self) -> float:
        """Seconds so far."""
        return cpu_seconds(self.process.pid)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


@dataclass
class Site:
    """The broker's topics, one database server, and processes that ingest into it."""

    bench: Bench
    server: PostgresServer
    folder: Path
    runs: int = 0

    def run(self, client: str, workers: int) -> dict[str, Any]:
        """From the moment that every process has partitions to the last event."""
        load = self.bench.loads["both"]
        with self._store(load) as (engine, settings), ExitStack() as stack:
            group = f"scale-{self.runs}"
            started = (Worker(self.folder, settings, client, group) for _ in range(workers))
            running = [stack.enter_context(worker) for worker in started]
            self._until(lambda: _owners(engine) == workers, running)
            before, read, began = self._state(running), _read(engine), time.perf_counter()
            written = Written.so_far(engine)
            self._until(lambda: _read(engine) >= load.events, running)
            wall, after = time.perf_counter() - began, self._state(running)
            events = load.events - read
            time.sleep(STATISTICS_SECONDS)
            rows = Written.so_far(engine).since(written)
            peak = max(peak_megabytes_of(worker.process.pid) for worker in running)
        cpu = {name: round(after[name] - before[name], 2) for name in after}
        about = {"client": client, "workers": workers, "events": events, "wall": round(wall, 2)}
        return {**about, "per_second": round(events / wall), "cpu": cpu, "written": rows,
                "megabytes": round(peak)}  # fmt: skip

    @contextmanager
    def _store(self, load: Load) -> Iterator[tuple[sa.Engine, Path]]:
        """A new, migrated database and settings for it."""
        self.runs += 1
        url = self.server.create_database(f"scale_{self.runs}")
        path = self.folder / f"scale-{self.runs}.toml"
        path.write_text(settings_text(self.bench.broker.bootstrap, load.topics, url))
        engine = db.create_engine(url)
        db.migrate(engine)
        yield engine, path
        engine.dispose()

    def _state(self, running: Sequence[Worker]) -> dict[str, float]:
        """CPU seconds so far of whoever takes part."""
        assert self.server.pid is not None
        assert self.bench.broker.pid is not None
        return {
            "workers": sum(worker.cpu for worker in running),
            "database": tree_seconds(self.server.pid),
            "broker": cpu_seconds(self.bench.broker.pid),
        }

    def _until(self, good: Callable[[], bool], running: Sequence[Worker]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not good():
            late = time.monotonic() > deadline
            ended = any(worker.process.poll() is not None for worker in running)
            assert not late, (self.folder / "worker.log").read_text()[-2000:]
            assert not ended, (self.folder / "worker.log").read_text()[-2000:]
            time.sleep(LOOK_SECONDS)


def _read(engine: sa.Engine) -> int:
    return sum(status.tallies.events for status in read_statuses(engine))


def _owners(engine: sa.Engine) -> int:
    return len({status.owner for status in read_statuses(engine)} - {None})


def tree_seconds(pid: int) -> float:
    """CPU seconds of a process, of those it has, and of those that have ended."""
    parent = psutil.Process(pid)
    times = parent.cpu_times()
    ended = float(times.children_user + times.children_system)
    return cpu_seconds(pid) + ended + sum(cpu_seconds(one.pid) for one in parent.children())


def show(report: Report, row: dict[str, Any], alone: dict[str, Any]) -> None:
    """One row of the table."""
    events, cpu, written = row["events"], row["cpu"], row["written"]
    report.add(
        *(row["client"], row["workers"], f"{row['per_second']:,}"),
        f"{row['per_second'] / alone['per_second']:.2f}",
        *(f"{1e6 * cpu[name] / events:.1f}" for name in ("workers", "database", "broker")),
        f"{sum(cpu.values()) / row['wall']:.2f}",
        *(f"{written['inserted'] / events:.2f}", f"{written['log'] / events:.0f}"),
        *(f"{written['commits'] / row['wall']:.0f}", row["megabytes"]),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=DECISIONS)
    parser.add_argument("--client", choices=CLIENTS, action="append", help="only this one")
    chosen = parser.parse_args()
    if missing_tools() or not has_postgres():
        print("skipped: it needs Java, Maven and PostgreSQL")  # noqa: T201
        return
    report = Report(
        f"Ingest processes on PostgreSQL, {chosen.decisions:,} decisions and their labels",
        *("client", "processes", "events/s", "against one"),
        *("us of CPU: workers", "database", "broker", "cores busy"),
        *("rows an event", "log bytes an event", "commits/s", "peak MB of one"),
    )
    rows: list[dict[str, Any]] = []
    with opened(Scope(chosen.decisions, 1)) as bench, tempfile.TemporaryDirectory() as name:
        server = PostgresServer(durable=True)
        try:
            site, truth = Site(bench, server, Path(name)), bench.loads["both"].truth
            share = round(truth.labels / truth.decisions, 3)
            for client in chosen.client or CLIENTS:
                for workers in WORKERS:
                    rows.append(site.run(client, workers))
                    show(report, rows[-1], rows[-1 - WORKERS.index(workers)])
        finally:
            server.close()
    report.close()
    if len(sys.argv) == 1:
        keep("scale", decisions=chosen.decisions, labels_per_decision=share, rows=rows)


if __name__ == "__main__":
    main()
