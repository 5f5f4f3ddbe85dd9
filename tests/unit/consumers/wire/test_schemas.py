"""Which messages wait for the registry, for how long, and what becomes of them then."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from avro_events import PLAIN, decision, framed, written
from memory_source import MemoryBroker, MemorySource

from consumers.dead_letters import DeadLetterBuffer, IdHasher
from consumers.wire import AvroMessages, SchemaGate, WriterSchemas
from consumers.wire.registry import Written
from consumers.wire.schemas import (
    ASKING_SECONDS,
    LONGEST_SECONDS,
    MAX_ASKED,
    MAX_SCHEMAS,
    PATIENCE_SECONDS,
    TROUBLE_SECONDS,
    UNKNOWN_SECONDS,
)
from monitor.errors import SourceError
from monitor.records import RecordBatch, Shard

TEXT = json.dumps(PLAIN)
AVRO = Written(TEXT, "AVRO")


class World:
    """A registry and a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.there = True
        self.seconds = 0.0
        self.known: dict[int, Written] = {1: AVRO}
        self.asked: list[int] = []
        self.schemas = WriterSchemas(self.ask, lambda: self.now)

    def ask(self, number: int) -> Written | None:
        self.asked.append(number)
        self.now += self.seconds
        if not self.there:
            raise SourceError("the schema registry at http://r does not answer (no connection)")
        return self.known.get(number)

    def settled(self, *numbers: int) -> int:
        self.schemas.begin_turn()
        return self.schemas.settled([framed(number, b"") for number in numbers])


def test_a_schema_is_asked_for_once() -> None:
    world = World()
    assert world.settled(1, 1, 1) == 3
    assert world.settled(1) == 1
    assert world.asked == [1]


def test_json_and_tombstones_need_none() -> None:
    world = World()
    assert world.schemas.settled([b"{}", None, b"", b"\x00\x01"]) == 4
    assert not world.asked


def test_a_registry_that_is_away_is_asked_ever_more_seldom_and_said_to_be_away() -> None:
    world = World()
    assert world.settled(1) == 1
    world.there = False
    assert world.schemas.trouble is None
    tried: list[float] = []
    for _ in range(400):
        assert world.settled(1, 2, 1) == 1  # what is known goes on
        if len(world.asked) > len(tried) + 1:
            tried.append(world.now)
        world.now += 0.5
    pauses = [b - a for a, b in pairwise(tried)]
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert max(pauses) == LONGEST_SECONDS
    assert "does not answer" in str(world.schemas.trouble)
    world.there, world.known[2] = True, AVRO
    world.now += LONGEST_SECONDS
    assert world.settled(2) == 1
    assert world.schemas.trouble is None


def test_a_restart_of_the_registry_is_no_trouble() -> None:
    world = World()
    world.there = False
    assert world.settled(1) == 0
    world.now += TROUBLE_SECONDS / 2
    assert world.schemas.trouble is None


def test_a_number_that_it_does_not_know_is_waited_for_and_then_is_none() -> None:
    world = World()
    assert world.settled(2) == 0
    world.now += PATIENCE_SECONDS / 2
    assert world.settled(2) == 0
    world.now += PATIENCE_SECONDS
    assert world.settled(2) == 1
    assert world.schemas.get(2) is None
    asked = len(world.asked)
    assert world.settled(2) == 1
    assert len(world.asked) == asked  # not for every message
    world.now += UNKNOWN_SECONDS
    world.known[2] = AVRO
    assert world.settled(2) == 1
    assert world.schemas.get(2) is not None


def test_one_that_the_registry_comes_to_know_meanwhile_loses_nothing() -> None:
    world = World()
    assert world.settled(2) == 0
    world.known[2] = AVRO
    world.now += 1.0
    assert world.settled(2) == 1
    assert world.schemas.get(2) is not None


def test_made_up_numbers_hold_nobody_up_for_long_and_fill_no_memory() -> None:
    """A producer that sends a new number with every message."""
    world = World()
    done, number = 0.0, 10
    while number < 3 * MAX_SCHEMAS:
        before = len(world.asked)
        number += world.settled(*range(number, number + 500))
        assert len(world.asked) - before <= MAX_ASKED
        world.now += 0.5
        done = world.now
    assert done < 2 * PATIENCE_SECONDS + 3 * MAX_SCHEMAS / MAX_ASKED
    assert len(world.schemas._unknown) <= MAX_SCHEMAS
    assert world.schemas.get(number - 1) is None


def test_a_slow_registry_holds_a_turn_up_for_moments() -> None:
    world = World()
    world.seconds, world.known = 0.5, dict.fromkeys(range(100), AVRO)
    began = world.now
    assert 0 < world.settled(*range(100)) < 100
    assert world.now - began <= ASKING_SECONDS + world.seconds


def test_good_schemas_beyond_a_thousand_are_asked_for_again_and_never_refused() -> None:
    world = World()
    world.known = dict.fromkeys(range(MAX_SCHEMAS + 1), AVRO)
    for first in range(0, MAX_SCHEMAS + 1, MAX_ASKED):
        world.settled(*range(first, min(first + MAX_ASKED, MAX_SCHEMAS + 1)))
    assert len(world.schemas._known) == MAX_SCHEMAS
    assert world.schemas.get(0) is not None
    world.there = False
    with pytest.raises(SourceError):
        world.schemas.get(1)


# Messages


def batch(*values: bytes | None) -> RecordBatch:
    return RecordBatch(Shard("decisions", 0), range(len(values)), values, [-1] * len(values))


def test_what_cannot_be_read_is_refused_with_its_reason_and_hashed_as_it_was() -> None:
    world = World()
    world.known[3] = Written("{}", "PROTOBUF")
    good = written(1, PLAIN, decision())
    bad = [framed(1, b"\x01"), framed(2, b""), framed(3, b""), b"\xc3\x01raw", b"\x00\x00"]
    records = batch(good, *bad, b"{}", None)
    letters = DeadLetterBuffer(records, IdHasher.with_key(b"key"))
    left = AvroMessages(world.schemas).as_json(records, letters)
    assert [(one.offset, one.reason) for one in letters.found] == [
        (1, "malformed_avro"),
        (2, "unknown_schema"),
        (3, "unknown_schema"),
        (4, "malformed_avro"),
        (5, "malformed_avro"),
    ]
    assert letters.found[0].payload_hash == IdHasher.with_key(b"key").hash_payload(bad[0])
    assert list(left.offsets) == [0, 6, 7]
    assert json.loads(left.values[0] or b"")["decision_id"] == "d-1"
    assert left.values[1:] == [b"{}", None]


# The gate


class Gated:
    """A memory broker behind the gate, one partition of each topic begun."""

    def __init__(self) -> None:
        self.world = World()
        self.broker = MemoryBroker()
        for topic in ("decisions", "labels"):
            self.broker.create_topic(topic, 1)
        self.gate = SchemaGate(
            MemorySource(self.broker, ("decisions", "labels")), self.world.schemas
        )
        self.decisions, self.labels = Shard("decisions", 0), Shard("labels", 0)
        for shard in self.gate.poll(0).assigned:
            self.gate.begin(shard, 0)

    def produce(self, topic: str, *values: bytes) -> None:
        self.broker.produce(topic, list(values), 0)

    def poll(self) -> dict[str, list[int]]:
        polled = self.gate.poll(0)
        return {one.shard.topic: list(one.offsets) for one in polled.records}


def test_a_partition_waits_for_its_schema_and_the_other_goes_on() -> None:
    gated = Gated()
    gated.world.there = False
    gated.produce("decisions", b"{}", framed(1, b"a"), b"{}")
    gated.produce("labels", b"{}")
    assert gated.poll() == {"decisions": [0], "labels": [0]}
    assert gated.gate.position(gated.decisions) == 1  # so it is not caught up
    assert gated.gate.high_water(gated.decisions) == 3
    gated.produce("decisions", b"{}")
    gated.produce("labels", b"{}")
    assert gated.poll() == {"labels": [1]}
    gated.world.there = True
    gated.world.now += LONGEST_SECONDS
    assert gated.poll() == {"decisions": [1, 2]}
    assert gated.poll() == {"decisions": [3]}
    assert gated.gate.position(gated.decisions) == 4


def test_what_its_caller_has_paused_is_not_delivered_when_the_schema_is_there() -> None:
    gated = Gated()
    gated.world.there = False
    gated.produce("decisions", framed(1, b"a"))
    assert gated.poll() == {}
    gated.gate.pause([gated.decisions])
    gated.world.there = True
    gated.world.now += LONGEST_SECONDS
    assert gated.poll() == {}
    gated.gate.resume([gated.decisions])
    assert gated.poll() == {"decisions": [0]}
    gated.produce("decisions", b"{}")
    assert gated.poll() == {"decisions": [1]}


def test_a_shard_that_begins_again_is_read_from_there() -> None:
    """After a failure of the store, say: what was held would come twice."""
    gated = Gated()
    gated.world.there = False
    gated.produce("decisions", b"{}", framed(1, b"a"))
    assert gated.poll() == {"decisions": [0]}
    gated.gate.begin(gated.decisions, 0)
    gated.world.there = True
    gated.world.now += LONGEST_SECONDS
    assert gated.poll() == {"decisions": [0, 1]}


def test_every_message_comes_once_and_in_order_whatever_the_registry_does() -> None:
    gated = Gated()
    gated.world.known = dict.fromkeys(range(0, 20, 2), AVRO)
    for number in range(20):
        gated.produce("decisions", framed(number, b""), b"{}", framed(1, b""))
    got: list[int] = []
    for turn in range(1000):
        gated.world.now += 1.0
        gated.world.there = turn % 7 < 4
        got += gated.poll().get("decisions", [])
    assert got == list(range(60))
