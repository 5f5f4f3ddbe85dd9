"""Counts as far as tables show them, and the sums of several spans.

A count may be any number of its band; so its mean is the band's middle, and its variance that of a
uniform number. Sums add means, variances and both ends. But of counts below k they add standard
deviations: one that is near 0 in a span is near 0 in the next, so their errors do not cancel out.
The design effect of a sum is the mean of its spans, weighted by the decisions of each.

Example:
    >>> from monitor.core.tables.bands import row_rule
    >>> day = Counted.from_bands(row_rule(np.array([[60, 4]]), 11))
    >>> week = Counted.total([day] * 7)
    >>> week.low.tolist(), week.high.tolist(), week.shown.tolist()
    ([[385], [0]], [[455], [70]], [True])
    >>> np.sqrt(week.variance).round(1).tolist()
    [[7.6], [20.2]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats, divide
from monitor.core.tables.bands import Bands, Bools, Detail


@dataclass(frozen=True, slots=True)
class Counted:
    """Bounds and variances of counts in one span or a sum of several, shape (parts, rows).

    Attributes:
        low: smallest number that each may be.
        high: largest one.
        variance: of what is not known of it; 0 where it is shown exactly.
        shown: rows that show their counts in every span, shape (rows,). Others say nothing.
        effect: design effect of units, shape (rows,); 1 where decisions are independent.
    """

    low: Int64s
    high: Int64s
    variance: Floats
    shown: Bools
    effect: Floats

    @classmethod
    def from_bands(cls, bands: Bands, effect: float = 1.0) -> Counted:
        """Return the counts of one table's bands, without sizes; parts become the first axis."""
        low, high = bands.low[:, 1:].T, bands.high[:, 1:].T
        effects = np.full(len(bands), effect)
        return cls(low, high, (high - low) ** 2 / 12, bands.detail == Detail.COUNTS, effects)

    @classmethod
    def total(cls, spans: Sequence[Counted]) -> Counted:
        """Return the sums of counts over several spans (at least one), all with the same rows."""
        low = np.array([span.low for span in spans])
        variance = np.array([span.variance for span in spans])
        alike = np.where(low == 0, np.sqrt(variance), 0).sum(axis=0)
        sizes = np.array([span.middle.sum(axis=0) for span in spans])
        effects = sizes * [span.effect for span in spans]
        return cls(
            low.sum(axis=0),
            np.sum([span.high for span in spans], axis=0),
            np.where(low == 0, 0, variance).sum(axis=0) + alike**2,
            np.all([span.shown for span in spans], axis=0),
            divide(effects.sum(axis=0), sizes.sum(axis=0), empty=1),
        )

    @property
    def middle(self) -> Floats:
        """Return the middle of each count's band, shape (parts, rows)."""
        return np.asarray((self.low + self.high) / 2)

    def parts(self, chosen: Bools) -> Counted:
        """Return the counts of some parts alone."""
        columns = (self.low[chosen], self.high[chosen], self.variance[chosen])
        return Counted(*columns, self.shown, self.effect)

    def plus(self, more: Floats) -> Counted:
        """Return the counts with up to so many more; a count below k stays a bound."""
        added = more.astype(np.int64)
        return replace(self, low=self.low + added * (self.low > 0), high=self.high + added)
