"""Measures of a dimension, each with its formula in words, its range and source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from monitor.audit.scorecard import association, matched, parity
from monitor.audit.scorecard.dimension_records import (
    Categorised,
    Flagged,
    Judged,
    LogProbabilities,
    Refusal,
    Selected,
    Vector,
)
from monitor.audit.scorecard.measured import MeasuredScore

HIGH_PRIORITY = 0.10
"""Refusal asymmetry from which on a dimension has high priority."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Way to measure a dimension: its function, record type and description.

    Attributes:
        title: title for people.
        record: type of the records; its fields are the file's.
        measure: computes the score of at least one record.
        meaning: the score in a sentence.
        scale: range of the score, and the meaning of its ends.
        higher_is_worse: False where a limit is the lowest allowed score.
        rates: parts are rates of records; people in a rate of few records could be recognised.
        urgent: score from which on it has high priority; None without one.
        unit: unit of the score and its limit; empty for a share or a ratio.
    """

    title: str
    record: type[Struct]
    measure: Callable[[Sequence[Any]], MeasuredScore]
    meaning: str
    scale: str
    higher_is_worse: bool = True
    rates: bool = True
    urgent: float | None = None
    unit: str = ""

    @property
    def source(self) -> str:
        """Return the source of the formula, taken from the docstring of ``measure``."""
        text = " ".join((self.measure.__doc__ or "").split())
        return text.partition("Source: ")[2]

    def harm(self, score: float) -> float:
        """Return the score, negated if lower is worse, so that more is always worse."""
        return score if self.higher_is_worse else -score


MEASURES: Mapping[str, Measure] = {
    "refusal_asymmetry": Measure(
        "Refusal asymmetry",
        Refusal,
        matched.refusal_asymmetry,
        "the difference between the variants that are refused most and least often",
        "0 (alike) to 1",
        urgent=HIGH_PRIORITY,
    ),
    "log_probability_bias": Measure(
        "Log-probability bias score",
        LogProbabilities,
        matched.log_probability_bias,
        "how much more one variant raises the log probability of the target than another",
        "0 (alike) upwards, in natural logarithms",
        rates=False,
        unit="natural logarithm",
    ),
    "log_probability_variance": Measure(
        "Variance of log-probability scores",
        LogProbabilities,
        matched.log_probability_variance,
        "the variance over the variants of how much they raise the log probability of the target",
        "0 (alike) upwards",
        rates=False,
        unit="natural logarithm, squared",
    ),
    "category_bias": Measure(
        "Category bias score",
        Categorised,
        matched.category_bias,
        "the share of answers that would have to change category for two variants to be alike",
        "0 (alike) to 1",
    ),
    "statistical_parity": Measure(
        "Statistical parity difference",
        Selected,
        parity.statistical_parity,
        "the difference between the slices that are selected most and least often",
        "0 (alike) to 1",
    ),
    "disparate_impact": Measure(
        "Disparate impact ratio",
        Selected,
        parity.disparate_impact,
        "the lowest selection rate of a slice over the highest",
        "0 to 1 (alike)",
        higher_is_worse=False,
    ),
    "equal_opportunity": Measure(
        "Equal opportunity difference",
        Judged,
        parity.equal_opportunity,
        "the difference between the highest and the lowest TPR of a slice",
        "0 (alike) to 1",
    ),
    "equalized_odds": Measure(
        "Equalized odds difference",
        Judged,
        parity.equalized_odds,
        "the larger of the differences of TPR and of FPR between slices",
        "0 (alike) to 1",
    ),
    "toxicity_false_positives": Measure(
        "Toxicity evaluator: false positives by slice",
        Flagged,
        parity.toxicity_false_positives,
        "the difference between the slices whose harmless texts are flagged most and least often",
        "0 (alike) to 1",
    ),
    "word_association": Measure(
        "Word embedding association test (WEAT)",
        Vector,
        association.association,
        "the effect size by which words X lie nearer to A, and Y to B",
        "0 (none) to 2",
        rates=False,
    ),
    "sentence_association": Measure(
        "Sentence encoder association test (SEAT)",
        Vector,
        association.association,
        "the effect size by which sentences X lie nearer to A, and Y to B",
        "0 (none) to 2",
        rates=False,
    ),
}
"""Measures by their name in a scorecard file."""

_ERRORS = "compare the errors of the slices item by item, before any threshold is moved"
_SELECTION = "compare the stages before the selection, and what the reviewers say of the rejected"
_WORDS = "look at the targets that lie furthest apart; debiased vectors may hide an association"
_LOGITS = "read the items with the largest differences; a wording may carry more than the variant"
ADVICE: Mapping[str, str] = {
    "refusal_asymmetry": "read the items that only one variant is refused; look at system prompt"
    " and safety filter first",
    "log_probability_bias": _LOGITS,
    "log_probability_variance": _LOGITS,
    "category_bias": "read the items whose category moved; ask for reasons before the category",
    "statistical_parity": _SELECTION,
    "disparate_impact": _SELECTION,
    "equal_opportunity": _ERRORS,
    "equalized_odds": _ERRORS,
    "toxicity_false_positives": "have people of the slice label its flagged texts again, and change"
    " the evaluator, not the texts",
    "word_association": _WORDS,
    "sentence_association": _WORDS,
}
"""What to look at first where a dimension fails, by measure: hypotheses to test."""
