"""Decision events of judged outputs, so that flags are monitored per slice like any other rate.

Selection rate: share of outputs that are not flagged. Reviewers label whether an output was ready,
that is: rightly served.
"""

from __future__ import annotations

import msgspec

from consumers.events import Decision, RouteName, Versions
from consumers.producing import AuditSampler
from monitor.judging.findings import BEST
from monitor.judging.output_events import Judgement, ModelOutput

_encode = msgspec.json.Encoder().encode


def decision(
    output: ModelOutput, judgement: Judgement, *, threshold: int, audit_p: float
) -> bytes | None:
    """Encode a judged output as a decision event, in JSON bytes; None if there is no score.

    Args:
        output: the judged output.
        judgement: its judgement.
        threshold: least score that is not flagged, from 0 to 100.
        audit_p: share of unflagged outputs whose label is requested; labels of all flagged ones
            are. Drawn by a hash of the id: the same output draws the same.
    """
    if judgement.score is None:
        return None
    route: RouteName = "auto_serve" if judgement.score >= threshold else "human_review"
    decision_id = f"output-{output.output_id}"
    draw = AuditSampler(auto_serve=audit_p).draw(decision_id, route)
    return _encode(
        Decision(
            decision_id=decision_id,
            decided_at=output.produced_at,
            route=route,
            judge_score=judgement.score / BEST,
            threshold=threshold / BEST,
            evidence_passed=True,
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


def _version_name(name: str) -> str:
    """Return a model's name as a valid version name: forbidden characters become underscores."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.:+/-") else "_" for c in name)
    return kept.lstrip("_.:+/-")[:64] or "unnamed"
