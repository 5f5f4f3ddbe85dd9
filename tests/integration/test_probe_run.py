"""``slicewatch probe run`` as a process, on a real broker, against routers over HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from brokers import Broker
from kafka_broker import KafkaBroker
from probing import EXAMPLES, KEY, example_router
from secured_kafka import SecuredKafka

from consumers.events import Decision
from consumers.probe_signing import is_signed
from consumers.sources.kafka_admin import KafkaConnection
from monitor.audit.inputs import digest
from monitor.audit.set_files import read_set
from monitor.core.time import to_micros
from monitor.errors import SlicewatchError
from monitor.probing.probe_events import KafkaPublisher
from monitor.probing.protocol import router_key

pytestmark = pytest.mark.full

SET = EXAMPLES / "set.jsonl"
SECONDS = 120.0
PASSWORD = "correct-horse-battery"


@pytest.fixture
def router() -> Iterator[Any]:
    with example_router(router_key(KEY.encode())) as server:
        yield server


class ProbeRun:
    """``slicewatch probe run`` of the example set; ended with the block."""

    def __init__(self, folder: Path, broker: str, topic: str, url: str, *options: str) -> None:
        settings = folder / "slicewatch.toml"
        settings.write_text((EXAMPLES / "probes.toml").read_text())
        (folder / "probe.key").write_text(KEY)
        stream = {"BOOTSTRAP_SERVERS": f'["{broker}"]', "DECISIONS_TOPIC": topic}
        environment = {f"SLICEWATCH__STREAM__{name}": value for name, value in stream.items()}
        self._said = folder / "said.log"
        command = [sys.executable, "-m", "monitor", "probe", "run", str(SET)]
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [*command, "--settings", str(settings), "--target", url, *options],
                cwd=folder,
                env={**os.environ, **environment},
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._said.read_text()

    def ended(self) -> int:
        """The exit code, once there is one."""
        return self.process.wait(SECONDS)

    def until(self, seen: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not seen():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)


def read(record: Any) -> Decision:
    return msgspec.json.decode(record.value, type=Decision)


def at(event: Decision) -> int:
    return to_micros(msgspec.convert(event.decided_at, datetime))


def told(run: ProbeRun) -> str:
    """The only line that was said."""
    (line,) = run.said.splitlines()

    assert line.startswith("slicewatch: ")
    return line


def by_pair(records: list[Any]) -> Mapping[str, list[Decision]]:
    events = sorted(map(read, records), key=lambda one: (str(one.pair_id), one.decided_at))
    return {str(pair): list(some) for pair, some in groupby(events, lambda one: one.pair_id)}


def test_probes_arrive_signed_and_in_pairs(
    kafka: Broker, topic_name: str, router: Any, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name, partitions=3)
    router.router.set_thresholds({"conversational": 0.8})
    before = time.time_ns() // 1000
    with ProbeRun(tmp_path, kafka.bootstrap, topic_name, router.url, "--rate", "200") as run:
        assert run.ended() == 0, run.said
        line = "round 1: 60 of 60 pairs answered and published; 20 with different routes\n"
        assert run.said == line
    records = kafka.consume(topic_name, 120)
    events = [read(record) for record in records]
    assert len({event.decision_id for event in events}) == 120
    assert all(is_signed(event, KEY.encode()) for event in events)
    assert {event.probe_set for event in events} == {digest(read_set(SET))}
    assert {event.traffic for event in events} == {"probe"}
    assert all(before <= at(event) <= time.time_ns() // 1000 for event in events)
    pairs = by_pair(records)
    assert len(pairs) == 60
    assert all(
        {one.variant for one in some} == {"formal", "conversational"} for some in pairs.values()
    )
    held = [some for some in pairs.values() if len({one.route for one in some}) == 2]
    assert len(held) == 20
    for record in records:
        assert record.key == str(read(record).pair_id).encode()
    for partition in range(3):
        # Pairs are written one after the other, in the order of their answers.
        there = [read(one) for one in records if one.partition == partition]
        assert [one.decided_at for one in there] == sorted(one.decided_at for one in there)


def test_ctrl_c_ends_between_two_requests(
    kafka: Broker, topic_name: str, router: Any, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name)
    with ProbeRun(tmp_path, kafka.bootstrap, topic_name, router.url, "--rate", "20") as run:
        run.until(lambda: router.router.probes >= 10)
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 1, run.said
        assert "stopped after" in run.said
    sent = router.router.probes
    assert sent < 120
    pairs = by_pair(kafka.consume(topic_name, sent - sent % 2))
    assert sum(map(len, pairs.values())) == sent - sent % 2
    assert {len(some) for some in pairs.values()} == {2}


def test_without_a_broker_or_topic_nothing_is_sent(
    kafka: Broker, topic_name: str, router: Any, tmp_path: Path
) -> None:
    with ProbeRun(tmp_path, "127.0.0.1:1", topic_name, router.url) as run:
        assert run.ended() == 2
        assert "no Kafka broker can be reached" in told(run)
    with ProbeRun(tmp_path, kafka.bootstrap, topic_name, router.url) as run:
        assert run.ended() == 2
        assert f"topic {topic_name} does not exist" in told(run)
    assert router.router.probes == 0


def test_a_broker_that_dies_ends_the_run_in_one_line(
    own_kafka: KafkaBroker, topic_name: str, router: Any, tmp_path: Path
) -> None:
    own_kafka.create_topic(topic_name)
    options = ("--rate", "20", "--times", "50")
    with ProbeRun(tmp_path, own_kafka.bootstrap, topic_name, router.url, *options) as run:
        run.until(lambda: router.router.probes >= 10)
        own_kafka.kill()
        assert run.ended() == 2
        assert "did not write an event" in run.said.splitlines()[-1]
        assert "Traceback" not in run.said


def test_a_user_who_may_not_write_is_told(secured_kafka: SecuredKafka, topic_name: str) -> None:
    secured_kafka.create_topic(topic_name)
    secured_kafka.set_password("prober", PASSWORD)
    head = "kafka-acls.sh --bootstrap-server B --command-config C --add"
    command = f"{head} --allow-principal User:prober --topic {topic_name} --operation"
    secured_kafka.allow(f"{command} Describe")
    login = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "prober",
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": str(secured_kafka.certificates.ca),
    }
    publisher = KafkaPublisher(
        KafkaConnection((secured_kafka.password_listener,), security=login), topic_name
    )
    try:
        with pytest.raises(SlicewatchError, match=f"--operation Write --topic {topic_name}"):
            publisher.publish("p1", [b"{}"])
    finally:
        publisher.close()
