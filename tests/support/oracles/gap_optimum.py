"""How fast a gap under sampled labels can be found at all: the information limit of two arms.

Of all worlds that hold the contract, one is the hardest to tell from the truth; no test with the
same false alarms grows faster than the divergence from it. That world has one level: the better
arm's rate is at most the level plus the limit, the worse arm's at least the level.

For one arm and one level the divergence is the largest growth of a bet that is fair there: with D
1 for auto_serve and s the side, a decision without a label brings u, one labelled ready r, any
other n, with ``p n + (1 - p) u = 1`` and ``p r + (1 - p) u = 1 + s lam (D - level)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from fleet_optimum import limit
from scipy.optimize import minimize_scalar

from monitor.core.intervals import Floats

_BISECTIONS = 60


@dataclass(frozen=True)
class Arm:
    """One side of a comparison.

    Attributes:
        cells: P(route, band, ready) of a decision, shape (2, B, 2); auto_serve is route 0.
        daily: decisions a day.
        audit: rate of auto_serve; of human_review everything is labelled.
    """

    cells: Floats
    daily: float
    audit: float

    @property
    def tpr(self) -> float:
        """P(auto_serve | ready)."""
        return float(self.cells[0, :, 1].sum() / self.cells[:, :, 1].sum())

    def information(self, level: float, side: int) -> float:
        """Nats a day against the nearest world with a TPR beyond the level.

        Args:
            level: in (0, 1).
            side: 1 if the truth is above it, -1 if it is below.
        """
        if side * (self.tpr - level) <= 0:
            return 0.0
        gain = side * (np.array([1.0, 0.0]) - level)
        top = (1 - 1e-9) / -gain.min()
        found = minimize_scalar(
            lambda stake: -self._growth(stake * gain), bounds=(0, top), method="bounded",
            options={"xatol": 1e-9 * top},
        )  # fmt: skip
        return -float(found.fun) * self.daily

    def _growth(self, gain: Floats) -> float:
        """Mean log of the best bet in which a ready decision of each route brings so much."""
        asked, ready = np.array([[self.audit], [1.0]]), 1 + gain[:, None]
        p0, p1 = self.cells[..., 0], self.cells[..., 1]
        free = np.maximum(1 - asked, 1e-12)
        low, high = np.zeros_like(p0), np.minimum(1, ready) / free * np.ones_like(p0)
        for _ in range(_BISECTIONS):
            u = (low + high) / 2
            n, r = (1 - free * u) / asked, (ready - free * u) / asked
            rises = (p0 + p1) / u > p0 / n + p1 / r
            low, high = np.where(rises, u, low), np.where(rises, high, u)
        n, r = (1 - free * low) / asked, (ready - free * low) / asked
        labelled = p0 * np.log(n) + p1 * np.log(r)
        return float((asked * labelled + (1 - asked) * (p0 + p1) * np.log(low)).sum())


def gap_information(better: Arm, worse: Arm, allowed: float) -> float:
    """Nats a day of both arms together against the nearest world that holds the contract."""

    def together(level: float) -> float:
        return better.information(level + allowed, 1) + worse.information(level, -1)

    bounds = (worse.tpr, better.tpr - allowed)
    return float(minimize_scalar(together, bounds=bounds, method="bounded").fun)


def gap_limit_days(better: Arm, worse: Arm, allowed: float, days_to_false_alarm: float) -> float:
    """Days until the best rule pages, at a mean of so many days to a false page."""
    return limit(gap_information(better, worse, allowed), days_to_false_alarm)
