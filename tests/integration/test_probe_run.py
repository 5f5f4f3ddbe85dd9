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
from probing import EXAMPLES, KEY, SAID, ScriptedRouter, example_router, http
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


def test_the_rate_is_kept(kafka: Broker, topic_name: str, router: Any, tmp_path: Path) -> None:
    kafka.create_topic(topic_name)
    rate = 40
    with ProbeRun(tmp_path, kafka.bootstrap, topic_name, router.url, "--rate", str(rate)) as run:
        assert run.ended() == 0, run.said
    moments = sorted(at(read(record)) for record in kafka.consume(topic_name, 120))
    # A late answer makes the gap after it short, and that one alone: the next request waits for it.
    windows = [after - before for before, after in zip(moments, moments[10:], strict=False)]
    assert min(windows) > 9 / rate * 1e6 - 20_000
    assert moments[-1] - moments[0] > 118 / rate * 1e6 - 20_000


def test_rounds_come_again_and_stop_cleanly(
    kafka: Broker, topic_name: str, router: Any, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name)
    options = ("--rate", "500", "--every", "500ms")
    with ProbeRun(tmp_path, kafka.bootstrap, topic_name, router.url, *options) as run:
        run.until(lambda: "round 3:" in run.said)
        router.router.set_thresholds({"conversational": 0.8})
        run.until(lambda: "20 with different routes" in run.said)
        run.process.send_signal(signal.SIGTERM)
        code = run.ended()
        rounds = [line for line in run.said.splitlines() if line.startswith("round ")]
        assert code == int("stopped after" in rounds[-1]), run.said
    records = kafka.consume(topic_name, 120 * (len(rounds) - 1))
    assert len({read(record).decision_id for record in records}) == len(records)
    assert all(len(some) % 2 == 0 for some in by_pair(records).values())


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


def test_what_fails_is_counted_and_not_published(
    kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name)
    replies = [
        http(SAID),
        http({}, "500 Oh"),
        http(SAID | {"versions": {"judge": "j1"}}),
        http(b"<html>"),
        http(SAID | {"versions": SAID["versions"] | {"judge": "j2"}}),
        http(SAID),
        http({}, "429 Slow", "Retry-After: 0"),
        http(SAID),
    ]
    options = ("--rate", "500", "--timeout", "20s")
    with (
        ScriptedRouter(*replies) as scripted,
        ProbeRun(tmp_path, kafka.bootstrap, topic_name, scripted.url, *options) as run,
    ):
        assert run.ended() == 1, run.said
        lines = run.said.splitlines()
    assert len(lines) == 5
    assert [line.partition(": ")[2] for line in lines[:4]] == [
        "the router answered 500",
        "the router did not answer by the protocol: versions: Object missing required field "
        "`rubric`",
        "the router did not answer in JSON",
        "left out, because the router's versions changed between its variants",
    ]
    assert lines[4] == (
        "round 1: 57 of 60 pairs answered and published; 0 with different routes; "
        "2 incomplete (2 malformed, 1 status); 1 with mixed versions"
    )
    pairs = by_pair(kafka.consume(topic_name, 115))
    assert sum(map(len, pairs.values())) == 115
    assert len(scripted.asked) == 121


def test_a_router_that_is_slow_is_late_and_given_up(
    kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name)
    options = ("--rate", "500", "--timeout", "100ms")
    with (
        ScriptedRouter(b"") as scripted,
        ProbeRun(tmp_path, kafka.bootstrap, topic_name, scripted.url, *options) as run,
    ):
        assert run.ended() == 2
        assert run.said.count("the router did not answer within 0.1 s") == 10
        assert "5 incomplete (10 timeout); given up" in run.said


def test_a_router_that_comes_back_is_probed_on(
    kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name)
    replies = [*[http({}, "500 Oh")] * 10, http(SAID)]
    options = ("--rate", "500", "--every", "1s", "--times", "2")
    with (
        ScriptedRouter(*replies) as scripted,
        ProbeRun(tmp_path, kafka.bootstrap, topic_name, scripted.url, *options) as run,
    ):
        assert run.ended() == 2  # the worst of its rounds
        assert "round 1: 0 of 60 pairs" in run.said
        assert "round 2: 60 of 60 pairs answered and published" in run.said


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
