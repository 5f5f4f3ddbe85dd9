"""A storm over a site: processes are killed, stopped, added and removed while traffic comes in.

Everything a storm does is drawn from its seed; when it happens is the machine's.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import sqlalchemy as sa
from brokers import Broker
from chaos_worker import CRASHED
from histories import START, Histories
from migrated import bring_to_head
from running import Running
from sites import Site, until
from warm_start import Process

from alerts.exposition.catalogue import PAGE
from monitor.records import Shard

HOURS = 24  # of event time
MICROSECOND = timedelta(microseconds=1)
SESSION_SECONDS = 6.0  # as in the settings of a site
LEASE_SECONDS = 3.0
STOPPED_SECONDS = (SESSION_SECONDS + 1, SESSION_SECONDS + 6)
SETTLE_SECONDS = 150.0
LEAVE_SECONDS = 40.0
"""A worker that waits for the lock of a stopped one (SQLite: 20 s) still has to flush and leave."""
CLIENTS = ("kafka-python", "librdkafka")
SHARD_FENCED = "shard is owned by another worker now"
LEASE_FENCED = "another evaluator has taken over, or the database has gone back in time"
FENCED = (SHARD_FENCED, LEASE_FENCED, "shard was claimed by another worker")


class ChaosProcess(Running):
    """A ``slicewatch`` that can be ordered to crash or stop at a point; ends with the block."""

    program = (str(Path(__file__).with_name("chaos_worker.py")),)
    answer_seconds = 5.0  # one that is stopped gives none

    def __init__(self, site: Site, command: str, name: str, **more: str) -> None:
        self.name = name
        self.command = command
        self._orders = site.folder / f"{name}.orders"
        self._seed, self._lives = f"{site.seed}-{name}", 0
        environment = {
            **site.environment,
            "CHAOS_ORDERS": str(self._orders),
            "CHAOS_STORM": str(site.folder / "storm"),
            "CHAOS_CLIENT_LOG": str(site.folder / f"{name}.client.log"),
            "CHAOS_LEASE": f"{LEASE_SECONDS:.0f}",
            **more,
        }
        super().__init__(site.folder, [command, "--settings", "settings.toml"], environment)

    def _spawn(self) -> Process:
        self._lives += 1  # or each life would end where the last one did
        self.environment["CHAOS_SEED"] = f"{self._seed}-{self._lives}"
        return super()._spawn()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.resume()
        if error is not None and self.alive:
            self.process.kill()
        super().__exit__(kind, error, trace)

    def order(self, deed: str, point: str) -> None:
        """Have it ``crash`` or ``stop`` when it is next at a point with events at hand."""
        self._orders.write_text(f"{deed} {point}")

    @property
    def obeyed(self) -> bool:
        return not self._orders.exists()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def stopped(self) -> bool:
        """Whether SIGSTOP holds it, sent by anybody."""
        try:
            return self.alive and psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:  # it ended since the look before
            return False

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self.alive:
            self.process.send_signal(signal.SIGCONT)

    def owned(self, site: Site) -> set[Shard]:
        """Shards that the store says are its own."""
        return {shard for shard, owner in site.owners().items() if self.is_named(owner)}

    def reading(self) -> set[str]:
        """Shards that it reads, as its log says: claimed, and not dropped since."""
        shards: set[str] = set()
        for line in self.log.read_text().rpartition("\n")[0].splitlines():
            if '"event": "shard claimed"' in line:
                shards.add(json.loads(line)["shard"])
            elif '"event": "shard dropped"' in line:
                shards.discard(json.loads(line)["shard"])
        return shards

    def is_named(self, owner: str | None) -> bool:
        """Whether the owner of a shard or lease is this process."""
        return f"/{self.process.pid}/" in (owner or "")

    def said(self, event: str) -> int:
        """How often it logged an event."""
        return self.log.read_text().count(f'"event": "{event}"')

    def terminate_connection(self, site: Site) -> None:
        """Have PostgreSQL end a connection of this process."""
        try:
            connections = psutil.Process(self.process.pid).net_connections("tcp")
        except psutil.NoSuchProcess:  # it ended since it was chosen, with its connections
            return
        ports = [one.laddr.port for one in connections]
        with site.engine.begin() as connection:
            connection.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND client_port = ANY(:ports)"
                ),
                {"ports": ports},
            )


class WallClock:
    """The wall clock of a site's processes: at the end of its events, until it is stepped.

    Args:
        site: whose.
    """

    def __init__(self, site: Site) -> None:
        self.file = site.folder / "clock"
        self._offset = (START + timedelta(hours=HOURS) - datetime.now(UTC)) // MICROSECOND
        self.step(timedelta())

    def step(self, by: timedelta) -> None:
        """Set the clock of all processes, at once, as a wrong time server would."""
        self._offset += by // MICROSECOND
        whole = self.file.with_suffix(".new")
        whole.write_text(str(self._offset))
        whole.replace(self.file)


def client_of(seed: int) -> str:
    """The Kafka client of a storm, by its seed."""
    return random.Random(seed).choice(CLIENTS)


@contextmanager
def chaos_site(
    broker: Broker,
    name: str,
    folder: Path,
    *,
    store_url: str = "",
    decisions: int = 2500,
    partitions: int = 6,
    seed: int = 1,
    client: str = CLIENTS[0],
) -> Iterator[Site]:
    """A site with an empty, migrated store."""
    history = Histories(seed, decisions, hours=HOURS)
    site = Site(broker, name, folder, partitions, history, store_url, seed, client)
    bring_to_head(site.engine.url.render_as_string(hide_password=False))
    try:
        yield site
    finally:
        site.engine.dispose()


@dataclass
class Tally:
    """What a storm did, and what came of it."""

    kills: int = 0
    stops: int = 0
    crashes: int = 0
    moves: int = 0  # workers added and removed
    terminated: int = 0  # database connections
    fenced: int = 0


@dataclass
class _Life:
    """A process of the storm and what is planned for it (monotonic times)."""

    process: ChaosProcess
    restart_at: float | None = None
    resume_at: float | None = None
    leaving_until: float | None = None


@dataclass
class Storm:
    """Workers and servers of a site, and what happens to them.

    Args:
        site: where.
        risk: probability that a passage of a point is the last one.
        step: the wall clock of all processes is set by this much in the middle.
    """

    site: Site
    workers: int = 3
    servers: int = 2
    risk: float = 0.006
    step: timedelta | None = None
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._pick = random.Random(self.site.seed)
        self._lives: list[_Life] = []
        self._logs: set[Path] = set()
        self._flag = self.site.folder / "storm"
        self._flag.touch()
        self._clock = None if self.step is None else WallClock(self.site)
        self._started = 0
        for command, number in (("serve", self.servers), ("ingest", self.workers)):
            for _ in range(number):
                self._start(command)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for life in self._lives:
            if life.process.alive:
                life.process.process.kill()
                life.process.process.wait()

    def rage(self, seconds: float) -> None:
        """Produce a part of the traffic, evenly, and let things happen all the while."""
        begun = time.monotonic()
        next_deed = begun + 3  # the first members have joined by then
        while (spent := time.monotonic() - begun) < seconds:
            self.site.produce(min(1.0, 0.3 / (seconds * 1.1 - spent)))
            self._look_after()
            if self.step is not None and self._clock is not None and spent > seconds / 2:
                self._clock.step(self.step)
                self.step = None
            if time.monotonic() >= next_deed:
                self._do_something()
                next_deed = time.monotonic() + self._pick.uniform(0.5, 2.5)
            time.sleep(0.25)

    def settle(self) -> None:
        """No more deeds: everything comes back, and reads and counts what there is."""
        self._flag.unlink()
        self.site.produce(1)
        for life in self._lives:
            life.resume_at = None if life.resume_at is None else 0.0
            life.restart_at = None if life.restart_at is None else 0.0
        self._wait(lambda: not any(self._planned(life) for life in self._lives), "everyone back")
        self._wait(self.site.everything_read, "everything read")
        self._wait(self.site.exact, "exact counts")
        self._wait(self._all_ready, "every process ready")
        self._wait(self._one_page, "one page on all servers")

    def finish(self) -> None:
        """End everything as an operator does; nobody may hang."""
        for life in self._lives:
            assert life.process.stop(LEAVE_SECONDS) == 0, life.process.log.read_text()[-2000:]
        logs = [log.read_text() for log in self._logs]
        self.tally.fenced = sum(text.count(event) for text in logs for event in FENCED)
        self.tally.crashes = sum(text.count("chaos: crash") for text in logs)
        self.tally.stops += sum(text.count("chaos: stop") for text in logs)

    @property
    def processes(self) -> list[ChaosProcess]:
        return [life.process for life in self._lives]

    def _start(self, command: str) -> None:
        self._started += 1
        name = f"{command}-{self._started}"
        more = {"CHAOS_RISK": str(self.risk)}
        if command == "ingest" and self._pick.random() < 0.3:
            more["SLICEWATCH__STREAM__INSTANCE"] = name
        if self._clock is not None:
            more["STEPPED_CLOCK"] = str(self._clock.file)
        process = ChaosProcess(self.site, command, name, **more)
        self._logs.add(process.log)
        self._lives.append(_Life(process))

    def _wait(self, good: Callable[[], bool], what: str) -> None:
        def looked_after() -> bool:
            self._look_after()
            return good()

        until(looked_after, what, seconds=SETTLE_SECONDS)

    def _planned(self, life: _Life) -> bool:
        return not life.process.alive or life.process.stopped or life.leaving_until is not None

    def _all_ready(self) -> bool:
        return all(_is_ready(process) for process in self.processes)

    def _one_page(self) -> bool:
        servers = [one for one in self.processes if one.command == "serve"]
        return len({snapshot_lines(one) for one in servers}) == 1

    def _look_after(self) -> None:
        now = time.monotonic()
        for life in list(self._lives):
            if not life.process.alive:
                self._bury(life, now)
            elif life.process.stopped:
                if life.resume_at is None:
                    life.resume_at = now + self._pick.uniform(*STOPPED_SECONDS)
                if now >= life.resume_at:
                    life.process.resume()
                    life.resume_at = None
            if life.leaving_until is not None:
                assert now < life.leaving_until, f"{life.process.name} hangs"

    def _bury(self, life: _Life, now: float) -> None:
        """Restart what has died; what was asked to leave, or crashed on its way, is gone."""
        code = life.process.process.returncode
        log = life.process.log.read_text()
        expected = {CRASHED, -signal.SIGKILL}
        if life.leaving_until is not None:
            expected |= {0, -signal.SIGTERM}  # the signal's own, when it was still starting
        assert code in expected or _lost_database(log), (code, log[-3000:])
        if life.leaving_until is not None:
            self._lives.remove(life)
        elif life.restart_at is None:
            life.restart_at = now + self._pick.uniform(0, 3)
        elif now >= life.restart_at:
            life.process.restart()
            life.restart_at = None

    def _do_something(self) -> None:
        deeds: list[tuple[int, Callable[[], None]]] = [
            (4, lambda: self._kill("ingest")),
            (1, lambda: self._kill("serve")),
            (4, lambda: self._pause("ingest")),
            (1, lambda: self._pause("serve")),
            (2, self._add),
            (2, self._remove),
        ]
        if self.site.engine.dialect.name == "postgresql":
            deeds.append((4, self._terminate))
        weights, acts = [weight for weight, _ in deeds], [act for _, act in deeds]
        self._pick.choices(acts, weights)[0]()

    def _victim(self, *commands: str) -> _Life | None:
        """A running process; None when too few run for one to be spared."""
        fit = [life for life in self._lives
               if life.process.command in commands and not self._planned(life)]  # fmt: skip
        return self._pick.choice(fit) if len(fit) > 1 else None

    def _kill(self, command: str) -> None:
        if (life := self._victim(command)) is not None:
            life.process.kill()
            self.tally.kills += 1

    def _pause(self, command: str) -> None:
        if (life := self._victim(command)) is not None:
            life.process.pause()
            self.tally.stops += 1

    def _terminate(self) -> None:
        if (life := self._victim("ingest", "serve")) is not None:
            life.process.terminate_connection(self.site)
            self.tally.terminated += 1

    def _add(self) -> None:
        if sum(one.process.command == "ingest" for one in self._lives) < self.workers + 2:
            self._start("ingest")
            self.tally.moves += 1

    def _remove(self) -> None:
        workers = sum(one.process.command == "ingest" for one in self._lives)
        if workers > 2 and (life := self._victim("ingest")) is not None:
            life.process.process.terminate()
            life.leaving_until = time.monotonic() + LEAVE_SECONDS
            self.tally.moves += 1


def _is_ready(process: Running) -> bool:
    """Ready, but that the events of a storm end long before the wall clock, which is told."""
    status, why = process.get("/readyz")
    return status == 200 or (why.startswith("no decision since") and ";" not in why)


def _lost_database(log: str) -> bool:
    """Whether a process ended because the database was away while it started: one line says so."""
    return log.rstrip().rpartition("\n")[2].startswith("slicewatch: database")


def weather(site: Site, seconds: float, step: timedelta | None = None) -> Tally:
    """A storm from beginning to end; afterwards everything must be exact.

    With ``step`` the events end at the wall clock of all processes, which is set by this much.

    Raises AssertionError that says what is not.
    """
    with Storm(site, step=step) as storm:
        storm.rage(seconds)
        storm.settle()
        storm.finish()
    site.assert_exact()
    return storm.tally


def snapshot_lines(process: Running) -> tuple[str, ...]:
    """What a process shows of the Snapshot, as it stands on the page."""
    names = {family.name for family in PAGE}
    lines = process.get("/metrics")[1].splitlines()
    return tuple(line for line in lines if line.partition("{")[0].partition(" ")[0] in names)
