"""Numbers and phrases of an audit, the same in every output.

Example:
    >>> exact = Numbers(exact=True)
    >>> exact.rate(5 / 6), exact.interval(0.4364, 0.9700)
    ('83.3 %', '43.6-97.0 %')
    >>> exact.points(1 / 3), exact.points_interval(-0.1722, 0.6741)
    ('33.3', '-17.2 to 67.4')
    >>> Numbers(exact=False).rate(0.83)
    '83 %'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from monitor.audit.audit_report import HELD_OUT, REGRESSION, ShownFlip, VariantOutcome
from monitor.audit.inputs import RunVersions
from monitor.core.contract import COMPLEMENT, Metric
from monitor.core.counts.cells import Route, parse_atom
from monitor.core.probes.flips import FlipDirection
from monitor.core.publish.snapshot import ShownRate

NOTHING = "-"
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
    """Format of numbers: tenths of a per cent if exact, whole per cent if guarded.

    Attributes:
        exact: the numbers are of a synthetic set, as counted.
    """

    exact: bool

    def rate(self, value: float | None) -> str:
        """Format a rate as per cent with the sign; "-" for None."""
        return NOTHING if value is None else f"{self._hundredths(value)} %"

    def points(self, value: float | None) -> str:
        """Format a difference of rates in percentage points, without unit; "-" for None."""
        return NOTHING if value is None else self._hundredths(value)

    def gap(self, value: float | None) -> str:
        """Format a gap in points with a sign, + if the slice is worse off; "-" for None."""
        text = self.points(value)
        return text if value is None or text.startswith("-") or not float(text) else f"+{text}"

    def interval(self, lower: float | None, upper: float | None) -> str:
        """Format the bounds of a rate in per cent; "-" if a bound is None."""
        if lower is None or upper is None:
            return NOTHING
        return f"{self._hundredths(lower)}-{self._hundredths(upper)} %"

    def points_interval(self, lower: float | None, upper: float | None) -> str:
        """Format the bounds of a difference of rates in points; "-" if a bound is None."""
        if lower is None or upper is None:
            return NOTHING
        return f"{self._hundredths(lower)} to {self._hundredths(upper)}"

    def ratio(self, value: float | None) -> str:
        """Format a ratio of two rates as a decimal number; "-" for None."""
        return NOTHING if value is None else f"{value:.{3 if self.exact else 2}f}"

    def ratio_interval(self, lower: float | None, upper: float | None) -> str:
        """Format the bounds of a ratio; without an upper one, as "... or more"."""
        if lower is None:
            return NOTHING
        return f"{self.ratio(lower)} {'or more' if upper is None else f'to {self.ratio(upper)}'}"

    def shown(self, rate: ShownRate | None, between: str = " ") -> str:
        """Format a published rate with its interval, or its code (at least, at most)."""
        if rate is None:
            return NOTHING
        if rate.at_least is not None:
            return f"at least {self.rate(rate.at_least)}"
        if rate.at_most is not None:
            return f"at most {self.rate(rate.at_most)}"
        bounds = self.interval(rate.lower, rate.upper)
        return bounds if rate.value is None else f"{self.rate(rate.value)}{between}({bounds})"

    def support(self, trials: int | None) -> str:
        """Format a number of trials; guarded ones as a band's lower edge, and "-" for 0."""
        if trials is None or not (trials or self.exact):
            return NOTHING
        return f"{trials:,}" if self.exact else f"{trials:,}+"

    def counted(self, trials: int | None, noun: str) -> str:
        """Format a number of trials as in :meth:`support`, with the noun in singular or plural."""
        return f"{self.support(trials)} {noun}{'' if self.exact and trials == 1 else 's'}"

    def _hundredths(self, value: float) -> str:
        digits = 1 if self.exact else 0
        return f"{round(100 * value, digits) + 0.0:.{digits}f}"  # + 0.0: never -0.0


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
    def for_check(cls, name: str, numbers: Numbers) -> Self:
        """Return the format for a check, chosen by the end of its name."""
        if name.endswith("_gap"):
            return cls(numbers.points, numbers.gap, numbers.points_interval, " points")
        if name.endswith("_ratio"):
            return cls(numbers.ratio, numbers.ratio, numbers.ratio_interval)
        return cls(numbers.rate, numbers.rate, numbers.interval)


def p_value(value: float | None) -> str:
    """Format a p-value with three digits, or as "below 0.001"; "-" for None.

    Example:
        >>> p_value(0.25), p_value(0.00001), p_value(1.0)
        ('0.25', 'below 0.001', '1')
    """
    if value is None:
        return NOTHING
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
    """Return the attribute names of a slice text joined by ``+``; "-" for the total.

    Example:
        >>> attributes("channel=chat,language_variety=formal"), attributes("")
        ('channel+language_variety', '-')
    """
    return "+".join(parse_atom(text)) or NOTHING


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


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, in singular or plural.

    Example:
        >>> counted(1, "pair"), counted(2000, "pair")
        ('1 pair', '2,000 pairs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
