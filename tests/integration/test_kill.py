"""kill -9 and SIGTERM of the real process at random moments: the counts stay exact.

Flushes are small, so that most kills come between two of them or inside one. Afterwards the
store must hold what the naive oracle counts, cell by cell, and both conservation equations.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import pipeline
import pytest
import sqlalchemy as sa
from brokers import Broker
from histories import Histories, doubled, shuffled
from pipeline import assert_conserved, attributes_in, messages, only_kept, read_counts
from running import Running

from monitor.ports import ShardStatus
from monitor.store.database import create_engine
from monitor.store.shards import read_statuses

RULES = oracle.Rules(attributes_in(), pipeline.ID_KEY.encode())
SECONDS = 60.0


@dataclass
class Site:
    """Topics, a settings file and a store, and what was produced so far."""

    broker: Broker
    name: str
    folder: Path
    partitions: int
    history: Histories

    def __post_init__(self) -> None:
        (self.folder / "settings.toml").write_text(pipeline.SETTINGS)
        for topic in self.topics:
            self.broker.create_topic(topic, self.partitions)
        self._pick = random.Random(11)
        self._parts = [
            [messages(events, [1, 4, 2] * 300) for events in self._spread(topic)]
            for topic in range(2)
        ]
        self.produced = 0

    @property
    def topics(self) -> tuple[str, str]:
        return f"{self.name}-decisions", f"{self.name}-labels"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": self.broker.bootstrap,
            "SLICEWATCH__STREAM__DECISIONS_TOPIC": self.topics[0],
            "SLICEWATCH__STREAM__LABELS_TOPIC": self.topics[1],
            "SLICEWATCH__STREAM__GROUP_ID": self.name,
            "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
            "SLICEWATCH__STORE__URL": f"sqlite:///{self.folder}/store.db",
            "SLICEWATCH__INGEST__FLUSH_EVENTS": "20",
            "SLICEWATCH__INGEST__FLUSH_INTERVAL": "20ms",
        }

    def run(self, command: str, **more: str) -> Running:
        arguments = [command, "--settings", "settings.toml"]
        return Running(self.folder, arguments, {**self.environment, **more})

    def _spread(self, topic: int) -> list[list[dict[str, Any]]]:
        """Copies of a decision stay in its partition; labels go anywhere."""
        pick, parts = self._pick, self.partitions
        if topic == 1:
            labels = doubled(shuffled(self.history.labels, pick), pick, 0.05)
            return [labels[part::parts] for part in range(parts)]
        decisions = shuffled(self.history.decisions, pick)
        return [doubled(decisions[part::parts], pick, 0.05, minutes=59) for part in range(parts)]

    def produce(self, share: float) -> None:
        """Send the next part of everything; 1.0 sends what is left."""
        for topic, parts in zip(self.topics, self._parts, strict=True):
            for partition, waiting in enumerate(parts):
                number = len(waiting) if share == 1 else int(len(waiting) * share)
                self.broker.produce(topic, waiting[:number], partition=partition)
                del waiting[:number]
                self.produced += number

    def read(self) -> int:
        """Messages whose effects are in the store."""
        return sum(s.tallies.messages for s in self.statuses())

    def statuses(self) -> list[ShardStatus]:
        if not (self.folder / "store.db").exists():
            return []
        with closing(sqlite3.connect(self.folder / "store.db")) as connection:
            names = connection.execute("SELECT name FROM sqlite_master").fetchall()
        return read_statuses(self.engine) if ("ownership",) in names else []

    @cached_property
    def engine(self) -> sa.Engine:
        return create_engine(f"sqlite:///{self.folder}/store.db")

    def exact(self) -> bool:
        """Whether the store holds exactly what the oracle counts."""
        wanted = oracle.count(RULES, self.history.decisions, self.history.labels).counts
        kept = kept_panes(self)
        return only_kept(read_counts(self.engine), kept) == only_kept(wanted, kept)  # type: ignore[arg-type]


def kept_panes(site: Site) -> dict[str, int]:
    """First panes that are kept, by the watermark of the decisions topic."""
    marks = [s.watermark for s in site.statuses() if s.shard.topic == site.topics[0]]
    assert all(mark is not None for mark in marks)
    watermark = min(mark for mark in marks if mark is not None)
    return {"5min": watermark // 300_000_000 - 26 * 12 + 1}


def until(good: Callable[[], bool], what: str, running: Sequence[Running] = ()) -> None:
    deadline = time.monotonic() + SECONDS
    while not good():
        for one in running:
            assert one.process.poll() is None, one.log.read_text()[-3000:]
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def site(kafka: Broker, topic_name: str, tmp_path: Path) -> Iterator[Site]:
    site = Site(kafka, topic_name, tmp_path, 2, Histories(1, 3000, hours=24))
    yield site
    site.engine.dispose()


@pytest.mark.slow
def test_kill_and_terminate_at_random_moments(site: Site) -> None:
    pick = random.Random()
    fixed = {"SLICEWATCH__STREAM__INSTANCE": "only"}  # the same member: no waiting for a timeout
    with site.run("run", **fixed) as service:
        for turn in range(6):
            before = site.read()
            site.produce(0.25)
            until(lambda before=before: site.read() > before, "progress", [service])  # type: ignore[misc]
            time.sleep(pick.uniform(0, 0.4))
            if turn == 3:
                assert service.stop(seconds=10) == 0
            else:
                service.kill()
            assert_conserved(site.statuses())
            service.restart()
        site.produce(1)
        until(lambda: site.read() == site.produced, "everything read", [service])
        until(site.exact, "exact counts", [service])
        assert service.stop(seconds=10) == 0
    assert site.exact()
    assert_conserved(site.statuses())
    assert sum(s.tallies.counted for s in site.statuses() if "decisions" in s.shard.topic) == 3000


@pytest.mark.slow
def test_one_of_two_workers_is_killed(kafka: Broker, topic_name: str, tmp_path: Path) -> None:
    """Four partitions in one group; the survivor takes over, the evaluator goes on."""
    site = Site(kafka, topic_name, tmp_path, 4, Histories(2, 2000, hours=24))
    with ExitStack() as stack:
        stack.callback(site.engine.dispose)
        serve = stack.enter_context(site.run("serve"))
        until(lambda: serve.get("/livez")[0] == 200, "serving", [serve])
        victim, survivor = (stack.enter_context(site.run("ingest")) for _ in range(2))
        site.produce(0.5)
        owners = lambda: {s.owner for s in site.statuses()}  # noqa: E731
        until(lambda: len(owners() - {None}) == 2, "both own shards", [serve, victim, survivor])
        victim.kill()
        site.produce(1)
        until(lambda: site.read() == site.produced, "everything read", [serve, survivor])
        until(site.exact, "exact counts", [serve, survivor])
        assert survivor.stop() == 0
        assert serve.stop() == 0
    assert site.exact()
    assert_conserved(site.statuses())
