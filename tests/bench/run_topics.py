"""Topics on one broker, and every reader of them as a process that is measured."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common  # noqa: F401 - makes the other folders of the tests importable

# isort: split
from confluent_kafka import Producer
from cpu_parts import Sampling
from id_keys import WITH_KEY
from kafka_broker import KafkaBroker, kafka_libraries
from measured import Usage, run_measured, run_watched
from run_rows import Row
from run_service import Service
from run_traffic import PARTITIONS, RunTraffic, Topic, Truth, run_traffic, settings_text

from monitor.shard_status import ShardStatus
from monitor.store import database as db
from monitor.store.shard_rows import read_statuses

READERS = Path(__file__).with_name("run_readers.py")
CLIENTS = ("kafka-python", "librdkafka")
TOPICS = ("decisions", "labels")
QUEUED = 500_000  # messages that a producer has not sent yet


@dataclass(frozen=True)
class Load:
    """Topics, and what is in them."""

    name: str
    topics: tuple[str, str]
    events: int
    truth: Truth


@dataclass(frozen=True)
class Scope:
    """How much is measured, and the name it is kept under; without a name it is only printed."""

    decisions: int
    rounds: int
    kept_as: str = ""
    clients: Sequence[str] = CLIENTS
    load: str | None = None
    beside: bool = True


class Bench:
    """Topics on one broker, and everything that reads them."""

    def __init__(self, broker: KafkaBroker, folder: Path, traffic: RunTraffic) -> None:
        self.broker = broker
        self._folder = folder
        self._runs = 0
        for name, topic in zip(TOPICS, (traffic.decisions, traffic.labels), strict=True):
            broker.create_topic(name, PARTITIONS)
            produce(broker, name, topic)
        broker.create_topic("no-labels", PARTITIONS)
        n, both = len(traffic.decisions), len(traffic.decisions) + len(traffic.labels)
        truth = traffic.truth
        alone = Truth(truth.decisions, truth.copies, 0)
        self.loads = {
            "decisions": Load("decisions", ("decisions", "no-labels"), n, alone),
            "both": Load("both", ("decisions", "labels"), both, truth),
        }
        self._files = [folder / "decisions.jsonl", folder / "labels.jsonl"]
        for path, topic in zip(self._files, (traffic.decisions, traffic.labels), strict=True):
            path.write_bytes(b"\n".join(topic.values) + b"\n")

    def raw(self, client: str, load: Load) -> Row:
        """The bare client."""
        found, usage = self._read(client, load)
        assert found["messages"] == load.events, found
        return Row("raw", client, load.name, load.events, usage)

    def script(self) -> Row:
        """What a team writes first."""
        load = self.loads["both"]
        found, usage = self._read("script", load)
        assert found == {"decisions": load.truth.decisions, "labels": load.truth.labels}, found
        return Row("script", "librdkafka", load.name, load.events, usage)

    def batch(self, library: str) -> Row:
        """A library that has everything in files."""
        load = self.loads["both"]
        found, usage = run_measured([str(READERS), library, *map(str, self._files)])
        assert found == {"decisions": load.truth.decisions, "labels": load.truth.labels}, found
        return Row(library, "", load.name, load.events, usage)

    def replay(self) -> Row:
        """The same files by ``slicewatch replay``: counted, stored and published as from Kafka."""
        load = self.loads["both"]
        settings, url = self._settings(load)
        command = [sys.executable, "-m", "monitor", "replay", "--settings", str(settings)]
        files = [f"{topic}={path}" for topic, path in zip(load.topics, self._files, strict=True)]
        environment = {**os.environ, **WITH_KEY}
        usage = run_watched([*command, *files], environment, settings.with_name("log"))
        engine = db.create_engine(url)
        _check(read_statuses(engine), load)
        engine.dispose()
        return Row("slicewatch replay", "", load.name, load.events, usage)

    def slicewatch(self, client: str, load: Load) -> Row:
        """The service, until everything is published."""
        with self._started(client, load) as (service, url):
            watched = service.watch(url, load.events)
        _check(watched.statuses, load)
        times = watched.stored, watched.waited
        return Row("slicewatch", client, load.name, load.events, watched.usage, *times)

    def sampled(self, client: str, load: Load) -> dict[str, Any]:
        """Where its CPU goes: microseconds an event by part, the start included."""
        with self._started(client, load) as (service, url):
            sampling = Sampling(service.process.pid, self._folder)
            watched = service.watch(url, load.events)
            parts = sampling.parts(watched.usage.cpu)
        micros = {name: round(1e6 * cpu / load.events, 2) for name, cpu in parts.items()}
        about = {"client": client, "load": load.name, "events": load.events}
        return {**about, "cpu": round(watched.usage.cpu, 2), "parts": micros}

    @contextmanager
    def _started(self, client: str, load: Load) -> Iterator[tuple[Service, str]]:
        """A service on a store of its own, and the URL of that."""
        settings, url = self._settings(load)
        # The group is new, and librdkafka is no default; all else is.
        more = {"STREAM__CLIENT": client, "STREAM__GROUP_ID": f"bench-{self._runs}"}
        with Service(settings.parent, settings, **more) as service:
            yield service, url

    def _settings(self, load: Load) -> tuple[Path, str]:
        """Settings with a new store, and the URL of that."""
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        folder.mkdir()
        url = f"sqlite:///{folder}/slicewatch.db"
        path = folder / "settings.toml"
        path.write_text(settings_text(self.broker.bootstrap, load.topics, url))
        return path, url

    def _read(self, reader: str, load: Load) -> tuple[dict[str, int], Usage]:
        topics = load.topics if load.truth.labels else load.topics[:1]
        arguments = (self.broker.bootstrap, ",".join(topics), str(load.events))
        return run_measured([str(READERS), reader, *arguments])


def _check(statuses: Sequence[ShardStatus], load: Load) -> None:
    """Nothing but exact counts is a measurement."""
    counted = {"decisions": 0, "labels": 0}
    for status in statuses:
        assert status.tallies.balance == 0, status
        assert not status.tallies.dead_letters, status
        topic = "decisions" if status.shard.topic == load.topics[0] else "labels"
        counted[topic] += status.tallies.counted
    expected = {"decisions": load.truth.decisions, "labels": load.truth.labels}
    assert counted == expected, f"{counted} instead of {expected}"


def produce(broker: KafkaBroker, name: str, topic: Topic) -> None:
    """Send all messages of a topic that is there."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "compression.type": "none",
         "queue.buffering.max.messages": 2 * QUEUED, "queue.buffering.max.kbytes": 1 << 20}
    )  # fmt: skip
    for value, stamp, partition in zip(topic.values, topic.stamps, topic.partitions, strict=True):
        while len(producer) >= QUEUED:
            producer.poll(0.1)
        producer.produce(name, value, partition=partition, timestamp=stamp)
    assert producer.flush(60) == 0


@contextmanager
def opened(scope: Scope) -> Iterator[Bench]:
    """A broker with so many decisions and their labels."""
    with tempfile.TemporaryDirectory() as name:
        broker = KafkaBroker(kafka_libraries())
        try:
            bench = Bench(broker, Path(name), run_traffic(scope.decisions))
            if scope.load:
                bench.loads = {scope.load: bench.loads[scope.load]}
            yield bench
        finally:
            broker.close()
