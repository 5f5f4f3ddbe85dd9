"""Signatures of probes, and the policy by which probes are compared pair by pair.

A probe that is not signed is production traffic, whatever it says of itself. A signed one is in no
production rate; it is compared only as a declared variant of a pair of a declared set, else it is
``UNDECLARED``: readable, so no dead letter, but compared with nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from consumers.events import Decision, FastDecision
from monitor.core.counts.cells import Route
from monitor.core.probes.decisions import ProbeDecision, signature
from monitor.core.probes.decisions import is_signed as has_signature
from monitor.core.probes.flips import Observed
from monitor.core.time import to_micros

_LENGTH = 2 * sha256().digest_size
_TEXTS = msgspec.json.Decoder(dict[str, str])


def sign(decision: Decision, key: bytes) -> str:
    """The signature that the event is to carry; one that it carries already does not matter.

    Raises:
        TypeError: decided_at has no zone.
    """
    return signature(_fields(decision), key)


def is_signed(decision: Decision | FastDecision, key: bytes) -> bool:
    """Return True when the event carries its own signature; nested parts must have been checked.

    An event whose signature has not even its length costs nothing.
    """
    given = decision.signature
    return given is not None and len(given) == _LENGTH and has_signature(_fields(decision), key)


def _fields(decision: Decision | FastDecision) -> Mapping[str, object]:
    """Content of the event by field, however it was written and read."""
    score = decision.judge_score
    return msgspec.structs.asdict(decision) | {
        "decided_at": to_micros(decision.decided_at),
        "judge_score": None if score is None else _number(score),
        "threshold": _number(decision.threshold),
        "audit_p": _number(decision.audit_p),
        "attributes": _texts(decision.attributes),
        "versions": _texts(decision.versions),
    }


def _number(value: float) -> float:
    """Whole numbers as floats, and no -0.0."""
    return float(value) + 0.0


def _texts(part: Mapping[str, str] | msgspec.Struct | msgspec.Raw) -> Mapping[str, str]:
    if isinstance(part, msgspec.Raw):
        return _TEXTS.decode(part)
    return msgspec.structs.asdict(part) if isinstance(part, msgspec.Struct) else part


class Doubt(enum.Enum):
    """Reason why a decision that calls itself a probe is not compared."""

    UNSIGNED = "unsigned"  # counts as production
    UNDECLARED = "undeclared"  # signed: a probe, but of no set, pair or variant that is declared


@dataclass(frozen=True, slots=True)
class ProbePolicy:
    """Key and declared variants that probes are checked against.

    Attributes:
        key: that they are signed with; None where there is none: then nothing is signed.
        variants: of each declared set, by its content hash.
    """

    key: bytes | None = field(default=None, repr=False)
    variants: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def judge(self, decision: FastDecision, at: int) -> ProbeDecision | Doubt:
        """Judge a decision that calls itself a probe, decided at ``at``.

        Its nested parts must have been checked.
        """
        if self.key is None or not is_signed(decision, self.key):
            return Doubt.UNSIGNED
        digest, pair, variant = decision.probe_set, decision.pair_id, decision.variant
        if digest is None or pair is None or variant is None:
            return Doubt.UNDECLARED
        if variant not in self.variants.get(digest, ()):
            return Doubt.UNDECLARED
        seen = _observed(decision)
        return ProbeDecision(digest, pair, variant, at, seen, decision.expected_ready)


NO_KEY = ProbePolicy()
"""Nothing is signed: whatever calls itself a probe is production."""


def _observed(decision: FastDecision) -> Observed:
    return Observed(
        Route[decision.route.upper()],
        decision.judge_score,
        decision.threshold,
        decision.evidence_passed,
    )
