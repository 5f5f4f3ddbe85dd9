"""Decisions that call themselves probes: which of them are, and which are compared pair by pair.

A probe that is not signed is production traffic, whatever it says of itself. A signed one is in no
production rate; it is compared only as a declared variant of a pair of a declared set, else it is
``UNDECLARED``: readable, so no dead letter, but compared with nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from consumers.events import FastDecision
from consumers.probe_signing import is_signed
from monitor.core.cells import Route
from monitor.core.flips import Observed
from monitor.core.probes import ProbeDecision


class Doubt(enum.Enum):
    """Why what calls itself a probe is not compared."""

    UNSIGNED = "unsigned"  # counts as production
    UNDECLARED = "undeclared"  # signed: a probe, but of no set, pair or variant that is declared


@dataclass(frozen=True, slots=True)
class ProbePolicy:
    """What probes are checked against.

    Attributes:
        key: that they are signed with; None where there is none: then nothing is signed.
        variants: of each declared set, by its content hash.
    """

    key: bytes | None = field(default=None, repr=False)
    variants: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def judge(self, decision: FastDecision, at: int) -> ProbeDecision | Doubt:
        """What to make of a decision that calls itself a probe, decided at ``at``.

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
