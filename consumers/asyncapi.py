"""The contract with producers in any language, as an AsyncAPI document.

It is rendered from the event types like the JSON Schemas, so the three cannot differ. AsyncAPI
describes an application from its own side: slicewatch receives.

Source: AsyncAPI 3.0.0, https://www.asyncapi.com/docs/reference/specification/v3.0.0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from consumers.events import BiasResult, Decision, Label

SPECIFICATION = "3.0.0"
CONTRACT_VERSION = "1"
"""Version of the events; a change that breaks old producers would get a new one."""

_CHANNELS: Mapping[str, str] = {"Decision": "decisions", "Label": "labels", "BiasResult": "labels"}

_EXAMPLES: Mapping[str, tuple[tuple[str, str, dict[str, Any]], ...]] = {
    "Decision": (
        (
            "served",
            "Served automatically, and not in the audit sample.",
            {
                "decision_id": "d-1",
                "decided_at": "2026-06-01T10:05:00Z",
                "route": "auto_serve",
                "judge_score": 0.92,
                "threshold": 0.7,
                "evidence_passed": True,
                "attributes": {"language": "en", "channel": "chat"},
                "versions": {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"},
                "audit_p": 0.05,
                "label_requested": False,
            },
        ),
        (
            "rules",
            "A router of rules: no score; the id is a number, the time in milliseconds.",
            {
                "decision_id": 4711,
                "decided_at": 1_780_308_300_000,
                "route": "human_review",
                "evidence_passed": True,
                "attributes": {"channel": "email"},
                "audit_p": 1,
                "label_requested": True,
                "unit": "hash-of-the-conversation",
            },
        ),
    ),
    "Label": (
        (
            "audit",
            "A label of the audit sample.",
            {
                "label_id": "l-1",
                "decision_id": "d-1",
                "decided_at": "2026-06-01T10:05:00Z",
                "version": 1,
                "ready": True,
                "kind": "initial",
                "reason": "audit",
                "reviewer": "hash-of-a-reviewer",
                "labelled_at": "2026-06-01T12:00:00Z",
            },
        ),
    ),
    "BiasResult": (
        (
            "evaluated",
            "One dimension of a bias evaluation.",
            {
                "type": "bias_result",
                "dimension": "wording",
                "measured": "2026-06-01",
                "score": 0.9,
                "items": 120,
                "probe_set": "pairs",
                "probe_version": "1",
                "model": "m1",
            },
        ),
    ),
}


def document(decisions_topic: str, labels_topic: str) -> dict[str, Any]:
    """Return the events' AsyncAPI document as JSON-serialisable values, with these topic names.

    Args:
        decisions_topic: address of the channel of decisions.
        labels_topic: address of the channel of labels.
    """
    _, schemas = msgspec.json.schema_components(
        (Decision, Label, BiasResult), ref_template="#/components/schemas/{name}"
    )
    addresses = {"decisions": decisions_topic, "labels": labels_topic}
    return {
        "asyncapi": SPECIFICATION,
        "info": {
            "title": "slicewatch events",
            "version": CONTRACT_VERSION,
            "description": "What a decision router and its reviewers send to slicewatch. Fields"
            " that are not listed are dropped unread, and counted by name.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "kafka": {
                "host": "localhost:9092",
                "protocol": "kafka",
                "description": "Put in your brokers.",
            }
        },
        "channels": {name: _channel(name, topic) for name, topic in addresses.items()},
        "operations": {
            f"receive{event}": {
                "action": "receive",
                "channel": {"$ref": f"#/channels/{name}"},
                "messages": [{"$ref": f"#/channels/{name}/messages/{event}"}],
            }
            for event, name in _CHANNELS.items()
        },
        "components": {
            "messages": {event: _message(event) for event in _CHANNELS},
            "schemas": schemas,
        },
    }


def _channel(name: str, topic: str) -> dict[str, Any]:
    events = [event for event, channel in _CHANNELS.items() if channel == name]
    return {
        "address": topic,
        "messages": {event: {"$ref": f"#/components/messages/{event}"} for event in events},
        "bindings": {"kafka": {"topic": topic, "bindingVersion": "0.5.0"}},
    }


def _message(event: str) -> dict[str, Any]:
    """Return the AsyncAPI description of an event's message."""
    is_result = event == "BiasResult"
    key = {
        "type": "string",
        "description": "decision_id as text: all copies of a decision come into one partition,"
        " chosen by murmur2 as the Java client does.",
    }
    return {
        "name": event,
        "title": f"{event} event",
        "summary": "Alone in its message."
        if is_result
        else "One event for each message, or an array of at most 10,000.",
        "contentType": "application/json",
        "payload": {"$ref": f"#/components/schemas/{event}"},
        "bindings": {"kafka": {"bindingVersion": "0.5.0"} | ({} if is_result else {"key": key})},
        "examples": [
            {"name": name, "summary": summary, "payload": payload}
            for name, summary, payload in _EXAMPLES[event]
        ],
    }
