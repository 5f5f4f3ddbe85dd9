"""Every field of an event and of its record at its extremes: nothing but the event itself suffers.

Odd events stand alone, first, in the middle and last among forty honest ones. What the odd ones
count has a judge of its own. Moments are tried one by one, since each may move a clock; all other
extremes stand together, since none may touch the next.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import lesson
import pytest
from pipeline import DECISIONS, LABELS, Counted, Pipeline, total

from monitor.records import Shard

OWN = lesson.VERSIONS | {"judge": "odd"}
HONEST = 40
PLACES = {"alone": 0, "first": 0, "middle": HONEST // 2, "last": HONEST}
CLOCKS = ("live", "history")
FAST = {("alone", "live"), ("first", "history"), ("middle", "live"), ("last", "history")}
"""Each place and each clock; the other combinations are left to the full suite."""
CALLS = 3_500_000
"""Function calls that a cycle of the evaluator may make: the same on every machine, busy or not.

Most are those of the tables of the 18 days of hours that a horizon of 10 days keeps."""

MOMENTS = ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z",
           "1999-12-31T23:59:59.999999Z", "2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z",
           "2099-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z")  # fmt: skip
NUMBERS = (b"0", b"-0.0", b"-1", b"1", b"1.0000000000000002", b"5e-324", b"1e308", b"-1e308",
           b"1e400", b"NaN", b"Infinity", b"9223372036854775808", b"-9223372036854775808",
           b"9223372036854775807", b"1000000", b"1000001", b"9" * 400)  # fmt: skip
TEXTS = (b'""', b'"\\ud800"', b'"\\ud800\\udc00"', b'"\\u0000"', b'"\x01"', b'"\\n"', b'"\xff"',
         b'"' + b"x" * 64 + b'"', b'"' + b"x" * 65 + b'"', b'"' + b"x" * 128 + b'"',
         b'"' + b"x" * 200 + b'"', b'"' + b"x" * 201 + b'"', b'"' + b"v" * 10_000 + b'"',
         b'"' + b"i" * 1_000_000 + b'"')  # fmt: skip
SHAPES = (b"null", b"true", b"false", b"[]", b"{}", b"[" * 2000 + b"]" * 2000)
STAMPS = (-1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63))
OPTIONS: dict[str, Any] = {
    "stream__horizon": "2d", "retention__aggregates": "40d",
    "constants": {
        "consumers.ingest.DEAD_LETTER_STOP_SHARE": 1,
        "monitor.composition.ingest.MAX_VERSIONS": 1000,
    },
}  # fmt: skip


CASES = [
    (clock, place, moment)
    for clock in CLOCKS
    for place in ("first", "middle")  # of nobody, and of a clock that others have set
    for moment in MOMENTS
    # Without a hurry every hour since then has its turn: see the test of an evaluator in one.
    if (clock, place, moment[:3]) != ("live", "first", "200")
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "slicewatch")


@dataclass(frozen=True)
class Odd:
    """Messages of one topic with the timestamps of their records."""

    topic: str
    sent: Sequence[tuple[bytes, int]]


def decision(key: str, at: datetime, **more: object) -> dict[str, object]:
    attributes = {"channel": "chat", "language_variety": "formal"}
    return lesson.decision(key, at, 0.8, attributes=attributes, **more)


def event(topic: str, key: str) -> dict[str, object]:
    """A valid event of the honest ones' time, of nobody else."""
    if topic == LABELS:
        return lesson.label(key, lesson.START, ready=True)
    own = {"versions": OWN, "unit": "u", "traffic": "probe", "pair_id": "p", "variant": "v"}
    return decision(key, lesson.START, **own, probe_set="s", expected_ready=True, signature="x")


def put(whole: dict[str, object], name: str, value: bytes) -> bytes:
    """The event with one field as these bytes."""
    parts = {key: json.dumps(one).encode() for key, one in whole.items()} | {name: value}
    return b"{" + b",".join(b'"%b":%b' % (k.encode(), v) for k, v in parts.items()) + b"}"


def extremes(topic: str) -> Iterator[tuple[bytes, int]]:
    """All but moments: a field, or the record."""
    for field in event(topic, "x"):
        times = [json.dumps(at).encode() for at in MOMENTS] if field == "labelled_at" else []
        for number, value in enumerate((*NUMBERS, *TEXTS, *SHAPES, *times)):
            if len(value) < 100_000 or field.endswith("_id"):
                yield put(event(topic, f"{field}-{number}"), field, value), -1
    for stamp in STAMPS:
        yield json.dumps(event(topic, f"stamp {stamp}")).encode(), stamp
    if topic == DECISIONS:
        yield from _nested()


def _nested() -> Iterator[tuple[bytes, int]]:
    for field in ("versions", "attributes"):
        names = OWN if field == "versions" else {"channel": "", "language_variety": ""}
        for name in names:
            for number, value in enumerate((*TEXTS, *NUMBERS, *SHAPES)):
                whole = event(DECISIONS, f"{field}-{name}-{number}")
                kept: Any = whole[field]
                yield put(whole, field, put(kept, name, value)), -1


def honest(topic: str) -> list[bytes]:
    events = [decision(f"h{i}", lesson.START + timedelta(minutes=7 * i)) for i in range(HONEST)]
    if topic == LABELS:
        times = [datetime.fromisoformat(str(one["decided_at"])) for one in events]
        events = [lesson.label(f"h{i}", at, ready=i % 3 > 0) for i, at in enumerate(times)]
    return [json.dumps(one).encode() for one in events]


def run(clock: str, place: str, odd: Sequence[Odd], **more: object) -> tuple[Counted, int, int]:
    """The honest counts, how many decisions were counted, and the calls of the longest cycle."""
    options = OPTIONS | {"stream__clock": clock} | more
    with tempfile.TemporaryDirectory() as name, Pipeline(Path(name), **options) as pipeline:
        if clock == "live":
            pipeline.clock.seconds = (lesson.START + timedelta(hours=6)).timestamp()
        pipeline.worker()
        longest = 0
        before = {one: honest(one)[: PLACES[place]] for one in (DECISIONS, LABELS)}
        after = {one: [] if place == "alone" else honest(one)[PLACES[place] :] for one in before}
        for chapter in (before, None, after):
            for topic in (DECISIONS, LABELS):
                sent = [(one, -1) for one in chapter[topic]] if chapter else []
                if chapter is None:
                    sent = [one for some in odd if some.topic == topic for one in some.sent]
                    pipeline.broker.skip(Shard(topic, 0), 3 if sent else 0)
                values, stamps = [v for v, _ in sent], [at for _, at in sent]
                pipeline.broker.produce(topic, values, 0, stamps)
            if chapter is None and place in ("first", "middle", "alone"):
                for _ in range(8):  # a flush or two, while the odd ones are the newest
                    pipeline.step(pipeline.workers[0])
                longest = max(longest, _fold(pipeline))
        if not odd:
            pipeline.broker.produce(DECISIONS, [b"{}"], 0)
            pipeline.broker.produce(LABELS, [b"{}"], 0)
        pipeline.drain()
        for _ in range(50):
            pipeline.step(pipeline.workers[0])
        longest = max(longest, _fold(pipeline), _fold(pipeline))
        pipeline.check_conservation()
        counts = {c: row for c, row in pipeline.counts().items() if c[3].startswith("judge=j1,")}
        return counts, total(pipeline.statuses(), DECISIONS, "counted"), longest


def _fold(pipeline: Pipeline) -> int:
    calls = 0

    def count(frame: object, event: str, of: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        pipeline.fold()
    finally:
        sys.setprofile(None)
    return calls


@cache
def alone(clock: str) -> Counted:
    """What the honest ones count by themselves."""
    counts, counted, _ = run(clock, "last", [])
    assert counted == HONEST
    assert sum(row.get("labelled", 0) for cell, row in counts.items() if cell[0] == "1d") == HONEST
    return counts


def check(clock: str, place: str, odd: Sequence[Odd], **more: object) -> int:
    """The honest counts are what they are without the odd ones; how many of those counted."""
    counts, counted, longest = run(clock, place, odd, **more)
    assert counts == ({} if place == "alone" else alone(clock))
    assert longest < CALLS
    return counted - (0 if place == "alone" else HONEST)


@pytest.mark.parametrize(
    ("place", "clock"),
    [
        pytest.param(place, clock, marks=() if (place, clock) in FAST else pytest.mark.full)
        for place in PLACES
        for clock in CLOCKS
    ],
)
def test_no_value_of_any_field_touches_another_event(clock: str, place: str) -> None:
    odd = [Odd(topic, list(extremes(topic))) for topic in (DECISIONS, LABELS)]
    counted = check(clock, place, odd)
    assert 50 < counted < len(odd[0].sent) // 2  # some are as they may be


@pytest.mark.full
@pytest.mark.parametrize(("clock", "place", "moment"), CASES)
def test_no_moment_touches_another_event(clock: str, place: str, moment: str) -> None:
    at = json.dumps(moment).encode()
    # Two partitions of two that lie far beyond the wall clock are rightly taken for its fault.
    topics = (DECISIONS,) if clock == "live" and moment > "2027" else (DECISIONS, LABELS)
    odd = [Odd(topic, [(put(event(topic, "odd"), "decided_at", at), -1)]) for topic in topics]
    counted = check(clock, place, odd)
    believed = moment >= "2000" and (clock == "history" or moment < "2027")
    first = place == "first" and moment < "2027"
    assert counted == int(believed and (first or place == "alone"))


@pytest.mark.full
@pytest.mark.parametrize("clock", ["history"])
@pytest.mark.parametrize("year", [2000, 2001])
def test_a_beginning_long_ago_costs_no_more_than_the_horizon(clock: str, year: int) -> None:
    """A new evaluator each time: it goes through the hours that are kept, not all since then."""
    at = json.dumps(f"{year}-01-01T00:30:00Z").encode()
    odd = [Odd(DECISIONS, [(put(event(DECISIONS, "odd"), "decided_at", at), -1)])]
    assert check(clock, "first", odd, stream__horizon="10d") == 1


def test_an_evaluator_in_a_hurry_passes_over_years_in_portions(tmp_path: Path) -> None:
    """Every hour since a first event of long ago has its turn, and no page waits for them."""
    first = lesson.START - timedelta(days=60)
    with Pipeline(tmp_path, **(OPTIONS | {"stream__clock": "live"})) as pipeline:
        pipeline.clock.seconds = (lesson.START + timedelta(hours=6)).timestamp()
        pipeline.worker()
        evaluator = pipeline.evaluator()
        evaluator.hurried = lambda: True
        consumed = []
        for chapter in ([json.dumps(decision("odd", first)).encode()], honest(DECISIONS), []):
            pipeline.broker.produce(DECISIONS, chapter)
            pipeline.drain()
            assert evaluator.cycle()
            consumed.append(len(evaluator.store.cohorts.frozen(0, 1 << 40)))
    assert consumed[0] < consumed[1] < consumed[2] <= consumed[0] + 2 * 2 * 24
