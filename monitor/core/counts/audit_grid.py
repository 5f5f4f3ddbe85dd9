"""Audit grid: the rates that audit probabilities are taken down to, and the labels this loses.

A label requested with probability p is kept with probability grid rate / p, so that only few
distinct rates need separate strata. Other labels are lost, so the default grid has the rates that
people choose.

Example:
    >>> [thinned(DEFAULT_AUDIT_RATES, sent).lost for sent in (0.05, 0.10, 0.33, 1.0)]
    [0.0, 0.0, 0.0, 0.0]
    >>> thinned((1.0, 0.0625, 0.03125), 0.05)
    Thinned(sent=0.05, counted=0.03125, lost=0.375)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

ROUND_RATES = (1.0, 0.5, 0.25, 0.20, 0.10, 0.05, 0.02, 0.01)
"""Rates that nearly everybody uses; a grid without one of them causes a warning."""

COMMON_RATES = (
    *(1.0, 0.75, 0.5, 0.33, 0.30, 0.25, 0.20, 0.15, 0.10),
    *(0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0.005, 0.001),
)
"""Rates whose loss ``slicewatch check`` reports."""

DEFAULT_AUDIT_RATES = (
    *(1.0, 0.9, 0.8, 0.75, 0.7, 0.66, 0.6, 0.5, 0.4, 0.33, 0.3, 0.25, 0.2, 0.16, 0.15, 0.12),
    *(0.1, 0.08, 0.07, 0.06, 0.05, 0.04, 0.033, 0.03, 0.025, 0.02, 0.016, 0.015, 0.012),
    *(0.01, 0.008, 0.007, 0.006, 0.005, 0.004, 0.0033, 0.003, 0.0025, 0.002, 0.0016, 0.0015),
    *(0.0012, 0.001),
)
"""Grid of new stores. Probabilities from 0.001 on lose at most a fifth of their labels, common ones
none. It has 43 of 64 possible rates: unused rates cost nothing, but probabilities that vary from
decision to decision are spread over all of them."""

_SLACK = 1e-4  # so that 0.7071 sent with four digits means 2 ** -0.5


@dataclass(frozen=True, slots=True)
class Thinned:
    """Audit probability as sent and as counted, with the share of labels lost between them.

    Attributes:
        sent: ``audit_p``, in (0, 1].
        counted: rate of the grid. It is above ``sent`` only if ``sent`` is below the grid: then
            decisions are weighted as if more of them were audited, and rates are wrong.
        lost: share of the requested labels that is discarded, in [0, 1).
    """

    sent: float
    counted: float
    lost: float


def rate_index(grid: Sequence[float], audit_p: float) -> int:
    """Return the index of the largest grid rate that is not above ``audit_p``; else the last index.

    A probability below the grid is counted at the smallest rate, which overstates it; ``slicewatch
    check`` warns of common ones.
    """
    for index, rate in enumerate(grid):
        if rate <= audit_p * (1 + _SLACK):
            return index
    return len(grid) - 1


def thinned(grid: Sequence[float], audit_p: float) -> Thinned:
    """Return an audit probability in (0, 1] as sent and as counted on a decreasing grid."""
    counted = grid[rate_index(grid, audit_p)]
    return Thinned(audit_p, counted, 1 - min(1.0, counted / audit_p))


def largest_loss(grid: Sequence[float]) -> float:
    """Return the largest share of labels that any probability within a decreasing grid loses.

    Example:
        >>> round(largest_loss((1.0, 0.5, 0.4)), 2), round(largest_loss((0.4,)), 2)
        (0.5, 0.6)
    """
    return max((1 - low / high for high, low in pairwise((1.0, *grid))), default=0.0)
