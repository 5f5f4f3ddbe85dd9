"""An attacker who tries every table of labels of a row: which would be shown as this one is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
import numpy.typing as npt

from monitor.core.contract import Metric
from monitor.core.privacy.bands import Precision
from monitor.core.publish.suppression import ShownColumns, show
from monitor.core.rates.estimates import RateColumns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
K = 11
RESOLUTION = Precision(K)
RATES = (Metric.TPR, Metric.FPR, Metric.READY, Metric.SELECTION)


def rate_columns(metric: Metric, hits: Ints, n: Ints) -> RateColumns:
    """A rate of which nothing but its counts matters."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = hits / n
    return RateColumns(metric, value, value, value, n.astype(float), hits, n - hits, n)


def shown_rate(metric: Metric, hits: Ints, n: Ints) -> ShownColumns:
    """A rate as it is shown where the guards let every row through."""
    return show(rate_columns(metric, hits, n), np.ones(len(n), bool), RESOLUTION)


def labels_of(ready: range, others: range) -> Ints:
    """Every table of labels (auto: ready, not; review: ready, not) with so many of both.

    As the guards let them through: at least k of each route.
    """
    tables = []
    for n, m in product(ready, others):
        a, b = np.meshgrid(np.arange(n + 1), np.arange(m + 1))
        tables.append(np.stack([a, b, n - a, m - b]).reshape(4, -1))
    every = np.concatenate(tables, axis=1)
    return every[:, (every[0] + every[1] >= K) & (every[2] + every[3] >= K)]


def what_is_told(of: ShownColumns) -> Floats:
    told = np.stack([of.value, of.at_least, of.at_most, of.support])
    return np.round(np.nan_to_num(np.where(of.shown, told, -2), nan=-1), 6)


def told_apart(told: list[Floats]) -> Ints:
    """A number for each table, the same for those of which the same is told."""
    same = np.zeros(told[0].shape[1], np.int64)
    for row in np.concatenate(told):
        _, number = np.unique(row, return_inverse=True)
        _, same = np.unique(same * (number.max() + 1) + number, return_inverse=True)
    return same


@dataclass(frozen=True)
class Tables:
    """All tables of two bands of labels, everything labelled, and what is shown of each.

    Attributes:
        counts: shape (4, T).
        shown: the rates of each, as :data:`RATES`; the windows are the same.
    """

    counts: Ints
    shown: tuple[ShownColumns, ...]

    @classmethod
    def of(cls, ready: range, others: range) -> Self:
        counts = labels_of(ready, others)
        a, b, c, d = counts
        n = counts.sum(axis=0)
        hits = ((a, a + c), (b, b + d), (a + c, n), (a + b, n))
        return cls(counts, tuple(shown_rate(m, *of) for m, of in zip(RATES, hits, strict=True)))

    def at(self, table: tuple[int, ...]) -> int:
        """Where a table is."""
        return int(np.flatnonzero(np.all(np.equal(self.counts.T, table), axis=1))[0])

    def possible(self, told: list[Floats]) -> Ints:
        """How many numbers each count of each table could be, shape (4, T)."""
        same = told_apart(told)
        found = []
        for counts in self.counts:
            numbers = np.unique(same * (counts.max() + 1) + counts) // (counts.max() + 1)
            found.append(np.bincount(numbers)[same])
        return np.array(found)

    @property
    def small(self) -> npt.NDArray[np.bool_]:
        """Counts of 1 to k - 1."""
        return np.asarray((self.counts > 0) & (self.counts < K), bool)
