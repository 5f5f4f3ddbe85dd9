"""Audit sample: decisions whose label is requested, drawn by the decision's id.

A decision is drawn with probability P(label_requested) = audit_p of its route, by a hash of its id:
a retry, or another machine, draws the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import ldexp
from typing import get_args

from consumers.events import RouteName

ROUTES = get_args(RouteName)
_PURPOSE = b"slicewatch-audit"  # the service hashes the same ids for other purposes
_BITS = 53
"""Bits of a float's mantissa: every multiple of 2 ** -53 below 1 is equally likely."""
_MAX_SECRET = 64
"""The longest key that BLAKE2b takes, in bytes."""


@dataclass(frozen=True, slots=True)
class AuditDraw:
    """Outcome of the audit draw for a decision: its probability, and whether a label is requested.

    Attributes:
        audit_p: probability that a label is requested, above 0 and up to 1.
        label_requested: whether it is requested.
    """

    audit_p: float
    label_requested: bool


class AuditSampler:
    """Sampler that decides by a decision's id whether its label is requested.

    The rates may be changed at any time: every decision carries its own. The sample of a lower rate
    is a part of the sample of a higher one.

    Args:
        auto_serve: share of auto-served decisions that reviewers see.
        human_review: share of reviewed decisions that are labelled; 1 for all.
        blocked_by_evidence: share of blocked decisions that reviewers see; None asks for none, and
            sends 1 as ``audit_p``, which must be above 0 and is not used then.
        secret: at most 64 bytes, the same on all machines of a router. Needed where others choose
            decision ids: else they could choose ids that are never audited.

    Raises:
        ValueError: a rate is not above 0 and up to 1, or the secret is too long.

    Example:
        >>> sampler = AuditSampler(auto_serve=0.05)
        >>> sampler.draw("d-1", "auto_serve") == sampler.draw("d-1", "auto_serve")
        True
        >>> sampler.draw("d-1", "human_review")
        AuditDraw(audit_p=1.0, label_requested=True)
        >>> sampler.draw("d-1", "blocked_by_evidence")
        AuditDraw(audit_p=1.0, label_requested=False)
    """

    def __init__(
        self,
        auto_serve: float,
        human_review: float = 1.0,
        blocked_by_evidence: float | None = None,
        *,
        secret: str | bytes = b"",
    ) -> None:
        self._rates: Mapping[str, float | None] = {
            "auto_serve": _rate("auto_serve", auto_serve),
            "human_review": _rate("human_review", human_review),
            "blocked_by_evidence": None
            if blocked_by_evidence is None
            else _rate("blocked_by_evidence", blocked_by_evidence),
        }
        key = secret.encode() if isinstance(secret, str) else secret
        if len(key) > _MAX_SECRET:
            raise ValueError(f"secret has {len(key)} bytes; use at most {_MAX_SECRET}")
        self._keyed = blake2b(digest_size=8, key=key, person=_PURPOSE)

    def draw(self, decision_id: str | int, route: str) -> AuditDraw:
        """Return a decision's audit draw at its route's rate; without a rate, request no label.

        Raises:
            KeyError: there is no such route.
        """
        rate = self._rates[route]
        if rate is None:
            return AuditDraw(1.0, False)
        return self.draw_at(decision_id, rate)

    def draw_at(self, decision_id: str | int, audit_p: float) -> AuditDraw:
        """Return the audit draw of a decision at a probability chosen without knowing the label."""
        return AuditDraw(audit_p, self.uniform(decision_id) < audit_p)

    def uniform(self, decision_id: str | int) -> float:
        """Return the number in [0, 1), uniform over ids, that an id (as text) hashes to."""
        keyed = self._keyed.copy()
        keyed.update(str(decision_id).encode())
        return ldexp(int.from_bytes(keyed.digest(), "big") >> (64 - _BITS), -_BITS)


def _rate(route: str, rate: float) -> float:
    if not 0 < rate <= 1:
        raise ValueError(f"{route} must be above 0 and up to 1: it is a probability")
    return float(rate)
