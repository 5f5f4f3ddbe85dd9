"""Topics of a real broker are renamed and grow under a running store, with both clients."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lesson
import pytest
from click.testing import CliRunner
from kafka_broker import KafkaBroker
from running import Running

from monitor.cli import cli

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
RUN = ["run", "--settings", str(SETTINGS)]
FOUND_WITHIN = 2 * 30.0
"""An added partition is read by then: deploy/docs/operations.md promises half, up to 25 of which
our intervals take, and a busy machine needs more for the rest."""

pytestmark = pytest.mark.full


class Site:
    """A store and both topics; the service is started on it as often as a test likes."""

    def __init__(self, broker: KafkaBroker, name: str, folder: Path, client: str) -> None:
        self.broker, self.name, self.folder = broker, name, folder
        self.environment = {
            "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
            "SLICEWATCH__STREAM__DECISIONS_TOPIC": f"{name}-d",
            "SLICEWATCH__STREAM__LABELS_TOPIC": f"{name}-l",
            "SLICEWATCH__STREAM__GROUP_ID": name[-40:].strip("-"),
            "SLICEWATCH__STREAM__CLIENT": client,
            "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
            "SLICEWATCH__STORE__URL": f"sqlite:///{folder}/store.db",
        }
        broker.create_topic(f"{name}-d", 2)
        broker.create_topic(f"{name}-l", 1)

    def run(self, **more: str) -> Running:
        return Running(self.folder, RUN, {**self.environment, **more})

    def command(self, *words: str, **more: str) -> str:
        run = CliRunner(env={**self.environment, **more})
        return run.invoke(cli, [*words, "-s", str(SETTINGS)]).output

    def send(self, numbers: range, at: datetime, partition: int = 0) -> None:
        """Decisions of one instant; labels are sent by :meth:`label`."""
        attributes = {"language_variety": "formal", "channel": "chat"}
        events = [
            lesson.decision(f"{partition}-{n}", at, 0.9, attributes=attributes) for n in numbers
        ]
        body = [json.dumps(one).encode() for one in events]
        self.broker.produce(f"{self.name}-d", body, partition=partition)

    def label(self, topic: str, key: str, at: datetime) -> None:
        self.broker.produce(topic, [json.dumps(lesson.label(key, at, True)).encode()])


@pytest.fixture(params=["kafka-python", "librdkafka"])
def site(
    request: pytest.FixtureRequest, apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> Site:
    return Site(apache, topic_name, tmp_path, request.param)


def counted(service: Running, topic: str, partition: int = 0) -> float | None:
    where = {"topic": topic, "partition": str(partition)}
    return service.value("slicewatch_events_total", **where, outcome="counted")


def lag(service: Running, topic: str, partition: int) -> float | None:
    where = {"topic": topic, "partition": str(partition)}
    return service.value("slicewatch_consumer_lag_messages", **where)


@pytest.mark.parametrize("site", ["librdkafka"], indirect=True)
def test_labels_come_from_another_topic(site: Site) -> None:
    """The old topic stays 20 days behind: awaited, it would hold the decisions back for ever."""
    decisions, old, new = f"{site.name}-d", f"{site.name}-l", f"{site.name}-labels-2"
    now = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    long_ago = now - timedelta(days=20)
    site.send(range(3), long_ago)
    site.label(old, "0-0", long_ago)
    with site.run() as service:
        service.until(lambda: counted(service, decisions) == 3, "the decisions")
        service.until(lambda: counted(service, old) == 1, "the label")
    site.broker.create_topic(new, 1)
    renamed = {"SLICEWATCH__STREAM__LABELS_TOPIC": new}
    said = site.command("check", "--connect", **renamed)
    assert f"a start would report: topic {old} is not in the settings any more" in said
    site.send(range(10, 15), now)
    site.label(new, "0-10", now)
    with site.run(**renamed) as service:
        service.until(lambda: counted(service, decisions) == 3 + 5, "decisions go on")
        service.until(lambda: counted(service, new) == 1, "labels from the new topic")
        site.send(range(20, 23), now + timedelta(minutes=5))
        service.until(lambda: counted(service, decisions) == 3 + 5 + 3, "and on")
        assert service.value("slicewatch_consumer_state", state="paused") == 0
        service.until(lambda: service.get("/readyz")[0] == 200, "ready")
        assert counted(service, old) is None, "what is retired is not read"
    assert service.log.read_text().count("is retired") == 1, "one line"
    assert "ok: a start would change nothing" in site.command("check", "--connect", **renamed)
    shards = json.loads(site.command("db", "status", "--json", **renamed))["shards"]
    assert {one["topic"]: one["retired_at"] is not None for one in shards} == {
        decisions: False,
        old: True,
        new: False,
    }
    assert site.command("db", "status", **renamed).split().count("retired") == 1
    with site.run() as service:
        service.until(lambda: counted(service, old) == 1, "configured again")
    said = service.log.read_text()
    assert f"topic {old} was retired and is in the settings again" in said
    assert f"topic {new} is not in the settings any more" in said


@pytest.mark.parametrize("site", ["librdkafka"], indirect=True)
def test_a_worker_whose_topic_was_retired_ends(site: Site) -> None:
    site.broker.create_topic(f"{site.name}-labels-2", 1)
    with site.run() as service:
        service.until(lambda: service.get("/readyz")[0] == 200, "ready")
        renamed = {"SLICEWATCH__STREAM__LABELS_TOPIC": f"{site.name}-labels-2"}
        with site.run(**renamed) as another:
            another.until(lambda: another.get("/readyz")[0] == 200, "the others are ready")
            assert service.process.wait(timeout=60) == 2
    assert "is retired: slicewatch was started on this store with other topics" in (
        service.log.read_text()
    )


def test_added_partitions_begin_at_0(site: Site) -> None:
    """With start = latest what was there before the first start is not read, and all else is."""
    topic = f"{site.name}-d"
    now = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
    site.send(range(10), now)
    latest = {"SLICEWATCH__STREAM__START": "latest"}
    with site.run(**latest) as service:
        service.until(lambda: lag(service, topic, 0) == lag(service, topic, 1) == 0, "begun")
        site.send(range(100, 103), now)
        service.until(lambda: counted(service, topic) == 3, "what came since")
        site.broker.add_partitions(topic, 4)
        began = time.monotonic()
        for partition in (2, 3):
            site.send(range(100), now, partition)
        for partition in (2, 3):
            service.until(lambda p=partition: counted(service, topic, p) == 100, "all of it")  # type: ignore[misc]
        assert time.monotonic() - began < FOUND_WITHIN
        assert lag(service, topic, 2) == lag(service, topic, 3) == 0
    site.broker.add_partitions(topic, 5)
    site.send(range(100), now, 4)
    with site.run(**latest) as service:
        service.until(lambda: counted(service, topic, 4) == 100, "added while nobody was there")
        assert counted(service, topic) == 3
