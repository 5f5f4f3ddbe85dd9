"""Avro events of a schema registry through Kafka: written by the module, counted like any other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lesson
import pytest
from avro_events import PLAIN, decision, framed, written
from click.testing import CliRunner
from kafka_broker import KafkaBroker, missing_tools
from registries import Apicurio, StubRegistry, basic
from running import Running
from signed_probes import WITH_KEY

from consumers.producing import Producer, Topics, avro, confluent, kafka_python
from consumers.producing.avro_schema import DECISION, LABEL
from consumers.wire import RegistryAccess, SchemaRegistry
from consumers.wire.schemas import schema_number
from consumers.wire.writer_schema import WriterSchema
from monitor.cli import cli
from monitor.store import database
from monitor.store.shard_rows import read_statuses

PAGE = (Path(__file__).parents[2] / "deploy" / "docs" / "producers.md").read_text()
SETTINGS = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
SLICES = ("language_variety=formal", "language_variety=conversational")

pytestmark = [pytest.mark.full, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def registry() -> Iterator[Apicurio]:
    if tools := missing_tools():
        pytest.skip(f"not installed: {' and '.join(tools)}")
    one = Apicurio()
    yield one
    one.close()


def settings(broker: KafkaBroker, topics: Topics, folder: Path, url: str) -> dict[str, str]:
    return {
        "SLICEWATCH__STREAM__BOOTSTRAP_SERVERS": broker.bootstrap,
        "SLICEWATCH__STREAM__DECISIONS_TOPIC": topics.decisions,
        "SLICEWATCH__STREAM__LABELS_TOPIC": topics.labels,
        "SLICEWATCH__STREAM__GROUP_ID": topics.decisions[-9:],
        "SLICEWATCH__STREAM__SESSION_TIMEOUT": "6s",
        "SLICEWATCH__STREAM__SCHEMA_REGISTRY__URL": url,
        "SLICEWATCH__STORE__URL": f"sqlite:///{folder}/store.db",
        **WITH_KEY,
    }


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_the_numbers_of_the_lesson_when_the_registry_was_away(
    client: str, apache: KafkaBroker, registry: Apicurio, topic_name: str, tmp_path: Path
) -> None:
    topics = Topics(f"{topic_name}-d", f"{topic_name}-l")
    for name in (topics.decisions, topics.labels):
        apache.create_topic(name, 1)
    connect = kafka_python if client == "kafka-python" else confluent
    with Producer(
        connect(apache.bootstrap, topics, encode=avro(registry.url, topics)), strict=True
    ) as producer:
        for event in lesson.decisions():
            producer.decision(event)
        for event in lesson.labels():
            producer.label(event)
        assert producer.close(60)
        assert producer.sent == 40
    number = registry.register(f"{topics.decisions}-value", DECISION)
    wrong = [framed(number, b"\x01"), framed(1_000_000, b"x"), b"\xc3\x01 no frame"]
    apache.produce(topics.decisions, wrong)
    apache.produce(topics.decisions, lesson.encode(iter([lesson.tick()])))  # JSON, beside Avro
    labels_number = registry.register(f"{topics.labels}-value", LABEL)
    registry.stop()
    environment = settings(apache, topics, tmp_path, registry.url)
    environment["SLICEWATCH__STREAM__CLIENT"] = client
    with Running(tmp_path, ["run", "--settings", str(SETTINGS)], environment) as service:
        service.until(
            lambda: "messages wait for their schemas" in service.get("/readyz")[1], "the reason"
        )
        assert "does not answer (no connection)" in service.log.read_text()
        lost = service.value("slicewatch_dead_letters_total", reason="unknown_schema",
                             topic=topics.decisions)  # fmt: skip
        assert not lost
        registry.start()
        remake(registry, topics, number, labels_number)
        for metric, slice_, rate in (("tpr", SLICES[0], 5 / 6), ("fpr", SLICES[0], 1 / 4),
                                     ("tpr", SLICES[1], 3 / 6)):  # fmt: skip
            service.until(
                lambda m=metric, s=slice_, r=rate: rate_of(service, m, s) == pytest.approx(r),  # type: ignore[misc]
                f"{metric} of {slice_}",
            )
        for reason, count in (("malformed_avro", 2), ("unknown_schema", 1)):
            value = service.value(
                "slicewatch_dead_letters_total", topic=topics.decisions, reason=reason
            )
            assert value == count
        service.until(lambda: service.get("/readyz")[0] == 200, "readiness")


def test_the_example_of_the_page_writes_avro(
    apache: KafkaBroker, registry: Apicurio, topic_name: str
) -> None:
    apache.create_topic(topic_name, 1)
    (text,) = re.findall(r"```python\n([^`]*encode=encode[^`]*)```", PAGE)
    topics = f"Topics({topic_name!r}, {topic_name!r})"
    for there, here in (
        ('"localhost:9092"', f'"{apache.bootstrap}", {topics}'),
        ('"http://localhost:8081"', f'"{registry.url}", {topics}'),
    ):
        text = text.replace(there, here)
    event = json.dumps(next(lesson.decisions()))
    sends = f"producer.decision(json.loads({event!r}))\nassert producer.close(60)\n"
    script = f"import json\nfrom consumers.producing import Topics\n{text}{sends}"
    subprocess.run([sys.executable, "-c", script], timeout=120, check=True)
    (record,) = apache.consume(topic_name, 1)
    number = schema_number(record.value)
    assert number == registry.register(f"{topic_name}-value", DECISION)
    written = SchemaRegistry(RegistryAccess(registry.url)).schema(number)
    assert written is not None
    said = json.loads(WriterSchema.from_written(written).to_json(record.value[5:]))
    assert said["decision_id"] == record.key.decode()


def remake(registry: Apicurio, topics: Topics, *numbers: int) -> None:
    """It forgot everything: the same schemas under the same numbers, after others if need be."""
    schemas = {numbers[0]: (topics.decisions, DECISION), numbers[1]: (topics.labels, LABEL)}
    for at in range(1, max(numbers) + 1):
        topic, schema = schemas.get(at, ("other", {**PLAIN, "name": f"Other{at}"}))
        subject = f"{topic}-value" if at in schemas else f"other-{at}"
        assert registry.register(subject, schema) == at


def rate_of(service: Running, metric: str, slice_: str) -> float | None:
    return service.value(
        "slicewatch_slice_rate_ratio", metric=metric, slice=slice_, window="7d",
        group_by="language_variety",
    )  # fmt: skip


def test_check_tests_the_registry_its_login_and_what_the_newest_schema_lacks(
    kafka: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    topics = Topics(f"{topic_name}-d", f"{topic_name}-l")
    for name in (topics.decisions, topics.labels):
        kafka.create_topic(name, 1)
    with StubRegistry(login=basic("me", "secret-word")) as stub:
        environment = settings(kafka, topics, tmp_path, stub.url)
        arguments = ["check", "--settings", str(SETTINGS), "--connect"]
        key = "SLICEWATCH__STREAM__SCHEMA_REGISTRY__"

        def output(**more: str) -> str:
            given = environment | {key + name: value for name, value in more.items()}
            result = CliRunner().invoke(cli, arguments, env=given)
            return f"{result.output}{result.exception}"

        assert f"schema registry at {stub.url} refuses access (HTTP 401)" in output()
        login = {"USERNAME": "me", "PASSWORD": "secret-word"}
        found = output(**login)
        assert f"ok: schema registry at {stub.url}" in found
        assert f"note: it has no schema {topics.decisions}-value" in found
        fields = [one for one in PLAIN["fields"] if one["name"] != "audit_p"]
        stub.subjects[f"{topics.decisions}-value/versions/latest"] = {
            "schema": json.dumps({**PLAIN, "fields": fields})
        }
        stub.subjects[f"{topics.labels}-value/versions/latest"] = {"schema": json.dumps(LABEL)}
        found = output(**login)
        assert f"warning: schema {topics.decisions}-value has no field audit_p" in found
        assert f"ok: schema {topics.labels}-value has every field that a label must have" in found
        assert "secret-word" not in found


def test_a_teams_own_schema_is_counted_once_per_decision(
    kafka: KafkaBroker, topic_name: str, tmp_path: Path
) -> None:
    """Copies in Avro are recognised like any other, also between Avro and JSON."""
    topics = Topics(f"{topic_name}-d", f"{topic_name}-l")
    for name in (topics.decisions, topics.labels):
        kafka.create_topic(name, 1)
    with StubRegistry() as stub:
        stub.add(3, PLAIN)
        attributes = {"language_variety": "formal", "channel": "chat"}
        events = [decision(f"d-{i}", attributes=attributes) for i in range(20)]
        values = [written(3, PLAIN, one) for one in events]
        kafka.produce(topics.decisions, [*values, *values[:5], json.dumps(events[7]).encode()])
        environment = settings(kafka, topics, tmp_path, stub.url)
        with Running(tmp_path, ["run", "--settings", str(SETTINGS)], environment) as service:
            service.until(lambda: service.get("/readyz")[0] == 200, "readiness")
            service.until(lambda: read(tmp_path, topics) == (20, 6), "20 decisions, 6 copies")
        assert stub.asked == ["/schemas/ids/3"]


def read(folder: Path, topics: Topics) -> tuple[int, int]:
    """Decisions that are counted, and copies."""
    engine = database.create_engine(f"sqlite:///{folder}/store.db")
    try:
        found = [one for one in read_statuses(engine) if one.shard.topic == topics.decisions]
    finally:
        engine.dispose()
    return sum(one.tallies.counted for one in found), sum(one.tallies.duplicates for one in found)
