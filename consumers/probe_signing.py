"""Signatures of probes, and the policy by which probes are compared pair by pair.

A probe without a valid signature counts as production traffic, whatever it claims. A signed one is
in no production rate. It is compared only as a declared variant of a pair of a declared set; else
it is ``UNDECLARED``: readable, so no dead letter, but compared with nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import Any

import msgspec

from consumers.events import Decision, FastDecision
from consumers.tolerance import decode_tolerantly
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed
from monitor.core.probes.probe_decisions import ProbeDecision, signature
from monitor.core.probes.probe_decisions import is_signed as has_signature
from monitor.core.time import SECOND, to_micros

_LENGTH = 2 * sha256().digest_size
_OBJECT = msgspec.json.Decoder(dict[str, Any] | None)


def sign(decision: Decision, key: bytes) -> str:
    """Return the hexadecimal signature of a decision by a key; its own signature is ignored.

    Raises:
        TypeError: decided_at has no zone.
    """
    return signature(_canonical_fields(decision), key)


def is_signed(decision: Decision | FastDecision, key: bytes) -> bool:
    """Return True if the decision's signature is right; nested parts must have been checked.

    A signature of the wrong length is refused at no cost; nested parts that are dropped unread may
    hold what nobody can sign.
    """
    sent = decision.signature
    if sent is None or len(sent) != _LENGTH:
        return False
    try:
        return has_signature(_canonical_fields(decision), key)
    except (ValueError, RecursionError):
        return False


def _canonical_fields(decision: Decision | FastDecision) -> Mapping[str, object]:
    """Return a decision's fields in one canonical form, by name, without unknown fields."""
    at = decision.decided_at
    ids = {name: getattr(decision, name) for name in ("decision_id", "unit", "pair_id")}
    return {
        **{name: getattr(decision, name) for name in Decision.__struct_fields__},
        **{name: None if value is None else str(value) for name, value in ids.items()},
        "decided_at": at * (SECOND // 1000) if isinstance(at, int) else to_micros(at),
        "judge_score": _as_float(decision.judge_score),
        "threshold": _as_float(decision.threshold),
        "audit_p": _as_float(decision.audit_p),
        "attributes": _nested_content(decision.attributes),
        "versions": _nested_content(decision.versions) or None,
    }


def _as_float(value: float | None) -> float | None:
    """Return the number as a float, 0.0 for -0.0."""
    return None if value is None else float(value) + 0.0


def _nested_content(
    part: Mapping[str, object] | msgspec.Struct | msgspec.Raw | None,
) -> dict[str, object]:
    """Return the content of a nested part by name, without nulls and with numbers as floats."""
    if isinstance(part, msgspec.Raw):
        decoded = decode_tolerantly(_OBJECT.decode, part)
        content: Mapping[str, object] = decoded or {}
    elif isinstance(part, msgspec.Struct):
        content = msgspec.structs.asdict(part)
    else:
        content = part or {}
    numbered = {
        name: float(v) + 0.0 if isinstance(v, int | float) and not isinstance(v, bool) else v
        for name, v in content.items()
    }
    return {name: value for name, value in numbered.items() if value is not None}


class Doubt(enum.Enum):
    """Reason why a decision that calls itself a probe is not compared."""

    UNSIGNED = "unsigned"  # counts as production
    UNDECLARED = "undeclared"  # signed: a probe, but of no declared set, pair or variant


@dataclass(frozen=True, slots=True)
class ProbePolicy:
    """Policy that tells probes from production: a key for signatures, and each set's variants.

    Attributes:
        key: key of the signatures; None where there is none: then nothing is signed.
        variants: variants of each declared set, by its content hash.
    """

    key: bytes | None = field(default=None, repr=False)
    variants: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def judge(self, decision: FastDecision, at: int) -> ProbeDecision | Doubt:
        """Return the probe that a decision of time ``at`` is, or the reason not to compare it.

        Its nested parts must have been checked.
        """
        if self.key is None or not is_signed(decision, self.key):
            return Doubt.UNSIGNED
        digest, pair, variant = decision.probe_set, decision.pair_id, decision.variant
        if digest is None or pair is None or variant is None:
            return Doubt.UNDECLARED
        if variant not in self.variants.get(digest, ()):
            return Doubt.UNDECLARED
        observed = _observed(decision)
        return ProbeDecision(digest, str(pair), variant, at, observed, decision.expected_ready)


NO_KEY = ProbePolicy()
"""Policy without a key: nothing is signed, so all probes are production."""


def _observed(decision: FastDecision) -> Observed:
    return Observed(
        Route[decision.route.upper()],
        None if decision.judge_score is None else min(max(decision.judge_score, 0.0), 1.0),
        inf if decision.threshold is None else decision.threshold,
        decision.evidence_passed,
    )
