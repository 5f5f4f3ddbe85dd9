"""Bets on precision, P(ready | auto_serve): served decisions alone count.

A stake lam on ``z = D (g - c)`` about a level c, D being 1 for auto_serve, has the factor::

    1 + lam (g - c) = (1 + mu g) / (1 + mu c),    mu = lam / (1 - lam c)

for every served decision; for the other side the signs of lam and mu are swapped. So the logs of
all stakes about all levels are the logs of ``1 + mu g``, which do not depend on the level, minus
``log(1 + mu c)`` per served decision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats, divide
from monitor.detection.pages.bet_sizes import (
    ARMS_AT_ONCE,
    LAST,
    MU,
    BetSizes,
    BetTable,
    ComparisonCounts,
    Logs,
    level,
)
from monitor.detection.pages.outcomes import SAFE, Reach, Side

_NONE = len(MU) - 1


class ServedTable(BetTable):
    """Log factors of auto_serve decisions under every stake, for bets on precision."""

    def logs(self, counts: Floats) -> ServedLogs:
        """Return log factors of all stakes, summed over outcome counts of shape (n, J)."""
        served = counts[:, self.route]
        return ServedLogs(served @ self.auto, served.sum(axis=1, keepdims=True), self.side)


@dataclass(frozen=True, slots=True)
class ServedLogs(Logs):
    """Log factors of all stakes on precision, before a level is subtracted.

    Attributes:
        auto: logs of 1 + mu g or 1 - mu g, shape (n, len(MU)).
        review: number of served decisions, shape (n, 1).
        side: side of the level that the bets are for.
    """

    side: Side

    def of_stakes(self, stakes: BetSizes, rows: Int64s) -> Floats:
        """Return the log e-values of the rows' chosen stakes, shape (n, 5, levels)."""
        mu, k = stakes.mu[rows].astype(np.int64), stakes.nu[rows]
        route_logs = np.take_along_axis(self.auto, mu.reshape(len(rows), -1), axis=1).reshape(
            mu.shape
        )
        log_e: Floats = route_logs - self.review[:, :, None] * np.log1p(
            self.side.value * MU[mu] * level(k)
        )
        return log_e


class ServedCounts(ComparisonCounts):
    """Expected decisions of P arms for bets on precision, where y is ready."""

    @property
    def rate(self) -> Floats:
        """Return P(ready | auto_serve), shape (P,); 0.5 for an arm without a past."""
        return divide(self.mass[0, :, 0], self.mass[:, :, 0].sum(axis=0), empty=0.5)

    def stakes(self, table: BetTable, rates: Floats, edges: Int64s) -> BetSizes:
        """Return indices of the stakes that grow fastest, per arm, alternative and level.

        Args:
            table: the table of the side that they bet for.
            rates: rates of the alternatives, shape (P, 5).
            edges: levels, shape (P, levels).
        """
        ready, not_ready = self._mean_logs(table)
        levels = level(np.clip(edges, -LAST, LAST))[..., None]
        # Only unsafe stakes would be charged more.
        charge = np.log1p(np.maximum(table.side.value * MU * levels, -SAFE))
        indices = np.empty((*rates.shape, edges.shape[1]), np.int16)
        for start in range(0, len(rates), ARMS_AT_ONCE):
            batch = slice(start, start + ARMS_AT_ONCE)
            chance = rates[batch, :, None]
            grown = chance * ready[batch, None] + (1 - chance) * not_ready[batch, None]
            indices[batch] = (grown[:, :, None] - charge[batch, None]).argmax(axis=-1)
        beyond = np.broadcast_to((edges > LAST)[:, None], indices.shape)
        levels_bet = np.broadcast_to(np.minimum(edges, LAST)[:, None], indices.shape)
        return BetSizes(
            np.where(beyond, _NONE, indices).astype(np.int16), levels_bet.astype(np.int16)
        )

    def _mean_logs(self, table: BetTable) -> list[Floats]:
        """Return mean logs of ready and of not ready decisions; -inf for unsafe stakes.

        Each has shape (P, len(MU)); an arm without a past has only the stake of 0.
        """
        safe = _largest_stake(self.reach, table.side)[:, None] >= MU
        mean_logs = []
        for traffic, mass in zip(self.traffic, self.mass[:, :, :1], strict=True):
            logs = divide(traffic[:, table.route] @ table.auto, mass, empty=-np.inf)
            logs = np.where(safe, logs, -np.inf)
            logs[:, _NONE] = 0
            mean_logs.append(logs)
        return mean_logs


def _largest_stake(reach: Reach, side: Side) -> Floats:
    """Return the largest stake mu that can cost at most SAFE at any level, shape (P,)."""
    if side is Side.ABOVE:
        return SAFE / (reach.down[:, 0] + 1 - SAFE)
    return SAFE / reach.up[:, 0]
