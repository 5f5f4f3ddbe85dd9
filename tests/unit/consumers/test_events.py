"""The events: schemas rendered from the types, and what they accept."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import lesson
import msgspec
import pytest

from consumers.events import Decision, DecisionFields, FastDecision, Label, schemas
from monitor.commands.render import rendered

DEPLOY = Path(__file__).parents[3] / "deploy"
RENDERED = rendered()


@pytest.mark.parametrize("name", sorted(RENDERED))
def test_rendered_files_are_in_step(name: str) -> None:
    assert (DEPLOY / name).read_text() == RENDERED[name], "run: slicewatch render"


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("decision", next(lesson.decisions())),
        ("decision", lesson.tick()),
        ("label", next(lesson.labels())),
    ],
)
def test_schema_and_type_agree_on_good_events(name: str, event: dict[str, object]) -> None:
    jsonschema.validate(event, schemas()[name])
    type_ = Decision if name == "decision" else Label
    msgspec.json.decode(json.dumps(event).encode(), type=type_)


@pytest.mark.parametrize(
    "change",
    [
        {"route": "elsewhere"},
        {"judge_score": 1.5},
        {"audit_p": 0},
        {"decision_id": 2**63},
        {"decided_at": 1780308300},
        {"attributes": {"channel": ["chat"]}},
        {"attributes": None},
        {"versions": {"judge": "no\tversion"}},
    ],
)
def test_schema_and_type_agree_on_bad_events(change: dict[str, object]) -> None:
    event = {**next(lesson.decisions()), **change}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(event, schemas()["decision"])
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps(event).encode(), type=Decision)


@pytest.mark.parametrize(
    "change",
    [
        {"text": "free text"},
        {"decision_id": 7},
        {"decided_at": 1780308300_000},
        {"judge_score": None, "threshold": None, "versions": None, "traffic": None},
        {"attributes": {"not declared": 1.5, "channel": None}},
        {"versions": {"judge": "j", "prompt": "p"}},
    ],
)
def test_schema_and_type_agree_on_what_a_typical_team_sends(change: dict[str, object]) -> None:
    event = {**next(lesson.decisions()), **change}
    jsonschema.validate(event, schemas()["decision"])
    msgspec.json.decode(json.dumps(event).encode(), type=Decision)
    present = {name: value for name, value in event.items() if value is not None}
    assert msgspec.json.decode(json.dumps(present).encode(), type=Decision) == msgspec.json.decode(
        json.dumps(event).encode(), type=Decision
    )


def test_the_fast_decision_has_the_same_fields() -> None:
    assert FastDecision.__struct_fields__ == Decision.__struct_fields__
    assert set(FastDecision.__struct_fields__) - set(DecisionFields.__struct_fields__) == {
        "attributes",
        "versions",
    }
