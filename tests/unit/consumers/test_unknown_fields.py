"""Fields that no event type has: dropped, and counted by names that can leak nothing."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import lesson
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers import unknown_fields
from consumers.codec import DecisionCodec, LabelCodec
from consumers.coder import Coder
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from consumers.events import Label
from consumers.unknown_fields import (
    MAX_CANDIDATES,
    MAX_EACH,
    MAX_NAMES,
    MAX_PENDING,
    SHOWN_FROM,
    KnownFields,
    UnknownFields,
    add_counts,
    is_plain,
    names_of_event,
    unknown_names,
)
from monitor.core.counts.cells import OTHER
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.flushes import DeadLetter
from monitor.records import RecordBatch, Shard

CODING = Coding((Attribute("channel", ("chat", "email")),))
HASHER = IdHasher.with_key(b"key")


def decision(**more: Any) -> dict[str, Any]:
    event = lesson.decision("a", lesson.START, 0.8, attributes={"channel": "chat"})
    return {**event, **more}


def codec() -> DecisionCodec:
    return DecisionCodec(Coder(CodingHistory.always(CODING), 64), CODING)


def read(reader: Any, *values: dict[str, Any] | list[Any]) -> tuple[Any, list[DeadLetter]]:
    messages = [json.dumps(one).encode() for one in values]
    batch = RecordBatch(Shard("d", 0), range(len(messages)), messages, [0] * len(messages))
    letters = DeadLetterBuffer(batch, HASHER)
    return reader.read(batch, letters), letters.found


# Names


@pytest.mark.parametrize(
    "name",
    ["comment", "customerName", "utm-source", "metadata.v2", "_id", "x" * 64, "attributes.region"],
)
def test_what_a_schema_calls_its_fields_is_plain(name: str) -> None:
    assert is_plain(name)


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a@b.example", "+4917012345", "user_83271", "3f0c9a7e-11aa", "x" * 65, "comment\n",
     "na\u00efve", "\u202ecomment", "<script>", 'a"b', "1st"],
)  # fmt: skip
def test_what_may_be_an_id_or_harm_a_reader_is_not(name: str) -> None:
    assert not is_plain(name)


def test_a_name_is_shown_once_a_hundred_events_had_it() -> None:
    fields = UnknownFields()
    shown = [fields.record({"comment": 1}) for _ in range(SHOWN_FROM + 2)]
    assert shown == [Counter({OTHER: 1})] * (SHOWN_FROM - 1) + [Counter(comment=1)] * 3
    assert fields.record({"comment": 5, "rare": 5}) == {"comment": 5, OTHER: 5}


def test_a_frequent_name_that_is_not_plain_is_never_shown() -> None:
    fields = UnknownFields()
    fields.record({"a@b.example": SHOWN_FROM})
    assert fields.frequent == ["a@b.example"]
    assert fields.record({"a@b.example": 1}) == {OTHER: 1}


def test_no_more_than_64_names_are_ever_told_apart() -> None:
    fields = UnknownFields()
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [f"{a}{b}" for a in letters for b in letters][: MAX_NAMES + 40]
    for name in names:
        fields.record({name: SHOWN_FROM})
    counts = fields.record(Counter(names))
    assert counts == Counter(names[:MAX_NAMES]) + Counter({OTHER: len(names) - MAX_NAMES})


def test_one_event_and_one_flush_have_a_bounded_number_of_names() -> None:
    names = [f"x{i}" for i in range(10_000)]
    one = names_of_event(names)
    assert (one[OTHER], one.total(), len(one)) == (10_000 - MAX_EACH, 10_000, MAX_EACH + 1)
    assert names_of_event(["x" * 1000, "a"]) == {OTHER: 1, "a": 1}
    total: Counter[str] = Counter(comment=1)
    for name in names:
        add_counts(total, {name: 1, "comment": 1})
    assert total.total() == 20_001
    assert total["comment"] == 10_001
    assert len(total) <= MAX_PENDING + 1


@given(st.integers(0, 2**32 - 1))
def test_names_made_up_without_end_take_no_room_and_hide_no_field_for_ever(seed: int) -> None:
    """Every event has a new name and one that all have."""
    fields, pick = UnknownFields(), random.Random(seed)
    total: Counter[str] = Counter()
    for _ in range(3_000):
        total += fields.record({f"made_up_{pick.getrandbits(80):x}": 1, "comment": 1})
        assert len(fields._seen) <= MAX_CANDIDATES + 1
    assert fields.frequent == ["comment"]
    assert set(total) == {"comment", OTHER}
    assert total.total() == 6_000
    assert total["comment"] >= 3_000 - MAX_CANDIDATES - SHOWN_FROM


def test_names_of_an_object() -> None:
    assert unknown_names(b'{"a":1,"b":{"c":2},"a":3}', ["b"]) == {"a"}
    for bad in (b"[]", b"null"):
        with pytest.raises(ValueError, match=r".+"):
            unknown_names(bad, [])


# Events


def test_learned_fields_are_counted_as_looked_up_ones_are() -> None:
    """The quick way, once names are frequent, and the careful one give the same numbers."""
    pick = random.Random(7)
    names = ["comment", "utm", "a@b", "class", "trace-id", "extra_0"]
    reader, expected, seen = codec(), Counter[str](), Counter[str]()
    for _ in range(40):
        events = [
            decision(**{name: {"said": "x"} for name in names if pick.random() < 0.5})
            for _ in range(50)
        ]
        if pick.random() < 0.3:
            events.append(decision(route="elsewhere", comment="unreadable: not counted"))
        found, _ = read(reader, *events) if pick.random() < 0.5 else read(reader, events)
        assert len(found.texts) == 50
        seen += found.unknown
        reader.unknown.record(found.unknown)
        expected += Counter(n for e in events[:50] for n in names if n in e)
    assert seen == expected
    assert sorted(reader.unknown.frequent) == sorted(names)


def test_nothing_but_counts_changes_by_unknown_fields() -> None:
    plain, noisy = codec(), codec()
    events = [decision(audit_p=p, judge_score=s) for p in (1.0, 0.5) for s in (0.1, 0.9, None)]
    wanted, _ = read(plain, *events)
    for number in range(200):
        extra: dict[str, Any] = {f"made{number}": [1], "comment": None, "Route": "x", "route ": {}}
        found, refused = read(noisy, *({**event, **extra} for event in events))
        assert not refused
        assert found.texts == wanted.texts
        for name in ("ts", "codes", "bands", "requested"):
            assert (getattr(found, name) == getattr(wanted, name)).all()
        shown = noisy.unknown.record(found.unknown)
    assert not wanted.unknown
    assert set(shown) == {"comment", "Route", OTHER}


def test_fields_of_labels_and_of_nested_parts() -> None:
    reader, labels = codec(), LabelCodec(HASHER)
    event = decision(
        attributes={"channel": "chat", "region": {"deep": [1]}, "A b": 1},
        versions={**lesson.VERSIONS, "prompt": "p1"},
    )
    label = lesson.label("a", lesson.START, True) | {"remark": "free text"}
    found, refused = read(reader, event)
    said, unread = read(labels, label)
    assert not refused + unread
    assert found.unknown == {"attributes.region": 1, "versions.prompt": 1, "attributes.A b": 1}
    assert said.unknown == {"remark": 1}
    reader.unknown.record({"attributes.region": SHOWN_FROM, "comment": SHOWN_FROM})
    assert read(reader, event)[0].unknown == found.unknown


def test_endless_attribute_names_cost_little() -> None:
    coder = Coder(CodingHistory.always(CODING), 64)
    reader = DecisionCodec(coder, CODING)
    for number in range(2 * unknown_fields.MAX_NAMES):
        read(reader, decision(attributes={"channel": "chat", f"made_{number}": 1}))
    assert len(coder._dropped) <= unknown_fields.MAX_NAMES + 1


@pytest.mark.parametrize(
    "names", [[], ["comment"], ["__class__", "class", "", "a\u00e9", "ready2"]]
)
def test_a_type_with_learned_fields_is_the_event(names: list[str]) -> None:
    fields = KnownFields(Label, names)
    event = lesson.label("a", lesson.START, True) | dict.fromkeys(names, "x")
    decoded = msgspec.json.decode(json.dumps(event).encode(), type=fields.type)
    assert isinstance(decoded, Label)
    assert fields.counts([decoded, decoded]) == dict.fromkeys(names, 2)
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(json.dumps(event | {"other": 1}).encode(), type=fields.type)


# Below its own threshold


@pytest.mark.parametrize(
    ("change", "below"),
    [
        ({"route": "auto_serve", "judge_score": 0.69, "threshold": 0.7}, True),
        ({"route": "auto_serve", "judge_score": 0.7, "threshold": 0.7}, False),
        ({"route": "auto_serve", "judge_score": None, "threshold": 0.7}, False),
        ({"route": "auto_serve", "judge_score": 0.1, "threshold": None}, False),
        ({"route": "human_review", "judge_score": 0.1, "threshold": 0.7}, False),
        ({"route": "blocked_by_evidence", "judge_score": 0.1, "threshold": 0.7}, False),
    ],
)
def test_served_below_the_own_threshold(change: dict[str, Any], below: bool) -> None:
    found, _ = read(codec(), decision(), decision(**change))
    assert found.below.tolist() == [False, below]


def test_thresholds_are_told_apart_beyond_the_versions_that_have_room() -> None:
    reader = DecisionCodec(Coder(CodingHistory.always(CODING), 1), CODING)
    events = [decision(route="auto_serve", judge_score=0.5, threshold=t) for t in (0.9, 0.4, 0.6)]
    assert read(reader, *events)[0].below.tolist() == [True, False, True]


# null, absent, ids and times


@given(st.sets(st.sampled_from(["judge_score", "threshold", "versions", "traffic", "unit"])))
def test_null_and_absent_are_the_same(names: set[str]) -> None:
    null = decision() | dict.fromkeys(names)
    absent = {name: value for name, value in null.items() if value is not None}
    found, refused = read(codec(), null, absent)
    assert not refused
    assert len(set(found.codes.tolist())) == 1
    assert len(set(found.bands.tolist())) == 1


def test_an_id_is_its_digits_and_a_time_its_instant() -> None:
    at = lesson.START
    millis = round(at.timestamp() * 1000)
    same = [decision(decision_id=-17), decision(decision_id="-17", decided_at=millis)]
    found, _ = read(codec(), *same, decision(decision_id="-17", unit=3))
    assert found.texts == ["-17"] * 3
    assert len(set(found.ts.tolist())) == 1
    assert found.units == ["", "", "3"]
    label = lesson.label("-17", at, True)
    numbers = {"decision_id": -17, "decided_at": millis}
    moment = {"labelled_at": round((at.timestamp() + 1200) * 1000)}
    rows = read(LabelCodec(HASHER), label, label | numbers, label | numbers | moment)[0].labels
    assert len(set(rows.ids.tolist())) == len(set(rows.label.tolist())) == 1
    assert len(set(rows.ts.tolist())) == len(set(rows.labelled_at.tolist())) == 1


def test_a_label_without_ready_is_one_that_could_not_be_decided() -> None:
    label = lesson.label("a", lesson.START, True)
    absent = {name: value for name, value in label.items() if name != "ready"}
    rows = read(LabelCodec(HASHER), label | {"ready": None}, absent)[0].labels
    assert rows.ready.tolist() == [2, 2]
