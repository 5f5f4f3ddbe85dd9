"""The Kafka source on a real Apache Kafka: failures, transactions, sizes, and its error lines."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterator
from itertools import chain

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka_broker import KafkaBroker

from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_source import KafkaSource
from monitor.errors import DataLossError, SourceError
from monitor.records import RecordBatch, Shard, Start

pytestmark = pytest.mark.full

SECONDS = 90.0
Opener = Callable[..., KafkaSource]


@pytest.fixture
def opened(topic_name: str) -> Iterator[Opener]:
    """Open sources of one group that are closed at the end."""
    sources: list[KafkaSource] = []

    def open_one(broker: KafkaBroker, *topics: str) -> KafkaSource:
        connection = KafkaConnection((broker.bootstrap,))
        sources.append(KafkaSource(connection, topics, topic_name, session_timeout=6.0))
        return sources[-1]

    yield open_one
    for source in sources:
        source.close()


def begin(source: KafkaSource, *offsets: int) -> list[Shard]:
    """Join and begin as many shards as offsets are given."""
    shards: list[Shard] = []
    deadline = time.monotonic() + SECONDS
    while len(shards) < len(offsets):
        assert time.monotonic() < deadline, "no assignment"
        shards.extend(source.poll(0.2).assigned)
    for shard, offset in zip(sorted(shards), offsets, strict=True):
        source.begin(shard, offset)
    return sorted(shards)


def read(source: KafkaSource, count: int) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    deadline = time.monotonic() + SECONDS
    while sum(len(one.offsets) for one in found) < count:
        assert time.monotonic() < deadline, f"only {found}"
        found.extend(source.poll(0.2).records)
    return found


def offsets_of(found: list[RecordBatch]) -> list[int]:
    return list(chain.from_iterable(one.offsets for one in found))


def values_of(found: list[RecordBatch]) -> list[bytes | None]:
    return list(chain.from_iterable(one.values for one in found))


def test_a_join_that_outlasts_a_short_poll_is_finished(
    kafka: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    """As happens when partitions are added to a topic whose reader is busy."""
    kafka.create_topic(topic_name)
    source = opened(kafka, topic_name)
    begin(source, 0)
    coordinator = source._consumer._coordinator
    kafka.add_partitions(topic_name, 2)
    deadline = time.monotonic() + SECONDS
    while not coordinator.need_rejoin():
        assert time.monotonic() < deadline, "the new partition is not noticed"
        time.sleep(0.01)
    assert coordinator.poll(timeout_ms=0) is False, "the client begins to join, and does not wait"
    while coordinator.need_rejoin():
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.01)
    time.sleep(0.5)  # the rest of the answer
    assert coordinator.rejoining, "it has dropped the answer"

    assigned: list[Shard] = []
    while not assigned:
        assert time.monotonic() < deadline, "the new partition is not assigned"
        assigned.extend(source.poll(0).assigned)
    assert assigned == [Shard(topic_name, 1)]
    assert not coordinator.rejoining


def test_a_killed_broker_gives_empty_polls_and_then_goes_on(
    own_kafka: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    own_kafka.create_topic(topic_name)
    own_kafka.produce(topic_name, [b"%d" % n for n in range(50)])
    source = opened(own_kafka, topic_name)
    (shard,) = begin(source, 0)
    assert offsets_of(read(source, 50)) == list(range(50))
    own_kafka.kill()
    for _ in range(10):
        assert source.poll(0.2).records == []
    assert not source.is_member([shard])
    source.report({shard: 50})
    own_kafka.restart()
    own_kafka.produce(topic_name, [b"%d" % n for n in range(50, 80)])
    got: list[int] = []
    deadline = time.monotonic() + SECONDS
    while len(got) < 30:
        assert time.monotonic() < deadline
        polled = source.poll(0.2)
        for again in polled.assigned:  # the group may have been lost with the broker
            source.begin(again, 50 + len(got))
        got.extend(offsets_of(list(polled.records)))
    assert got == list(range(50, 80))
    while not source.is_member([shard]):
        assert time.monotonic() < deadline
        source.poll(0.2)


def test_closes_within_seconds_when_the_broker_is_gone(
    own_kafka: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    own_kafka.create_topic(topic_name)
    source = opened(own_kafka, topic_name)
    begin(source, 0)
    own_kafka.kill()
    source.poll(0.5)
    started = time.monotonic()
    source.close()
    assert time.monotonic() - started < 5.0


def test_asking_for_a_topic_of_a_broker_that_is_gone_fails_in_time(
    own_kafka: KafkaBroker, topic_name: str
) -> None:
    own_kafka.create_topic(topic_name)
    # While it is there it has to answer within this time, too, on whatever machine.
    connection = KafkaConnection((own_kafka.bootstrap,), timeout=8.0)
    source = KafkaSource(connection, [topic_name], topic_name)
    own_kafka.kill()
    started = time.monotonic()
    with pytest.raises(SourceError, match=own_kafka.bootstrap):
        source.topic_id(topic_name)
    assert time.monotonic() - started < 25.0
    source.close()


def test_transactions_leave_gaps_and_still_catch_up(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name)
    producer = KafkaProducer(
        bootstrap_servers=apache.bootstrap, transactional_id=topic_name, metrics_enabled=False
    )
    producer.init_transactions()
    for number in range(4):  # kept, aborted, kept, aborted: each with a control record behind it
        producer.begin_transaction()
        producer.send(topic_name, b"%d" % number).get(timeout=SECONDS)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    producer.close()
    source = opened(apache, topic_name)
    (shard,) = begin(source, 0)
    found = read(source, 2)
    assert offsets_of(found) == [0, 4]
    assert values_of(found) == [b"0", b"2"]
    deadline = time.monotonic() + SECONDS
    while source.position(shard) != 8:
        assert time.monotonic() < deadline
        assert source.poll(0.2).records == []
    assert source.high_water(shard) == 8


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_reads_compressed_batches_from_the_middle(
    apache: KafkaBroker, opened: Opener, topic_name: str, codec: str
) -> None:
    library = {"snappy": "snappy", "lz4": "lz4.frame", "zstd": "zstandard"}.get(codec)
    if library is not None:
        pytest.importorskip(library, exc_type=ImportError)
    apache.create_topic(topic_name)
    with KafkaProducer(
        bootstrap_servers=apache.bootstrap, compression_type=codec, linger_ms=200
    ) as producer:
        for number in range(200):
            producer.send(topic_name, b"x" * 300 + b"%d" % number)
    source = opened(apache, topic_name)
    begin(source, 77)
    found = read(source, 123)
    assert offsets_of(found) == list(range(77, 200))
    assert values_of(found)[0] == b"x" * 300 + b"77"


def test_a_codec_without_its_library_is_one_clear_line(
    apache: KafkaBroker, opened: Opener, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    apache.create_topic(topic_name)
    with KafkaProducer(bootstrap_servers=apache.bootstrap, compression_type="gzip") as producer:
        producer.send(topic_name, b"x" * 1000)
    monkeypatch.setattr("kafka.codec.has_gzip", lambda: False)
    source = opened(apache, topic_name)
    begin(source, 0)
    with pytest.raises(SourceError, match="gzip") as raised:
        read(source, 1)
    assert "\n" not in str(raised.value)


def test_a_message_of_10_mb_and_a_tombstone_arrive(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name)
    large = b"x" * (10 << 20)
    apache.produce(topic_name, [b"before", large, None, b"after"], key=b"k", partition=0)
    source = opened(apache, topic_name)
    begin(source, 0)
    found = read(source, 4)
    assert offsets_of(found) == [0, 1, 2, 3]
    assert values_of(found) == [b"before", large, None, b"after"]


def test_resolves_where_a_shard_begins(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name)
    apache.produce(topic_name, [b"a", b"b", b"c"], partition=0, timestamps_ms=[1000, 2000, 3000])
    source = opened(apache, topic_name)
    (shard,) = begin(source, 0)
    for policy, at, expected in [
        ("earliest", None, 0),
        ("latest", None, 3),
        ("time", 0, 0),
        ("time", 2_000_000, 1),
        ("time", 2_000_001, 2),
        ("time", 9_000_000, 3),
    ]:
        assert source.first_offset(shard, Start(policy, at)) == expected
    assert read(source, 3)[0].timestamps == [1000, 2000, 3000]


def test_an_offset_that_retention_took_is_data_loss(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name)
    apache.produce(topic_name, [b"%d" % n for n in range(30)], partition=0)
    apache.admin.delete_records({TopicPartition(topic_name, 0): 20})
    source = opened(apache, topic_name)
    (shard,) = begin(source, 5)
    with pytest.raises(DataLossError, match="the topic holds 20 to 30") as raised:
        read(source, 1)
    assert raised.value.shard == shard
    assert source.poll(0.3).records == []
    source.begin(shard, source.first_offset(shard, Start()))
    assert offsets_of(read(source, 10)) == list(range(20, 30))


def test_a_topic_created_again_has_another_identity_and_is_data_loss(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    before = apache.create_topic(topic_name)
    apache.produce(topic_name, [b"%d" % n for n in range(30)], partition=0)
    source = opened(apache, topic_name)
    begin(source, 0)
    read(source, 30)
    assert source.topic_id(topic_name) == before
    apache.delete_topic(topic_name)
    after = apache.create_topic(topic_name)
    assert source.topic_id(topic_name) == after != before
    reached = 30

    def go_on() -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            polled = source.poll(0.2)
            assert polled.records == []
            for shard in polled.assigned:
                source.begin(shard, reached)

    with pytest.raises(DataLossError, match="offset 30"):
        go_on()


def test_a_shard_read_by_nobody_keeps_the_committed_position(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    """Proving membership must not move what lag tools read."""
    apache.create_topic(topic_name)
    apache.produce(topic_name, [b"%d" % n for n in range(9)], partition=0)
    source = opened(apache, topic_name)
    (shard,) = begin(source, 0)
    read(source, 9)
    source.report({shard: 9})
    deadline = time.monotonic() + SECONDS
    while committed(apache, topic_name) != 9:
        assert time.monotonic() < deadline
        source.poll(0.1)
    assert source.is_member([shard])
    assert committed(apache, topic_name) == 9


def committed(broker: KafkaBroker, name: str) -> int | None:
    offsets = broker.admin.list_group_offsets({name: [TopicPartition(name, 0)]})[name]
    found = offsets.get(TopicPartition(name, 0))
    return None if found is None else int(found.offset)


def test_an_unknown_topic_is_one_line_that_names_it(apache: KafkaBroker) -> None:
    with pytest.raises(SourceError) as raised:
        KafkaSource(KafkaConnection((apache.bootstrap,)), ["no-such-topic"], "group")
    said = str(raised.value)
    assert said.startswith(f"topic no-such-topic does not exist at {apache.bootstrap}: check ")
    assert "\n" not in said


def test_no_broker_is_one_line_that_names_every_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(SourceError) as raised:
            KafkaSource(KafkaConnection((address, "nowhere.invalid")), ["decisions"], "group")
    said = str(raised.value)
    assert f"{address}: Connection refused" in said
    assert "nowhere.invalid: " in said
    assert "check stream.bootstrap_servers" in said
    assert "\n" not in said


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("security", "reason"),
    [
        (
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "somebody",
                "sasl_plain_password": "a-secret",
            },
            "knows no login: set stream.security.protocol to PLAINTEXT",
        ),
        ({"security_protocol": "SSL"}, "does not speak TLS: set stream.security.protocol"),
        ({"no_such_argument": 1}, "no_such_argument"),
    ],
)
def test_refused_access_is_one_line_without_the_secret(
    apache: KafkaBroker, security: dict[str, object], reason: str
) -> None:
    connection = KafkaConnection((apache.bootstrap,), security=security)
    with pytest.raises(SourceError, match=reason) as raised:
        KafkaSource(connection, ["decisions"], "group")
    said = str(raised.value)
    assert "\n" not in said
    assert "a-secret" not in said + repr(connection)
    gc.collect()  # the client leaves the sockets of failed handshakes to the collector


def test_a_silent_port_under_tls_does_not_hang() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        connection = KafkaConnection((address,), security={"security_protocol": "SSL"}, timeout=0.5)
        with pytest.raises(SourceError, match="no Kafka broker can be reached"):
            KafkaSource(connection, ["decisions"], "group")
