"""Hostile, malformed and borderline records: each ends in its named place and nothing stops.

Every record is consumed between good ones through the whole pipeline. Whatever cannot be counted
becomes a dead letter with reason, field, offset and index, and not a word of it is kept anywhere.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import lesson
import pytest
from histories import Histories
from pipeline import DECISIONS, LABELS, Pipeline, dead_letters, messages, total
from prometheus_client import generate_latest

from alerts.exposition.service_metrics import ServiceMetrics
from monitor.errors import PoisonedStreamError
from monitor.records import Shard

SECRET = "xq7secretxq7"
NOW = lesson.START
NUMBERS = count()
"""Of the decisions, so that none is a copy of another."""


def good(key: str, **more: Any) -> dict[str, Any]:
    attributes = {"language_variety": "formal", "channel": "chat"}
    return lesson.decision(key, NOW, 0.8, **{"attributes": attributes, **more})


def raw(**more: Any) -> bytes:
    return json.dumps(good(f"bad-{SECRET}-{next(NUMBERS)}", **more)).encode()


def swapped(old: bytes, new: bytes, **more: Any) -> bytes:
    payload = raw(**more)
    assert payload.count(old) == 1, (old, payload)
    return payload.replace(old, new)


def without(name: str) -> bytes:
    return json.dumps(
        {k: v for k, v in good(f"{SECRET}-{next(NUMBERS)}").items() if k != name}
    ).encode()


@dataclass(frozen=True)
class Bad:
    """A message and the dead letters it must end in: (index, reason, field)."""

    name: str
    make: Callable[[], bytes | None]
    letters: tuple[tuple[int, str, str], ...] = ()
    counted: int = 0


def bad(name: str, make: Callable[[], bytes | None], reason: str, field: str = "") -> Bad:
    return Bad(name, make, ((0, reason, field),))


def fine(name: str, make: Callable[[], bytes | None], counted: int = 1) -> Bad:
    return Bad(name, make, (), counted)


_REQUIRED = (
    "decision_id", "decided_at", "route", "attributes", "audit_p", "label_requested",
    "evidence_passed",
)  # fmt: skip
_OPTIONAL = ("judge_score", "threshold", "versions", "traffic", "unit", "pair_id", "expected_ready")


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


RECORDS = [
    # Not JSON at all, or not one of ours
    bad("not json", lambda: b"hello " + SECRET.encode(), "malformed_json"),
    bad("empty", lambda: b"", "malformed_json"),
    bad("blanks", lambda: b" \n\t ", "malformed_json"),
    bad("null byte", lambda: b"\x00", "malformed_json"),
    bad("truncated", lambda: raw()[:-5], "malformed_json"),
    bad("trailing garbage", lambda: raw() + SECRET.encode(), "malformed_json"),
    bad("two objects", lambda: raw() + raw(), "malformed_json"),
    fine("byte order mark", lambda: b"\xef\xbb\xbf" + raw()),
    bad("utf-16", lambda: raw().decode().encode("utf-16"), "malformed_json"),
    bad("single quotes", lambda: raw().replace(b'"', b"'"), "malformed_json"),
    bad("binary", lambda: bytes(range(256)), "malformed_json"),
    fine("tombstone", lambda: None, counted=0),
    bad("null", lambda: b"null", "wrong_type"),
    bad("a number", lambda: b"17", "wrong_type"),
    bad("a string", lambda: json.dumps(SECRET).encode(), "wrong_type"),
    bad("empty object", lambda: b"{}", "missing_field", "decision_id"),
    bad("deep arrays", lambda: nested(100_000), "malformed_json"),
    bad("deep objects", lambda: b'{"a":' * 100_000, "malformed_json"),
    bad("ten megabytes", lambda: raw(unit="u" * 10_000_000), "invalid_value", "unit"),
    bad("ten megabytes of blanks", lambda: b" " * 10_000_000, "malformed_json"),
    # Fields
    fine("unknown field", lambda: raw(free_text=SECRET)),
    fine("unknown field named like a message", lambda: raw(**{f"`$.{SECRET}`": 1})),
    fine("unknown field of many parts", lambda: raw(context={SECRET: [{"said": SECRET}] * 99})),
    fine("10,000 unknown fields",
         lambda: raw(**{f"{SECRET}_{i}": SECRET for i in range(10_000)})),
    bad("unknown field and a bad one", lambda: raw(free_text=SECRET, route=SECRET),
        "invalid_value", "route"),
    fine("unknown field with an invalid name",
        lambda: swapped(b'"unit"', b'"\xff"', unit=SECRET)),
    *(bad(f"missing {name}", lambda name=name: without(name), "missing_field", name)  # type: ignore[misc]
      for name in _REQUIRED),
    *(bad(f"null for {name}", lambda name=name: raw(**{name: None}), "missing_field", name)  # type: ignore[misc]
      for name in _REQUIRED),
    *(fine(f"without {name}", lambda name=name: without(name)) for name in _OPTIONAL),  # type: ignore[misc]
    *(fine(f"null for {name}", lambda name=name: raw(**{name: None})) for name in _OPTIONAL),  # type: ignore[misc]
    fine("id is a whole number", lambda: raw(decision_id=-7)),
    bad("id is a larger number", lambda: raw(decision_id=2**63), "invalid_value", "decision_id"),
    bad("id is a fraction", lambda: raw(decision_id=7.5), "wrong_type", "decision_id"),
    bad("id is true", lambda: raw(decision_id=True), "wrong_type", "decision_id"),
    bad("id is empty", lambda: raw(decision_id=""), "invalid_value", "decision_id"),
    bad("id too long", lambda: raw(decision_id="x" * 201), "invalid_value", "decision_id"),
    bad("id with invalid utf-8", lambda: swapped(SECRET.encode(), b"\xff\xfe"),
        "wrong_type", "decision_id"),
    bad("id with lone surrogate",
        lambda: swapped(SECRET.encode(), b"\\ud800"), "wrong_type", "decision_id"),
    bad("id with raw null byte", lambda: swapped(SECRET.encode(), b"\x00"),
        "wrong_type", "decision_id"),
    fine("id with escaped null", lambda: raw(decision_id="a\x00b")),
    fine("id of emoji", lambda: raw(decision_id="\U0001f600" * 50)),
    bad("unknown route", lambda: raw(route=SECRET), "invalid_value", "route"),
    bad("route quotes a path", lambda: raw(route=f"`$.{SECRET}`"), "invalid_value", "route"),
    bad("route quotes a path at its end",
        lambda: raw(route=" - at `$.secretly`"), "invalid_value", "route"),
    bad("route quotes a message",
        lambda: raw(route="Object missing required field `secretly`"), "invalid_value", "route"),
    bad("route pretends", lambda: raw(route="unknown field got `x`"), "invalid_value", "route"),
    # Numbers
    bad("score NaN", lambda: raw(judge_score=float("nan")), "wrong_type", "judge_score"),
    bad("score Infinity", lambda: raw(judge_score=float("inf")), "wrong_type", "judge_score"),
    bad("score overflows", lambda: swapped(b"0.8", b"1e999"), "invalid_value", "judge_score"),
    bad("score as text", lambda: raw(judge_score="0.5"), "wrong_type", "judge_score"),
    bad("score above one", lambda: raw(judge_score=1.0001), "invalid_value", "judge_score"),
    bad("score below zero", lambda: raw(judge_score=-0.1), "invalid_value", "judge_score"),
    bad("score with leading zero", lambda: swapped(b"0.8", b"00.8"), "malformed_json"),
    fine("score tiny", lambda: swapped(b"0.8", b"1e-320")),
    fine("score negative zero", lambda: swapped(b"0.8", b"-0.0")),
    fine("score absent for no judge", lambda: raw(judge_score=None)),
    bad("audit_p zero", lambda: raw(audit_p=0), "invalid_value", "audit_p"),
    fine("audit_p below the grid", lambda: raw(audit_p=1e-300)),
    bad("flag as number", lambda: raw(evidence_passed=1), "wrong_type", "evidence_passed"),
    bad("flag as text", lambda: raw(label_requested="true"), "wrong_type", "label_requested"),
    # Times
    bad("no zone", lambda: raw(decided_at="2026-06-01T10:05:00"), "invalid_value", "decided_at"),
    bad("a date", lambda: raw(decided_at="2026-06-01"), "invalid_value", "decided_at"),
    bad("no seconds", lambda: raw(decided_at="2026-06-01T10:05Z"), "invalid_value", "decided_at"),
    fine("epoch milliseconds", lambda: raw(decided_at=1780308300_000)),
    bad("epoch seconds", lambda: raw(decided_at=1780308300), "invalid_value", "decided_at"),
    bad("epoch microseconds", lambda: raw(decided_at=1780308300_000_000), "invalid_value",
        "decided_at"),
    bad("fraction of a second", lambda: raw(decided_at=1780308300.25), "wrong_type", "decided_at"),
    bad("leap second", lambda: raw(decided_at="2026-06-30T23:59:60Z"), "invalid_value",
        "decided_at"),
    bad("hour 24", lambda: raw(decided_at="2026-06-01T24:00:00Z"), "invalid_value", "decided_at"),
    bad("30 February", lambda: raw(decided_at="2026-02-30T10:00:00Z"), "invalid_value",
        "decided_at"),
    bad("year 0", lambda: raw(decided_at="0000-01-01T00:00:00Z"), "invalid_value", "decided_at"),
    bad("year 1, east", lambda: raw(decided_at="0001-01-01T00:00:00+05:00"), "too_old",
        "decided_at"),
    bad("year 9999, west", lambda: raw(decided_at="9999-12-31T23:59:59-05:00"), "jump",
        "decided_at"),
    bad("past the horizon", lambda: raw(decided_at="2026-05-02T10:04:59Z"), "too_old",
        "decided_at"),
    fine("at the horizon", lambda: raw(decided_at="2026-05-02T10:05:00Z")),
    fine("other zone", lambda: raw(decided_at="2026-06-01T15:05:00+05:00")),
    fine("nanoseconds", lambda: raw(decided_at="2026-06-01T10:05:00.123456789Z")),
    # Attributes and versions
    bad("attributes a list", lambda: raw(attributes=[SECRET]), "wrong_type", "attributes"),
    fine("attribute a number", lambda: raw(attributes={"channel": 1})),
    fine("attribute a long number", lambda: raw(attributes={"channel": 10**4000})),
    fine("attribute true", lambda: raw(attributes={"channel": True})),
    fine("attribute null", lambda: raw(attributes={"channel": None})),
    bad("attribute NaN", lambda: raw(attributes={"channel": float("nan")}),
        "wrong_type", "attributes"),
    bad("attribute nested", lambda: raw(attributes={"channel": {"a": SECRET}}), "wrong_type",
        "attributes"),
    bad("attribute deep", lambda: swapped(b'"chat"', nested(100_000)), "malformed_json"),
    bad("attribute with invalid utf-8", lambda: swapped(b"chat", b"\xff\xfe"),
        "wrong_type", "attributes"),
    fine("attribute name with invalid utf-8", lambda: swapped(b"channel", b"\xc3\x28")),
    bad("attribute with lone surrogate", lambda: swapped(b"chat", b"\\udc00"),
        "wrong_type", "attributes"),
    fine("undeclared attribute", lambda: raw(attributes={SECRET: SECRET})),
    fine("undeclared attribute of many parts", lambda: raw(attributes={"A b": [{"x": SECRET}]})),
    bad("attribute value too long", lambda: raw(attributes={"channel": "x" * 201}), "wrong_type",
        "attributes"),
    bad("attributes too large",
        lambda: swapped(b'"chat"', b" " * 5000 + b'"chat"'), "too_large", "attributes"),
    fine("no attributes", lambda: raw(attributes={})),
    fine("unlisted value", lambda: raw(attributes={"channel": SECRET})),
    fine("reserved value", lambda: raw(attributes={"channel": "__missing__"})),
    fine("value like an atom", lambda: raw(attributes={"channel": "chat,language_variety=x"})),
    fine("value with null byte", lambda: raw(attributes={"channel": "chat\x00"})),
    fine("key twice", lambda: swapped(b'"channel": "chat"',
                                      b'"channel": "email", "channel": "chat"')),
    fine("versions empty", lambda: raw(versions={})),
    fine("version null", lambda: raw(versions={"judge": None})),
    bad("version of no form", lambda: raw(versions=lesson.VERSIONS | {"judge": "a\tb"}),
        "wrong_type",
        "versions"),
    bad("version with newline", lambda: raw(versions=lesson.VERSIONS | {"judge": "j1\n"}),
        "invalid_value", "versions"),
    bad("version with invalid utf-8", lambda: swapped(b'"j1"', b'"\xff"'),
        "wrong_type", "versions"),
    fine("unknown version", lambda: raw(versions=lesson.VERSIONS | {SECRET: SECRET})),
    bad("versions a list", lambda: raw(versions=[SECRET]), "wrong_type", "versions"),
    # Arrays
    fine("empty array", lambda: b"[]", counted=0),
    fine("blanks before an array", lambda: b" \n[" + raw() + b"]"),
    bad("array of arrays", lambda: b"[[" + raw() + b"]]", "wrong_type"),
    bad("array cut off", lambda: b"[" + raw() + b",", "malformed_json"),
    bad("10,001 events", lambda: json.dumps([good(f"m{i}") for i in range(10_001)]).encode(),
        "too_many_events"),
    fine("10,000 events", lambda: json.dumps([good(f"n{i}") for i in range(10_000)]).encode(),
         counted=10_000),
    Bad("array with some bad",
        lambda: b"[" + b",".join([raw(decision_id="g1"), raw(route=SECRET), b"null",
                                  raw(decision_id="g2"), raw(extra=1),
                                  raw(attributes={SECRET: "x"}), raw(decision_id="g1"),
                                  raw(decided_at="9000-01-01T00:00:00Z")]) + b"]",
        ((1, "invalid_value", "route"), (2, "wrong_type", ""), (7, "jump", "decided_at")),
        counted=4),
]  # fmt: skip


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="slicewatch")  # the test brokers' clients chatter
    return caplog


def test_dropped_fields_are_nowhere_but_in_counts(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    """Free text in values, and data in names: in no row, line, dead letter or metric."""
    metrics = ServiceMetrics()
    with Pipeline(tmp_path, max_records=50) as pipeline:
        for i in range(400):
            event = good(f"d{i}", comment=SECRET, **{f"{SECRET}{i}": SECRET, "note": [SECRET]})
            event["attributes"] |= {"region": SECRET, f"{SECRET}_{i}": SECRET}
            event["versions"] = {**lesson.VERSIONS, "prompt": SECRET}
            event |= {} if i % 5 else {"route": SECRET}
            pipeline.broker.produce(DECISIONS, messages([event]))
            pipeline.broker.produce(
                LABELS, messages([lesson.label(f"d{i}", NOW, True) | {"remark": SECRET}])
            )
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        pipeline.check_conservation()
        seen = pipeline.seen
        assert {letter[3:] for letter in dead_letters(pipeline.engine)} == {
            ("invalid_value", "route")
        }
    assert {name for kind, name in seen.fields if kind == "decision"} == {
        "__other__", "comment", "note", "attributes.region", "versions.prompt",
    }  # fmt: skip
    of_labels = {name for kind, name in seen.fields if kind == "label"}
    assert of_labels - {"__other__"} == {"remark"}, "named from its hundredth event on"
    for (kind, name), number in seen.fields.items():
        metrics.add_unknown_fields(kind, {name: number})
    metrics.add_unreadable(seen.unreadable)
    assert SECRET.encode() not in generate_latest(metrics.registry)
    assert_nothing_kept(tmp_path, log)


def assert_nothing_kept(folder: Path, log: pytest.LogCaptureFixture) -> None:
    """No word of a payload in the database's bytes or in the logs."""
    stored = b"".join(path.read_bytes() for path in folder.glob("store.db*"))
    for word in (SECRET, "secretly"):
        assert word.encode() not in stored
        assert word not in log.text


@pytest.mark.parametrize("at_once", [7, 5000])
def test_each_record_ends_in_its_named_place(
    tmp_path: Path, log: pytest.LogCaptureFixture, at_once: int
) -> None:
    """A good decision follows each, and counts; so it is however many are read together."""
    sent: list[bytes | None] = [json.dumps(good("first")).encode()]
    for number, record in enumerate(RECORDS):
        sent += [record.make(), json.dumps(good(f"after {number}")).encode()]
    with Pipeline(tmp_path, max_records=at_once) as pipeline:
        pipeline.broker.produce(DECISIONS, sent)
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        assert dead_letters(pipeline.engine) == [
            (DECISIONS, 2 * number + 1, *letter)
            for number, record in enumerate(RECORDS)
            for letter in record.letters
        ]
        counted = 1 + sum(record.counted + 1 for record in RECORDS)
        assert total(pipeline.statuses(), DECISIONS, "counted") == counted
        pipeline.check_conservation()
    assert_nothing_kept(tmp_path, log)


LABEL = lesson.label("before", NOW, True)
LABELS_TABLE = [
    ("kind null", LABEL | {"kind": None}, "missing_field", "kind"),
    ("ready as text", LABEL | {"ready": "true"}, "wrong_type", "ready"),
    ("ready as number", LABEL | {"ready": 1}, "wrong_type", "ready"),
    ("kind unknown", LABEL | {"kind": SECRET}, "invalid_value", "kind"),
    ("reason unknown", LABEL | {"reason": SECRET}, "invalid_value", "reason"),
    ("version zero", LABEL | {"version": 0}, "invalid_value", "version"),
    ("version huge", LABEL | {"version": 10**30}, "invalid_value", "version"),
    ("version a float", LABEL | {"version": 1.5}, "wrong_type", "version"),
    ("no zone", LABEL | {"labelled_at": "2026-06-01T10:05:00"}, "invalid_value", "labelled_at"),
    ("decided far ahead", LABEL | {"decided_at": "2126-01-01T00:00:00Z"}, "jump", "decided_at"),
    ("a decision", good(SECRET), "missing_field", "label_id"),
]  # fmt: skip


def test_bad_labels(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    with Pipeline(tmp_path) as pipeline:
        pipeline.broker.produce(DECISIONS, messages([good("before")]))
        pipeline.broker.produce(LABELS, messages([LABEL, *(row[1] for row in LABELS_TABLE)]))
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        found = dead_letters(pipeline.engine)
        assert found == [
            (LABELS, offset, 0, reason, field)
            for offset, (_, _, reason, field) in enumerate(LABELS_TABLE, start=1)
        ]
        assert total(pipeline.statuses(), LABELS, "counted") == 1
        pipeline.check_conservation()
    assert_nothing_kept(tmp_path, log)


def test_labels_without_their_decision(tmp_path: Path) -> None:
    """Before it, for nothing, and for the decision of another partition."""
    with Pipeline(tmp_path, (2, 2)) as pipeline:
        worker = pipeline.worker()
        pipeline.broker.produce(LABELS, messages([lesson.label("early", NOW, True)]), 0)
        pipeline.broker.produce(LABELS, messages([lesson.label("nothing", NOW, True)]), 0)
        for _ in range(8):  # what begins history waits for what follows it
            pipeline.step(worker, 3.0)
        assert total(pipeline.statuses(), LABELS, "waiting") == 2
        pipeline.broker.produce(DECISIONS, messages([good("early")]), 1)
        pipeline.broker.produce(DECISIONS, messages([good("other")]), 0)
        pipeline.broker.produce(LABELS, messages([lesson.label("other", NOW, False)]), 1)
        pipeline.drain()
        assert total(pipeline.statuses(), LABELS, "counted") == 2
        late = [good(f"tick{i}") | {"decided_at": "2026-06-03T00:00:00Z"} for i in range(2)]
        for partition in range(2):
            pipeline.broker.produce(DECISIONS, messages([late[partition]]), partition)
        pipeline.drain()
        unmatched = [s.tallies.unmatched for s in pipeline.statuses() if s.shard.topic == LABELS]
        assert unmatched == [{"no_decision": 1}, {}]
        pipeline.check_conservation()


def test_version_flood_ends_in_other(tmp_path: Path) -> None:
    flood = [
        good(f"d{i}", threshold=i / 1000, versions=lesson.VERSIONS | {"judge": f"j{i % 300}"})
        for i in range(1000)
    ]
    with Pipeline(tmp_path) as pipeline:
        pipeline.broker.produce(DECISIONS, messages(flood, [250] * 4))
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        weeks = {k: row for k, row in pipeline.counts().items() if k[0] == "1w"}
        assert len({cell[3] for cell in weeks}) == 65
        assert sum(row["n"] for row in weeks.values()) == 1000
        pipeline.kill(pipeline.workers[0])
        pipeline.broker.produce(DECISIONS, messages([good("new", threshold=0.123456)]))
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        assert len({cell[3] for cell in pipeline.counts() if cell[0] == "1w"}) == 65


def test_a_flood_of_bad_events_is_limited(tmp_path: Path) -> None:
    """Counted all, stored some: at most a thousand a flush."""
    bad_ones = [good(f"d{i}", route=SECRET) for i in range(3000)]
    good_ones = [good(f"g{i}") for i in range(3000)]
    mixed = [event for pair in zip(bad_ones, good_ones, strict=True) for event in pair]
    with Pipeline(tmp_path) as pipeline:
        pipeline.broker.produce(DECISIONS, messages(mixed, [1000] * 6))
        pipeline.worker()
        pipeline.drain()
        (shard,) = [s for s in pipeline.statuses() if s.shard.topic == DECISIONS]
        assert shard.tallies.dead_letters == {"invalid_value": 3000}
        assert shard.tallies.counted == 3000
        assert len(dead_letters(pipeline.engine)) == 1000


def test_a_poisoned_stream_stops_and_a_restart_reads_everything(tmp_path: Path) -> None:
    """A broken producer: nothing is stored; once it is repaired every event is counted."""
    history = Histories(3, 1500, hours=20)
    decisions = sorted(history.decisions, key=lambda event: event["decided_at"])
    renamed = [d | {"route": "sideways"} for d in decisions]
    with Pipeline(tmp_path, max_records=5000) as pipeline:
        pipeline.broker.produce(DECISIONS, messages(renamed))
        worker = pipeline.worker()
        with pytest.raises(PoisonedStreamError, match="unreadable"):
            pipeline.drain()
        pipeline.kill(worker)
        assert dead_letters(pipeline.engine) == []
        for status in pipeline.statuses():
            assert status.next_offset in (None, status.start_offset)
            assert status.tallies.events == 0
        # The producer is repaired: the same offsets hold readable events now.
        log = pipeline.broker.log(Shard(DECISIONS, 0))
        for offset, message in enumerate(messages(decisions)):
            log.messages[offset] = (message, -1)
        pipeline.worker()
        pipeline.drain()
        assert total(pipeline.statuses(), DECISIONS, "counted") == 1500
        pipeline.check_conservation()


def test_tombstones_in_a_row_are_counted_and_stop_nothing(tmp_path: Path) -> None:
    """More than the breaker needs, on both topics, with arrays of events after them."""
    labels = [lesson.label(f"d{i}", NOW, True) for i in range(3)]
    with Pipeline(tmp_path, max_records=500) as pipeline:
        for topic, events in ((DECISIONS, [good(f"d{i}") for i in range(3)]), (LABELS, labels)):
            pipeline.broker.produce(topic, [None] * 3000)
            pipeline.broker.produce(topic, messages(events, [2, 1]))
        pipeline.worker()
        pipeline.drain()
        pipeline.fold()
        for topic in (DECISIONS, LABELS):
            assert total(pipeline.statuses(), topic, "tombstones") == 3000
            assert total(pipeline.statuses(), topic, "events") == 3
        assert dead_letters(pipeline.engine) == []
        pipeline.check_conservation()


def test_live_clock_refuses_what_is_ahead_of_the_broker(tmp_path: Path) -> None:
    """Early is judged by the message's own timestamp, so a second reading agrees."""
    stamp = int(NOW.timestamp() * 1000)
    early = ["2026-06-01T10:10:00Z", "2026-06-01T10:10:00.000001Z", "2027-01-01T00:00:00Z"]
    decisions = [good(f"d{i}") | {"decided_at": at} for i, at in enumerate(early)]
    with Pipeline(tmp_path, stream__clock="live") as pipeline:
        pipeline.clock.seconds = 4_000_000_000.0
        pipeline.broker.produce(DECISIONS, messages(decisions), timestamps_ms=[stamp] * 3)
        pipeline.worker()
        pipeline.drain()
        found = dead_letters(pipeline.engine)
        assert [letter[1:] for letter in found] == [
            (1, 0, "too_early", "decided_at"),
            (2, 0, "too_early", "decided_at"),
        ]
