"""Avro as JSON: what events can hold, what is refused, and schemas that nobody reads with."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pytest
from avro_events import PLAIN, decision, written
from hypothesis import given
from hypothesis import strategies as st

from consumers.event_words import reason_and_field
from consumers.events import Decision, Label
from consumers.producing import decision_message, label_message
from consumers.producing.avro import _avro_record as as_avro
from consumers.producing.avro_schema import DECISION, LABEL, SCHEMAS
from consumers.wire.registry import Written
from consumers.wire.writer_schema import UnreadableError, WriterSchema

HEADER = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAIVE = datetime(2026, 6, 1, 10, tzinfo=UTC).replace(tzinfo=None)


def schema_of(schema: Any, *references: Any) -> WriterSchema:
    texts = tuple(json.dumps(one) for one in references)
    return WriterSchema.from_written(Written(json.dumps(schema), "AVRO", texts))


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": one, "type": kind} for one, kind in fields],
    }


def read(schema: Any, content: Any) -> Any:
    made = schema_of(schema)
    assert not made.unusable
    return json.loads(made.to_json(written(1, schema, content)[HEADER:]))


def test_a_decision_of_a_teams_own_schema_is_an_event() -> None:
    event = msgspec.json.decode(
        schema_of(PLAIN).to_json(written(1, PLAIN, decision())[HEADER:]), type=Decision
    )
    assert event.decided_at == 1_780_000_000_000
    assert (event.route, event.judge_score, event.audit_p) == ("auto_serve", 0.8, 0.5)
    assert read(PLAIN, decision(judge_score=None))["judge_score"] is None


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 1_780_000_000_000, 1_780_000_000_000),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            datetime(2026, 6, 1, 10, 0, 0, 250, UTC),
            "2026-06-01T10:00:00.000250Z",
        ),
        ("long", 1_780_000_000_000, 1_780_000_000_000),
        ("float", 0.5, 0.5),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
         Decimal("0.25"), 0.25),
        ({"type": "int", "logicalType": "date"}, date(2026, 6, 1), "2026-06-01"),
        ({"type": "string", "logicalType": "uuid"},
         "7b1d7a5e-0d5c-4b5a-9d8a-111111111111", "7b1d7a5e-0d5c-4b5a-9d8a-111111111111"),
        (["null", "string", "long"], 7, 7),
        (["null", "string", "long"], None, None),
        ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "b", "b"),
        ({"type": "map", "values": ["null", "string"]}, {"x": None}, {"x": None}),
        ({"type": "array", "items": "string"}, ["a", "b"], ["a", "b"]),
    ],
)  # fmt: skip
def test_every_type_means_what_json_says(kind: Any, given: Any, expected: Any) -> None:
    assert read(record(("x", kind)), {"x": given}) == {"x": expected}


def test_several_events_of_one_message_are_an_array() -> None:
    both = read({"type": "array", "items": PLAIN}, [decision("a"), decision("b")])
    assert [one["decision_id"] for one in both] == ["a", "b"]


def test_a_local_time_has_no_zone_and_is_no_moment() -> None:
    kind = {"type": "long", "logicalType": "local-timestamp-micros"}
    said = read(record(("decided_at", kind)), {"decided_at": NAIVE})
    assert said == {"decided_at": "2026-06-01T10:00:00"}  # the codec refuses it, by its field


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("double", math.nan),
        ("double", math.inf),
        ("bytes", b"secret"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab"),
    ],
)
def test_what_json_cannot_say_is_refused_where_a_field_has_it_and_dropped_elsewhere(
    kind: Any, given: Any
) -> None:
    """A team's own schema may have bytes that are nobody's business."""
    fields = [*PLAIN["fields"], {"name": "raw", "type": kind}]
    schema = {**PLAIN, "fields": fields}
    event = read(schema, {**decision(), "raw": given})
    assert msgspec.convert(event, Decision).decision_id == "d-1"
    fields = [one for one in PLAIN["fields"] if one["name"] != "judge_score"]
    schema = {**PLAIN, "fields": [*fields, {"name": "judge_score", "type": kind}]}
    text = schema_of(schema).to_json(written(1, schema, decision(judge_score=given))[HEADER:])
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(text, type=Decision)
    assert reason_and_field(caught.value) == ("wrong_type", "judge_score")
    assert b"secret" not in text


def test_an_attribute_of_bytes_is_refused() -> None:
    values = {"type": "map", "values": "bytes"}
    fields = [one for one in PLAIN["fields"] if one["name"] != "attributes"]
    schema = {**PLAIN, "fields": [*fields, {"name": "attributes", "type": values}]}
    event = read(schema, decision(attributes={"channel": b"x"}))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(event, Decision)


@pytest.mark.parametrize(("schema", "content"), [("bytes", b"x"), ("null", None), ("long", 7)])
def test_a_message_that_is_no_record_is_none(schema: str, content: Any) -> None:
    with pytest.raises(UnreadableError, match="malformed_avro"):
        schema_of(schema).to_json(written(1, schema, content)[HEADER:])


def test_a_time_beyond_all_calendars_is_refused() -> None:
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    payload = written(1, record(("decided_at", "long")), {"decided_at": 2**62})[HEADER:]
    with pytest.raises(UnreadableError, match="invalid_value"):
        schema_of(record(("decided_at", micros))).to_json(payload)


@pytest.mark.parametrize("cut", [0, 1, 5, -1])
def test_a_message_that_is_cut_short_or_too_long_is_refused(cut: int) -> None:
    payload = written(1, PLAIN, decision())[HEADER:]
    for wrong in (payload[:cut], payload + b"\x00"):
        with pytest.raises(UnreadableError, match="malformed_avro"):
            schema_of(PLAIN).to_json(wrong)


def nested(depth: int) -> Any:
    inner: Any = "string"
    for at in range(depth):
        inner = record(("x", inner), name=f"R{at}")
    return inner


def laughing(levels: int) -> Any:
    """Records of two records each: nothing on the wire, and no end of them in memory."""
    inner: Any = record(("x", "null"), name="N0")
    for at in range(1, levels):
        inner = record(("a", inner), ("b", f"N{at - 1}"), name=f"N{at}")
    return inner


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record(("next", ["null", "R"])), "contains itself"),
        (record(("x", {"type": "array", "items": "null"})), "takes no bytes"),
        (record(("x", {"type": "array", "items": record(("y", "null"), name="S")})), "no bytes"),
        (
            record(("x", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}})),
            "no",
        ),
        (nested(40), "within each other"),
        (nested(2000), "not valid Avro"),
        (laughing(20), "fields"),
        ("nothing", "not valid Avro"),
        (7, "not valid Avro"),
    ],
)
def test_a_schema_that_a_few_bytes_could_do_harm_with_is_not_used(schema: Any, why: str) -> None:
    made = WriterSchema.from_written(Written(_text(schema), "AVRO"))
    assert why in made.unusable
    assert made.parsed is None


def _text(schema: Any) -> str:
    """JSON without recursion."""
    if isinstance(schema, dict) and schema.get("name", "").startswith("R1999"):
        return '{"type":"record","name":"R","fields":[{"name":"x","type":' * 2000
    return json.dumps(schema)


def test_other_kinds_of_schemas_and_texts_that_are_none_are_not_used() -> None:
    assert "not an Avro" in WriterSchema.from_written(Written("{}", "PROTOBUF")).unusable
    assert "not valid" in WriterSchema.from_written(Written("{", "AVRO")).unusable


def test_a_schema_may_refer_to_others() -> None:
    versions = record(("judge", "string"), name="Versions") | {"namespace": "team"}
    schema = record(("versions", ["null", "team.Versions"]))
    made = schema_of(schema, versions)
    names: dict[str, Any] = {}
    fastavro.parse_schema(versions, named_schemas=names)
    assert json.loads(made.to_json(b"\x02\x04j1")) == {"versions": {"judge": "j1"}}


# The schemas that are shipped


def test_the_shipped_schemas_have_every_field_and_require_what_events_require() -> None:
    for kind, type_ in (("decision", Decision), ("label", Label)):
        fields = {one["name"]: one for one in SCHEMAS[kind]["fields"]}
        declared = {one.name: one for one in msgspec.structs.fields(type_)}
        assert fields.keys() == declared.keys()
        for name, one in fields.items():
            assert ("default" in one) == (not declared[name].required), name


texts = st.text(min_size=1, max_size=20)
moments = st.integers(10**14, 7 * 10**15).map(lambda at: EPOCH + timedelta(microseconds=at))
scores = st.floats(0, 1)
values = st.text(max_size=50) | st.integers() | st.floats(-1e9, 1e9) | st.booleans() | st.none()


@given(
    decision_id=texts | st.integers(-(2**63), 2**63 - 1),
    decided_at=moments | st.integers(100_000_000_000, 253_402_300_799_999),
    route=st.sampled_from(["auto_serve", "human_review", "blocked_by_evidence"]),
    judge_score=st.none() | scores,
    evidence_passed=st.booleans(),
    audit_p=st.floats(0.001, 1),
    label_requested=st.booleans(),
    attributes=st.dictionaries(texts, values, max_size=4),
    unit=st.none() | texts,
    versions=st.none() | st.fixed_dictionaries({"judge": st.just("j-1"), "policy": st.none()}),
)
def test_a_decision_comes_back_as_it_was(**fields: Any) -> None:
    message = decision_message(**fields)
    schema = fastavro.parse_schema(DECISION)
    payload = written(1, schema, as_avro(message))[HEADER:]
    back = msgspec.json.decode(schema_of(DECISION).to_json(payload), type=Decision)
    there = msgspec.json.decode(message.value, type=Decision)
    assert _comparable(back) == _comparable(there)


@given(
    label_id=texts,
    decision_id=texts,
    decided_at=moments,
    version=st.integers(1, 1_000_000),
    ready=st.none() | st.booleans(),
    kind=st.sampled_from(["initial", "correction", "adjudication", "retraction"]),
    reason=st.sampled_from(["audit", "review", "complaint"]),
    reviewer=texts,
    labelled_at=moments,
    blind=st.none() | st.booleans(),
)
def test_a_label_comes_back_as_it_was(**fields: Any) -> None:
    message = label_message(**fields)
    payload = written(1, LABEL, as_avro(message))[HEADER:]
    back = msgspec.json.decode(schema_of(LABEL).to_json(payload), type=Label)
    assert _comparable(back) == _comparable(msgspec.json.decode(message.value, type=Label))


def _comparable(event: msgspec.Struct) -> dict[str, Any]:
    """Ids as texts, moments as microseconds, attributes as the service spells them."""
    fields = as_avro(_as_message(event))
    attributes = fields.get("attributes") or {}
    return fields | {"attributes": {n: v for n, v in attributes.items() if v is not None}}


def _as_message(event: msgspec.Struct) -> Any:
    kind = decision_message if isinstance(event, Decision) else label_message
    return kind(event)


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_refused(payload: bytes) -> None:
    for schema in (PLAIN, DECISION, LABEL, {"type": "array", "items": PLAIN}):
        with suppress(UnreadableError):
            json.loads(schema_of(schema).to_json(payload))
