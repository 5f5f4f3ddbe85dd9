"""Report for programs: one JSON document with its own format version."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from monitor.audit.audit_report import AuditReport

FORMAT = 1
"""Format version: changes when a key goes or changes its meaning, not when one is added."""


def render(report: AuditReport) -> str:
    """Return the report as JSON text; withheld values are null or absent."""
    return json.dumps(content(report), indent=2, allow_nan=False) + "\n"


def content(report: AuditReport) -> dict[str, object]:
    """Return the report as a JSON-serialisable dict, with its format version and notes."""
    return {
        "format": FORMAT,
        "notes": report.notes,
        "judged": report.judged.title,
        "exit_code": report.exit_code,
        **msgspec.to_builtins(report, str_keys=True),
    }


def schema() -> dict[str, Any]:
    """Return the JSON Schema of :func:`render`'s document, for deploy/schemas."""
    # Through JSON, since a default may be a tuple.
    report_schema = json.loads(json.dumps(msgspec.json.schema(AuditReport)))
    body = report_schema["$defs"].pop(AuditReport.__name__)
    properties = {
        "format": {"const": FORMAT},
        "notes": {"type": "array", "items": {"type": "string"}},
        "judged": {"enum": ["baseline", "candidate"]},
        "exit_code": {"enum": [0, 1, 2, 3]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
        "properties": properties | body["properties"],
        "required": [*properties, *body["required"]],
        "$defs": report_schema["$defs"],
    }
