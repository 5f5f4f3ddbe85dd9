"""Avro schemas of decisions and labels, for deploy/schemas and for routers that write Avro.

Events of any other schema are read too, as long as they are complete; these schemas have all
fields.
"""

from __future__ import annotations

from typing import Any

NAMESPACE = "slicewatch"
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _fields(required: dict[str, Any], optional: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        *({"name": name, "type": kind} for name, kind in required.items()),
        *(
            {"name": name, "type": _optional(kind), "default": None}
            for name, kind in optional.items()
        ),
    ]


def _enum(name: str, *symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


_VERSIONS = {
    "type": "record",
    "name": "Versions",
    "fields": _fields({}, dict.fromkeys(("judge", "rubric", "policy", "router"), "string")),
}

DECISION: dict[str, Any] = {
    "type": "record",
    "name": "Decision",
    "namespace": NAMESPACE,
    "doc": "One routing decision; its message is keyed by decision_id.",
    "fields": _fields(
        {
            "decision_id": "string",
            "decided_at": MOMENT,
            "route": _enum("Route", "auto_serve", "human_review", "blocked_by_evidence"),
            "evidence_passed": "boolean",
            "audit_p": "double",
            "label_requested": "boolean",
            "attributes": {
                "type": "map",
                "values": ["null", "string", "long", "double", "boolean"],
            },
        },
        {
            "judge_score": "double",
            "threshold": "double",
            "versions": _VERSIONS,
            "unit": "string",
            "traffic": _enum("Traffic", "production", "probe"),
            "pair_id": "string",
            "variant": "string",
            "probe_set": "string",
            "expected_ready": "boolean",
            "signature": "string",
        },
    ),
}

LABEL: dict[str, Any] = {
    "type": "record",
    "name": "Label",
    "namespace": NAMESPACE,
    "doc": "One reviewer's judgement of one decision; its message is keyed by decision_id.",
    "fields": _fields(
        {
            "label_id": "string",
            "decision_id": "string",
            "decided_at": MOMENT,
            "version": "int",
            "kind": _enum("Kind", "initial", "correction", "adjudication", "retraction"),
            "reason": _enum("Reason", "audit", "review", "complaint"),
            "reviewer": "string",
            "labelled_at": MOMENT,
        },
        {"ready": "boolean", "blind": "boolean"},
    ),
}

SCHEMAS = {"decision": DECISION, "label": LABEL}
