"""The stakes that grow fastest, about many levels of many arms at once.

About a level c a stake lam becomes ``mu = lam (1 - c)`` on decisions of auto_serve and
``nu = lam c`` on those of human_review, and nu / mu is the odds of c. With mu, nu and the odds on
one geometric grid, the logs of all stakes about all levels are sums of two table entries that do
not depend on the level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats, divide
from monitor.core.metric import Among, Metric
from monitor.core.rates.gaps import Bools
from monitor.detection.pages.levels import log_factors
from monitor.detection.pages.outcomes import SAFE, Outcomes, Reach, Side

FINE = 0.0125
"""Step of the grid, in log odds: levels are 0.003 apart at 1/2 and 0.001 at 0.9. The excess loses
the width of an interval: four times this step nearly doubles the delay of a gap 0.05 beyond the
limit."""

COARSE = 16
"""Steps of ``FINE`` between the stakes on auto_serve: 20 %, at a cost of 1 % of the information."""

_LOW, _HIGH = np.log(1e-4), np.log(5.0)
_COARSE_STAKES = np.arange(_LOW, _HIGH, FINE * COARSE)
_FINE_STAKES = np.arange(_LOW, _HIGH, FINE)
MU = np.append(np.exp(_COARSE_STAKES), 0.0)
"""Stakes on decisions of auto_serve; the last one is no bet."""
_NU = np.append(np.exp(_FINE_STAKES), 0.0)

ARMS_AT_ONCE = 32
"""Arms per batch: their growth stays in the processor's cache, which halves the time of
thousands."""

LAST = 320
"""Largest k: levels have log odds ``FINE * k``, k = -LAST..LAST, from 0.018 to 0.982."""


Singles = npt.NDArray[np.float32]
Real = TypeVar("Real", np.float32, np.float64)


def level(k: npt.ArrayLike) -> Floats:
    """Return the levels, in (0, 1), with log odds ``FINE * k``; the same shape as ``k``."""
    levels: Floats = 1 / (1 + np.exp(-FINE * np.asarray(k, np.float64)))
    return levels


def raised(edges: Int64s, delta: float) -> Int64s:
    """Return k of the first level at or above each edge's level + delta; LAST + 1 without one."""
    levels = level(np.arange(-LAST, LAST + 1))
    raised: Int64s = np.searchsorted(levels, level(edges) + delta) - LAST
    return raised


@dataclass(frozen=True, slots=True)
class BetTable:
    """Log factors of every outcome under every stake, for one day, metric and side.

    Attributes:
        side: side of the level that the bets are for.
        route: mask of the columns of auto_serve, shape (J,).
        auto: shape (columns of auto_serve, len(MU)).
        review: shape (columns of human_review, len(_NU)).
    """

    side: Side
    route: Bools
    auto: Floats
    review: Floats

    @classmethod
    def from_outcomes(cls, outcomes: Outcomes, metric: Metric, side: Side) -> BetTable:
        """Return the table of log factors for a day's columns, one metric and one side."""
        g = side.value * outcomes.scores(metric, side)
        auto = outcomes.auto
        return cls(side, auto, log_factors(g[auto], MU), log_factors(-g[~auto], _NU))

    def logs(self, counts: Floats) -> Logs:
        """Return each route's log factors of all stakes, summed over counts of shape (n, J)."""
        return Logs(counts[:, self.route] @ self.auto, counts[:, ~self.route] @ self.review)


Tables = Mapping[Side, BetTable]


@dataclass(frozen=True, slots=True)
class Logs:
    """Log factors of all stakes, shapes (n, len(MU)) and (n, len(_NU))."""

    auto: Floats
    review: Floats

    def of_stakes(self, stakes: BetSizes, rows: Int64s) -> Floats:
        """Return the log e-values of the rows' chosen stakes, shape (n, 5, levels)."""
        shape = (len(rows), *stakes.mu.shape[1:])
        mu, nu = (
            indices[rows].reshape(len(rows), -1).astype(np.int64)
            for indices in (stakes.mu, stakes.nu)
        )
        logs: Floats = _take_last_axis(self.auto, mu) + _take_last_axis(self.review, nu)
        return logs.reshape(shape)


@dataclass(frozen=True, slots=True)
class BetSizes:
    """Chosen stakes as indices into MU and _NU, both of shape (P, 5, levels)."""

    mu: npt.NDArray[np.int16]
    nu: npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class ComparisonCounts:
    """Expected decisions of P arms of comparisons, from the past, to choose stakes by.

    Attributes:
        traffic: decisions with y, and without, by outcome; shape (2, P, J).
        mass: decisions with y, and without, by route; shape (2, P, 2).
        reach: largest scores.
    """

    traffic: Floats
    mass: Floats
    reach: Reach

    @classmethod
    def slices(cls, outcomes: Outcomes, metric: Metric) -> ComparisonCounts:
        """Return the expected counts of every slice: one arm per slice."""
        return cls._of(outcomes, metric, outcomes.traffic, outcomes.possible())

    @classmethod
    def references(
        cls, outcomes: Outcomes, metric: Metric, reference: int | None
    ) -> ComparisonCounts:
        """Return the expected counts of each slice's reference: a row, or the complement (None)."""
        traffic, possible = outcomes.traffic, outcomes.possible()
        if reference is None:
            complements = traffic.sum(axis=1, keepdims=True) - traffic
            return cls._of(outcomes, metric, complements, possible.sum(axis=0) - possible > 0)
        rows = np.full(len(possible), reference)
        return cls._of(outcomes, metric, traffic[:, rows], possible[rows])

    @classmethod
    def _of(
        cls, outcomes: Outcomes, metric: Metric, traffic: Floats, possible: Bools
    ) -> ComparisonCounts:
        by_y = np.maximum(traffic[::-1] if metric.row.among is Among.NOT_READY else traffic, 0)
        by_route = [by_y[:, :, route].sum(axis=2) for route in (outcomes.auto, ~outcomes.auto)]
        mass: Floats = np.stack(by_route, axis=2)
        return cls(by_y, mass, outcomes.reach(metric, possible))

    @property
    def trials(self) -> Floats:
        """Return the expected decisions with y, shape (P,)."""
        trials: Floats = self.mass[0].sum(axis=1)
        return trials

    @property
    def rate(self) -> Floats:
        """Return P(auto_serve | y), shape (P,); 0.5 for an arm without a past."""
        return divide(self.mass[0, :, 0], self.trials, empty=0.5)

    def cells(self, rates: Floats) -> Floats:
        """Return P(y or not, route) for other rates P(auto_serve | y), with all else unchanged.

        Args:
            rates: P(auto_serve | y), shape (P, 5).

        Returns:
            Shape (2, 2, P, 5, 1): y, route; zeros for an arm without a past.
        """
        rate_without_y = divide(self.mass[1, :, 0], self.mass[1].sum(axis=1), empty=0)[:, None]
        share = divide(self.trials, self.mass.sum(axis=(0, 2)), empty=0)[:, None]
        share_without_y = np.where(np.any(self.mass, axis=(0, 2)), 1 - share[:, 0], 0)[:, None]
        with_y = share * np.stack([rates, 1 - rates])
        without = np.broadcast_to(
            share_without_y * np.stack([rate_without_y, 1 - rate_without_y]), with_y.shape
        )
        return np.stack([with_y, without])[..., None]

    def stakes(self, table: BetTable, rates: Floats, edges: Int64s) -> BetSizes:
        """Return the fastest-growing stakes of every arm; see :func:`best_stakes`."""
        return best_stakes(self, table, rates, edges)


def best_stakes(arms: ComparisonCounts, table: BetTable, rates: Floats, edges: Int64s) -> BetSizes:
    """Return grid indices of the stakes that grow fastest, per arm, alternative and level.

    Growth is concave in the stake, so bisection finds its maximum.

    Args:
        arms: the P betting arms.
        table: the table of the side that they bet for.
        rates: rates of the alternatives, shape (P, 5).
        edges: levels, shape (P, levels).
    """
    # Single precision halves the time; it only decides between neighbouring stakes.
    mass = arms.mass.transpose(0, 2, 1)[..., None, None]
    weights = divide(arms.cells(rates), mass, empty=0).astype(np.float32)
    logs = [table.logs(traffic) for traffic in arms.traffic]
    least, most = _safe_range(arms.reach, table.side, edges)
    shape = (*rates.shape, edges.shape[1])
    stakes = BetSizes(np.empty(shape, np.int16), np.empty(shape, np.int16))
    for start in range(0, len(rates), ARMS_AT_ONCE):
        batch = slice(start, start + ARMS_AT_ONCE)
        growth = _Growth(
            _weighted_logs(weights[:, 0, batch], *(table_logs.auto[batch] for table_logs in logs)),
            _weighted_logs(
                weights[:, 1, batch], *(table_logs.review[batch] for table_logs in logs)
            ),
        )
        bounds = least[batch, None], most[batch, None]
        stakes.mu[batch], stakes.nu[batch] = growth.highest(*bounds, edges[batch, None])
    return stakes


@dataclass(frozen=True, slots=True)
class _Growth:
    """Mean log growth of each stake, by route, under five alternatives of n arms.

    Attributes:
        auto: shape (n, 5, len(_COARSE_STAKES)).
        review: shape (n, 5, len(_FINE_STAKES)).
    """

    auto: Singles
    review: Singles

    def highest(self, least: Int64s, most: Int64s, k: Int64s) -> tuple[Int64s, Int64s]:
        """Return indices into MU and _NU of the best stakes about levels k, (n, 5, levels)."""
        rise, possible = self._rise(), least <= most
        k = np.where(possible, k, 0)  # any level that is on both grids
        low, high = np.where(possible, least, 0), np.where(possible, most, 0)
        for _ in range(len(_COARSE_STAKES).bit_length()):
            middle = (low + high + 1) >> 1
            rises = rise.at(middle, k) > 0
            low = np.where(rises, middle, low)
            high = np.where(rises, high, np.maximum(middle - 1, low))
        bets = possible & (self.at(low, k) > 0)
        return np.where(bets, low, len(MU) - 1), np.where(bets, COARSE * low + k, len(_NU) - 1)

    def at(self, stakes: Int64s, k: Int64s) -> Singles:
        """Return the mean log growth at each pair of stakes: MU[stakes], and a level k of _NU.

        ``stakes`` and ``k`` broadcast against the rows.
        """
        return _take_last_axis(self.auto, stakes) + _take_last_axis(
            self.review, COARSE * stakes + k
        )

    def _rise(self) -> _Growth:
        """Return the increase from each stake to the next on the grid of ``auto``, by route."""
        auto, review = np.zeros_like(self.auto), np.zeros_like(self.review)
        np.subtract(self.auto[..., 1:], self.auto[..., :-1], out=auto[..., 1:])
        np.subtract(self.review[..., COARSE:], self.review[..., :-COARSE], out=review[..., COARSE:])
        return _Growth(auto, review)


def _weighted_logs(weights: Singles, with_y: Floats, without: Floats) -> Singles:
    """Return ``weights[0] * with_y + weights[1] * without``, (n, 5, stakes), without stake 0."""
    first, second = (logs[:, None, :-1].astype(np.float32) for logs in (with_y, without))
    mixed: Singles = weights[0] * first + weights[1] * second
    return mixed


def _take_last_axis(values: npt.NDArray[Real], at: Int64s) -> npt.NDArray[Real]:
    """Return the entries of ``values`` at places along the last axis; a faster take_along_axis."""
    rows = np.arange(math.prod(values.shape[:-1])).reshape(*values.shape[:-1], 1)
    taken: npt.NDArray[Real] = np.take(values, rows * values.shape[-1] + at)
    return taken


def _safe_range(reach: Reach, side: Side, k: Int64s) -> tuple[Int64s, Int64s]:
    """Return the least and largest safe index into MU about each level, for stakes on both grids.

    The most is below the least where no bet is possible, as on levels beyond ``LAST``.
    """
    safe = np.log(divide(SAFE, reach.losses(side), empty=np.inf))
    steps = np.array([FINE * COARSE, FINE])
    sizes = np.array([len(_COARSE_STAKES), len(_FINE_STAKES)])
    last = np.minimum(np.floor((safe - _LOW) / steps), sizes - 1).astype(np.int64)
    most = np.minimum(last[:, :1], (last[:, 1:] - k) // COARSE)
    return np.maximum(-(k // COARSE), 0), np.where(k > LAST, -1, most)
