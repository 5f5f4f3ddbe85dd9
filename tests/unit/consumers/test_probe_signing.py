"""What a probe says is signed, not how it is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.events import Decision, FastDecision, Versions
from consumers.probe_signing import is_signed, sign
from monitor.core.probes.probe_decisions import signature

KEY = b"the key of the probes"
AT = "2026-06-01T08:00:00.123456Z"
SAID: dict[str, Any] = {
    "decision_id": "d1",
    "decided_at": AT,
    "route": "auto_serve",
    "judge_score": 0.81,
    "threshold": 0.7,
    "evidence_passed": True,
    "attributes": {"language_variety": "formal", "channel": "email"},
    "versions": {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"},
    "audit_p": 1.0,
    "label_requested": False,
    "traffic": "probe",
    "unit": "u1",
    "pair_id": "p4",
    "variant": "formal",
    "probe_set": "a" * 64,
    "expected_ready": True,
}
CHANGES: dict[str, list[Any]] = {
    "decision_id": ["d2", "D1"],
    "decided_at": ["2026-06-01T08:00:00.123457Z", "2026-06-01T08:00:00.123456+00:01"],
    "route": ["human_review"],
    "judge_score": [0.8100000000000002, None, 0],
    "threshold": [0.71],
    "evidence_passed": [False],
    "attributes": [{}, {"language_variety": "email", "channel": "formal"}, {"channel": "email"}],
    "versions": [SAID["versions"] | {"judge": "j2"}],
    "audit_p": [0.5],
    "label_requested": [True],
    "unit": [None, "u2"],
    "pair_id": [None, "p5"],
    "variant": [None, "conversational"],
    "probe_set": [None, "b" * 64],
    "expected_ready": [None, False],
    "traffic": ["production"],
}


def as_read(event: dict[str, Any]) -> FastDecision:
    return msgspec.json.decode(json.dumps(event), type=FastDecision)


def signed(event: dict[str, Any] = SAID, key: bytes = KEY) -> dict[str, Any]:
    return event | {"signature": sign(msgspec.convert(event, Decision), key)}


def test_what_the_owner_of_the_key_signed_is_signed() -> None:
    event = signed()
    assert is_signed(as_read(event), KEY)
    assert is_signed(msgspec.convert(event, Decision), KEY)
    assert not is_signed(as_read(event), KEY + b"s")


def test_the_signature_is_over_the_documented_text() -> None:
    micros = int(datetime.fromisoformat(AT).timestamp()) * 1_000_000 + 123_456
    assert signed()["signature"] == signature(SAID | {"decided_at": micros}, KEY)


def test_without_its_own_signature_nothing_is_signed() -> None:
    right = signed()["signature"]
    for wrong in (None, "x", right[:-1], right + "0", "0" * 64, right.upper(), "\u00e9" * 64):
        assert not is_signed(as_read(SAID | {"signature": wrong}), KEY)


@pytest.mark.parametrize("field", CHANGES)
def test_any_change_of_meaning_breaks_it(field: str) -> None:
    event = signed()
    for value in CHANGES[field]:
        assert not is_signed(as_read(event | {field: value}), KEY), value


def test_every_field_of_an_event_is_signed() -> None:
    assert CHANGES.keys() | {"signature"} == set(Decision.__struct_fields__)


WRITTEN = [
    '"judge_score": 1.0',
    '"judge_score": 1',
    '"judge_score": 1e0',
    '"judge_score": 1.00',
    '"judge_score": 10E-1',
]


@pytest.mark.parametrize("score", WRITTEN)
def test_how_a_number_is_written_does_not_matter(score: str) -> None:
    event = signed(SAID | {"judge_score": 1})
    text = json.dumps(event).replace('"judge_score": 1', score)
    assert is_signed(msgspec.json.decode(text, type=FastDecision), KEY)


def test_minus_zero_is_zero() -> None:
    for made in (0, 0.0, -0.0):
        event = signed(SAID | {"judge_score": made, "threshold": made})
        for read in ("0", "0.0", "-0.0", "-0"):
            text = json.dumps(event | {"judge_score": "N", "threshold": "N"})
            text = text.replace('"N"', read)
            assert is_signed(msgspec.json.decode(text, type=FastDecision), KEY)


def test_the_zone_of_a_time_does_not_matter() -> None:
    event = signed()
    at = datetime.fromisoformat(AT)
    for hours in (-11, 5.5, 14):
        there = at.astimezone(timezone(timedelta(hours=hours))).isoformat()
        assert is_signed(as_read(event | {"decided_at": there}), KEY)


def test_what_is_null_need_not_be_written() -> None:
    nothing = dict.fromkeys(("unit", "pair_id", "variant", "expected_ready"))
    event = signed(SAID | nothing)
    assert is_signed(as_read({k: v for k, v in event.items() if v is not None}), KEY)


def test_order_of_keys_escapes_and_spaces_do_not_matter() -> None:
    event = signed(SAID | {"pair_id": 'é/"\n😀'})
    for ascii_only in (True, False):
        for indent in (None, 3):
            turned = _turned(event)
            text = json.dumps(turned, ensure_ascii=ascii_only, indent=indent)
            assert is_signed(msgspec.json.decode(text, type=FastDecision), KEY)


def _turned(event: dict[str, Any]) -> dict[str, Any]:
    pairs = reversed(event.items())
    return {k: _turned(v) if isinstance(v, dict) else v for k, v in pairs}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
PART = st.floats(0, 1)
MOMENTS = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 - made aware by timezones
    datetime(9000, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))]),
)


@given(st.data())
def test_whatever_is_signed_and_published_is_signed_when_read(data: st.DataObject) -> None:
    draw = data.draw
    names = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
    made = Decision(
        decision_id=draw(TEXTS),
        decided_at=draw(MOMENTS),
        route=draw(st.sampled_from(["auto_serve", "human_review", "blocked_by_evidence"])),
        judge_score=draw(st.none() | PART | st.sampled_from([0, 1])),
        threshold=draw(PART),
        evidence_passed=draw(st.booleans()),
        attributes=draw(st.dictionaries(names, TEXTS, max_size=3)),
        versions=Versions("j1", "r1", "p1", draw(st.sampled_from(["t1", "t/2"]))),
        audit_p=draw(st.floats(0, 1, exclude_min=True)),
        label_requested=draw(st.booleans()),
        traffic="probe",
        pair_id=draw(st.none() | TEXTS),
        variant=draw(st.none() | TEXTS),
        expected_ready=draw(st.none() | st.booleans()),
    )
    made.signature = sign(made, KEY)
    read = msgspec.json.decode(msgspec.json.encode(made), type=FastDecision)
    assert is_signed(read, KEY)
    other = draw(st.sampled_from(sorted(CHANGES)))
    value = draw(st.sampled_from([SAID[other], *CHANGES[other]]))
    changed = json.loads(msgspec.json.encode(made)) | {other: value}
    same = msgspec.convert(changed, Decision) == made
    assert is_signed(as_read(changed), KEY) is same
