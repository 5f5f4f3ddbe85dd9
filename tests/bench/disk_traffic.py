"""Decisions, and labels of the requested ones, for a store whose bytes are measured."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from common import START, VERSIONS

LANGUAGES = ("en", "de", "es")
CHANNELS = ("chat", "email")
SHARE_REVIEWED = 0.40  # with 5 % audits of the rest, 43 % of decisions are requested


@dataclass(frozen=True)
class Traffic:
    """Events as messages."""

    decisions: list[bytes]
    labels: list[bytes]


def traffic(n: int, hours: float, seed: int = 7) -> Traffic:
    """``n`` decisions over some hours of event time, and a label for each requested one."""
    rng = np.random.default_rng(seed)
    score = rng.random(n).round(3)
    requested = (score < SHARE_REVIEWED) | (rng.random(n) < 0.05)
    ready = rng.random(n) < 0.2 + 0.7 * score
    languages = rng.choice(LANGUAGES, n).tolist()
    channels = rng.choice(CHANNELS, n).tolist()
    step = timedelta(hours=hours) / n
    moments = [(START + i * step).isoformat() for i in range(n)]
    columns = zip(moments, languages, channels, score.tolist(), requested.tolist(), strict=True)
    decisions = [
        _decision(i, at, {"language": language, "channel": channel}, given, asked=asked)
        for i, (at, language, channel, given, asked) in enumerate(columns)
    ]
    labels = [_label(i, moments[i], bool(ready[i])) for i in np.flatnonzero(requested).tolist()]
    return Traffic(decisions, labels)


def _decision(i: int, at: str, values: dict[str, str], score: float, *, asked: bool) -> bytes:
    served = score >= SHARE_REVIEWED
    event = {
        "decision_id": f"decision-{i:012d}",
        "decided_at": at,
        "route": "auto_serve" if served else "human_review",
        "judge_score": score,
        "threshold": SHARE_REVIEWED,
        "evidence_passed": True,
        "attributes": values,
        "versions": VERSIONS,
        "audit_p": 0.05 if served else 1.0,
        "label_requested": asked,
    }
    return json.dumps(event).encode()


def _label(i: int, at: str, ready: bool) -> bytes:
    event = {
        "label_id": f"label-{i:012d}",
        "decision_id": f"decision-{i:012d}",
        "decided_at": at,
        "version": 1,
        "ready": ready,
        "kind": "initial",
        "reason": "review",
        "reviewer": "h1",
        "labelled_at": at,
    }
    return json.dumps(event).encode()
