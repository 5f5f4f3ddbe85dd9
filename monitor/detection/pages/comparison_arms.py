"""Both arms of a comparison: groups of decisions, and what the past says of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Metric
from monitor.core.intervals import Floats, divide
from monitor.detection.pages.outcomes import Outcomes, Reach


@dataclass(frozen=True, slots=True)
class ComparisonCounts:
    """Expected counts of P groups of decisions, from the past.

    Attributes:
        traffic: decisions with y, and without, by outcome; shape (2, P, J).
        mass: the same by route, shape (2, P, 2).
        reach: of their scores.
    """

    traffic: Floats
    mass: Floats
    reach: Reach

    @classmethod
    def slices(cls, outcomes: Outcomes, metric: Metric) -> ComparisonCounts:
        """Every slice."""
        return cls._of(outcomes, metric, outcomes.traffic, outcomes.possible())

    @classmethod
    def references(
        cls, outcomes: Outcomes, metric: Metric, reference: int | None
    ) -> ComparisonCounts:
        """Reference of every slice: one row for all, or each one's complement (None)."""
        traffic, possible = outcomes.traffic, outcomes.possible()
        if reference is None:
            rest = traffic.sum(axis=1, keepdims=True) - traffic
            return cls._of(outcomes, metric, rest, possible.sum(axis=0) - possible > 0)
        same = np.full(len(possible), reference)
        return cls._of(outcomes, metric, traffic[:, same], possible[same])

    @classmethod
    def _of(
        cls,
        outcomes: Outcomes,
        metric: Metric,
        traffic: Floats,
        possible: npt.NDArray[np.bool_],
    ) -> ComparisonCounts:
        by_y = np.maximum(traffic if metric is Metric.TPR else traffic[::-1], 0)
        by_route = [by_y[:, :, route].sum(axis=2) for route in (outcomes.auto, ~outcomes.auto)]
        mass: Floats = np.stack(by_route, axis=2)
        return cls(by_y, mass, outcomes.reach(metric, possible))

    @property
    def trials(self) -> Floats:
        """Decisions with y, shape (P,)."""
        trials: Floats = self.mass[0].sum(axis=1)
        return trials

    @property
    def rate(self) -> Floats:
        """P(auto_serve | y), shape (P,)."""
        return divide(self.mass[0, :, 0], self.trials, empty=0.5)

    def cells(self, rates: Floats) -> Floats:
        """P(y or not, route) if P(auto_serve | y) were another and the rest as it was.

        Args:
            rates: shape (P, 5).

        Returns:
            Shape (2, 2, P, 5, 1): y, route; zeros for an arm without a past.
        """
        other = divide(self.mass[1, :, 0], self.mass[1].sum(axis=1), empty=0)[:, None]
        share = divide(self.trials, self.mass.sum(axis=(0, 2)), empty=0)[:, None]
        rest = np.where(np.any(self.mass, axis=(0, 2)), 1 - share[:, 0], 0)[:, None]
        with_y = share * np.stack([rates, 1 - rates])
        without = np.broadcast_to(rest * np.stack([other, 1 - other]), with_y.shape)
        return np.stack([with_y, without])[..., None]
