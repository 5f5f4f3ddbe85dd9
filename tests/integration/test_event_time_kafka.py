"""Event time on Apache Kafka: what one event says of itself changes nobody else's counts.

The service is started as users start it, with its defaults, on both clients and both databases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lesson
import pytest
import sqlalchemy as sa
from kafka_broker import KafkaBroker
from migrated import bring_to_head
from running import Running

from monitor.core.time import Grain
from monitor.store import database as db
from monitor.store.schema import counts, ownership

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
RUN = ["run", "--settings", str(SETTINGS)]
HONEST = 1_500
"""Decisions of each of two partitions."""
LABELLED = 400
FAR = datetime(2099, 1, 1, tzinfo=UTC)
ANY_TIMESTAMP = {"message.timestamp.after.max.ms": str(2**63 - 1)}
"""As brokers before 4.0 have it."""

pytestmark = pytest.mark.full


class Site:
    """Two partitions of decisions, one of labels, and a store."""

    def __init__(self, broker: KafkaBroker, name: str, url: str, folder: Path, client: str) -> None:
        self.broker, self.folder = broker, folder
        self.decisions, self.labels = f"{name}-d", f"{name}-l"
        broker.create_topic(self.decisions, 2, ANY_TIMESTAMP)
        broker.create_topic(self.labels, 1, ANY_TIMESTAMP)
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.engine = db.create_engine(url)
        self.environment = {
            "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
            "SLICEWATCH__STREAM__DECISIONS_TOPIC": self.decisions,
            "SLICEWATCH__STREAM__LABELS_TOPIC": self.labels,
            "SLICEWATCH__STREAM__GROUP_ID": name[-40:].strip("-"),
            "SLICEWATCH__STREAM__CLIENT": client,
            "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
            "SLICEWATCH__STORE__URL": url,
        }

    def run(self, **more: str) -> Running:
        return Running(self.folder, RUN, {**self.environment, **more})

    def honest(self, partition: int, numbers: range) -> list[dict[str, Any]]:
        """Decisions of the last three hours, in order."""
        attributes = {"language_variety": "formal", "channel": "chat"}
        first = self.now - timedelta(hours=3)
        return [
            lesson.decision(
                f"{partition}-{n}",
                first + timedelta(hours=3) * n / HONEST,
                0.9,
                attributes=attributes,
            )
            for n in numbers
        ]

    def odd(self, at: datetime) -> dict[str, Any]:
        """A decision of another time than the others'."""
        attributes = {"language_variety": "formal", "channel": "email"}
        return lesson.decision("odd", at, 0.9, attributes=attributes)

    def send(
        self, events: list[dict[str, Any]], partition: int = 0, stamp: datetime | None = None
    ) -> None:
        stamps = None if stamp is None else [int(stamp.timestamp() * 1000)] * len(events)
        topic = self.labels if "label_id" in events[0] else self.decisions
        body = [json.dumps(one).encode() for one in events]
        self.broker.produce(topic, body, partition=partition, timestamps_ms=stamps)

    def send_labels(self) -> None:
        """Of the first decisions of partition 1, which come after whatever is odd."""
        self.send(
            [
                lesson.label(one["decision_id"], datetime.fromisoformat(one["decided_at"]), True)
                for one in self.honest(1, range(LABELLED))
            ]
        )

    def decided(self) -> int:
        """Decisions in the hourly counts, as evaluated."""
        query = sa.select(sa.func.sum(counts.c.n)).where(counts.c.grain == int(Grain.HOUR))
        with db.reading(self.engine) as connection:
            return int(connection.execute(query).scalar() or 0)

    def latest_mark(self) -> datetime:
        query = sa.select(sa.func.max(ownership.c.watermark))
        with db.reading(self.engine) as connection:
            return datetime.fromtimestamp((connection.execute(query).scalar() or 0) / 1e6, UTC)


@pytest.fixture(params=["kafka-python-sqlite", "librdkafka-postgresql"])
def site(
    request: pytest.FixtureRequest, apache: KafkaBroker, topic_name: str, tmp_path: Path
) -> Iterator[Site]:
    client, _, database = request.param.rpartition("-")
    on_server = database == "postgresql"
    url = request.getfixturevalue("postgres_url") if on_server else f"sqlite:///{tmp_path}/store.db"
    bring_to_head(url)
    site = Site(apache, topic_name, url, tmp_path, client)
    yield site
    site.engine.dispose()


def counted(service: Running, topic: str) -> float:
    return sum(
        value
        for (name, labels), value in service.metrics().items()
        if name == "slicewatch_events_total"
        and {("topic", topic), ("outcome", "counted")} <= labels
    )


def refused(service: Running, topic: str) -> dict[str, float]:
    """Dead letters by reason."""
    return {
        dict(labels)["reason"]: value
        for (name, labels), value in service.metrics().items()
        if name == "slicewatch_dead_letters_total" and ("topic", topic) in labels and value
    }


def all_is_counted(site: Site, service: Running, decisions: int, labels: int) -> None:
    service.until(lambda: counted(service, site.decisions) == decisions, "all decisions")
    service.until(lambda: counted(service, site.labels) == labels, "all labels")
    service.until(lambda: site.decided() == decisions, "evaluated")
    service.until(lambda: service.get("/readyz")[0] == 200, "ready")
    assert site.latest_mark() <= datetime.now(UTC)


@pytest.mark.parametrize("stamp", [None, FAR], ids=["now", "2099"])
def test_one_decision_of_2099(site: Site, stamp: datetime | None) -> None:
    """Record timestamps are what the producer says, its clock is as wrong as the event."""
    middle = HONEST // 2
    site.send(site.honest(0, range(middle)))
    site.send([site.odd(FAR)], stamp=stamp)
    site.send(site.honest(0, range(middle, HONEST)))
    site.send(site.honest(1, range(HONEST)), partition=1)
    site.send_labels()
    with site.run() as service:
        all_is_counted(site, service, 2 * HONEST, LABELLED)
        why = "too_early" if stamp is None else "future"
        assert refused(service, site.decisions) == {why: 1}
    with site.run() as service:  # an evaluator that begins deletes what is past its time
        all_is_counted(site, service, 2 * HONEST, LABELLED)


def test_the_first_event_of_history(site: Site) -> None:
    site.send([site.odd(FAR)], stamp=FAR)
    site.send([lesson.label("odd", FAR, True)], stamp=FAR)
    for partition in (0, 1):
        site.send(site.honest(partition, range(HONEST)), partition=partition)
    site.send_labels()
    with site.run(SLICEWATCH__STREAM__CLOCK="history") as service:
        all_is_counted(site, service, 2 * HONEST, LABELLED)
        for topic in (site.decisions, site.labels):
            assert sum(refused(service, topic).values()) == 1


def test_a_clock_that_is_an_hour_fast(site: Site) -> None:
    """63 minutes ahead in a record 59 minutes ahead: counted, told of, and followed by nobody."""
    site.send(site.honest(0, range(HONEST // 2)))
    ahead = site.now + timedelta(minutes=63)
    site.send([site.odd(ahead)], stamp=site.now + timedelta(minutes=59))
    site.send(site.honest(0, range(HONEST // 2, HONEST)))
    site.send(site.honest(1, range(HONEST)), partition=1)
    site.send_labels()
    with site.run() as service:
        all_is_counted(site, service, 2 * HONEST + 1, LABELLED)
        where = {"topic": site.decisions, "partition": "0"}
        told = service.value("slicewatch_events_ahead_seconds", **where)
        assert told is not None
        assert 3_000 < told < 3_900
        assert service.value("slicewatch_events_ahead_seconds", **{**where, "partition": "1"}) == 0
        # What everybody waits for is the present, not the event.
        assert site.latest_mark() > datetime.now(UTC) - timedelta(minutes=30)
