"""The AsyncAPI document: complete, without loose ends, and true of the events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from consumers.asyncapi import document
from consumers.events import BiasResult, Decision, Label, schemas
from monitor.commands.render import rendered
from monitor.settings import Settings
from monitor.settings.sections import StreamSettings

SHIPPED = Path(__file__).parents[3] / "deploy" / "schemas" / "asyncapi.json"
DOCUMENT = document("decisions", "labels")
TYPES: dict[str, type[msgspec.Struct]] = {
    "Decision": Decision,
    "Label": Label,
    "BiasResult": BiasResult,
}


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def resolved(reference: str) -> Any:
    assert reference.startswith("#/")
    found: Any = DOCUMENT
    for key in reference.removeprefix("#/").split("/"):
        found = found[key]
    return found


def test_what_the_specification_requires_is_there() -> None:
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= DOCUMENT["info"].keys()
    for server in DOCUMENT["servers"].values():
        assert {"host", "protocol"} <= server.keys()
    for channel in DOCUMENT["channels"].values():
        assert {"address", "messages"} <= channel.keys()
    for operation in DOCUMENT["operations"].values():
        assert operation["action"] == "receive"
        channel = operation["channel"]["$ref"]
        assert channel.startswith("#/channels/")
        # Messages of an operation are those of its channel, not of the components.
        for message in operation["messages"]:
            assert message["$ref"].startswith(f"{channel}/messages/")
    allowed = {"asyncapi", "info", "defaultContentType", "servers", "channels", "operations"}
    assert DOCUMENT.keys() == {*allowed, "components"}


def test_every_reference_leads_somewhere() -> None:
    found = [*references(DOCUMENT)]
    assert "#/components/schemas/Versions" in found
    for reference in found:
        assert isinstance(resolved(reference), dict)


@pytest.mark.parametrize("event", [*TYPES])
def test_the_examples_are_events_by_the_schema_and_by_the_codec(event: str) -> None:
    message = resolved(f"#/components/messages/{event}")
    schema = {"$ref": message["payload"]["$ref"], "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert message["examples"]
    for example in message["examples"]:
        validator.validate(example["payload"])
        msgspec.json.decode(json.dumps(example["payload"]), type=TYPES[event])
        for name in example["payload"].keys() - {"type"}:
            assert name in TYPES[event].__struct_fields__


def test_a_wrong_event_is_none_by_the_schema() -> None:
    payload = dict(resolved("#/components/messages/Decision")["examples"][0]["payload"])
    schema = {"$ref": "#/components/schemas/Decision", "components": DOCUMENT["components"]}
    for name, value in (("route", "served"), ("audit_p", 0), ("judge_score", 2)):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(payload | {name: value}, schema)


def test_the_schemas_are_those_of_the_json_schemas() -> None:
    text = json.dumps(DOCUMENT["components"]["schemas"])
    for one in schemas().values():
        for name, schema in one["$defs"].items():
            there = json.loads(text.replace("#/components/schemas/", "#/$defs/"))[name]
            assert there == json.loads(json.dumps(schema))


def test_the_shipped_one_is_rendered_and_names_the_topics_of_the_settings() -> None:
    assert json.loads(SHIPPED.read_text()) == DOCUMENT
    stream = StreamSettings(decisions_topic="d-7", labels_topic="l-7")
    other = json.loads(rendered(Settings(stream=stream))["schemas/asyncapi.json"])
    assert {one["address"] for one in other["channels"].values()} == {"d-7", "l-7"}
