"""What one row's published numbers say of its counts, as the manual states it.

Written from the documentation, not from the service's code: this is the attacker's copy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np
import numpy.typing as npt
from adversary.pages import DECISIONS, LABELLED, Numbers, Publication

Floats = npt.NDArray[np.float64]

K = 11
MIN_SUPPORT = 80
"""What a selection rate needs for a verdict, as the page says (positives and negatives)."""

STEPS = (0.01, 0.02, 0.05, 0.1)
"""What rates are rounded to: the finest that k decisions of the support fit into."""

SMALLEST = 2 * K - 1
"""Support below which no rate is shown."""

STATES: Mapping[str, Mapping[str, tuple[Sequence[int], Sequence[int]]]] = {
    # auto_serve, human_review, blocked
    DECISIONS: {"selection": ((1, 0, 0), (1, 1, 1)), "blocked": ((0, 0, 1), (1, 1, 1))},
    # labels of auto_serve (not ready, ready), of human_review (not ready, ready)
    LABELLED: {
        "tpr": ((0, 1, 0, 0), (0, 1, 0, 1)),
        "fpr": ((1, 0, 0, 0), (1, 0, 1, 0)),
        "ready": ((0, 1, 0, 1), (1, 1, 1, 1)),
    },
}


@cache
def edges(k: int = K) -> tuple[int, ...]:
    """Lower edges of the support bands."""
    found = [k, 2 * k - 1]
    while found[-1] < 10**7:
        found.append(max(found[-1] + k, ceil(1.25 * found[-1])))
    return tuple(found)


def band(support: float, *, exact: bool = False) -> tuple[int, int]:
    """Smallest and largest count that a support stands for."""
    low = int(support)
    return (low, low) if exact else (low, edges()[bisect_right(edges(), low)] - 1)


def half_step(low: float) -> float:
    """Half of what a rate is rounded to, where its support's band begins at ``low``."""
    return next((step for step in STEPS if step * low >= K - 1e-9), STEPS[-1]) / 2 + 1e-9


@dataclass(frozen=True)
class Bound:
    """``low <= weights . counts <= high`` for the counts of one row (or all the other rows)."""

    weights: Floats
    low: float
    high: float
    others: bool = False


def _bound(weights: Floats, low: float, high: float, others: bool = False) -> Bound:
    return Bound(np.asarray(weights, float), low, high, others)


def bounds_of(
    kind: str, metric: str, told: Numbers, *, exact: bool = False, others: float = 0
) -> list[Bound]:
    """Everything linear that the numbers of one rate say.

    Args:
        kind: of the publication.
        metric: which rate.
        told: its numbers.
        exact: nothing is rounded.
        others: the least that the other rows of the table hold together.
    """
    hits, trials = (np.asarray(x, float) for x in STATES[kind][metric])
    if exact:
        return _exact(hits, trials, told) if kind == DECISIONS else []
    if kind == LABELLED:
        return _labels(hits, trials, told)
    found = [_bound(trials, *band(told["support"])), *_rate(hits, trials, told)]
    if "gap" in told and "value" in told:
        sign = -1 if metric == "selection" else 1  # oriented by harm
        rest = round(told["value"] - sign * told["gap"], 9)
        low = edges()[bisect_right(edges(), max(others, SMALLEST)) - 1]
        found += _near(hits, trials, rest, half_step(low), others=True)
        found += _both(hits, trials, others=True)
    return found


def word_bounds(
    publication: Publication, text: str, others: float, *, exact: bool = False
) -> list[Bound]:
    """What the state of a slice says of its support, where the others have theirs."""
    told = publication.rows.get(text, {}).get("selection", {})
    state = publication.words.get(text, {}).get("selection", {}).get("state")
    if exact or publication.kind != DECISIONS or state is None or "support" not in told:
        return []
    trials = np.ones(3)
    if state != "insufficient_support":
        return [_bound(trials, MIN_SUPPORT, np.inf)]
    alone = not publication.group_by or others >= MIN_SUPPORT
    return [_bound(trials, 0, MIN_SUPPORT - 1)] if alone else []


def _exact(hits: Floats, trials: Floats, told: Numbers) -> list[Bound]:
    n = told["support"]
    found = [_bound(trials, n, n)]
    if "value" in told:
        hit = float(round(told["value"] * n))
        found.append(_bound(hits, hit, hit))
    return found


def _rate(hits: Floats, trials: Floats, told: Numbers) -> list[Bound]:
    if "value" in told:
        half = half_step(told["support"])
        return [*_near(hits, trials, told["value"], half), *_both(hits, trials)]
    if "at_least" in told:
        return [_bound(trials - hits, 0, K - 1)]
    few = ceil(100 * (K - 1) / told["support"] - 1e-9) / 100
    if abs(told["at_most"] - few) < 1e-6:
        return [_bound(hits, 0, K - 1)]
    third = np.array([0, 1, 0], float)  # else the third route is what would be given away
    return [_bound(third, 0, K - 1), _bound(hits, K, np.inf)]


def _labels(hits: Floats, trials: Floats, told: Numbers) -> list[Bound]:
    """Of labelled rows alone: estimates are no linear function of counts."""
    if "value" in told:
        half = half_step(told["support"])
        near = _near(hits, trials, told["as_labelled"], half) if "as_labelled" in told else []
        return [*_both(hits, trials), *near]
    if "at_least" in told and "at_most" not in told:
        return [_bound(trials - hits, 0, K - 1)]
    if "at_most" in told and "at_least" not in told:
        return [_bound(hits, 0, K - 1)]
    return []


def _near(
    hits: Floats, trials: Floats, value: float, half: float, others: bool = False
) -> list[Bound]:
    return [
        _bound(hits - (value + half) * trials, -np.inf, 0, others),
        _bound(hits - (value - half) * trials, 0, np.inf, others),
    ]


def _both(hits: Floats, trials: Floats, others: bool = False) -> list[Bound]:
    """A rate that is not coded has k on both sides."""
    return [_bound(hits, K, np.inf, others), _bound(trials - hits, K, np.inf, others)]
