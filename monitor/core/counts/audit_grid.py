"""Audit grid: the rates that audit probabilities are taken down to.

A label requested with probability p is kept with probability grid rate / p, so that only few
distinct rates need separate strata. Other labels are lost, so the grid has the rates that people
choose.
"""

from __future__ import annotations

from collections.abc import Sequence

AUDIT_RATES = (
    *(1.0, 0.9, 0.8, 0.75, 0.7, 0.66, 0.6, 0.5, 0.4, 0.33, 0.3, 0.25, 0.2, 0.16, 0.15, 0.12),
    *(0.1, 0.08, 0.07, 0.06, 0.05, 0.04, 0.033, 0.03, 0.025, 0.02, 0.016, 0.015, 0.012),
    *(0.01, 0.008, 0.007, 0.006, 0.005, 0.004, 0.0033, 0.003, 0.0025, 0.002, 0.0016, 0.0015),
    *(0.0012, 0.001),
)
"""Grid of every store. Probabilities from 0.001 on lose at most a fifth of their labels, common
ones none. It has 43 of 64 possible rates: unused rates cost nothing, but probabilities that vary
from decision to decision are spread over all of them."""

_SLACK = 1e-4  # so that 0.7071 sent with four digits means 2 ** -0.5


def rate_index(grid: Sequence[float], audit_p: float) -> int:
    """Return the index of the largest grid rate that is not above ``audit_p``; else the last index.

    A probability below the grid is counted at the smallest rate, which overstates it.

    Example:
        >>> [AUDIT_RATES[rate_index(AUDIT_RATES, sent)] for sent in (0.33, 0.11, 0.0001)]
        [0.33, 0.1, 0.001]
    """
    for index, rate in enumerate(grid):
        if rate <= audit_p * (1 + _SLACK):
            return index
    return len(grid) - 1
