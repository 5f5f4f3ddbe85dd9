"""The lesson's ten matched pairs as events. Invented test conditions, not groups of people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from signed_probes import signed

# pair, ready, channel, score formal, score conversational
PAIRS = (
    ("p1", True, "chat", 0.92, 0.88),
    ("p2", True, "chat", 0.88, 0.73),
    ("p3", True, "chat", 0.84, 0.72),
    ("p4", True, "email", 0.78, 0.67),
    ("p5", True, "email", 0.74, 0.56),
    ("p6", True, "email", 0.66, 0.61),
    ("n1", False, "chat", 0.71, 0.60),
    ("n2", False, "chat", 0.62, 0.55),
    ("n3", False, "email", 0.60, 0.52),
    ("n4", False, "email", 0.68, 0.63),
)
THRESHOLD = 0.70
VERSIONS = {"judge": "j1", "rubric": "r1", "policy": "p1", "router": "t1"}
START = datetime(2026, 6, 1, 10, 5, tzinfo=UTC)


def text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def decision(key: str, at: datetime, score: float, **more: object) -> dict[str, object]:
    """A decision of the lesson's router; everything is sent to a reviewer."""
    return {
        "decision_id": key,
        "decided_at": text(at),
        "route": "auto_serve" if score >= THRESHOLD else "human_review",
        "judge_score": score,
        "threshold": THRESHOLD,
        "evidence_passed": True,
        "attributes": {},
        "versions": VERSIONS,
        "audit_p": 1.0,
        "label_requested": True,
        **more,
    }


def label(key: str, at: datetime, ready: bool | None, **more: object) -> dict[str, object]:
    return {
        "label_id": f"label-{key}",
        "decision_id": key,
        "decided_at": text(at),
        "version": 1,
        "ready": ready,
        "kind": "initial",
        "reason": "review",
        "reviewer": "reviewer-1",
        "labelled_at": text(at + timedelta(minutes=20)),
        **more,
    }


def decisions() -> Iterator[dict[str, object]]:
    for minute, (pair, _, channel, formal, conversational) in enumerate(PAIRS):
        at = START + timedelta(minutes=minute)
        for variety, score in (("formal", formal), ("conversational", conversational)):
            attributes = {"language_variety": variety, "channel": channel}
            yield decision(f"{pair}-{variety}", at, score, attributes=attributes)


def labels() -> Iterator[dict[str, object]]:
    for minute, (pair, ready, *_) in enumerate(PAIRS):
        at = START + timedelta(minutes=minute)
        for variety in ("formal", "conversational"):
            yield label(f"{pair}-{variety}", at, ready)


def tick(days: int = 2) -> dict[str, object]:
    """A probe some days later: no production number knows it, but it closes the panes."""
    attributes = {"language_variety": "formal", "channel": "chat"}
    at = START + timedelta(days=days)
    return signed(decision("tick", at, 0.9, traffic="probe", attributes=attributes))


def encode(events: Iterator[dict[str, object]]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]
