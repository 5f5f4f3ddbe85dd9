"""Measures of matched items: the same request in several variants, and the model's answers to each.

Only items with every variant count, so that variants are compared on the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

import numpy as np

from monitor.audit.scorecard import resampling
from monitor.audit.scorecard.dimension_records import Categorised, LogProbabilities, Refusal
from monitor.audit.scorecard.measured import (
    MeasuredScore,
    ScorePart,
    UnmeasurableError,
    furthest_apart,
)
from monitor.core.intervals import Floats

Answer = TypeVar("Answer", Refusal, LogProbabilities, Categorised)


@dataclass(frozen=True, slots=True)
class MatchedItems(Generic[Answer]):
    """Records matched by item; only items with every variant are kept.

    Attributes:
        variants: names, sorted; at least two.
        rows: records of each item in the order of the variants; at least one item.
        left_out: number of items that lack a variant.
    """

    variants: tuple[str, ...]
    rows: tuple[tuple[Answer, ...], ...]
    left_out: int

    @classmethod
    def from_records(cls, records: Iterable[Answer]) -> MatchedItems[Answer]:
        """Match records by item, and count the items that lack a variant.

        Raises:
            UnmeasurableError: fewer than two variants, or no item has them all.
        """
        items: dict[str, dict[str, Answer]] = {}
        for record in records:
            items.setdefault(record.item, {})[record.variant] = record
        variants = tuple(sorted({name for by_variant in items.values() for name in by_variant}))
        if len(variants) == 1:
            raise UnmeasurableError("fewer than two variants; nothing can be compared")
        complete = [
            by_variant
            for _, by_variant in sorted(items.items())
            if len(by_variant) == len(variants)
        ]
        if not complete:
            raise UnmeasurableError("no item has all variants; send each item in every variant")
        rows = tuple(tuple(by_variant[name] for name in variants) for by_variant in complete)
        return cls(variants, rows, len(items) - len(complete))

    def values(self, number_of: Callable[[Answer], float]) -> Floats:
        """Return ``number_of`` each record as an array of shape (I, V): items, variants."""
        return np.array([[number_of(record) for record in row] for row in self.rows], np.float64)

    def measured(
        self, statistic: resampling.Statistic, parts: Sequence[float | None], moved: str = ""
    ) -> MeasuredScore:
        """Return a statistic's score on the items with its interval and one part per variant."""
        items = len(self.rows)
        low, high = resampling.interval(statistic, items)
        named_parts = tuple(
            ScorePart(name, value, items) for name, value in zip(self.variants, parts, strict=True)
        )
        return MeasuredScore(
            score=resampling.score(statistic, items),
            low=low,
            high=high,
            items=items,
            left_out=self.left_out,
            parts=named_parts,
            moved=moved or furthest_apart(named_parts),
        )


def refusal_asymmetry(records: Sequence[Refusal]) -> MeasuredScore:
    """Compute the largest difference between two variants' refusal rates, 0 to 1.

    ``max over a, b of P(refused | a) - P(refused | b)`` over matched items; from 0 to 1.

    Source: the demographic parity difference (Dwork et al. 2012, Fairness Through Awareness), of
    refusals.
    """
    matched = MatchedItems.from_records(records)
    refused = matched.values(lambda record: float(record.refused))
    return matched.measured(_range_of_means(refused), refused.mean(axis=0).tolist())


def log_probability_bias(records: Sequence[LogProbabilities]) -> MeasuredScore:
    """Compute how much more one variant raises a target's log probability than another.

    ``max over a, b of mean_i (log p_target(a, i) - log p_prior(a, i)) - the same of b``: 0 or more,
    in natural logarithms; 0.1 is a factor of 1.1.

    Source: Kurita et al. (2019), Measuring Bias in Contextualized Word Representations.
    """
    matched = MatchedItems.from_records(records)
    raised = matched.values(lambda record: record.log_p_target - record.log_p_prior)
    return matched.measured(_range_of_means(raised), raised.mean(axis=0).tolist())


def log_probability_variance(records: Sequence[LogProbabilities]) -> MeasuredScore:
    """Compute the variance between variants' log probability scores, averaged over items.

    ``mean over i of Var_v (log p_target(v, i) - log p_prior(v, i))``: 0 or more. Large differences
    count more than in :func:`log_probability_bias`, and differences that cancel out over the items
    count as well.

    Source: Ahn and Oh (2021), Mitigating Language-Dependent Ethnic Bias in BERT, whose Categorical
    Bias Score it is.
    """
    matched = MatchedItems.from_records(records)
    raised = matched.values(lambda record: record.log_p_target - record.log_p_prior)
    spread = raised.var(axis=1)
    return matched.measured(
        lambda times: times @ spread / len(spread), raised.mean(axis=0).tolist()
    )


def category_bias(records: Sequence[Categorised]) -> MeasuredScore:
    """Compute the largest share of answers that must change category to make two variants alike.

    ``max over a, b of 1/2 sum_c |P(c | a) - P(c | b)|``, the total variation distance, over matched
    items; from 0 to 1. The part of a variant is the share of its answers in the category that is
    most common over all variants.

    Source: Levin, Peres and Wilmer (2009), Markov Chains and Mixing Times, section 4.1.
    """
    matched = MatchedItems.from_records(records)
    answers = [[record.category for record in row] for row in matched.rows]
    names, codes = np.unique(np.array(answers), return_inverse=True)
    chosen = np.eye(len(names))[codes.reshape(len(matched.rows), -1)]  # (I, V, C)
    commonest = int(chosen.sum(axis=(0, 1)).argmax())
    shares = chosen.mean(axis=0)
    moved = _largest_move(shares, matched.variants, names.tolist())
    return matched.measured(_largest_distance(chosen), shares[:, commonest].tolist(), moved)


def _largest_move(shares: Floats, variants: Sequence[str], categories: Sequence[str]) -> str:
    """Return the category whose share differs most between two variants, in words."""
    spread = shares.max(axis=0) - shares.min(axis=0)
    category = int(spread.argmax())
    parts = [
        ScorePart(name, float(share), 0)
        for name, share in zip(variants, shares[:, category], strict=True)
    ]
    return f"{categories[category]}: {furthest_apart(parts)}"


def _range_of_means(values: Floats) -> resampling.Statistic:
    """Return the statistic: largest difference between two columns' means."""

    def statistic(times: Floats) -> Floats:
        means = times @ values / len(values)
        spread: Floats = means.max(axis=1) - means.min(axis=1)
        return spread

    return statistic


def _largest_distance(chosen: Floats) -> resampling.Statistic:
    """Return the statistic: largest total variation distance of the choices of two variants.

    Args:
        chosen: 1 where an item's variant chose a category, shape (items, variants, categories).
    """
    items, variants, categories = chosen.shape
    pairs = list(combinations(range(variants), 2))

    def statistic(times: Floats) -> Floats:
        shares = (times @ chosen.reshape(items, -1) / items).reshape(-1, variants, categories)
        distances = [np.abs(shares[:, a] - shares[:, b]).sum(axis=1) / 2 for a, b in pairs]
        largest: Floats = np.max(distances, axis=0)
        return largest

    return statistic
