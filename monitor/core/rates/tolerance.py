"""Range in which a comparison keeps its limit: gaps around 0, ratios around 1.

Limits apply in both directions, whichever side is worse off.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Verdict
from monitor.core.intervals import Floats

if TYPE_CHECKING:
    from monitor.core.rates.gaps import GapColumns

SLACK = 1e-12
"""Slack of inclusive limits: a bound that exceeds its limit only by rounding, about 1e-16, is not
beyond it."""

_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Range that a limit allows for gaps, ratios or rates, both ends inclusive.

    Attributes:
        low: smallest gap or ratio: minus the limit, or the limit.
        high: largest gap or ratio: the limit, or one over the limit.
        ratio: True if ratios are limited, not differences.
    """

    low: float
    high: float
    ratio: bool = False

    @classmethod
    def of_gap(cls, limit: Fraction | float) -> Self:
        """Return the tolerance of gaps from ``-limit`` to ``limit``."""
        return cls(-float(limit), float(limit))

    @classmethod
    def of_ratio(cls, limit: Fraction | float) -> Self:
        """Return the tolerance of ratios from ``limit``, which is above 0, to ``1 / limit``."""
        return cls(float(limit), float(1 / limit), ratio=True)

    @classmethod
    def of_level(cls, lowest: float = -inf, highest: float = inf) -> Self:
        """Return the tolerance of rates from ``lowest`` to ``highest``."""
        return cls(lowest, highest)

    def interval(self, gaps: GapColumns) -> tuple[Floats, Floats, Floats]:
        """Return (point, lower, upper) of the ratios if ratios are limited, else of the gaps."""
        if self.ratio:
            return gaps.ratio, gaps.ratio_lower, gaps.ratio_upper
        return gaps.value, gaps.lower, gaps.upper

    def verdict_of(self, lower: float | None, upper: float | None) -> Verdict:
        """Return the verdict on one shown interval; None is an unknown bound.

        An interval beyond the range is BETTER_OFF on the side where the slice is better off.

        Example:
            >>> Tolerance.of_gap(0.1).verdict_of(0.11, 0.2).value
            'fail'
            >>> Tolerance.of_ratio(0.8).verdict_of(0.7, None).value
            'inconclusive'
        """
        low, high = -inf if lower is None else lower, inf if upper is None else upper
        above, below = low > self.high + SLACK, high < self.low - SLACK
        if above or below:
            low_is_bad = self.ratio or self.high == inf
            return Verdict.FAIL if below is low_is_bad else Verdict.BETTER_OFF
        within = low >= self.low - SLACK and high <= self.high + SLACK
        return Verdict.PASS if within else Verdict.INCONCLUSIVE

    def holds(self, number: float) -> bool:
        """Return True when a shown gap, ratio or rate is in the range."""
        return self.low - SLACK <= number <= self.high + SLACK

    def sides_within(self, gaps: GapColumns) -> tuple[_Bools, _Bools]:
        """Return two masks: lower bound not below the range, upper bound not above the range."""
        _, lower, upper = self.interval(gaps)
        return lower >= self.low - SLACK, upper <= self.high + SLACK

    def within(self, gaps: GapColumns) -> _Bools:
        """Return a mask: True where the interval of a comparison is in the range."""
        not_below, not_above = self.sides_within(gaps)
        return not_below & not_above

    def worse_off(self, gaps: GapColumns) -> _Bools:
        """Return a mask: True where an interval is beyond the range, the slice worse off."""
        below, above = self._sides_beyond(gaps)
        return below if self.ratio else above

    def better_off(self, gaps: GapColumns) -> _Bools:
        """Return a mask: True where an interval is beyond the range, the slice better off."""
        below, above = self._sides_beyond(gaps)
        return above if self.ratio else below

    def _sides_beyond(self, gaps: GapColumns) -> tuple[_Bools, _Bools]:
        """Return two masks: interval below the range, and interval above the range.

        Only ratios of selection rates are limited, whose lower rate is the worse one.
        """
        _, lower, upper = self.interval(gaps)
        return upper < self.low - SLACK, lower > self.high + SLACK
