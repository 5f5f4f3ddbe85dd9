"""Numbers and phrases of an audit, the same in every output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from monitor.audit.audit_report import HELD_OUT, REGRESSION, ShownFlip, VariantOutcome
from monitor.audit.inputs import RunVersions
from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import Route, parse_atom
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipDirection
from monitor.core.publish.words import NONE, bounds, distance, gap_bounds, percent, points

ALL = "all"
_SMALLEST_P = 0.001
_SERVED = Route.AUTO_SERVE.name.lower()
CHECKS = {
    "tpr_gap": "TPR gap at most",
    "fpr_gap": "FPR gap at most",
    "blocked_gap": "blocked gap at most",
    "selection_gap": "selection gap at most",
    "precision_gap": "precision gap at most",
    "selection_ratio": "selection ratio, lower to higher, at least",
    "min_tpr": "TPR at least",
    "max_fpr": "FPR at most",
    "tpr_not_below_baseline": "TPR not below baseline,",
    "fpr_not_above_baseline": "FPR not above baseline,",
}
TRIALS = {Metric.TPR: "positives (ready)", Metric.FPR: "negatives (not ready)"}
PARTS = {REGRESSION: "Regression part", HELD_OUT: "Held-out part"}


@dataclass(frozen=True, slots=True)
class Numbers:
    """Format of counts: exact ones of a synthetic set, or lower edges of bands.

    Attributes:
        exact: the numbers are of a synthetic set, as counted.
    """

    exact: bool

    def support(self, trials: int | None) -> str:
        """Format a number of trials; guarded ones as a band's lower edge, and a dash for 0."""
        if trials is None or not (trials or self.exact):
            return NONE
        return f"{trials:,}" if self.exact else f"{trials:,}+"

    def counted(self, trials: int | None, noun: str) -> str:
        """Format a number of trials as in :meth:`support`, with the noun in singular or plural."""
        return f"{self.support(trials)} {noun}{'' if self.exact and trials == 1 else 's'}"


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}"


def _ratio_bounds(lower: float | None, upper: float | None) -> str:
    """Format the bounds of a ratio; without an upper one, as "... or more"."""
    if lower is None:
        return NONE
    return f"{_ratio(lower)} {'or more' if upper is None else f'to {_ratio(upper)}'}"


@dataclass(frozen=True, slots=True)
class CheckFormat:
    """Functions that format the numbers of a contract check: gap, ratio or level.

    Attributes:
        limit: writes the limit.
        value: writes the point.
        bounds: writes the interval.
        unit: unit after each number in a sentence.
    """

    limit: Callable[[float | None], str]
    value: Callable[[float | None], str]
    bounds: Callable[[float | None, float | None], str]
    unit: str = ""

    @classmethod
    def for_check(cls, name: str) -> Self:
        """Return the format for a check, chosen by the end of its name."""
        if name.endswith("_gap"):
            return cls(distance, points, gap_bounds, " points")
        if name.endswith("_ratio"):
            return cls(_ratio, _ratio, _ratio_bounds)
        return cls(percent, percent, bounds)


def p_value(value: float | None) -> str:
    """Format a p-value with three digits, or as "below 0.001"; a dash for None.

    Example:
        >>> p_value(0.25), p_value(0.00001), p_value(1.0)
        ('0.25', 'below 0.001', '1')
    """
    if value is None:
        return NONE
    return f"{value:.3g}" if value >= _SMALLEST_P else f"below {_SMALLEST_P}"


def slice_name(text: str) -> str:
    """Return the values of a slice text without attribute names; ``all`` for the total.

    Example:
        >>> slice_name("channel=chat,language_variety=formal"), slice_name("")
        ('chat, formal', 'all')
        >>> slice_name("complement")
        'all others'
    """
    if text == COMPLEMENT:
        return "all others"
    return ", ".join(parse_atom(text).values()) or ALL


def attributes(text: str) -> str:
    """Return the attribute names of a slice text joined by ``+``; a dash for the total.

    Example:
        >>> attributes("channel=chat,language_variety=formal")
        'channel+language_variety'
    """
    return "+".join(parse_atom(text)) or NONE


def in_order(bands: Iterable[str]) -> list[str]:
    """Sort the names of score bands from low to high; "no score" comes last.

    Example:
        >>> in_order({"no score", "0.70 to 0.90", "below 0.70"})
        ['below 0.70', '0.70 to 0.90', 'no score']
    """
    return sorted(bands, key=lambda band: (band[0] == "n", band[0] != "b", band))


def versions(run: RunVersions) -> str:
    """Format the versions of the router's parts in one line.

    Example:
        >>> versions(RunVersions("j1", "r1", "p1", "t1"))
        'judge j1, rubric r1, policy p1, router t1'
    """
    return f"judge {run.judge}, rubric {run.rubric}, policy {run.policy}, router {run.router}"


def expected(ready: bool) -> str:
    """Return "ready" or "not ready", the outcome that reviewers expect."""
    return "ready" if ready else "not ready"


def outcome(variant: VariantOutcome) -> str:
    """Format a variant's route with the reason: score and threshold, or the gate.

    Example:
        >>> outcome(VariantOutcome("formal", {}, "auto_serve", 0.78, 0.7, True))
        'auto_serve: score 0.78 >= 0.70'
    """
    return f"{variant.route}: {_by(variant)}"


def _by(variant: VariantOutcome) -> str:
    """Return what decided a variant: the evidence gate, or its score against the threshold."""
    if not variant.evidence_passed:
        return "evidence gate not passed"
    if variant.score is None:
        return f"no score, threshold {number(variant.threshold)}"
    relation = ">=" if variant.score >= variant.threshold else "<"
    return f"score {number(variant.score)} {relation} {number(variant.threshold)}"


def number(value: float) -> str:
    """Format a score or threshold with at least two decimals.

    Example:
        >>> number(0.7), number(0.699)
        ('0.70', '0.699')
    """
    short = f"{value:.2f}"
    return short if float(short) == value else f"{value:g}"


def what_happened(flip: ShownFlip) -> str:
    """Describe in a phrase which variant alone was served, or blocked, by a flip."""
    held_back = flip.direction is FlipDirection.HELD_BACK
    better, worse = (flip.reference, flip.variant) if held_back else (flip.variant, flip.reference)
    reply = f"a reply that is {expected(flip.expected_ready)}"
    if better.route == _SERVED:
        return f"{reply} is served to {better.variant} alone"
    return f"{reply} is blocked for {worse.variant} alone"


def direction(flip: ShownFlip) -> str:
    """Return the compared variant's name and the flip's direction: ``conversational held_back``."""
    return f"{flip.variant.variant} {flip.direction.value}"


def stage(flip: ShownFlip) -> str:
    """Return a flip's stage; behind the evidence gate, stage and cause joined by a slash."""
    return f"{flip.stage.value}/{flip.cause.value}" if flip.cause else flip.stage.value
