"""Ready rates of strata, forecast before the decisions that are bet on.

The bets of :mod:`~monitor.detection.pages.levels` and :mod:`~monitor.detection.pages.gap_bets` are
valid for any forecast that is fixed earlier. Better forecasts find a breach sooner, and make late
labels matter less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats, divide
from monitor.detection.arrays import Arrays
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.label_responses import ROUTES

HALF_LIFE_DAYS = 7.0
"""Half-life of counts: long enough to average over a week's pattern, short enough to follow a new
version. If both arms of a gap move, alternatives from older rates need up to half as long again."""

STRENGTH = 20.0
"""Labels (or decisions) of a stratum that weigh as much as the rate it is shrunk to."""

ROUTE_STRENGTH = 2.0
"""Labels of a whole route that weigh as much as the 1/2 it is shrunk to; only the first ones
matter."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected decisions and P(ready) of each stratum, from the past.

    Attributes:
        layout: the axes.
        ready: P(ready | stratum), strictly between 0 and 1.
        decisions: past decisions per stratum, which tell how traffic divides; all zeros if the
            group-by has no past.
    """

    layout: Layout
    ready: Floats
    decisions: Floats


@dataclass(slots=True)
class ReadyRates:
    """Decayed counts of one group-by, from which the next day's forecast is made.

    Attributes:
        layout: the axes.
        decisions: N_k, shape (S, route, rate, band).
        labelled: n_k, the same shape.
        ready: m_k, the same shape.
        requested: requested labels by route, shape (S, 2).
        received: received labels among them, the same shape.
        half_life_days: days after which a count weighs half.
    """

    layout: Layout
    decisions: Floats
    labelled: Floats
    ready: Floats
    requested: Floats
    received: Floats
    half_life_days: float = HALF_LIFE_DAYS

    @classmethod
    def start(
        cls, slices: int, layout: Layout, half_life_days: float = HALF_LIFE_DAYS
    ) -> ReadyRates:
        """Return counts of zero for this many slices on the axes of ``layout``."""
        counts, labels = np.zeros((3, slices, *layout.shape)), np.zeros((2, slices, ROUTES))
        return cls(layout, counts[0], counts[1], counts[2], labels[0], labels[1], half_life_days)

    def learn(self, cohort: SliceCohort, days: float) -> None:
        """Decay the counts by ``days`` of event time, then add a cohort.

        Args:
            cohort: the cohort, of this layout and these slices.
            days: days since the last cohort was learnt; at least 0.
        """
        decay = 0.5 ** (days / self.half_life_days)
        self.decisions = self.decisions * decay + cohort.decisions
        self.labelled = self.labelled * decay + cohort.labelled
        self.ready = self.ready * decay + cohort.ready
        self.requested = self.requested * decay + cohort.requested
        self.received = self.received * decay + cohort.received

    def forecast(self) -> Forecast:
        """Return P(ready) and traffic of each stratum, shrunk from slice to group-by to route."""
        labelled, ready = self.labelled.sum(axis=0), self.ready.sum(axis=0)
        routes = (1, 2)
        route_rate = _shrunk(ready.sum(axis=routes), labelled.sum(axis=routes), 0.5, ROUTE_STRENGTH)
        group_rate = _shrunk(ready, labelled, route_rate[:, None, None], STRENGTH)
        total = self.decisions.sum(axis=0)
        return Forecast(
            self.layout,
            _shrunk(self.ready, self.labelled, group_rate, STRENGTH),
            self.decisions + STRENGTH * divide(total, total.sum(), empty=0),
        )

    def moved(self, rows: Int64s, layout: Layout) -> ReadyRates:
        """Return the counts rearranged for other slices or audit rates.

        Args:
            rows: present row of each future slice, -1 for a new one.
            layout: a layout with the same bands; rates that it lacks are forgotten.

        Raises:
            ValueError: if the number of score bands differs.
        """
        if layout.bands != self.layout.bands:
            raise ValueError("the score bands of a running detector cannot change")
        moved = ReadyRates.start(len(rows), layout, self.half_life_days)
        shared = sorted(set(layout.rates) & set(self.layout.rates))
        present = np.flatnonzero(rows >= 0)
        for moved_counts, counts in zip(moved._counts, self._counts, strict=True):
            for rate in shared:
                counts_of_rate = counts[rows[present], :, self.layout.rates.index(rate)]
                moved_counts[present, :, layout.rates.index(rate)] = counts_of_rate
        moved.requested[present], moved.received[present] = (
            labels[rows[present]] for labels in (self.requested, self.received)
        )
        return moved

    def to_arrays(self) -> Arrays:
        """Return counts, rates and half-life as arrays by name; see :meth:`from_arrays`."""
        return {
            "rates": np.array(self.layout.rates, np.int64),
            "audit": self.layout.audit,
            "decisions": self.decisions,
            "labelled": self.labelled,
            "ready": self.ready,
            "requested": self.requested,
            "received": self.received,
            "half_life_days": np.array(self.half_life_days),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> ReadyRates:
        """Return the counts that :meth:`to_arrays` wrote, bit by bit."""
        decisions = arrays["decisions"]
        rates = tuple(int(rate) for rate in arrays["rates"])
        layout = Layout(rates, arrays["audit"], decisions.shape[3])
        return cls(
            layout,
            decisions,
            arrays["labelled"],
            arrays["ready"],
            arrays["requested"],
            arrays["received"],
            float(arrays["half_life_days"]),
        )

    @property
    def _counts(self) -> tuple[Floats, Floats, Floats]:
        return self.decisions, self.labelled, self.ready


def _shrunk(successes: Floats, trials: Floats, towards: npt.ArrayLike, strength: float) -> Floats:
    """Return the rates after adding ``strength`` trials at the rate ``towards``; broadcast."""
    shrunk: Floats = (successes + strength * np.asarray(towards)) / (trials + strength)
    return shrunk
