"""Both Kafka clients on a real Apache Kafka: failures, zombies, transactions, error lines."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message
from kafka import KafkaProducer, TopicPartition
from kafka_broker import KafkaBroker

from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_source import KafkaSource
from consumers.sources.librdkafka_client import security_settings
from consumers.sources.librdkafka_source import RdkafkaSource
from monitor.composition.brokers import kafka_source
from monitor.errors import DataLossError, SettingsError, SourceError
from monitor.ports import RecordSource
from monitor.records import Polled, RecordBatch, Shard, Start
from monitor.settings import load

pytestmark = pytest.mark.full

SECONDS = 60.0
SESSION = 3.0
Opener = Callable[..., RecordSource]
SOURCES: dict[str, Any] = {"kafka-python": KafkaSource, "librdkafka": RdkafkaSource}
KAFKA_PYTHON = pytest.mark.parametrize("client", ["kafka-python"])
LIBRDKAFKA = pytest.mark.parametrize("client", ["librdkafka"])


@pytest.fixture(params=SOURCES)
def client(request: pytest.FixtureRequest) -> str:
    """Return the Kafka client of a test; a test replaces it by its parameter."""
    name: str = request.param
    return name


@pytest.fixture
def opened(topic_name: str, client: str) -> Iterator[Opener]:
    """Open sources of one group that are closed at the end."""
    sources: list[RecordSource] = []

    def open_source(
        broker: KafkaBroker, *topics: str, instance: str | None = None, session: float = SESSION
    ) -> RecordSource:
        source: RecordSource = SOURCES[client](
            KafkaConnection((broker.bootstrap,)),
            topics,
            topic_name,
            group_instance_id=instance,
            session_timeout=session,
        )
        sources.append(source)
        return source

    yield open_source
    for source in sources:
        source.close()


def poll_until(source: RecordSource, done: Callable[[list[Polled]], bool]) -> list[Polled]:
    polls: list[Polled] = []
    deadline = time.monotonic() + SECONDS
    while not done(polls):
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {polls[-3:]}"
        polls.append(source.poll(0.2))
    return polls


def begin(source: RecordSource, *offsets: int) -> list[Shard]:
    """Join and begin as many shards as offsets are given."""
    polls = poll_until(source, lambda got: sum(len(one.assigned) for one in got) >= len(offsets))
    shards = sorted(chain.from_iterable(one.assigned for one in polls))
    for shard, offset in zip(shards, offsets, strict=True):
        source.begin(shard, offset)
    return shards


def records_of(polls: list[Polled]) -> list[RecordBatch]:
    return [records for polled in polls for records in polled.records]


def offsets_of(polls: list[Polled]) -> list[int]:
    return [offset for records in records_of(polls) for offset in records.offsets]


def values_of(polls: list[Polled]) -> list[bytes | None]:
    return [value for records in records_of(polls) for value in records.values]


def read(source: RecordSource, count: int) -> list[Polled]:
    return poll_until(source, lambda got: len(offsets_of(got)) >= count)


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def test_a_killed_broker_gives_empty_polls_and_then_goes_on(
    own_kafka: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    own_kafka.create_topic(topic_name)
    own_kafka.produce(topic_name, numbers(0, 50))
    source = opened(own_kafka, topic_name)
    (shard,) = begin(source, 0)
    assert offsets_of(read(source, 50)) == list(range(50))
    own_kafka.kill()
    assert not any(source.poll(0.2).records for _ in range(10))
    assert not source.is_member([shard])
    source.report({shard: 50})
    own_kafka.restart()
    own_kafka.produce(topic_name, numbers(50, 80))
    got: list[int] = []

    def take(polls: list[Polled]) -> bool:
        if polls:
            for again in polls[-1].assigned:  # the group may have been lost with the broker
                source.begin(again, 50 + len(got))
            got.extend(offsets_of(polls[-1:]))
        return len(got) >= 30

    poll_until(source, take)
    assert got == list(range(50, 80))
    poll_until(source, lambda _: source.is_member([shard]))


@contextmanager
def gone(broker: KafkaBroker, fate: str) -> Iterator[None]:
    """A broker that is dead, or one that keeps its connections and never answers."""
    pid = broker.pid
    assert pid is not None
    if fate == "killed":
        broker.kill()
        yield
        return
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("client", "fate"),
    [("kafka-python", "killed"), ("librdkafka", "killed"), ("librdkafka", "stopped")],
)
def test_closes_within_seconds_when_the_broker_is_gone(
    own_kafka: KafkaBroker, opened: Opener, topic_name: str, fate: str
) -> None:
    own_kafka.create_topic(topic_name)
    source = opened(own_kafka, topic_name)
    (shard,) = begin(source, 0)
    with gone(own_kafka, fate):
        source.poll(0.5)
        source.report({shard: 0})
        started = time.monotonic()
        source.close()
        assert time.monotonic() - started < 5.0


def test_a_process_that_leaves_a_client_behind_still_ends(
    own_kafka: KafkaBroker, topic_name: str
) -> None:
    own_kafka.create_topic(topic_name)
    with member(own_kafka, topic_name) as process:
        tell(process, "join")
        with gone(own_kafka, "stopped"):
            tell(process, "close")
            process.communicate(timeout=10.0)
        assert process.returncode == 0


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
    polls = poll_until(source, lambda _: source.position(shard) == 8)
    assert offsets_of(polls) == []
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


def test_a_message_of_10_mb_and_a_tombstone_arrive(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name)
    large = b"x" * (10 << 20)
    apache.produce(topic_name, [b"before", large, None, b"after"], key=b"k", partition=0)
    source = opened(apache, topic_name)
    begin(source, 0)
    polls = read(source, 4)
    assert offsets_of(polls) == [0, 1, 2, 3]
    assert values_of(polls) == [b"before", large, None, b"after"]


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
    (records,) = records_of(read(source, 3))
    assert records.timestamps == [1000, 2000, 3000]


def test_offsets_that_retention_took_park_their_shard_alone(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name, 2)
    for partition in range(2):
        apache.produce(topic_name, numbers(0, 30), partition=partition)
    apache.admin.delete_records({TopicPartition(topic_name, 0): 20})
    source = opened(apache, topic_name)
    lost, sound = begin(source, 5, 0)
    arrived: list[Polled] = []

    def kept(polls: list[Polled]) -> bool:
        arrived.extend(polls[-1:])
        return False

    with pytest.raises(DataLossError, match=r"offset 5 .* the topic holds 20 to 30") as raised:
        poll_until(source, kept)
    assert raised.value.shard == lost
    missing = 30 - len(offsets_of(arrived))
    arrived.extend(read(source, missing))
    assert {records.shard for records in records_of(arrived)} == {sound}
    assert offsets_of(arrived) == list(range(30))
    source.pause([lost])  # whatever is done with a parked shard, it stays silent
    source.resume([lost])
    assert source.poll(0.5).records == []
    source.begin(lost, source.first_offset(lost, Start()))
    assert offsets_of(read(source, 10)) == list(range(20, 30))


def test_a_topic_created_again_has_another_identity_and_is_data_loss(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    before = apache.create_topic(topic_name)
    apache.produce(topic_name, numbers(0, 30), partition=0)
    source = opened(apache, topic_name)
    begin(source, 0)
    read(source, 30)
    assert source.topic_id(topic_name) == before
    apache.delete_topic(topic_name)
    after = apache.create_topic(topic_name)
    assert source.topic_id(topic_name) == after != before

    def begin_again(polls: list[Polled]) -> bool:
        assert offsets_of(polls) == []
        for shard in polls[-1].assigned if polls else ():
            source.begin(shard, 30)
        return False

    with pytest.raises(DataLossError, match="offset 30"):
        poll_until(source, begin_again)


def test_a_shard_read_by_nobody_keeps_the_committed_position(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    """Proving membership must not move what lag tools read."""
    apache.create_topic(topic_name)
    apache.produce(topic_name, numbers(0, 9), partition=0)
    source = opened(apache, topic_name)
    (shard,) = begin(source, 0)
    read(source, 9)
    source.report({shard: 9, Shard("of-somebody-else", 3): 7})
    poll_until(source, lambda _: committed(apache, topic_name) == 9)
    assert source.is_member([shard])
    assert committed(apache, topic_name) == 9


def committed(broker: KafkaBroker, name: str) -> int | None:
    offsets = broker.admin.list_group_offsets({name: [TopicPartition(name, 0)]})[name]
    found = offsets.get(TopicPartition(name, 0))
    return None if found is None else int(found.offset)


@LIBRDKAFKA
def test_an_old_high_water_is_not_taken_for_the_end(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    """The client remembers where a partition ended before it was begun again."""
    apache.create_topic(topic_name)
    apache.produce(topic_name, numbers(0, 9), partition=0)
    source = opened(apache, topic_name)
    (shard,) = begin(source, 0)
    read(source, 9)
    source.begin(shard, 9)
    assert source.high_water(shard) is None
    poll_until(source, lambda _: source.high_water(shard) == 9)


MEMBER = """
import sys
from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.librdkafka_source import RdkafkaSource
address, topic, session = sys.argv[1:]
source = RdkafkaSource(KafkaConnection((address,)), [topic], topic, session_timeout=float(session))
shards = []
for line in sys.stdin:
    if line == "join\\n":
        while not shards:
            shards += source.poll(0.2).assigned
    elif line == "poll\\n":
        source.poll(0.2)
    elif line == "close\\n":
        source.close()
    print(int(line != "close\\n" and source.is_member(shards)), flush=True)
"""
"""Does what it is told, and says each time whether it can prove its first shards."""


def member(broker: KafkaBroker, topic: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MEMBER, broker.bootstrap, topic, str(SESSION)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def tell(process: subprocess.Popen[str], what: str) -> bool:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    return bool(int(process.stdout.readline()))


@LIBRDKAFKA
def test_a_zombie_cannot_prove_that_the_shards_are_its_own(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name)
    with member(apache, topic_name) as zombie:
        assert tell(zombie, "join")
        zombie.send_signal(signal.SIGSTOP)
        try:
            heir = opened(apache, topic_name)
            (shard,) = begin(heir, 0)
            poll_until(heir, lambda _: heir.is_member([shard]))
            zombie.send_signal(signal.SIGCONT)
            assert not any(tell(zombie, "prove") for _ in range(5))
        finally:
            zombie.send_signal(signal.SIGCONT)
            said = zombie.communicate(timeout=SECONDS)
        assert said[1] == ""  # nor does the client write to standard error by itself


@LIBRDKAFKA
def test_a_named_member_that_is_back_in_time_moves_nothing(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name, 2)
    patient = partial(opened, apache, topic_name, session=SECONDS)
    stays, goes = (patient(instance=name) for name in ("stays", "goes"))
    owned: dict[RecordSource, set[Shard]] = {stays: set(), goes: set()}

    def follow(*sources: RecordSource) -> list[Shard]:
        moved = []
        for source in sources:
            polled = source.poll(0.1)
            owned[source] = (owned[source] - set(polled.revoked)) | set(polled.assigned)
            moved += [*polled.revoked, *polled.assigned]
        return moved

    deadline = time.monotonic() + SECONDS
    while {len(shards) for shards in owned.values()} != {1}:
        assert time.monotonic() < deadline, owned
        follow(stays, goes)
    before = owned[goes]
    goes.close()
    back = patient(instance="goes")
    owned[back] = set()
    moved: list[Shard] = []
    while not owned[back]:
        assert time.monotonic() < deadline, owned
        moved += follow(stays)
        follow(back)
    assert owned[back] == before
    assert moved == []


@LIBRDKAFKA
def test_a_second_process_under_one_name_ends_the_first(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    apache.create_topic(topic_name)
    first = opened(apache, topic_name, instance="pod-0")
    begin(first, 0)
    second = opened(apache, topic_name, instance="pod-0")
    begin(second, 0)
    with pytest.raises(SourceError, match=r"cannot be used: .*instance") as raised:
        poll_until(first, lambda _: False)
    assert "\n" not in str(raised.value)


class Following(threading.Thread):
    """Polls one source in a thread of its own and knows which shards it has and can prove.

    kafka-python never settles in a group while nobody polls.
    """

    def __init__(self, source: RecordSource) -> None:
        super().__init__(daemon=True)
        self.source = source
        self.proven: set[Shard] = set()
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        owned: set[Shard] = set()
        while not self._over.is_set():
            polled = self.source.poll(0.2)
            owned = (owned - set(polled.revoked)) | set(polled.assigned)
            self.proven = set(owned) if self.source.is_member(sorted(owned)) else set()

    def end(self) -> None:
        self._over.set()
        self.join(SECONDS)
        self.source.close()


@LIBRDKAFKA
def test_the_two_clients_share_a_group(
    apache: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    """While the processes of a deployment are restarted with another client."""
    apache.create_topic(topic_name, 4)
    connection = KafkaConnection((apache.bootstrap,))
    following = [
        Following(KafkaSource(connection, [topic_name], topic_name, session_timeout=SESSION))
    ]

    def wait_for(*counts: int) -> None:
        deadline = time.monotonic() + SECONDS
        while [len(one.proven) for one in following] != list(counts):
            assert time.monotonic() < deadline, [one.proven for one in following]
            time.sleep(0.05)

    try:
        wait_for(4)
        following.append(Following(opened(apache, topic_name)))
        wait_for(2, 2)
        assert following[0].proven.isdisjoint(following[1].proven)
        following.pop(0).end()
        wait_for(4)
    finally:
        for one in following:
            one.end()


@LIBRDKAFKA
def test_nothing_behind_an_unreadable_batch_is_delivered(
    apache: KafkaBroker, opened: Opener, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reads on behind it; delivered, the hole would be committed over."""
    apache.create_topic(topic_name)
    source = opened(apache, topic_name)
    begin(source, 0)
    broken = KafkaError(KafkaError._BAD_MSG, "crc mismatch")
    messages = [
        Message(topic=topic_name, partition=0, offset=1, value=b"crc", error=broken),
        Message(topic=topic_name, partition=0, offset=2, value=b"behind it"),
    ]
    monkeypatch.setattr(source, "_consume", lambda timeout: messages)
    with pytest.raises(SourceError, match="cannot be used: crc mismatch"):
        source.poll(0.1)


def test_an_unknown_topic_is_one_line_that_names_it(apache: KafkaBroker, client: str) -> None:
    with pytest.raises(SourceError) as raised:
        SOURCES[client](KafkaConnection((apache.bootstrap,)), ["no-such-topic"], "group")
    said = str(raised.value)
    assert said.startswith(f"topic no-such-topic does not exist at {apache.bootstrap}: check ")
    assert "\n" not in said


def test_no_broker_is_one_line() -> None:
    connection = KafkaConnection(("127.0.0.1:9",), timeout=2.0)
    with pytest.raises(SourceError, match=r"127.0.0.1:9: .*check stream.bootstrap_servers"):
        RdkafkaSource(connection, ["decisions"], "group")


def test_settings_the_client_refuses_are_one_line(apache: KafkaBroker, topic_name: str) -> None:
    apache.create_topic(topic_name)
    connection = KafkaConnection((apache.bootstrap,))
    with pytest.raises(SourceError, match=r"librdkafka refuses its settings: .*session") as raised:
        RdkafkaSource(connection, [topic_name], "group", session_timeout=1e6)
    assert "\n" not in str(raised.value)


def test_the_same_security_in_the_clients_own_words() -> None:
    words: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "reader",
        "sasl_plain_password": "a-secret",
        "ssl_cafile": "/ca.pem",
    }
    assert security_settings(KafkaConnection(("localhost",), security=words)) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reader",
        "sasl.password": "a-secret",
        "ssl.ca.location": "/ca.pem",
    }
    with pytest.raises(SourceError, match="knows no setting for api_version"):
        security_settings(KafkaConnection(("localhost",), security={"api_version": (2, 0)}))


def test_without_its_package_the_setting_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = Path(__file__).parents[2] / "deploy" / "examples" / "ten_pairs.toml"
    settings = load(example, {"SLICEWATCH__STREAM__CLIENT": "librdkafka"})
    monkeypatch.delitem(sys.modules, "consumers.sources.librdkafka_source")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SettingsError, match=r"^stream.client: .*slicewatch\[librdkafka\]"):
        kafka_source(settings)


# kafka-python alone


@KAFKA_PYTHON
def test_a_join_that_outlasts_a_short_poll_is_finished(
    kafka: KafkaBroker, opened: Opener, topic_name: str
) -> None:
    """As happens when partitions are added to a topic whose reader is busy."""
    kafka.create_topic(topic_name)
    source = opened(kafka, topic_name)
    assert isinstance(source, KafkaSource)
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


@KAFKA_PYTHON
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
