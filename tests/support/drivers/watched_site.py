"""A service whose processes are started, killed and watched by Prometheus and Alertmanager."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import lesson
from kafka_broker import KafkaBroker
from migrated import bring_to_head
from notified import EVERY_DAY, UNHURRIED, Watch, watching
from regressing import settings_text
from running import Running
from warm_start import run

SETTLES = 120.0
"""A minute until a worker is missed, a quarter until that is looked at, and a busy machine."""


@dataclass
class WatchedSite:
    """Where the processes of one service are started; decisions have two partitions."""

    broker: KafkaBroker
    topic: str
    folder: Path
    url: str
    stack: ExitStack
    processes: dict[str, Running] = field(default_factory=dict)
    sent: int = 0

    @property
    def topics(self) -> tuple[str, str]:
        return f"{self.topic}-d", f"{self.topic}-l"

    @property
    def settings(self) -> Path:
        return self.folder / "settings.toml"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": self.broker.bootstrap,
            "SLICEWATCH__STREAM__DECISIONS_TOPIC": self.topics[0],
            "SLICEWATCH__STREAM__LABELS_TOPIC": self.topics[1],
            "SLICEWATCH__STREAM__GROUP_ID": self.topic[-8:],
            "SLICEWATCH__STREAM__HORIZON": "30d",
            "SLICEWATCH__STORE__URL": self.url,
        }

    def start(self, part: str, name: str) -> Running:
        arguments = [part, "--settings", str(self.settings)]
        running = Running(self.folder, arguments, self.environment)
        self.processes[name] = self.stack.enter_context(running)
        return running

    def watched(self, *services: Running, office_days: str = EVERY_DAY) -> Watch:
        """A Prometheus and an Alertmanager; the first service is the one that people open."""
        ports = [service.port for service in services]
        address = {"SLICEWATCH__ALERTING__EXTERNAL_URL": f"http://127.0.0.1:{ports[0]}"}
        folder = self.folder / f"watch-{len(list(self.folder.glob('watch-*')))}"
        found = watching(
            folder,
            self.settings,
            self.environment | address,
            *ports,
            office_days=office_days,
            haste=UNHURRIED,
        )
        return self.stack.enter_context(found)

    def decide(self, at: datetime) -> list[str]:
        """One decision on each partition; returns their ids."""
        made = []
        for partition in (0, 1):
            self.sent += 1
            made.append(f"d{self.sent}")
            attributes = {"language_variety": "formal", "channel": "chat", "device": "phone"}
            event = lesson.decision(made[-1], at, 0.9, attributes=attributes)
            stamp = int(at.timestamp() * 1000)
            body = json.dumps(event).encode()
            self.broker.produce(self.topics[0], [body], partition=partition, timestamps_ms=[stamp])
        return made

    def label(self, keys: list[str], at: datetime) -> None:
        """A label of each of these decisions, all decided at ``at``."""
        events = [lesson.label(key, at, True) for key in keys]
        self.broker.produce(self.topics[1], [json.dumps(one).encode() for one in events])

    def status(self) -> tuple[int, Mapping[str, Any]]:
        """``slicewatch db status --json``: its exit code and what it says."""
        done = run(
            ["db", "status", "--json", "-s", str(self.settings)],
            env={**os.environ, **self.environment},
            cwd=self.folder,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


@contextmanager
def watched_site(broker: KafkaBroker, topic: str, folder: Path, url: str) -> Iterator[WatchedSite]:
    """Topics, settings and a database; every process that is started stops with the block."""
    with ExitStack() as stack:
        site = WatchedSite(broker, topic, folder, url, stack)
        broker.create_topic(site.topics[0], 2)
        broker.create_topic(site.topics[1], 1)
        site.settings.write_text(settings_text())
        bring_to_head(url)
        yield site


def ready(service: Running) -> bool:
    return service.get("/readyz")[0] == 200
