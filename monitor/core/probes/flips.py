"""Matched variants that took different routes: direction, stage and cause of a flip.

A flip is a case to investigate, not a population disparity: a pair shows what the router did with
one request put in two ways, not how often that happens to people.

Example:
    >>> formal = Observed(Route.AUTO_SERVE, 0.78, 0.70)
    >>> conversational = Observed(Route.HUMAN_REVIEW, 0.67, 0.70)
    >>> is_flip(formal, conversational), direction(formal, conversational).value
    (True, 'held_back')
    >>> stage(formal, conversational).value, cause(formal, conversational).value
    ('judge_or_route', 'judge_score')
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from monitor.core.counts.cells import Route


class FlipDirection(enum.StrEnum):
    """Direction of a flip: whether the router held the variant back, or let it go further."""

    HELD_BACK = "held_back"  # the reference came further: it was served, the variant was not
    SERVED = "served"  # the variant came further than the reference


class FlipStage(enum.StrEnum):
    """The stage of the router at which two variants diverge."""

    EVIDENCE_GATE = "evidence_gate"  # one passed the gate, the other did not
    JUDGE_OR_ROUTE = "judge_or_route"  # both passed it; or both were stopped, yet routes differ
    NO_OBSERVED_FLIP = "no_observed_flip"


class FlipCause(enum.StrEnum):
    """Cause of a flip behind the evidence gate: score, threshold, both, or a route overridden."""

    JUDGE_SCORE = "judge_score"  # the scores lie on two sides of either threshold
    THRESHOLD = "threshold"  # under one common threshold there would be no flip
    SCORE_AND_THRESHOLD = "judge_score_and_threshold"  # under one of the two there would be none
    ROUTE = "route"  # neither score nor threshold explains it: something overrode them


class Expected(enum.StrEnum):
    """Readiness that a probe set expects of a pair's replies; sets the kind of error of a flip."""

    READY = "ready"  # a ready reply is delayed
    NOT_READY = "not_ready"  # an unready reply is served
    UNKNOWN = "unknown"  # the set states nothing, or differs between the variants

    @classmethod
    def shared(cls, *ready: bool | None) -> Expected:
        """Return the readiness that all variants share; UNKNOWN if they differ or state none.

        Example:
            >>> Expected.shared(True, True).value, Expected.shared(True, None).value
            ('ready', 'unknown')
        """
        if len(set(ready)) != 1 or ready[0] is None:
            return cls.UNKNOWN
        return cls.READY if ready[0] else cls.NOT_READY


@dataclass(frozen=True, slots=True)
class Observed:
    """Treatment of one variant by the router, as a probe decision reports it.

    Attributes:
        score: score of the judge; None without one.
        threshold: score from which it is auto_serve; infinite if no score decides.
        evidence_passed: True if it passed the evidence gate.
    """

    route: Route
    score: float | None
    threshold: float
    evidence_passed: bool = True


def is_flip(reference: Observed, variant: Observed) -> bool:
    """Return True when reference and variant took different routes."""
    return reference.route is not variant.route


def direction(reference: Observed, variant: Observed) -> FlipDirection:
    """Return the direction of a flip, by the order of routes: served, reviewed, blocked."""
    return FlipDirection.HELD_BACK if variant.route > reference.route else FlipDirection.SERVED


def stage(reference: Observed, variant: Observed) -> FlipStage:
    """Return the router stage at which two variants diverge; NO_OBSERVED_FLIP on equal routes."""
    if not is_flip(reference, variant):
        return FlipStage.NO_OBSERVED_FLIP
    if reference.evidence_passed is not variant.evidence_passed:
        return FlipStage.EVIDENCE_GATE
    return FlipStage.JUDGE_OR_ROUTE


def cause(reference: Observed, variant: Observed) -> FlipCause:
    """Return the cause of a flip behind the gate, by applying each threshold to both scores."""
    if not (explained(reference) and explained(variant)):
        return FlipCause.ROUTE
    thresholds = (reference.threshold, variant.threshold)
    differs = [_served(reference.score, t) is not _served(variant.score, t) for t in thresholds]
    if all(differs):
        return FlipCause.JUDGE_SCORE
    return FlipCause.SCORE_AND_THRESHOLD if any(differs) else FlipCause.THRESHOLD


def in_rates(observed: Observed) -> bool:
    """Return True when TPR and FPR count the decision: it passed the gate and was not blocked."""
    return observed.evidence_passed and observed.route is not Route.BLOCKED_BY_EVIDENCE


def explained(observed: Observed) -> bool:
    """Return True when score and threshold alone explain the route.

    A decision without a score is not served.
    """
    if not in_rates(observed):
        return False
    return _served(observed.score, observed.threshold) is (observed.route is Route.AUTO_SERVE)


def _served(score: float | None, threshold: float) -> bool:
    return score is not None and score >= threshold
