"""Evidence that the TPR of a slice is below a floor, or its FPR above a ceiling.

``e = prod(1 + lam z)`` (``prod(1 - lam z)`` for a floor) over the decisions of a cohort, with z
from :mod:`~monitor.detection.pages.outcomes`. ``E[e] <= 1`` while the contract holds and the audit
rates or the forecasts are right, however rates drift: it is a supermartingale, which the
Shiryaev-Roberts mixture sums (Waudby-Smith and Ramdas 2024, JRSS B 86, on betting).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.detection.pages.outcomes import Outcomes, Side

FRACTIONS = (0.02, 0.05, 0.12, 0.25, 0.5, 0.9)
"""Parts of the largest possible stake; small ones are best for a rate near its limit. All are below
:data:`~monitor.detection.pages.outcomes.SAFE`, so no factor is ever 0."""

STAKES = np.append(0.0, np.geomspace(1e-4, 100, 241))
"""Shared grid of stakes lam, 6 % apart: a stake 6 % off costs 0.3 % of the information. The first
is for slices that do not bet."""


@dataclass(frozen=True, slots=True)
class LevelBets:
    """A contract's level, from which a day's bets are planned: a TPR floor or an FPR ceiling."""

    metric: Metric
    limit: float

    @property
    def side(self) -> Side:
        """Return the side of the limit on which the contract is broken."""
        return Side.BELOW if self.metric.harmed_by_less else Side.ABOVE

    def plan(self, outcomes: Outcomes) -> LevelPlan:
        """Return a day's stakes for every slice, chosen without data of the day itself."""
        reach = outcomes.reach(self.metric, outcomes.possible())
        stakes = np.outer(1 / reach.largest_loss(self.side, self.limit), FRACTIONS)
        index = np.searchsorted(STAKES, stakes, side="right") - 1
        index[~outcomes.known] = 0
        used_stakes, position = np.unique(index, return_inverse=True)
        z = self.side.value * outcomes.evidence_per_decision(self.metric, self.side, self.limit)
        return LevelPlan(log_factors(z, STAKES[used_stakes]), position.reshape(index.shape))


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """Bets of one day on one level, for all slices of a group-by.

    Attributes:
        logs: log(1 +- lam z), shape (J, stakes).
        chosen: column of ``logs`` per slice and fraction, shape (S, 6).
    """

    logs: Floats
    chosen: Int64s

    def log_e(self, counts: Floats) -> Floats:
        """Return log e-values of outcome counts, per slice and fraction, shape (S, 6).

        Args:
            counts: outcomes of this day, shape (S, J).

        Returns:
            Shape (S, 6), a column per entry of :data:`FRACTIONS`; to be mixed with equal weights.
        """
        log_e: Floats = np.take_along_axis(counts @ self.logs, self.chosen, axis=1)
        return log_e


def log_factors(z: Floats, stakes: Floats) -> Floats:
    """Return log(1 + lam z) of each outcome and stake, shape (J, stakes).

    A stake that an outcome could ruin is never chosen where that outcome is possible; its entry is
    finite (the log of almost 0), so that a count of 0 times it is 0.
    """
    factors = np.maximum(1 + np.multiply.outer(z, stakes), np.finfo(np.float64).tiny)
    logs: Floats = np.log(factors)
    return logs
