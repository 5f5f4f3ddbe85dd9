"""Intervals of scores by resampling: what another set of the same size and kind might have given.

The score of the set itself is exact. A score that is a distance is never below 0, and neither is
its interval: that it lies above 0 is no evidence of a difference.

Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13 (percentiles).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from monitor.core.intervals import Floats

RESAMPLES = 2_000
LEVEL = 0.95
_SEED = 20_240_501
_CELLS = 4_000_000
"""Weights that are held at a time."""

Statistic = Callable[[Floats], Floats]
"""Scores, shape (B,), of how often each item counts, shape (B, I); each row sums to I."""


def score(statistic: Statistic, items: int) -> float:
    """The score of the items as they are; ``items`` is at least 1."""
    return float(statistic(np.ones((1, items)))[0])


def interval(statistic: Statistic, items: int) -> tuple[float, float]:
    """The percentile interval over resampled items: the same for the same items, every time."""
    random = np.random.default_rng(_SEED)
    step = max(1, _CELLS // items)
    shares = np.full(items, 1 / items)
    sizes = (min(step, RESAMPLES - begun) for begun in range(0, RESAMPLES, step))
    found = [
        statistic(random.multinomial(items, shares, size=size).astype(np.float64)) for size in sizes
    ]
    return percentiles(np.concatenate(found))


def of_counts(
    statistic: Callable[..., Floats], *counted: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
) -> tuple[float, float]:
    """The same over resampled records of each slice, from successes and trials of shape (S,).

    Args:
        statistic: scores, shape (B,), of rates, each of shape (B, S).
        counted: successes and trials of each of the statistic's arguments; trials are at least 1.
    """
    random = np.random.default_rng(_SEED)
    rates = [
        random.binomial(trials, successes / trials, size=(RESAMPLES, len(trials))) / trials
        for successes, trials in counted
    ]
    return percentiles(statistic(*rates))


def percentiles(scores: Floats) -> tuple[float, float]:
    """The middle :data:`LEVEL` of scores."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(scores, [tail, 1 - tail])
    return float(low), float(high)
