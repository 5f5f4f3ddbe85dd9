"""A broker that is gone is silence to the client: the watchdog must notice by itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import lesson
import pytest
from kafka_broker import KafkaBroker
from running import Running

pytestmark = pytest.mark.full

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
HOUR = 3_600_000_000


def test_a_broker_that_is_gone_and_back(own_kafka: KafkaBroker, tmp_path: Path) -> None:
    for topic in ("decisions", "labels"):
        own_kafka.create_topic(topic, 1)
    decisions, labels = lesson.encode(lesson.decisions()), lesson.encode(lesson.labels())
    own_kafka.produce("decisions", decisions[:12])
    own_kafka.produce("labels", labels[:9])
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": own_kafka.bootstrap,
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
    }

    def counted(service: Running) -> tuple[float | None, float | None]:
        both = ("decisions", "labels")
        name = "slicewatch_events_total"
        first, second = (service.value(name, topic=one, outcome="counted") for one in both)
        return first, second

    def state(service: Running, name: str) -> bool:
        return service.value("slicewatch_consumer_state", state=name) == 1

    with Running(tmp_path, ["run", "--settings", str(SETTINGS)], environment) as service:
        service.until(lambda: counted(service) == (12, 9), "the first decisions and labels")
        service.until(lambda: service.get("/readyz")[0] == 200, "readiness")
        own_kafka.kill()
        service.until(lambda: service.get("/readyz")[0] == 503, "not ready without a broker")
        service.until(lambda: state(service, "stuck"), "the state stuck")
        assert service.get("/livez")[0] == 200  # a restart would not mend it
        own_kafka.restart()
        service.until(lambda: service.get("/readyz")[0] == 200, "readiness again")
        own_kafka.disconnect()
        own_kafka.produce("decisions", decisions[12:])
        own_kafka.produce("labels", labels[9:])
        service.until(lambda: counted(service) == (20, 20), "consumption goes on")
    with closing(sqlite3.connect(tmp_path / "store.db")) as store:
        sums = f"SELECT sum(n), sum(labelled) FROM counts WHERE grain = {HOUR}"
        assert store.execute(sums).fetchone() == (20, 20)
