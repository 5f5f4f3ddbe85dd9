"""Resolution of shown numbers: supports as bands, rates as finely as k allows, bounds outward.

An exact rate with an exact support reveals the count, and so do exact bounds. So everything shown
is computed from the rounded rate and the lower edge of the support's band.

A rate is rounded to a step that hides k decisions: the count behind it, and every difference of
two counts, may be any of k numbers. From a support of 100 k on, that is two decimals. The step is
always finer than the rate's own uncertainty (a step of 0.05 at 220 trials, whose 95 % interval is
0.13 wide).

Example:
    >>> edges(11)[:7]
    (11, 21, 32, 43, 54, 68, 85)
    >>> Precision(11).support([10.9, 11.0, 31.9]).tolist()
    [0, 11, 21]
    >>> Precision(1, exact=True).support([6.0]).tolist()
    [6]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats

SHOWN_STEP = 100
"""Step of shown totals of events: above any k in use, so that no two views differ by a few, and no
change is due to one event only."""
_LARGEST = 2**53
_DECIMALS = 100  # two decimals for bounds, gaps and ratios
STEPS = (0.01, 0.02, 0.05, 0.1)
"""Steps that rates are rounded to. Coarser ones would be useless. So below 10 k trials, step and
band together hide the count behind a rate, but among fewer than k numbers."""
# An effective support is a quotient of floats: 6 may arrive as 5.999999999.
_SLACK = 1e-9


@cache
def edges(k: int) -> tuple[int, ...]:
    """Return the lower edges of the bands: k, 2 k - 1, then a quarter more each, at least k more.

    So the support of a shown rate could be any of k numbers.
    """
    lower_edges = [k, max(2 * k - 1, k + 1)]
    while lower_edges[-1] < _LARGEST:
        lower_edges.append(max(lower_edges[-1] + k, ceil(1.25 * lower_edges[-1])))
    return tuple(lower_edges)


@cache
def _edge_tables(k: int) -> tuple[Int64s, Int64s]:
    """Return the bands' lower edges, and the same array with a 0 in front."""
    table = np.asarray((0, *edges(k)), np.int64)
    table.flags.writeable = False
    return table[1:], table


@dataclass(frozen=True, slots=True)
class Precision:
    """Resolution of numbers shown under one contract: bands of support, steps of rates, bounds.

    Attributes:
        k: smallest cell that may be shown.
        exact: True for a synthetic contract with k = 1, which shows exact numbers.
    """

    k: int
    exact: bool = False

    def support(self, trials: npt.ArrayLike) -> Int64s:
        """Return the lower edge of the band of each support; 0 below k and for NaN."""
        n = np.floor(np.asarray(trials, np.float64) + _SLACK)
        if self.exact:
            return np.nan_to_num(n, nan=0).astype(np.int64)
        lower_edges, table = _edge_tables(self.k)
        band: Int64s = table[lower_edges.searchsorted(np.where(np.isnan(n), 0, n), side="right")]
        return band

    def trials(self, support: npt.ArrayLike) -> Floats:
        """Return the trials for intervals: the band's lower edge, or the exact support."""
        if self.exact:
            return np.nan_to_num(np.asarray(support, np.float64), nan=0)
        return self.support(support).astype(np.float64)

    def step(self, support: npt.ArrayLike) -> Floats:
        """Return, for each support, the finest rounding of a rate that still hides k decisions.

        Example:
            >>> Precision(11).step([21, 300, 600, 1200]).tolist()
            [0.1, 0.05, 0.05, 0.02]
        """
        n = np.asarray(support, np.float64)
        return np.zeros(n.shape) if self.exact else self._step_of(self.support(n))

    def _step_of(self, bands: Int64s) -> Floats:
        """Return the finest step at which k trials or more share a number; the coarsest if none."""
        # Readers know the bands, and only the lower edge is certain.
        fine_enough = np.multiply.outer(bands, STEPS) >= self.k - _SLACK
        first = np.where(fine_enough.any(axis=-1), fine_enough.argmax(axis=-1), len(STEPS) - 1)
        return np.asarray(STEPS, np.float64)[first]

    def rate(self, values: npt.ArrayLike, support: npt.ArrayLike) -> Floats:
        """Round rates as finely as their support allows; NaN stays NaN."""
        x = np.asarray(values, np.float64)
        return x if self.exact else self.rounded(x, self.step(support))

    def rounded(self, values: Floats, step: Floats) -> Floats:
        """Return rates rounded to multiples of their steps; NaN stays NaN."""
        if self.exact:
            return values
        return np.asarray((values / step).round() * step).round(2) + 0.0  # never -0.0

    def nearest(self, numbers: npt.ArrayLike) -> Floats:
        """Return numbers rounded to two decimals; NaN stays NaN."""
        x = np.asarray(numbers, np.float64)
        return x if self.exact else np.round(x, 2) + 0.0  # never -0.0

    def down(self, numbers: npt.ArrayLike) -> Floats:
        """Return numbers rounded down to two decimals, for lower bounds."""
        x = np.asarray(numbers, np.float64)
        return x if self.exact else np.floor(x * _DECIMALS + _SLACK) / _DECIMALS

    def up(self, numbers: npt.ArrayLike) -> Floats:
        """Return numbers rounded up to two decimals, for upper bounds."""
        x = np.asarray(numbers, np.float64)
        return x if self.exact else np.ceil(x * _DECIMALS - _SLACK) / _DECIMALS + 0.0
