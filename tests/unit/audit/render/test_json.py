"""The JSON report: its keys are a promise, and it reads back as what it was made of."""

from __future__ import annotations

import json
from pathlib import Path

import audit_reports as made
import jsonschema
import msgspec
import pytest

from monitor.audit.audit_report import AuditReport
from monitor.audit.render import as_json

SCHEMAS = Path(__file__).parents[4] / "deploy" / "schemas"
OWN = {"format", "notes", "judged", "exit_code"}


@pytest.mark.parametrize(
    "report", [made.BLOCKED, made.EXCLUDED, made.COMPARED, made.HELD_OUT, made.GUARDED]
)
def test_it_reads_back_as_the_report(report: AuditReport) -> None:
    found = json.loads(as_json.render(report))
    kept = {key: value for key, value in found.items() if key not in OWN}

    assert msgspec.convert(kept, AuditReport, strict=True) == report


def test_keys_of_the_first_format() -> None:
    found = json.loads(as_json.render(made.COMPARED))
    fields = {field.name for field in msgspec.inspect.type_info(AuditReport).fields}  # type: ignore[attr-defined]

    assert found["format"] == 1
    assert set(found) == OWN | fields
    assert found["judged"] == "candidate"
    assert found["exit_code"] == 1
    assert found["decision"]["approved"] is False
    assert found["baseline"]["parts"][0]["flips"][0]["reference"]["route"] == "auto_serve"


def test_what_is_not_there_is_null() -> None:
    found = json.loads(as_json.render(made.EXCLUDED))

    assert found["decision"] is None
    assert found["candidate"] is None
    assert found["exit_code"] == 2


@pytest.mark.parametrize(
    "report", [made.BLOCKED, made.APPROVED, made.EXCLUDED, made.COMPARED, made.GUARDED]
)
def test_it_fits_its_schema_which_is_shipped(report: AuditReport) -> None:
    schema = json.loads((SCHEMAS / "audit.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    found = json.loads(as_json.render(report))

    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(found)
    assert schema == as_json.schema()
    for key in found:
        without = {name: value for name, value in found.items() if name != key}
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(without | {key: object()})
