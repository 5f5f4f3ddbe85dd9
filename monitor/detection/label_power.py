"""Label needs: weeks until labels can decide, in three classes, and the gap four weeks can find.

Both are computed from published numbers (rounded rates, lower edges of support bands), so they
reveal nothing more. A gap g beyond its limit is **found** when the lower bound of its interval
(MOVER of Wilson's, at the z of the contract's comparisons) is above the limit. With equal support
added each week, it is found with a probability of at least :data:`POWER` once

    lower bound at z + z_power of a gap estimated as g  >  limit

because the estimate lies more than z_power standard errors below g only in the other cases. If few
decisions are audited, the support of a slice falls a little with its TPR; the lower edges of the
bands make up for it: simulated gaps of the printed size are found in 83 to 98 %.

Example:
    >>> arms = PowerDesign(Metric.TPR, *(np.array([number]) for number in (0.9, 60.0, 400.0)))
    >>> [need.value for need in label_needs(arms, Fraction("0.10"), z=1.96)]
    ['more_than_four_weeks']
    >>> detectable_gaps(arms, Fraction("0.10"), z=1.96)
    [0.18]
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from monitor.core.contract import COMPLEMENT
from monitor.core.intervals import Floats, divide, mover, wilson
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import GroupTable, ShownRate
from monitor.core.rates.gaps import Bools
from monitor.core.time import WEEK

POWER = 0.80
"""Probability of finding the gap that a need or a detectable gap promises."""

BEYOND = Fraction(1, 20)
"""Distance above the limit of the gap that label needs refer to."""

WEEKS = (1.0, 4.0)
"""Edges of the classes of needs; detectable gaps use the second."""

_Z_POWER = NormalDist().inv_cdf(POWER)
_STEPS = 100  # detectable gaps are reported in whole points
_SLACK = 1e-9  # 0.15 - 0.15 is not quite 0 in floats


class LabelNeed(enum.StrEnum):
    """Weeks of labels, at their present rate, until a gap of the limit + 0.05 is found."""

    LESS_THAN_ONE_WEEK = "less_than_one_week"
    ONE_TO_FOUR_WEEKS = "one_to_four_weeks"
    MORE_THAN_FOUR_WEEKS = "more_than_four_weeks"


@dataclass(frozen=True, slots=True)
class PowerDesign:
    """Published rates and weekly supports of S slices and their references, shape (S,).

    Attributes:
        metric: metric of the gap.
        reference_rate: the rounded rate, or its code; NaN where it is hidden.
        slice_weekly: support of a slice in a week, the lower edge of its band; 0 where hidden.
        reference_weekly: support of its reference in a week, in the same way.
    """

    metric: Metric
    reference_rate: Floats
    slice_weekly: Floats
    reference_weekly: Floats

    def finds(self, gap: float | Floats, limit: Fraction, weeks: float, z: float) -> Bools:
        """Return True for slices for which ``weeks`` of labels would find ``gap``.

        Gaps of shape (G, 1) are tested at once; the result has shape (G, S). Gaps that would put
        the slice's rate outside [0, 1] are not found.
        """
        slice_interval = _interval(self._worse_off(gap), weeks * self.slice_weekly, z)
        reference_interval = _interval(self.reference_rate, weeks * self.reference_weekly, z)
        worse, better = (
            (reference_interval, slice_interval)
            if self.metric.harmed_by_less
            else (slice_interval, reference_interval)
        )
        lower, _ = mover(*worse, *better)
        return np.asarray(self.can_be(gap) & (lower > float(limit) + _SLACK), bool)

    def can_be(self, gap: float | Floats) -> Bools:
        """Return True for slices whose numbers are shown and whose rate leaves room for the gap."""
        rate = self._worse_off(gap)  # NaN is neither above 0 nor below 1
        shown = np.minimum(self.slice_weekly, self.reference_weekly) > 0
        return np.asarray(shown & (rate >= -_SLACK) & (rate <= 1 + _SLACK), bool)

    def _worse_off(self, gap: float | Floats) -> Floats:
        """Return the slices' rates if they were worse than their references by ``gap``."""
        return self.reference_rate + (-gap if self.metric.harmed_by_less else gap)


def label_needs(arms: PowerDesign, limit: Fraction, z: float) -> list[LabelNeed | None]:
    """Return the label need of each slice; None where a number is hidden, or the gap impossible.

    Args:
        arms: slices and references as published.
        limit: limit of the contract on the gap.
        z: normal quantile of the contract's intervals
            (:func:`monitor.core.rates.gaps.simultaneous_z`).
    """
    gap = float(limit + BEYOND)
    soon, later = (arms.finds(gap, limit, weeks, z) for weeks in WEEKS)
    needs = np.where(soon, 0, np.where(later, 1, 2))
    return [
        tuple(LabelNeed)[need] if possible else None
        for need, possible in zip(needs.tolist(), arms.can_be(gap).tolist(), strict=True)
    ]


def detectable_gaps(
    arms: PowerDesign, limit: Fraction, z: float, weeks: float = WEEKS[1]
) -> list[float | None]:
    """Return the smallest gap of each slice, in whole points, that ``weeks`` of labels find.

    None where a number is hidden, or where no possible gap would be found.

    Args:
        arms: slices and references as published.
        limit: limit of the contract on the gap.
        z: normal quantile of the contract's intervals.
        weeks: weeks of labels, at the rate of ``arms``.
    """
    points = [step / _STEPS for step in range(int(limit * _STEPS) + 1, _STEPS + 1)]
    is_found = arms.finds(np.array(points)[:, None], limit, weeks, z)
    return [points[row.index(True)] if any(row) else None for row in is_found.T.tolist()]


def arms_of(metric: Metric, table: GroupTable, reference: str) -> PowerDesign:
    """Return one metric's weekly supports of a table's rows, and rates of their references.

    Only the shown rows of a complement are known: its rate is their mean, weighted by support.

    Args:
        metric: a labelled metric.
        table: a table with a period of labels.
        reference: slice text, or ``complement``.
    """
    period, rows = table.labelled, table.rows
    weeks = ((period.end - period.start) / WEEK if period else 0) or 1  # empty: no labels
    rates = [row.rates.get(metric) for row in rows]
    points = np.array([_point(rate) for rate in rates])
    supports = np.array([0 if rate is None else rate.support for rate in rates], np.float64)
    supports[np.isnan(points)] = 0
    slice_supports, hits = supports, np.nan_to_num(points) * supports
    if reference == COMPLEMENT:
        reference_supports, hits = supports.sum() - supports, hits.sum() - hits
    else:
        is_reference = np.array([row.slice == reference for row in rows], bool)
        slice_supports = np.where(is_reference, 0, supports)
        reference_supports, hits = (
            np.full(len(rows), column[is_reference].sum()) for column in (supports, hits)
        )
    compared: Floats = divide(hits, reference_supports)
    return PowerDesign(metric, compared, slice_supports / weeks, reference_supports / weeks)


def _point(rate: ShownRate | None) -> float:
    """Return the published rate, or the bound in its place; NaN without either."""
    published = (rate.value, rate.at_least, rate.at_most) if rate is not None else ()
    return next((number for number in published if number is not None), np.nan)


def _interval(rate: Floats, support: Floats, z: float) -> tuple[Floats, Floats, Floats]:
    lower, upper = wilson(np.clip(rate, 0, 1), support, z + _Z_POWER)
    return np.clip(rate, 0, 1), lower, upper
