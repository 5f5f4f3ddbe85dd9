"""One suite for every record source: memory, file, log, the Kafka clients, the demo's broker."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import pytest
from brokers import Broker
from memory_source import MemoryBroker, MemorySource

from consumers.sources.event_log import EventLog
from consumers.sources.file_source import FileSource
from consumers.sources.kafka_admin import KafkaConnection
from consumers.sources.kafka_source import KafkaSource
from consumers.sources.librdkafka_source import RdkafkaSource
from consumers.sources.log_source import LogSource
from monitor.clock import SystemClock
from monitor.errors import DataLossError, SourceError
from monitor.ports import RecordSource
from monitor.records import Polled, RecordBatch, Shard, Start

SECONDS = 60.0
QUIET_POLLS = 4
SESSION = 6.0
"""Whoever is silent for so long loses its shards: a busy machine must not take as long."""


class World(Protocol):
    """Where a source reads from; ``ends`` says whether its shards have a fixed end."""

    ends: bool
    wait: float

    @property
    def turn(self) -> AbstractContextManager[Any]: ...

    def create(self, name: str, partitions: int) -> str: ...
    def produce(self, topic: str, values: Sequence[bytes], partition: int) -> None: ...
    def source(self, *topics: str) -> RecordSource: ...


class MemoryWorld:
    ends = False
    wait = 0.0

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.turn = threading.Lock()

    def create(self, name: str, partitions: int) -> str:
        self.broker.create_topic(name, partitions)
        return name

    def produce(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        with self.turn:  # a reader in another thread could pass over what comes meanwhile
            self.broker.produce(topic, values, partition)

    def source(self, *topics: str) -> RecordSource:
        return MemorySource(self.broker, topics, max_records=50)


class FileWorld:
    ends = True
    wait = 0.0

    def __init__(self, folder: Path, suffix: str) -> None:
        self.folder, self.suffix = folder, suffix
        self.turn = nullcontext()
        self.files: dict[str, list[Path]] = {}

    def create(self, name: str, partitions: int) -> str:
        paths = [self.folder / f"{name}-{one}.jsonl{self.suffix}" for one in range(partitions)]
        for path in paths:
            self._open(path).close()
        self.files[name] = paths
        return name

    def produce(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        with self._open(self.files[topic][partition]) as file:
            file.writelines(value + b"\n" for value in values)

    def source(self, *topics: str) -> RecordSource:
        return FileSource([(topic, path) for topic in topics for path in self.files.get(topic, ())])

    def _open(self, path: Path) -> Any:
        return gzip.open(path, "ab") if self.suffix else path.open("ab")


class LogWorld:
    ends = False
    wait = 0.0

    def __init__(self, folder: Path) -> None:
        self.turn = nullcontext()
        self.file = folder / "log.db"
        self.log: EventLog | None = None
        self.topics: dict[str, int] = {}

    def create(self, name: str, partitions: int) -> str:
        self.topics[name] = partitions
        return name

    def produce(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        self.opened().append({Shard(topic, partition): values})

    def source(self, *topics: str) -> RecordSource:
        return LogSource(self.opened(), topics, max_records=50)

    def opened(self) -> EventLog:
        self.log = self.log or EventLog(self.file, self.topics, SystemClock().now)
        return self.log


class KafkaWorld:
    ends = False
    wait = 0.2

    def __init__(self, broker: Broker, prefix: str, session: float) -> None:
        self.broker, self.prefix, self.session = broker, prefix, session
        self.turn = nullcontext()

    def create(self, name: str, partitions: int) -> str:
        topic = f"{self.prefix}-{name}"
        self.broker.create_topic(topic, partitions)
        return topic

    def produce(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        self.broker.produce(topic, values, partition=partition)

    def source(self, *topics: str) -> RecordSource:
        return KafkaSource(
            KafkaConnection((self.broker.bootstrap,)),
            topics,
            f"{self.prefix}-group",
            session_timeout=self.session,
            loss_grace=0.5,
        )


class RdkafkaWorld(KafkaWorld):
    def source(self, *topics: str) -> RecordSource:
        return RdkafkaSource(
            KafkaConnection((self.broker.bootstrap,)),
            topics,
            f"{self.prefix}-group",
            session_timeout=self.session,
            max_records=50,
        )


LIBRDKAFKA = pytest.param("librdkafka", marks=pytest.mark.broker)
TANSU = pytest.param("tansu", marks=pytest.mark.full)
KINDS = ("memory", "file", "gzip", "log", "kafka", LIBRDKAFKA, TANSU)
with_groups = pytest.mark.parametrize("world", ["memory", "kafka", LIBRDKAFKA], indirect=True)
"""Tansu takes half a session timeout for every step of a rebalance."""


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path, topic_name: str) -> World:
    kind = request.param
    if kind == "memory":
        return MemoryWorld()
    if kind in ("file", "gzip"):
        return FileWorld(tmp_path, ".gz" if kind == "gzip" else "")
    if kind == "log":
        return LogWorld(tmp_path)
    if kind == "librdkafka":
        return RdkafkaWorld(request.getfixturevalue("apache"), topic_name, SESSION)
    session = {"kafka": SESSION, "tansu": 1.0}[kind]
    return KafkaWorld(request.getfixturevalue(kind), topic_name, session)


@pytest.fixture
def opened(world: World) -> Iterator[Callable[..., RecordSource]]:
    """Open sources that are closed at the end."""
    sources: list[RecordSource] = []

    def open_one(*topics: str) -> RecordSource:
        sources.append(world.source(*topics))
        return sources[-1]

    yield open_one
    for source in sources:
        source.close()


def values(count: int, start: int = 0) -> list[bytes]:
    return [b'{"n": %d}' % number for number in range(start, start + count)]


def until(source: RecordSource, wait: float, done: Callable[[list[Polled]], bool]) -> list[Polled]:
    """Poll until ``done`` says so."""
    polls: list[Polled] = []
    deadline = time.monotonic() + SECONDS
    while not done(polls):
        assert time.monotonic() < deadline, f"nothing after {SECONDS} s: {polls[-3:]}"
        polls.append(source.poll(wait))
    return polls


def quiet(source: RecordSource, wait: float) -> list[RecordBatch]:
    """Everything that arrives in a few polls."""
    return [one for _ in range(QUIET_POLLS) for one in source.poll(wait).records]


def join(source: RecordSource, wait: float, count: int) -> list[Shard]:
    """Poll until so many shards are assigned; nothing may arrive before they begin."""
    polls = until(source, wait, lambda got: sum(len(one.assigned) for one in got) >= count)
    assert not any(one.records for one in polls)
    return sorted(chain.from_iterable(one.assigned for one in polls))


def read(source: RecordSource, wait: float, count: int) -> dict[Shard, list[tuple[int, bytes]]]:
    """Poll until so many messages came: (offset, value) by shard."""
    polls = until(
        source,
        wait,
        lambda got: sum(len(one.offsets) for polled in got for one in polled.records) >= count,
    )
    found: dict[Shard, list[tuple[int, bytes]]] = {}
    for records in chain.from_iterable(polled.records for polled in polls):
        assert len(records.offsets) == len(records.values) == len(records.timestamps)
        rows = zip(records.offsets, records.values, strict=True)
        found.setdefault(records.shard, []).extend((at, value or b"") for at, value in rows)
    return found


def test_fulfils_the_port(world: World, opened: Callable[..., RecordSource]) -> None:
    assert isinstance(opened(world.create("decisions", 1)), RecordSource)


def test_nothing_comes_before_begin(world: World, opened: Callable[..., RecordSource]) -> None:
    topic = world.create("decisions", 2)
    world.produce(topic, values(5), 0)
    source = opened(topic)
    shards = join(source, world.wait, 2)
    source.pause(shards)
    source.resume(shards)
    assert shards == list(source.shards(topic)) == [Shard(topic, 0), Shard(topic, 1)]
    assert quiet(source, world.wait) == []
    assert [source.position(shard) for shard in shards] == [None, None]


def test_everything_arrives_once_in_order(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    topic = world.create("decisions", 2)
    expected = [values(170), values(30, start=500)]
    for partition, produced in enumerate(expected):
        world.produce(topic, produced, partition)
    source = opened(topic)
    for shard in join(source, world.wait, 2):
        source.begin(shard, source.first_offset(shard, Start()))
    found = read(source, world.wait, 200)
    assert quiet(source, world.wait) == []
    for partition, produced in enumerate(expected):
        offsets, got = zip(*found[Shard(topic, partition)], strict=True)
        assert list(got) == produced
        assert all(before < after for before, after in pairwise(offsets))


def test_begins_in_the_middle(world: World, opened: Callable[..., RecordSource]) -> None:
    topic = world.create("decisions", 1)
    world.produce(topic, values(20), 0)
    source = opened(topic)
    (shard,) = join(source, world.wait, 1)
    source.begin(shard, 13)
    assert source.position(shard) == 13
    assert read(source, world.wait, 7)[shard] == list(enumerate(values(20)))[13:]
    assert source.position(shard) == 20


def test_begins_at_the_end_and_knows_it(world: World, opened: Callable[..., RecordSource]) -> None:
    topic = world.create("decisions", 2)
    world.produce(topic, values(9), 0)
    source = opened(topic)
    shards = join(source, world.wait, 2)
    source.begin(shards[0], 9)
    source.begin(shards[1], 0)
    polls = until(source, world.wait, lambda _: None not in map(source.high_water, shards))
    assert not any(one.records for one in polls)
    assert [source.high_water(shard) for shard in shards] == [9, 0]
    assert [source.position(shard) for shard in shards] == [9, 0]


def test_begins_again_at_an_earlier_offset(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    topic = world.create("decisions", 1)
    world.produce(topic, values(20), 0)
    source = opened(topic)
    (shard,) = join(source, world.wait, 1)
    source.begin(shard, 0)
    read(source, world.wait, 20)
    source.begin(shard, 5)
    assert read(source, world.wait, 15)[shard] == list(enumerate(values(20)))[5:]


def test_what_was_fetched_ahead_is_neither_lost_nor_repeated(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    topic = world.create("decisions", 1)
    everything = list(enumerate(values(1000)))
    world.produce(topic, values(1000), 0)
    source = opened(topic)
    (shard,) = join(source, world.wait, 1)
    source.begin(shard, 0)
    read(source, world.wait, 100)
    source.begin(shard, 700)
    ahead = read(source, world.wait, 100)[shard]
    assert ahead == everything[700 : 700 + len(ahead)]
    source.begin(shard, 3)
    first = read(source, world.wait, 100)[shard]
    source.pause([shard])
    assert quiet(source, world.wait) == []
    source.resume([shard])
    rest = read(source, world.wait, 997 - len(first)).get(shard, [])  # a file has no limit
    assert first + rest == everything[3:]


@with_groups
def test_what_was_fetched_of_a_paused_shard_comes_although_others_were_read_since(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    """Also when nothing else ever moves again."""
    many = 6_000  # more than a client's usual limit of one poll
    topic = world.create("decisions", 2)
    world.produce(topic, values(many), 0)
    source = opened(topic)
    held, free = join(source, world.wait, 2)
    source.begin(held, 0)
    source.begin(free, 0)
    first = read(source, world.wait, 1)[held]
    source.pause([held])
    world.produce(topic, values(10), 1)
    found = read(source, world.wait, 10)
    first += found.get(held, [])
    assert found[free] == list(enumerate(values(10)))
    source.resume([held])
    rest = read(source, world.wait, many - len(first)).get(held, [])
    assert first + rest == list(enumerate(values(many)))


def test_paused_shards_are_silent_and_lose_nothing(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    topic = world.create("decisions", 2)
    world.produce(topic, values(120), 0)
    world.produce(topic, values(120), 1)
    source = opened(topic)
    held, free = join(source, world.wait, 2)
    source.begin(held, 0)
    source.begin(free, 0)
    source.pause([held])
    source.pause([held])
    found = read(source, world.wait, 120)
    assert set(found) == {free}
    assert quiet(source, world.wait) == []
    source.resume([held, free])
    source.resume([held])
    assert read(source, world.wait, 120) == {held: list(enumerate(values(120)))}


def test_a_pause_before_begin_holds(world: World, opened: Callable[..., RecordSource]) -> None:
    topic = world.create("decisions", 1)
    world.produce(topic, values(3), 0)
    source = opened(topic)
    (shard,) = join(source, world.wait, 1)
    source.pause([shard])
    source.begin(shard, 0)
    assert quiet(source, world.wait) == []
    source.resume([shard])
    assert len(read(source, world.wait, 3)[shard]) == 3


def test_reads_two_topics_side_by_side(world: World, opened: Callable[..., RecordSource]) -> None:
    decisions, labels = world.create("decisions", 1), world.create("labels", 1)
    world.produce(decisions, values(40), 0)
    world.produce(labels, values(30, start=900), 0)
    source = opened(decisions, labels)
    for shard in join(source, world.wait, 2):
        source.begin(shard, 0)
    found = read(source, world.wait, 70)
    assert [value for _, value in found[Shard(decisions, 0)]] == values(40)
    assert [value for _, value in found[Shard(labels, 0)]] == values(30, start=900)


def test_an_offset_beyond_the_end_is_data_loss_of_that_shard_alone(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    topic = world.create("decisions", 2)
    world.produce(topic, values(10), 0)
    world.produce(topic, values(10), 1)
    source = opened(topic)
    lost, sound = join(source, world.wait, 2)
    with pytest.raises(DataLossError, match=f"resume-from {lost.topic} 0 OFFSET") as raised:
        begin_and_read_forever(source, lost, 500, world.wait)
    assert raised.value.shard == lost
    assert "offset 500" in str(raised.value)
    source.begin(sound, 0)
    assert set(read(source, world.wait, 10)) == {sound}
    source.begin(lost, 8)
    assert read(source, world.wait, 2) == {lost: list(enumerate(values(10)))[8:]}


def begin_and_read_forever(source: RecordSource, shard: Shard, offset: int, wait: float) -> None:
    source.begin(shard, offset)
    until(source, wait, lambda _: False)


def test_only_files_finish(world: World, opened: Callable[..., RecordSource]) -> None:
    topic = world.create("decisions", 1)
    world.produce(topic, values(3), 0)
    source = opened(topic)
    (shard,) = join(source, world.wait, 1)
    assert not source.finished
    source.begin(shard, 0)
    read(source, world.wait, 3)
    quiet(source, world.wait)
    assert source.finished == world.ends
    assert source.high_water(shard) == 3


def test_proves_membership_of_its_own_shards_only(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    topic = world.create("decisions", 1)
    world.produce(topic, values(3), 0)
    source = opened(topic)
    (shard,) = join(source, world.wait, 1)
    until(source, world.wait, lambda _: source.is_member([shard]))
    assert not source.is_member([shard, Shard(topic, 99)])
    source.begin(shard, 0)
    source.report({shard: 2})
    assert source.is_member([shard])


def test_an_unknown_topic_is_one_clear_line(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    source = opened(world.create("decisions", 1))
    with pytest.raises(SourceError, match="nowhere") as raised:
        source.shards("nowhere")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("world", [*KINDS[:1], *KINDS[3:]], indirect=True)
def test_a_topic_has_an_identity(world: World, opened: Callable[..., RecordSource]) -> None:
    """A file has none: the number of its shard is made of its content."""
    one, other = world.create("decisions", 1), world.create("labels", 1)
    world.produce(one, values(3), 0)
    source = opened(one, other)
    assert source.topic_id(one) == source.topic_id(one)
    assert isinstance(source.topic_id(one), str)
    assert source.topic_id(one) != source.topic_id(other)


def test_a_shard_of_somebody_else_cannot_begin(
    world: World, opened: Callable[..., RecordSource]
) -> None:
    source = opened(world.create("decisions", 1))
    with pytest.raises(SourceError, match="not assigned"):
        source.begin(Shard("decisions", 7), 0)


def test_closes_twice_and_stays_closed(world: World, opened: Callable[..., RecordSource]) -> None:
    source = opened(world.create("decisions", 1))
    join(source, world.wait, 1)
    source.close()
    source.close()
    with pytest.raises(SourceError, match="closed"):
        source.poll(0)


class Member:
    """A member of a group that begins whatever it is given, and keeps a journal of it.

    It lives in a thread of its own: kafka-python forgets a join that is answered while nobody
    polls, so members that take turns in one thread never settle.
    """

    def __init__(self, source: RecordSource, world: World) -> None:
        self.source, self.world = source, world
        self.owned: set[Shard] = set()
        self.proven: set[Shard] = set()
        self.journal: list[Polled] = []
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def settled(self) -> bool:
        return bool(self.owned) and self.proven == self.owned

    @property
    def revoked(self) -> set[Shard]:
        return {shard for polled in self.journal for shard in polled.revoked}

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(SECONDS)
        self.source.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with self.world.turn:
                    self._turn()
        except BaseException as error:
            self.error = error

    def _turn(self) -> None:
        polled = self.source.poll(self.world.wait)
        owned = (self.owned - set(polled.revoked)) | set(polled.assigned)
        stray = [one.shard for one in polled.records if one.shard not in owned]
        assert not stray, f"messages of shards that are not ours: {stray}"
        for shard in polled.assigned:
            self.source.begin(shard, 0)
        known = sorted(owned | self.revoked)
        self.proven = {shard for shard in known if self.source.is_member([shard])}
        self.owned = owned
        self.journal.append(polled)


def wait_for(members: Sequence[Member], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        for member in members:
            if member.error is not None:
                raise member.error
        assert time.monotonic() < deadline, [(m.owned, m.proven) for m in members]
        time.sleep(0.01)


@pytest.fixture
def members(world: World, opened: Callable[..., RecordSource]) -> Iterator[Callable[..., Member]]:
    """Start members, each in its thread, and stop the threads before the sources close."""
    started: list[Member] = []

    def start(*topics: str) -> Member:
        started.append(Member(opened(*topics), world))
        return started[-1]

    yield start
    for member in started:
        member.leave()


def shared_out(*members: Member) -> bool:
    return all(one.settled for one in members) and len({len(one.owned) for one in members}) == 1


@with_groups
def test_a_second_member_takes_over_part_of_the_shards(
    world: World, members: Callable[..., Member]
) -> None:
    topic = world.create("decisions", 4)
    everything = {Shard(topic, number) for number in range(4)}
    first = members(topic)
    wait_for([first], lambda: first.settled and first.owned == everything)
    second = members(topic)
    wait_for([first, second], lambda: shared_out(first, second))
    assert first.owned | second.owned == everything
    assert not first.owned & second.owned
    assert first.revoked >= second.owned  # and `settled` says that it cannot prove them any more


@with_groups
def test_what_moved_is_read_by_its_owner_alone(
    world: World, members: Callable[..., Member]
) -> None:
    topic = world.create("decisions", 2)
    first, second = members(topic), members(topic)
    wait_for([first, second], lambda: shared_out(first, second))
    owned = {shard: one for one in (first, second) for shard in one.owned}
    for partition in range(2):
        world.produce(topic, values(60), partition)

    def arrived(member: Member) -> list[Shard]:
        return [
            one.shard for polled in member.journal for one in polled.records for _ in one.offsets
        ]

    wait_for([first, second], lambda: len(arrived(first)) + len(arrived(second)) >= 120)
    for shard, owner in owned.items():
        assert arrived(owner) == [shard] * 60


@with_groups
def test_a_member_that_leaves_gives_its_shards_back(
    world: World, members: Callable[..., Member]
) -> None:
    topic = world.create("decisions", 2)
    first, second = members(topic), members(topic)
    wait_for([first, second], lambda: shared_out(first, second))
    second.leave()
    wait_for([first], lambda: first.settled and len(first.owned) == 2)
    assert not second.source.is_member([Shard(topic, 0)])
