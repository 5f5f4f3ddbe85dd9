"""What calls itself a probe: which of them are, and which are compared pair by pair."""

from __future__ import annotations

import json
from typing import Any

import lesson
import msgspec
import pytest
from signed_probes import DIGEST, KEY, VARIANTS, signed

from consumers.events import FastDecision
from consumers.probe_signing import NO_KEY, Doubt, ProbePolicy
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed
from monitor.core.probes.probe_decisions import ProbeDecision

POLICY = ProbePolicy(KEY.encode(), {DIGEST: frozenset(VARIANTS)})


def probe(**more: Any) -> dict[str, Any]:
    said = {"traffic": "probe", "pair_id": "p1", "variant": "formal", "probe_set": DIGEST}
    return lesson.decision("a", lesson.START, 0.67, **{**said, **more})


def judged(event: dict[str, Any], policy: ProbePolicy = POLICY) -> ProbeDecision | Doubt:
    return policy.judge(msgspec.json.decode(json.dumps(event), type=FastDecision), 7)


def test_a_signed_variant_of_a_declared_set() -> None:
    seen = Observed(Route.HUMAN_REVIEW, 0.67, 0.7, evidence_passed=True)
    assert judged(signed(probe())) == ProbeDecision(DIGEST, "p1", "formal", 7, seen)


def test_all_that_the_router_did_is_kept() -> None:
    event = signed(
        probe(
            route="blocked_by_evidence",
            judge_score=None,
            evidence_passed=False,
            threshold=0.8,
            expected_ready=False,
            variant="conversational",
        )
    )
    seen = Observed(Route.BLOCKED_BY_EVIDENCE, None, 0.8, evidence_passed=False)
    assert judged(event) == ProbeDecision(DIGEST, "p1", "conversational", 7, seen, False)


@pytest.mark.parametrize(
    "event",
    [
        probe(),
        probe(signature="0" * 64),
        signed(probe(), "a key of somebody else"),
        signed(probe()) | {"variant": "conversational"},
    ],
)
def test_what_is_not_signed_is_no_probe(event: dict[str, Any]) -> None:
    assert judged(event) is Doubt.UNSIGNED


def test_without_a_key_nothing_is_signed() -> None:
    assert judged(signed(probe()), NO_KEY) is Doubt.UNSIGNED
    assert judged(signed(probe(), ""), NO_KEY) is Doubt.UNSIGNED


@pytest.mark.parametrize(
    "more",
    [
        {"probe_set": "0" * 64},
        {"probe_set": None},
        {"variant": "pirate"},
        {"variant": None},
        {"pair_id": None},
    ],
)
def test_what_is_signed_and_not_declared_is_compared_with_nothing(more: dict[str, Any]) -> None:
    assert judged(signed(probe(**more))) is Doubt.UNDECLARED


def test_the_key_is_not_printed() -> None:
    assert KEY not in repr(POLICY)
