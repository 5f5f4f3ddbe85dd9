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


@pytest.mark.parametrize("name", sorted(rendered()))
def test_rendered_files_are_in_step(name: str) -> None:
    assert (DEPLOY / name).read_text() == rendered()[name], "run: slicewatch render"


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
        {"text": "free text"},
        {"attributes": {"Not A Name": "x"}},
        {"versions": {"judge": "j"}},
    ],
)
def test_schema_and_type_agree_on_bad_events(change: dict[str, object]) -> None:
    event = {**next(lesson.decisions()), **change}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(event, schemas()["decision"])
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps(event).encode(), type=Decision)


def test_the_fast_decision_has_the_same_fields() -> None:
    assert FastDecision.__struct_fields__ == Decision.__struct_fields__
    assert set(FastDecision.__struct_fields__) - set(DecisionFields.__struct_fields__) == {
        "attributes",
        "versions",
    }
