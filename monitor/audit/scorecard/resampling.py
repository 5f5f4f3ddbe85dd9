"""Intervals of scores by resampling: scores that another set of this size and kind might give.

The score of the set itself is exact. A score that is a distance is never below 0, and neither is
its interval: an interval above 0 is no evidence of a difference.

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
"""Most weights in memory at a time."""

Statistic = Callable[[Floats], Floats]
"""Maps how often each item counts, shape (B, I), to scores, shape (B,); each row sums to I."""


def score(statistic: Statistic, items: int) -> float:
    """Return the statistic of ``items`` items, at least 1, each counted once."""
    return float(statistic(np.ones((1, items)))[0])


def interval(statistic: Statistic, items: int) -> tuple[float, float]:
    """Compute a statistic's 95 % percentile interval over resampled items, with a fixed seed."""
    random = np.random.default_rng(_SEED)
    step = max(1, _CELLS // items)
    shares = np.full(items, 1 / items)
    sizes = (min(step, RESAMPLES - drawn) for drawn in range(0, RESAMPLES, step))
    scores = [
        statistic(random.multinomial(items, shares, size=size).astype(np.float64)) for size in sizes
    ]
    return percentiles(np.concatenate(scores))


def of_counts(
    statistic: Callable[..., Floats], *counted: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
) -> tuple[float, float]:
    """Compute a statistic's 95 % percentile interval over rates resampled from counts.

    Args:
        statistic: maps rates, each of shape (B, S), to scores, shape (B,).
        counted: successes and trials of each argument of the statistic; trials are at least 1.
    """
    random = np.random.default_rng(_SEED)
    rates = [
        random.binomial(trials, successes / trials, size=(RESAMPLES, len(trials))) / trials
        for successes, trials in counted
    ]
    return percentiles(statistic(*rates))


def percentiles(scores: Floats) -> tuple[float, float]:
    """Return the lower and upper bound of the middle :data:`LEVEL` of scores."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(scores, [tail, 1 - tail])
    return float(low), float(high)
