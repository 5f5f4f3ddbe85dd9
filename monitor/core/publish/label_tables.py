"""Test of whether the rates of a row together leave a small count of labels enough numbers.

Where everything is labelled, TPR, FPR, ready rate and selection rate are four ratios of one table
of four counts: served or not, ready or not. A rate whose hits or misses are fewer than k is coded,
so each of them by itself leaves k numbers; but the selection rate says how many were served, the
other rate how many of these were not ready, and the difference is the count that was coded. Where
the roundings happen to lie badly, less than half of k numbers are left, now and then one.

The question is asked of what is shown, so a reader could answer it: that a row is hidden because of
it tells no more than the row would have. Searched are witnesses, whole tables that would be shown
alike: on a grid of the two numbers of labels, so what is found to be possible is, whatever the
size, and a row is hidden rather than looked at for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from monitor.core.contract import Metric
from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import Bools, route_labels
from monitor.core.privacy.pooling import decisions_of
from monitor.core.publish.suppression import ShownColumns, show
from monitor.core.rates.estimates import measure

_GRID = 64
"""Numbers of labels tried in a band at most: all of them in the three smallest bands."""
_SLACK = 1e-6


def pinned(
    counts: SliceCounts, coding: Coding, shown: Mapping[Metric, ShownColumns], precision: Precision
) -> Bools:
    """Rows whose labelled rates are not to be shown together, shape (S,).

    Args:
        counts: up to the label frontier. What is shown of the selection rate of the same time is
            taken to be known: windows of decisions have ended there before.
        coding: what the strata mean.
        shown: TPR, FPR and READY as they would be shown.
        precision: the resolution.
    """
    routes, decided = route_labels(counts), decisions_of(counts)
    whole = (routes.labels == routes.decisions).all(axis=0) & routes.decisions.all(axis=0)
    if precision.exact or not whole.any():
        return np.zeros(whole.shape, bool)
    exact = measure(counts, coding, Metric.SELECTION)
    whole &= exact.hits == routes.decisions[0]
    selection = show(exact, whole, precision)
    unreviewed = decided - routes.decisions.sum(axis=0)
    tpr, fpr, ready = (shown[metric] for metric in (Metric.TPR, Metric.FPR, Metric.READY))
    return LabelTables(tpr, fpr, ready, selection, unreviewed, whole).pinned(precision)


@dataclass(frozen=True, slots=True)
class LabelTables:
    """Tables of labels by row, and what is to be shown of them, one value a row.

    Attributes:
        tpr: of the labels.
        fpr: of the labels.
        ready: of the labels.
        selection: of all decisions of the same time.
        unreviewed: decisions of the same time that are not reviewed; shape (S,).
        whole: rows with both routes, in which every reviewed decision is labelled; shape (S,).
    """

    tpr: ShownColumns
    fpr: ShownColumns
    ready: ShownColumns
    selection: ShownColumns
    unreviewed: Int64s
    whole: Bools

    def pinned(self, precision: Precision) -> Bools:
        """Rows in which a coded count could be fewer than half of k numbers, shape (S,).

        Only rows of labels that are whole, with both rates shown, one of them coded.
        """
        coded = np.isnan(self.tpr.value) | np.isnan(self.fpr.value)
        asked = self.whole & self.tpr.shown & self.fpr.shown & coded & (not precision.exact)
        found = np.zeros(asked.shape, bool)
        for row in np.flatnonzero(asked).tolist():
            found[row] = self._row(row, precision).pins((precision.k + 1) // 2)
        return found

    def _row(self, row: int, precision: Precision) -> _Row:
        def told(rate: ShownColumns) -> _Told:
            return _Told.of(rate, row, precision)

        return _Row(
            told(self.tpr),
            told(self.fpr),
            told(self.ready),
            told(self.selection),
            int(self.unreviewed[row]),
            precision.k,
        )


@dataclass(frozen=True, slots=True)
class _Told:
    """Statement of one rate of a row about its hits.

    Attributes:
        least: smallest support.
        most: largest support.
        low: the rate's smallest value; 0 where it is not a number.
        high: its largest.
        few_hits: whether it is coded because the hits are fewer than k.
        few_misses: the same of the misses.
        shown: whether it is shown at all.
    """

    least: int
    most: int
    low: float
    high: float
    few_hits: bool
    few_misses: bool
    shown: bool

    @classmethod
    def of(cls, rate: ShownColumns, row: int, precision: Precision) -> _Told:
        support, value = int(rate.support[row]), float(rate.value[row])
        half = float(rate.step[row]) / 2 - _SLACK
        number = not np.isnan(value)
        return cls(
            support,
            int(precision.most([support])[0]),
            value - half if number else 0,
            value + half if number else 1,
            not np.isnan(rate.at_most[row]),
            not np.isnan(rate.at_least[row]),
            bool(rate.shown[row]),
        )

    def supports(self) -> Int64s:
        """Numbers of trials that are tried: all, or evenly spread over the band."""
        count = min(self.most - self.least + 1, _GRID)
        return np.unique(np.linspace(self.least, self.most, count).astype(np.int64))

    def hits(self, trials: Int64s, k: int) -> tuple[Int64s, Int64s]:
        """Fewest and most hits among so many trials."""
        low = np.ceil(self.low * trials).astype(np.int64)
        high = np.floor(self.high * trials).astype(np.int64)
        if not self.shown:
            return low, high
        low = np.maximum(low, trials - k + 1 if self.few_misses else 0 if self.few_hits else k)
        most = k - 1 if self.few_hits else trials if self.few_misses else trials - k
        return low, np.minimum(high, most)


@dataclass(frozen=True, slots=True)
class _Row:
    """All that is shown of the labels of one row."""

    tpr: _Told
    fpr: _Told
    ready: _Told
    selection: _Told
    unreviewed: int
    k: int

    def pins(self, enough: int) -> bool:
        """Return True when a coded count could be fewer numbers than would be enough."""
        positives, negatives = self._labels()
        served = self._served(positives + negatives)
        tpr, fpr = (self.tpr, positives), (self.fpr, negatives)
        return any(
            possible.sum() < enough
            for (rate, trials), (other, others) in ((tpr, fpr), (fpr, tpr))
            for possible in self._possible(rate, trials, other.hits(others, self.k), served)
        )

    def _labels(self) -> tuple[Int64s, Int64s]:
        """Pairs of numbers of ready and other labels that agree with the supports and READY."""
        grid = np.meshgrid(self.tpr.supports(), self.fpr.supports())
        positives, negatives = (one.ravel() for one in grid)
        every = positives + negatives
        may = (every >= self.ready.least) & (every <= self.ready.most)
        least, most = self.ready.hits(every, self.k)
        may &= (positives >= least) & (positives <= most)
        decided = every + self.unreviewed
        may &= (decided >= self.selection.least) & (decided <= self.selection.most)
        return positives[may], negatives[may]

    def _served(self, labels: Int64s) -> tuple[Int64s, Int64s]:
        """Fewest and most of them that were served: each route has k labels."""
        low, high = self.selection.hits(labels + self.unreviewed, self.k)
        return np.maximum(low, self.k), np.minimum(high, labels - self.k)

    def _possible(
        self,
        rate: _Told,
        trials: Int64s,
        others: tuple[Int64s, Int64s],
        served: tuple[Int64s, Int64s],
    ) -> Iterator[Bools]:
        """Of hits and misses, which are coded: which of 0 to k - 1 are possible."""
        least, most = rate.hits(trials, self.k)
        counts = np.arange(self.k)[:, None]
        for coded, hits in ((rate.few_hits, counts), (rate.few_misses, trials - counts)):
            if coded:
                low = np.maximum(others[0], served[0] - hits)
                high = np.minimum(others[1], served[1] - hits)
                fits = (low <= high) & (least <= hits) & (hits <= most)
                yield np.asarray(fits.any(axis=1), bool)
