"""Evidence that a rate differs between two groups of decisions by more than the contract allows.

Arm a is the supposedly higher one, arm b the lower; they are disjoint. For any rates with
a - b <= delta, some interval of levels [c, d] holds b, so that b >= c and a <= d + delta, and both
factors of ``e_a(above d + delta) e_b(below c)`` have mean at most 1. Hence::

    e = min over the intervals of e_a(above d + delta) e_b(below c),    E[e] <= 1

The intervals cover [0, 1]. Both factors are bets as in :mod:`~monitor.detection.pages.levels`, with
the stake that grows fastest under one alternative (Kelly 1956), or 0 where the alternative itself
is on the innocent side of the level.

Rates may change freely between bets. Within one bet, a - b <= delta must hold for the means over
the bet, weighted by P(y): a bet should not span a day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.detection.pages.bet_sizes import (
    FINE,
    LAST,
    BetSizes,
    BetTable,
    ComparisonCounts,
    Logs,
    Tables,
    level,
    raised,
)
from monitor.detection.pages.outcomes import Outcomes, Side
from monitor.detection.pages.projection import EXCESSES
from monitor.detection.pages.served_bets import ServedCounts, ServedTable


def _offsets() -> Int64s:
    """Return steps from the decisive level to the bet's levels: all nearby, fewer far away."""
    runs = ((0, 20, 1), (20, 40, 2), (40, 80, 4), (80, 176, 12), (176, 2 * LAST + 1, 40))
    right = np.concatenate([np.arange(start, stop, step) for start, stop, step in runs])
    return np.concatenate([-right[:0:-1], right])


_OFFSETS = _offsets()


@dataclass(frozen=True, slots=True)
class GapBets:
    """A contract's gap limit on one metric, from which a day's bets are planned.

    Attributes:
        metric: TPR, FPR or PRECISION.
        delta: the limit, in [0, 1).
    """

    metric: Metric
    delta: float

    def plan(self, outcomes: Outcomes, reference: int | None = None) -> GapPlan:
        """Return a day's levels and stakes for every slice, in both directions.

        Args:
            outcomes: the outcomes of the day.
            reference: row of the common reference (its own plan is meaningless); None for
                complements.
        """
        served = self.metric.of_ready
        table, arms = (ServedTable, ServedCounts) if served else (BetTable, ComparisonCounts)
        tables = {side: table.from_outcomes(outcomes, self.metric, side) for side in Side}
        slices = arms.slices(outcomes, self.metric)
        reference_counts = arms.references(outcomes, self.metric, reference)
        return GapPlan(
            tables,
            self._bets_on(tables, slices, reference_counts),
            self._bets_on(tables, reference_counts, slices),
            not self.metric.harmed_by_less,
        )

    def _bets_on(self, tables: Tables, higher: ComparisonCounts, lower: ComparisonCounts) -> _Bets:
        """Return the bets that the rate of ``higher`` exceeds ``lower``'s by more than delta."""
        rates = self._alternatives(higher, lower)
        middle = (rates[0, :, 1] + rates[1, :, 1] - self.delta) / 2
        middle = np.clip(middle, level(-LAST), level(LAST))
        centre = np.rint(np.log(middle / (1 - middle)) / FINE).astype(np.int64)
        edges = np.clip(centre[:, None] + _OFFSETS, -LAST, LAST)
        return _Bets(
            higher.stakes(tables[Side.ABOVE], rates[0], raised(edges, self.delta)),
            lower.stakes(tables[Side.BELOW], rates[1], edges),
        )

    def _alternatives(self, higher: ComparisonCounts, lower: ComparisonCounts) -> Floats:
        """Return five pairs of rates beyond the limit; the better-off arm keeps its rate.

        Most gaps open because the service of one arm gets worse. Alternatives around the pooled
        rate need two to three times as long between slices of equal size.

        Returns:
            Shape (2, P, 5): a, then b = a - gap.
        """
        gap = self.delta + EXCESSES
        worse_is_higher = not self.metric.harmed_by_less
        better = lower.rate[:, None] + gap if worse_is_higher else higher.rate[:, None]
        b = np.maximum(np.minimum(better, 0.995) - gap, 0.005)
        return np.stack([np.minimum(b + gap, 0.995), b])


@dataclass(frozen=True, slots=True)
class GapPlan:
    """Bets of one day on the gaps of all slices of a group-by, made before its decisions.

    Attributes:
        tables: logs of the factors, by the side that a bet is for.
        slice_higher: bets that the slice's rate is higher than its reference's.
        reference_higher: bets that it is lower.
        worse_is_higher: whether a higher rate is the worse one.
    """

    tables: Tables
    slice_higher: _Bets
    reference_higher: _Bets
    worse_is_higher: bool

    def log_e(self, rows: Int64s, slices: Floats, references: Floats) -> Floats:
        """Return log e-values that the slice, and that the reference, is worse off.

        Args:
            rows: the n betting slices.
            slices: their outcomes, shape (n, J).
            references: the outcomes of their references, shape (n, J).

        Returns:
            Shape (2, n, 5): slice worse, reference worse; a column per alternative.
        """
        of_slice = {side: table.logs(slices) for side, table in self.tables.items()}
        of_reference = {side: table.logs(references) for side, table in self.tables.items()}
        by_higher_arm = [
            self.slice_higher.log_e(rows, of_slice[Side.ABOVE], of_reference[Side.BELOW]),
            self.reference_higher.log_e(rows, of_reference[Side.ABOVE], of_slice[Side.BELOW]),
        ]
        return np.stack(by_higher_arm if self.worse_is_higher else by_higher_arm[::-1])


@dataclass(frozen=True, slots=True)
class _Bets:
    """Bets that a - b > delta, with stakes at every edge between two intervals of levels.

    Attributes:
        higher: bets that a is above the edge + delta.
        lower: bets that b is below the edge.
    """

    higher: BetSizes
    lower: BetSizes

    def log_e(self, rows: Int64s, a: Logs, b: Logs) -> Floats:
        """Return the smallest log e-value over the intervals of levels, shape (n, 5)."""
        above_upper, below_lower = a.of_stakes(self.higher, rows), b.of_stakes(self.lower, rows)
        inner = (above_upper[:, :, 1:] + below_lower[:, :, :-1]).min(axis=2)
        outer = np.minimum(above_upper[:, :, 0], below_lower[:, :, -1])
        log_e: Floats = np.minimum(inner, outer)
        return log_e
