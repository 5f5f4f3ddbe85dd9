"""A judged output as a routing decision, so that flags are monitored per slice like any other rate.

Selection rate: not flagged. Reviewers label whether an output was ready, that is: rightly served.
"""

from __future__ import annotations

import hashlib

import msgspec

from consumers.events import Decision, Versions
from monitor.judging.events import Judgement, ModelOutput
from monitor.judging.findings import BEST

_encode = msgspec.json.Encoder().encode


def decision(
    output: ModelOutput, judgement: Judgement, *, threshold: int, audit_p: float
) -> bytes | None:
    """The decision of a judgement; None where there is no score.

    Args:
        output: that was judged.
        judgement: of it.
        threshold: of the score, from 0 to 100.
        audit_p: share of outputs that were not flagged whose label is requested; flagged ones all
            are. By a hash of the id: the same output draws the same.
    """
    if judgement.score is None:
        return None
    served = judgement.score >= threshold
    share = audit_p if served else 1.0
    return _encode(
        Decision(
            decision_id=f"output-{output.output_id}",
            decided_at=output.produced_at,
            route="auto_serve" if served else "human_review",
            judge_score=judgement.score / BEST,
            threshold=threshold / BEST,
            evidence_passed=True,
            audit_p=share,
            label_requested=_drawn(str(output.output_id)) < share,
            attributes=dict(output.attributes),
            versions=Versions(
                judge=_version(judgement.judge),
                rubric=f"{judgement.prompt_version}.{judgement.prompt_sha256[:12]}",
                router=output.model,
            ),
        )
    )


def _drawn(output_id: str) -> float:
    """A number from 0 up to 1, always the same of an id."""
    return int.from_bytes(hashlib.sha256(f"audit {output_id}".encode()).digest()[:8]) / 2.0**64


def _version(name: str) -> str:
    """A model's name as a version: what no version may have becomes an underscore."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.:+/-") else "_" for c in name)
    return kept.lstrip("_.:+/-")[:64] or "unnamed"
