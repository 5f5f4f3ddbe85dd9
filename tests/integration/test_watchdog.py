"""A broker that is gone is silence to the client: the watchdog must notice by itself."""

from __future__ import annotations

from pathlib import Path

import lesson
from kafka_broker import KafkaBroker
from running import Running

SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"


def test_a_broker_that_is_gone_and_back(own_kafka: KafkaBroker, tmp_path: Path) -> None:
    for topic in ("decisions", "labels"):
        own_kafka.create_topic(topic, 1)
    own_kafka.produce("decisions", lesson.encode(lesson.decisions()))
    environment = {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": own_kafka.bootstrap,
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STORE__URL": f"sqlite:///{tmp_path}/store.db",
    }

    def consumed(service: Running) -> float | None:
        return service.value("slicewatch_messages_consumed_total", topic="decisions")

    def state(service: Running, name: str) -> bool:
        return service.value("slicewatch_consumer_state", state=name) == 1

    with Running(tmp_path, ["run", "--settings", str(SETTINGS)], environment) as service:
        service.until(lambda: consumed(service) == 20, "the first decisions")
        service.until(lambda: service.get("/readyz")[0] == 200, "readiness")
        own_kafka.kill()
        service.until(lambda: service.get("/readyz")[0] == 503, "not ready without a broker")
        service.until(lambda: state(service, "stuck"), "the state stuck")
        assert service.get("/livez")[0] == 200  # a restart would not mend it
        own_kafka.restart()
        service.until(lambda: service.get("/readyz")[0] == 200, "readiness again")
        own_kafka.disconnect()
        own_kafka.produce("decisions", lesson.encode(iter([lesson.tick()])))
        service.until(lambda: consumed(service) == 21, "consumption goes on")
