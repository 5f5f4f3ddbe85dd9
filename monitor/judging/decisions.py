"""Decision events of judged outputs, so that flags are monitored per slice like any other rate.

Selection rate: share of outputs that were judged and not flagged. Reviewers label whether an output
was ready, that is: rightly served. An output that could not be judged is blocked by evidence: it
stays in the denominator, so that no slice looks clean because its outputs cannot be judged.
"""

from __future__ import annotations

import msgspec

from consumers.events import Decision, RouteName, Versions
from consumers.producing import AuditSampler
from monitor.judging.findings import BEST
from monitor.judging.output_events import Judgement, OutputHead

_encode = msgspec.json.Encoder().encode


def decision(output: OutputHead, judgement: Judgement, *, audit_p: float) -> bytes:
    """Encode a judgement as a decision event, in JSON bytes; without a score it is blocked.

    Args:
        output: whose output it is.
        judgement: its judgement.
        audit_p: share of unflagged outputs whose label is requested; labels of all flagged ones
            are. Drawn by a hash of the id: the same output draws the same.
    """
    score = judgement.score
    route = _route(score)
    decision_id = f"output-{output.output_id}"
    draw = AuditSampler(auto_serve=audit_p).draw(decision_id, route)
    return _encode(
        Decision(
            decision_id=decision_id,
            decided_at=output.produced_at,
            route=route,
            judge_score=None if score is None else score / BEST,
            threshold=1.0,
            evidence_passed=score is not None,
            audit_p=draw.audit_p,
            label_requested=draw.label_requested,
            attributes=dict(output.attributes),
            versions=Versions(
                judge=_version_name(judgement.judge),
                rubric=f"{judgement.prompt_version}.{judgement.prompt_sha256[:12]}",
                router=output.model,
            ),
        )
    )


def _route(score: int | None) -> RouteName:
    """Return the route of a score: blocked without one, served without any finding."""
    if score is None:
        return "blocked_by_evidence"
    return "auto_serve" if score == BEST else "human_review"


def _version_name(name: str) -> str:
    """Return a model's name as a valid version name: forbidden characters become underscores."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.:+/-") else "_" for c in name)
    return kept.lstrip("_.:+/-")[:64] or "unnamed"
