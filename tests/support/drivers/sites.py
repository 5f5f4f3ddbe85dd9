"""A site: two topics, a store, slicewatch processes on them, and what must be counted of it all."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import counting_oracle as oracle
import pipeline
import sqlalchemy as sa
from brokers import Broker
from histories import Histories, doubled, shuffled
from pipeline import Counted, assert_conserved, attributes_in, messages, read_counts
from running import Running
from stored import check_tables

from monitor.records import Shard
from monitor.shard_status import ShardStatus
from monitor.store.database import create_engine
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.shard_rows import read_statuses

RULES = oracle.Rules(attributes_in(), pipeline.ID_KEY.encode())
SECONDS = 120.0
_SUMS = "SELECT COALESCE(SUM(n), 0), COALESCE(SUM(labelled), 0) FROM counts"
"""Of all grains."""


@dataclass
class Site:
    """Topics, a settings file and a store, and what was produced so far.

    Attributes:
        name: stem of the topics, name of the consumer group.
        partitions: of each of the two topics.
        history: what is produced; at most 24 hours of it, so that no order of arrival makes a
            label wait in vain.
        store_url: a SQLite file in the folder when empty.
        seed: of the order in which it is produced.
        client: which Kafka client the workers use.
    """

    broker: Broker
    name: str
    folder: Path
    partitions: int
    history: Histories
    store_url: str = ""
    seed: int = 11
    client: str = "kafka-python"

    def __post_init__(self) -> None:
        self.store_url = self.store_url or f"sqlite:///{self.folder}/store.db"
        (self.folder / "settings.toml").write_text(pipeline.SETTINGS)
        for topic in self.topics:
            self.broker.create_topic(topic, self.partitions)
        self._pick = random.Random(self.seed)
        self._parts = [
            [messages(events, [1, 4, 2] * 300) for events in self._spread(topic)]
            for topic in range(2)
        ]
        self.produced = 0
        self._migrated = False

    @property
    def topics(self) -> tuple[str, str]:
        return f"{self.name}-decisions", f"{self.name}-labels"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": self.broker.bootstrap,
            "SLICEWATCH__STREAM__DECISIONS_TOPIC": self.topics[0],
            "SLICEWATCH__STREAM__LABELS_TOPIC": self.topics[1],
            "SLICEWATCH__STREAM__GROUP_ID": self.name[-60:].lstrip("-"),
            "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
            "SLICEWATCH__STREAM__CLIENT": self.client,
            "SLICEWATCH__STORE__URL": self.store_url,
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

    def everything_read(self) -> bool:
        return self.read() == self.produced

    def statuses(self) -> list[ShardStatus]:
        return read_statuses(self.engine) if self._has_tables() else []

    def _has_tables(self) -> bool:
        """Asked until it is so: what is migrated stays so."""
        self._migrated = self._migrated or sa.inspect(self.engine).has_table("ownership")
        return self._migrated

    def owners(self) -> dict[Shard, str | None]:
        return {s.shard: s.owner for s in self.statuses()}

    def epochs(self) -> dict[Shard, int]:
        return {s.shard: s.epoch for s in self.statuses()}

    @cached_property
    def engine(self) -> sa.Engine:
        return create_engine(self.store_url)

    def exact(self) -> bool:
        """Whether the store holds exactly what the oracle counts.

        Sums are looked at first: while they differ, so do the counts, and all of those are a lot
        to read twenty times a second beside the processes that are waited for.
        """
        with self.engine.connect() as connection:
            sums = connection.execute(sa.text(_SUMS)).one()
        wanted = (_sum(self._wanted, "n"), _sum(self._wanted, "labelled"))
        return (*sums,) == wanted and not self.deviation()

    def deviation(self) -> dict[str, int]:
        """What is counted beyond what the oracle counts, by counter; empty when exact."""
        found, wanted = read_counts(self.engine), self._wanted
        if found == wanted:
            return {}
        totals = {name: _total(found, name) - _total(wanted, name) for name in ("n", "labelled")}
        return totals | {"cells": sum(found.get(c) != wanted.get(c) for c in found | wanted)}

    @cached_property
    def _wanted(self) -> Counted:
        return oracle.count(RULES, self.history.decisions, self.history.labels).counts

    def assert_exact(self) -> None:
        """Everything read, counted as the oracle says, folded once; nothing lost on the way."""
        statuses = self.statuses()
        assert_conserved(statuses)
        assert self.read() == self.produced
        assert self.deviation() == {}
        counted = sum(s.tallies.counted for s in statuses if s.shard.topic == self.topics[0])
        assert counted == len(self.history.decisions)
        assert self.folded()
        check_tables(self.engine, 0)

    def folded(self) -> bool:
        """Whether the evaluator has seen every flush."""
        cursors = EvaluatorStore(self.engine, self.topics[0]).deltas.cursors()
        return cursors == {s.shard: s.seq for s in self.statuses() if s.seq}


def _sum(counts: Counted, name: str) -> int:
    return sum(row.get(name, 0) for row in counts.values())


def _total(counts: Counted, name: str) -> int:
    return sum(row.get(name, 0) for cell, row in counts.items() if cell[0] == "1w")


def until(
    good: Callable[[], bool], what: str, running: Sequence[Running] = (), seconds: float = SECONDS
) -> None:
    """Wait until a condition holds, as long as these processes live."""
    begun = time.monotonic()
    while not good():
        for one in running:
            assert one.process.poll() is None, one.log.read_text()[-3000:]
        waited = time.monotonic() - begun
        assert waited < seconds, f"not within {seconds} s: {what}"
        time.sleep(min(0.05 + waited / 20, 0.25))  # each look takes time from whom it waits for
