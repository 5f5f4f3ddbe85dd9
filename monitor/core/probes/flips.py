"""Matched variants that took different routes: which way, and at which stage they part.

A flip is a case to investigate, not a population disparity: one pair says what the router did with
one request put in two ways, and nothing of how often that happens to anybody.

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
    """Direction of a flip: whether the variant fared worse than the reference, or better."""

    HELD_BACK = "held_back"  # the reference came further: it was served, the variant was not
    SERVED = "served"  # the variant came further than the reference


class FlipStage(enum.StrEnum):
    """The stage of the router at which two variants diverge."""

    EVIDENCE_GATE = "evidence_gate"  # one passed the gate, the other did not
    JUDGE_OR_ROUTE = "judge_or_route"  # both passed it; or both were stopped, yet routes differ
    NO_OBSERVED_FLIP = "no_observed_flip"


class FlipCause(enum.StrEnum):
    """Cause of different routes, where it was not the evidence gate."""

    JUDGE_SCORE = "judge_score"  # the scores lie on two sides of either threshold
    THRESHOLD = "threshold"  # under one common threshold there would be no flip
    SCORE_AND_THRESHOLD = "judge_score_and_threshold"  # under one of the two there would be none
    ROUTE = "route"  # neither score nor threshold explains it: something overrode them


class Expected(enum.StrEnum):
    """Expectation of a set about the replies of a pair, and so the kind of error of a flip."""

    READY = "ready"  # a ready reply is delayed
    NOT_READY = "not_ready"  # an unready reply is served
    UNKNOWN = "unknown"  # the set says nothing, or not the same of both variants

    @classmethod
    def of(cls, *ready: bool | None) -> Expected:
        """Expectation of several variants: the one that all of them share.

        Example:
            >>> Expected.of(True, True).value, Expected.of(True, None).value
            ('ready', 'unknown')
        """
        if len(set(ready)) != 1 or ready[0] is None:
            return cls.UNKNOWN
        return cls.READY if ready[0] else cls.NOT_READY


@dataclass(frozen=True, slots=True)
class Observed:
    """Treatment of one variant by the router.

    Attributes:
        route: where it went.
        score: of the judge; None when there was none.
        threshold: at or above it the score is auto_serve; infinite where no score decides.
        evidence_passed: whether the evidence gate let it through.
    """

    route: Route
    score: float | None
    threshold: float
    evidence_passed: bool = True


def is_flip(reference: Observed, variant: Observed) -> bool:
    """Return True when the two took different routes."""
    return reference.route is not variant.route


def direction(reference: Observed, variant: Observed) -> FlipDirection:
    """Direction of a flip; routes are in order: served, reviewed, blocked."""
    return FlipDirection.HELD_BACK if variant.route > reference.route else FlipDirection.SERVED


def stage(reference: Observed, variant: Observed) -> FlipStage:
    """Stage at which the two diverge; the evidence gate is first, and hides what is behind it."""
    if not is_flip(reference, variant):
        return FlipStage.NO_OBSERVED_FLIP
    if reference.evidence_passed is not variant.evidence_passed:
        return FlipStage.EVIDENCE_GATE
    return FlipStage.JUDGE_OR_ROUTE


def cause(reference: Observed, variant: Observed) -> FlipCause:
    """Cause of a flip that is not the gate's: each threshold is tried on both scores."""
    if not (explained(reference) and explained(variant)):
        return FlipCause.ROUTE
    thresholds = (reference.threshold, variant.threshold)
    parted = [_served(reference.score, t) is not _served(variant.score, t) for t in thresholds]
    if all(parted):
        return FlipCause.JUDGE_SCORE
    return FlipCause.SCORE_AND_THRESHOLD if any(parted) else FlipCause.THRESHOLD


def in_rates(seen: Observed) -> bool:
    """Return True when TPR and FPR count it: it passed the gate and was not blocked anyway."""
    return seen.evidence_passed and seen.route is not Route.BLOCKED_BY_EVIDENCE


def explained(seen: Observed) -> bool:
    """Return True when score and threshold led to the route; nothing stopped or overrode them.

    Without a score nothing is served.
    """
    if not in_rates(seen):
        return False
    return _served(seen.score, seen.threshold) is (seen.route is Route.AUTO_SERVE)


def _served(score: float | None, threshold: float) -> bool:
    return score is not None and score >= threshold
