"""One ``slicewatch run``, started with its defaults and measured until everything is published."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from id_keys import WITH_KEY
from measured import Usage, cpu_seconds, peak_megabytes_of, waited_seconds

from monitor.demo.broker import free_port
from monitor.shard_status import ShardStatus
from monitor.store import database as db
from monitor.store.schema import fold_cursor
from monitor.store.shard_rows import read_statuses

WAIT_SECONDS = 280.0
LOOK_SECONDS, SCRAPE_SECONDS = 0.1, 0.5
EVALUATED = "slicewatch_evaluation_timestamp_seconds "


@dataclass(frozen=True)
class Watched:
    """Cost of a service from its start until everything was published.

    Attributes:
        usage: of everything; it has started when its port answers.
        stored: wall seconds until the last event was stored.
        waited: seconds its threads waited for a core, together.
        statuses: what it says it has read, by shard.
    """

    usage: Usage
    stored: float
    waited: float
    statuses: list[ShardStatus]


class Service:
    """A process ``slicewatch run``; killed with the block."""

    def __init__(self, folder: Path, settings: Path, **environment: str) -> None:
        self._port = free_port()
        self._log = folder / "run.log"
        self._began = time.perf_counter()
        named = {f"SLICEWATCH__{key}": value for key, value in environment.items()}
        port = {"SLICEWATCH__SERVER__LISTEN": f"127.0.0.1:{self._port}"}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "monitor", "run", "--settings", str(settings)],
                env={**os.environ, **WITH_KEY, **port, **named},
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()

    def watch(self, url: str, events: int) -> Watched:
        """Wait until so many events are read, counted and published.

        The database is looked at from outside, which costs the service nothing.
        """
        self.until_it_answers()
        starting = cpu_seconds(self.process.pid)
        engine = db.create_engine(url)
        try:
            self._until(lambda: everything_read(engine) >= events, "all events are stored")
            stored = time.perf_counter() - self._began
            self._until(lambda: _folded(engine), "all events are counted")
            folded = time.time()
            self._until(lambda: self._evaluated() > folded, "all is published", SCRAPE_SECONDS)
            cpu = cpu_seconds(self.process.pid)
            wall = time.perf_counter() - self._began
            usage = Usage(cpu, starting, wall, peak_megabytes_of(self.process.pid))
            waited = waited_seconds(self.process.pid)
            return Watched(usage, stored, waited, read_statuses(engine))
        finally:
            engine.dispose()

    def until_it_answers(self) -> None:
        """Wait for its port."""
        self._until(self._answers, "the port answers")

    def _until(self, good: Callable[[], bool], what: str, every: float = LOOK_SECONDS) -> None:
        while not good():
            log = self._log.read_text()[-2000:]
            assert self.process.poll() is None, f"it has ended before {what}\n{log}"
            late = time.perf_counter() - self._began > WAIT_SECONDS
            assert not late, f"not within {WAIT_SECONDS:.0f} s: {what}\n{log}"
            time.sleep(every)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
            return True
        return False

    def _evaluated(self) -> float:
        """When the last cycle ended, with all that it published (seconds since 1970)."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(EVALUATED):
                    return float(line.split()[1])
        return 0.0


def everything_read(engine: sa.Engine) -> int:
    """Events of all shards that were read and stored so far."""
    return sum(status.tallies.events for status in read_statuses(engine))


def _folded(engine: sa.Engine) -> bool:
    with db.reading(engine) as connection:
        rows = connection.execute(sa.select(fold_cursor)).all()
    folded = {(row.topic, row.part): row.seq for row in rows}
    return all(
        folded.get((status.shard.topic, status.shard.partition), 0) >= status.seq
        for status in read_statuses(engine)
    )
