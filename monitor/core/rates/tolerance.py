"""The range in which a comparison keeps to a limit: of gaps around 0, of ratios around 1.

Both are looked at in both directions, whoever is worse off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
"""Limits are inclusive, and a bound carries rounding of about 1e-16: one that equals its limit
but for that is not beyond it."""

STEP = 0.01
"""Resolution of shown bounds: nothing within the limit is left of one that is a step beyond it."""

_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Range that a contract allows of a comparison, both ends inclusive.

    Attributes:
        low: smallest gap or ratio: minus the limit, or the limit.
        high: largest one: the limit, or one over the limit.
        ratio: whether ratios are limited, and not differences.
    """

    low: float
    high: float
    ratio: bool = False

    @classmethod
    def of_gap(cls, limit: Fraction | float) -> Self:
        """Gaps of at most ``limit``, in both directions."""
        return cls(-float(limit), float(limit))

    @classmethod
    def of_ratio(cls, limit: Fraction | float) -> Self:
        """Ratios of the lower to the higher rate of at least ``limit``, above 0."""
        return cls(float(limit), float(1 / limit), ratio=True)

    @classmethod
    def of_level(cls, lowest: float = -inf, highest: float = inf) -> Self:
        """Rates from ``lowest`` to ``highest``."""
        return cls(lowest, highest)

    @property
    def below(self) -> float:
        """A step of shown bounds below the range."""
        return round(self.low - STEP, 6)

    @property
    def above(self) -> float:
        """A step of shown bounds above the range."""
        return round(self.high + STEP, 6)

    def interval(self, gaps: GapColumns) -> tuple[Floats, Floats, Floats]:
        """Point, lower and upper bound of what is limited."""
        if self.ratio:
            return gaps.ratio, gaps.ratio_lower, gaps.ratio_upper
        return gaps.value, gaps.lower, gaps.upper

    def verdict_of(self, lower: float | None, upper: float | None) -> Verdict:
        """Return the verdict on one shown interval; None is a bound that nobody knows.

        Beyond the range is BETTER_OFF on the side of a gap or ratio where the slice is better off.

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
        """True where a shown gap, ratio or rate is in the range."""
        return self.low - SLACK <= number <= self.high + SLACK

    def with_bounds(self, gaps: GapColumns, lower: Floats, upper: Floats) -> GapColumns:
        """The comparisons with other bounds of what is limited."""
        if self.ratio:
            return replace(gaps, ratio_lower=lower, ratio_upper=upper)
        return replace(gaps, lower=lower, upper=upper)

    def sides_within(self, gaps: GapColumns) -> tuple[_Bools, _Bools]:
        """Lower bounds that are not below the range, and upper ones that are not above it."""
        _, lower, upper = self.interval(gaps)
        return lower >= self.low - SLACK, upper <= self.high + SLACK

    def within(self, gaps: GapColumns) -> _Bools:
        """Comparisons whose whole interval is in the range."""
        not_below, not_above = self.sides_within(gaps)
        return not_below & not_above

    def worse_off(self, gaps: GapColumns) -> _Bools:
        """Comparisons whose whole interval is beyond the range where the slice is worse off."""
        below, above = self._sides_beyond(gaps)
        return below if self.ratio else above

    def better_off(self, gaps: GapColumns) -> _Bools:
        """Comparisons whose whole interval is beyond the range where the slice is better off."""
        below, above = self._sides_beyond(gaps)
        return above if self.ratio else below

    def _sides_beyond(self, gaps: GapColumns) -> tuple[_Bools, _Bools]:
        """Comparisons whose whole interval is below the range, and those where it is above.

        Ratios are limited of selection rates alone, whose lower rate is the worse one.
        """
        _, lower, upper = self.interval(gaps)
        return upper < self.low - SLACK, lower > self.high + SLACK
