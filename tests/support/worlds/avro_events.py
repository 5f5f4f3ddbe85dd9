"""Avro messages of a registry: framed, and written by a schema."""

from __future__ import annotations

import io
from typing import Any

import fastavro

PLAIN: dict[str, Any] = {
    "type": "record",
    "name": "Routed",
    "namespace": "team",
    "fields": [
        {"name": "decision_id", "type": "string"},
        {"name": "decided_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "route", "type": {"type": "enum", "name": "Route", "symbols": [
            "auto_serve", "human_review", "blocked_by_evidence"]}},
        {"name": "judge_score", "type": ["null", "double"], "default": None},
        {"name": "evidence_passed", "type": "boolean"},
        {"name": "audit_p", "type": "double"},
        {"name": "label_requested", "type": "boolean"},
        {"name": "attributes", "type": {"type": "map", "values": "string"}},
    ],
}  # fmt: skip
"""A decision as a team may have it: milliseconds, an enum, a union with null."""


def framed(number: int, payload: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + payload


def written(number: int, schema: Any, content: Any) -> bytes:
    """A message."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), content)
    return framed(number, out.getvalue())


def decision(key: str = "d-1", at: int = 1_780_000_000_000, **more: Any) -> dict[str, Any]:
    """Content of a message by ``PLAIN``."""
    return {
        "decision_id": key,
        "decided_at": at,
        "route": "auto_serve",
        "judge_score": 0.8,
        "evidence_passed": True,
        "audit_p": 0.5,
        "label_requested": True,
        "attributes": {"channel": "chat"},
        **more,
    }
