"""Probe decisions are events that the service takes, signed, and of declared sets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from probing import KEY, VERSIONS, answer, item, probe_set

from consumers.events import Decision, FastDecision
from consumers.probe_signing import is_signed
from monitor.audit.inputs import ProbeSet
from monitor.errors import SlicewatchError
from monitor.probing.probe_events import ProbeEvents, check_items, declared
from monitor.settings.sections import ProbeSetSettings

DIGEST = "a" * 64
AT = 1_767_225_600_123_456


def test_an_answer_becomes_a_decision() -> None:
    event = ProbeEvents(DIGEST, KEY.encode()).event(item(), answer(), AT)
    read = msgspec.json.decode(event)
    assert read.pop("decision_id").startswith("probe-")
    assert len(read.pop("signature")) == 64
    assert {name: value for name, value in read.items() if value is not None} == {
        "decided_at": "2026-01-01T00:00:00.123456Z",
        "route": "auto_serve",
        "judge_score": 0.81,
        "threshold": 0.7,
        "evidence_passed": True,
        "attributes": {"language_variety": "formal"},
        "versions": VERSIONS,
        "audit_p": 1.0,
        "label_requested": False,
        "traffic": "probe",
        "pair_id": "p1",
        "variant": "formal",
        "probe_set": DIGEST,
        "expected_ready": True,
    }


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"judge_score": None, "route": "blocked_by_evidence", "evidence_passed": False},
        {"judge_score": 1, "threshold": 0},
        {"judge_score": 0.1 + 0.2, "route": "human_review"},
    ],
)
def test_events_are_signed_as_they_are_read(said: dict[str, Any]) -> None:
    made = item(expected_ready=None, attributes={"dialect": 'süd/"\n'}, pair="é")
    event = ProbeEvents(DIGEST, KEY.encode()).event(made, answer(**said), AT)
    assert is_signed(msgspec.json.decode(event, type=FastDecision), KEY.encode())
    assert is_signed(msgspec.json.decode(event, type=Decision), KEY.encode())
    assert not is_signed(msgspec.json.decode(event, type=Decision), b"another key")
    assert KEY.encode() not in event


def test_no_two_events_have_the_same_id() -> None:
    runs = [ProbeEvents(DIGEST, KEY.encode()) for _ in range(20)]
    ids = {
        msgspec.json.decode(run.event(item(), answer(), AT))["decision_id"]
        for run in runs
        for _ in range(20)
    }
    assert len(ids) == 400


def test_a_good_set_can_be_sent() -> None:
    check_items(probe_set().items, {"language_variety"})
    check_items(probe_set().items)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"request": None}, "p1/formal: request is missing"),
        ({"attributes": {"dialect": "x"}}, "attribute dialect is not in the settings"),
        ({"attributes": {"Dialect!": "x"}}, "p1/formal: attribute Dialect! is not in the settings"),
        ({"attributes": {"language_variety": "x" * 201}}, "p1/formal makes no decision event"),
        ({"variant": "x" * 201}, "makes no decision event"),
    ],
)
def test_a_variant_that_the_service_would_refuse_is_not_sent(
    changed: dict[str, Any], told: str
) -> None:
    with pytest.raises(SlicewatchError, match=told):
        check_items([item(**changed)], {"language_variety"})


def settings(**changed: Any) -> ProbeSetSettings:
    fields: dict[str, Any] = {
        "name": "pairs",
        "digest": DIGEST,
        "pairs": 3,
        "variants": ("formal", "plain"),
    }
    return ProbeSetSettings(**(fields | changed))


def test_a_declared_set_is_found_by_its_digest() -> None:
    sets = [settings(name="other", digest="b" * 64), settings()]
    assert declared(probe_set(), DIGEST, sets).name == "pairs"


def refused(sent: ProbeSet, *sets: ProbeSetSettings) -> str:
    with pytest.raises(SlicewatchError) as error:
        declared(sent, DIGEST, sets)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_not_declared_is_told_with_what_to_add() -> None:
    told = refused(probe_set(), settings(digest="b" * 64))
    for part in ("[[probes.sets]]", DIGEST, "pairs = 3", 'variants = ["formal", "plain"]'):
        assert part in told


@pytest.mark.parametrize("changed", [{"pairs": 4}, {"variants": ("formal", "other")}])
def test_a_declaration_that_says_otherwise_is_told(changed: dict[str, Any]) -> None:
    assert "the set has 3 pairs of formal, plain" in refused(probe_set(), settings(**changed))


def test_pairs_of_a_published_set_have_the_same_variants() -> None:
    whole = probe_set()
    partial = ProbeSet("pairs", "1", True, frozenset(), whole.items[:-1])
    assert "pair p002 lacks the variant plain" in refused(partial, settings())
