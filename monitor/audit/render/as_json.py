"""The report for programs: one JSON document with a version of its own."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from monitor.audit.audit_report import AuditReport

FORMAT = 1
"""Changes when a key goes or changes its meaning; keys may be added under the same number."""


def render(report: AuditReport) -> str:
    """The document as text; what is withheld or not identified is null or absent, never NaN."""
    return json.dumps(content(report), indent=2, allow_nan=False) + "\n"


def content(report: AuditReport) -> dict[str, object]:
    """The document: :class:`AuditReport` with what has to be read together with it."""
    return {
        "format": FORMAT,
        "notes": report.notes,
        "judged": report.judged.title,
        "exit_code": report.exit_code,
        **msgspec.to_builtins(report, str_keys=True),
    }


def schema() -> dict[str, Any]:
    """JSON Schema of the document, for deploy/schemas."""
    found = json.loads(json.dumps(msgspec.json.schema(AuditReport)))  # a default may be a tuple
    body = found["$defs"].pop(AuditReport.__name__)
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
        "$defs": found["$defs"],
    }
