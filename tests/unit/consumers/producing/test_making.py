"""Events made by the producer's side: what it sends is counted, what it refuses would not be."""

from __future__ import annotations

import enum
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.codec import DecisionCodec, LabelCodec
from consumers.coder import Coder
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from consumers.event_words import EXPECTED, REASONS
from consumers.events import Decision, Label
from consumers.producing import EventError, Message, decision_message, label_message
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.flushes import DeadLetter
from monitor.records import RecordBatch, Shard

DECISION: dict[str, Any] = {
    "decision_id": "d-1",
    "decided_at": "2026-06-01T10:00:00Z",
    "route": "auto_serve",
    "judge_score": 0.9,
    "threshold": 0.7,
    "evidence_passed": True,
    "attributes": {"channel": "chat"},
    "versions": {"judge": "j1"},
    "audit_p": 0.05,
    "label_requested": False,
}
LABEL: dict[str, Any] = {
    "label_id": "l-1",
    "decision_id": "d-1",
    "decided_at": "2026-06-01T10:00:00Z",
    "version": 1,
    "ready": True,
    "kind": "initial",
    "reason": "audit",
    "reviewer": "h-7",
    "labelled_at": "2026-06-01T12:00:00Z",
}
SENTINEL = "SENTINEL-7f3a"
CODING = Coding((Attribute("channel", ("chat", "email")),), (0.7,), (1.0, 0.5))
HASHER = IdHasher.with_key(b"key")


def consumed(kind: str, value: bytes) -> list[DeadLetter]:
    """Dead letters of one message, as the service finds them."""
    batch = RecordBatch(Shard("t", 0), [0], [value], [7])
    letters = DeadLetterBuffer(batch, HASHER)
    if kind == "decision":
        DecisionCodec(Coder(CodingHistory.always(CODING), 64), CODING).read(batch, letters)
    else:
        LabelCodec(HASHER).read(batch, letters)
    return letters.found


def test_a_message_says_what_it_was_given_and_is_keyed_by_its_decision() -> None:
    message = decision_message(DECISION)
    assert json.loads(message.to_bytes()) == DECISION
    assert message.key == b"d-1"
    label = label_message(LABEL)
    assert json.loads(label.value) == LABEL
    assert label.key == b"d-1"
    assert decision_message(DECISION, decision_id=7).key == b"7"


def test_the_fields_of_a_team_s_own_object_are_read_and_no_others() -> None:
    class Route(enum.Enum):
        SERVED = "auto_serve"

    @dataclass
    class Routed:
        decision_id: uuid.UUID
        decided_at: datetime
        route: Route
        customer: str = SENTINEL
        prompt: str = SENTINEL
        judge_score: Any = field(default_factory=lambda: np.float32(0.5))
        threshold: Decimal = Decimal("0.5")
        evidence_passed: Any = field(default_factory=lambda: np.bool_(True))
        versions: Any = field(default_factory=lambda: SimpleNamespace(judge="j", rubric=None))

    own = Routed(uuid.UUID(int=5), datetime(2026, 6, 1, 10, tzinfo=UTC), Route.SERVED)
    message = decision_message(
        own, attributes={"channel": "chat", "note": None}, audit_p=0.05, label_requested=True
    )
    assert SENTINEL.encode() not in message.value
    event = msgspec.json.decode(message.value, type=Decision)
    assert event.decision_id == str(uuid.UUID(int=5)) == message.key.decode()
    assert (event.route, event.judge_score, event.threshold) == ("auto_serve", 0.5, 0.5)
    assert event.decided_at == own.decided_at
    assert event.attributes == {"channel": "chat"}
    assert event.versions is not None
    assert event.versions.judge == "j"


def test_a_time_of_a_data_frame_is_a_time() -> None:
    at = pd.Timestamp("2026-06-01T10:00:00.000001Z")
    message = decision_message(DECISION, decided_at=at)
    found = msgspec.json.decode(message.value, type=Decision).decided_at
    assert found == datetime(2026, 6, 1, 10, 0, 0, 1, tzinfo=UTC)


WRONG = [
    ("judge_score", "0.9", "wrong_type"),
    ("judge_score", float("nan"), "invalid_value"),
    ("judge_score", 1.5, "invalid_value"),
    ("threshold", True, "wrong_type"),
    ("route", SENTINEL, "invalid_value"),
    ("route", None, "missing_field"),
    ("decided_at", "2026-06-01T10:00:00", "invalid_value"),
    ("decided_at", datetime(2026, 6, 1), "invalid_value"),  # noqa: DTZ001 - it has no zone
    ("decided_at", 1_780_000_000, "invalid_value"),
    ("decided_at", 1_780_000_000.5, "wrong_type"),
    ("audit_p", 0, "invalid_value"),
    ("audit_p", None, "missing_field"),
    ("label_requested", 1, "wrong_type"),
    ("decision_id", "", "invalid_value"),
    ("decision_id", "\ud800", "malformed_json"),
    ("unit", b"hash", "wrong_type"),
    ("unit", SimpleNamespace(), "wrong_type"),
    ("attributes", None, "missing_field"),
    ("attributes", SENTINEL, "wrong_type"),
    ("attributes", {"channel": b"chat"}, "wrong_type"),
    ("attributes", {"channel": [SENTINEL]}, "wrong_type"),
    ("attributes", {"channel": float("inf")}, "invalid_value"),
    ("attributes", {"channel": datetime(2026, 6, 1, tzinfo=UTC)}, "wrong_type"),
    ("attributes", {"channel": SENTINEL * 20}, "invalid_value"),
    ("attributes", {f"a{i}": SENTINEL for i in range(400)}, "too_large"),
    ("versions", {"judge": "j\t1"}, "invalid_value"),
    ("versions", {"judge": "j1\n"}, "invalid_value"),
    ("versions", ["j1"], "wrong_type"),
]


@pytest.mark.parametrize(("name", "value", "reason"), WRONG, ids=lambda one: str(one)[:20])
def test_a_wrong_field_is_named_with_its_fix_and_without_its_value(
    name: str, value: object, reason: str
) -> None:
    with pytest.raises(EventError) as caught:
        decision_message(DECISION, **{name: value})
    error = caught.value
    assert (error.kind, error.field, error.reason) == ("decision", name, reason)
    assert str(error).startswith(f"decision: {name} ")
    assert SENTINEL not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def test_a_wrong_kind_is_named() -> None:
    with pytest.raises(EventError, match="expected a number from 0 to 1, or absent, found text"):
        decision_message(DECISION, judge_score="0.9")
    with pytest.raises(EventError, match="found bytes"):
        decision_message(DECISION, unit=b"hash")


def test_a_mistyped_name_is_refused_with_the_one_that_is_near() -> None:
    with pytest.raises(EventError, match="no decision has; did you mean judge_score"):
        decision_message(DECISION, judgescore=0.9)
    with pytest.raises(EventError, match=r"no label has$"):
        label_message(LABEL, sentiment=1)


def test_a_label_is_checked_alike() -> None:
    with pytest.raises(EventError, match="label: kind is not an allowed value; expected one of"):
        label_message(LABEL, kind="first")
    with pytest.raises(EventError, match="label: reviewer is missing or null"):
        label_message({name: value for name, value in LABEL.items() if name != "reviewer"})


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.text(st.characters(), max_size=4),  # surrogates too
    st.binary(max_size=4),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(
        ["auto_serve", "initial", "audit", "2026-06-01T10:00:00Z", "x" * 200, "x" * 201, "j1\n"]
    ),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.fixed_dictionaries({"channel": SCALARS}),
    st.fixed_dictionaries({"channel": st.just("chat"), "x" * 5_000: st.none() | st.just("x")}),
)
VERSIONS = st.fixed_dictionaries({"judge": SCALARS}) | SCALARS


def fields_of(event: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """One or two fields and what is in them."""
    names = st.sampled_from(event.__struct_fields__)
    one = names.flatmap(
        lambda name: st.tuples(st.just(name), VERSIONS if name == "versions" else VALUES)
    )
    return st.lists(one, min_size=1, max_size=2).map(dict)


@given(fields_of(Decision))
def test_whatever_decision_is_made_the_service_reads(fields: dict[str, Any]) -> None:
    _agree("decision", DECISION, fields)


@given(fields_of(Label))
def test_whatever_label_is_made_the_service_reads(fields: dict[str, Any]) -> None:
    _agree("label", LABEL, fields)


def _agree(kind: str, good: dict[str, Any], fields: dict[str, Any]) -> None:
    made = _made(kind, good | fields)
    if not isinstance(made, EventError):
        assert consumed(kind, made.value) == []
        return
    assert made.reason in REASONS
    assert made.field in EXPECTED
    if (value := _as_json(good | fields)) is not None:
        # What JSON can say and is refused here would be a dead letter there.
        (letter,) = consumed(kind, value)
        if len(fields) == 1:  # of two, either may be found first
            assert (letter.reason, letter.field) == (made.reason, made.field)


def _made(kind: str, fields: dict[str, Any]) -> Message | EventError:
    try:
        return decision_message(fields) if kind == "decision" else label_message(fields)
    except EventError as error:
        return error


def _as_json(fields: dict[str, Any]) -> bytes | None:
    """The same as another program would send it; None for what has no one way to be sent."""
    try:
        text = json.dumps(fields, allow_nan=False)
        text.encode()
    except (TypeError, ValueError):
        return None
    if "\\ud" in text:
        return None
    return text.encode()
