"""Frozen reference rates of slices, mix by mix, and bets that a rate has become worse.

A *mix* is one joint value of the attributes that a group-by does not have (channel x difficulty,
say, for the slices of a language): what the requests of a slice are made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.contract import Metric
from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats, divide, wilson
from monitor.core.rates.gaps import Bools
from monitor.core.time import DAY, HOUR
from monitor.detection.arrays import Arrays
from monitor.detection.pages.mixture import Rows

MAX_STRATA = 10
"""Mixes of one slice that are distinguished; those with the fewest labels are joined. With more,
each would have too few labels for a reference of its own."""

ENOUGH_LABELS = 2000
"""Labels of a good reference: a drop of ten points then takes a third more labels to find than
if the rate had been known."""

FEW_LABELS = 500
"""Labels of a reference that must do after :data:`LONG_ENOUGH`. Fewer labels cost delay, not
false tickets: their bound lies further away."""

LONG_ENOUGH = 14 * DAY
"""By then a reference has seen each day of the week twice. To wait longer would leave thin slices
unwatched, and make a slow drift part of what it is compared with."""

LEAST_TIME = DAY
"""Time that any reference takes: a busy slice has labels enough within an hour, and its nights
may differ from its days."""

SHIFTS = np.array([0.15, 0.3, 0.6, 1.0, 1.6])
"""Alternatives: how far the log odds have moved beyond the bound, in all mixes alike."""

NEVER = -1
"""In place of an event time."""

_Z = 1.645  # one-sided 95 %


@dataclass(slots=True)
class Reference:
    """Labels of S slices in C mixes: collected until there are enough, then frozen.

    Attributes:
        n: labels, shape (S, C).
        k: auto-served ones among them.
        begun: event time (microseconds) of a slice's first cohort with labels, shape (S,);
            :data:`NEVER` before it.
        frozen: which slices are finished.
    """

    n: Floats
    k: Floats
    begun: Int64s
    frozen: Bools

    @classmethod
    def empty(cls, slices: int, mixes: int) -> Reference:
        """Without any label."""
        counts = np.zeros((slices, mixes))
        return cls(counts, counts.copy(), np.full(slices, NEVER), np.zeros(slices, bool))

    def collect(self, at: int, n: Floats, k: Floats) -> Bools:
        """Add the labels of one hour to all slices that are not finished.

        Returns:
            The slices that are finished by it, shape (S,).
        """
        collecting = ~self.frozen
        self.begun[collecting & (self.begun == NEVER) & (n.sum(axis=1) > 0)] = at
        self.n[collecting] += n[collecting]
        self.k[collecting] += k[collecting]
        labels, time = self.n.sum(axis=1), at + HOUR - self.begun
        enough = (labels >= ENOUGH_LABELS) & (time >= LEAST_TIME)
        must_do = (labels >= FEW_LABELS) & (time >= LONG_ENOUGH)
        finished: Bools = collecting & (enough | must_do)
        self.frozen |= finished
        return finished

    def restart(self, rows: Rows) -> None:
        """Begin these slices anew."""
        self.n[rows] = self.k[rows] = 0
        self.begun[rows], self.frozen[rows] = NEVER, False

    def picked(self, slices: Int64s, mixes: Int64s) -> Reference:
        """The reference of these rows and columns, in this order; -1 is a new one."""
        table = np.ix_(slices, mixes)
        n, k = (np.pad(counts, (0, 1))[table] for counts in (self.n, self.k))
        begun, frozen = np.append(self.begun, NEVER), np.append(self.frozen, False)
        return Reference(n, k, begun[slices], frozen[slices])

    def to_arrays(self) -> Arrays:
        """Copies of all that the state consists of."""
        arrays = {"n": self.n, "k": self.k, "begun": self.begun, "frozen": self.frozen}
        return {name: values.copy() for name, values in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Reference:
        """The state that :meth:`to_arrays` gave, bit for bit."""
        return cls(*(arrays[name].copy() for name in ("n", "k", "begun", "frozen")))


@dataclass(frozen=True, slots=True)
class ReferenceBets:
    """Bets against the rates of a reference; a stratum is a mix, or several joined.

    Attributes:
        strata: the stratum of each mix, shape (S, C); :data:`MAX_STRATA` is none.
        hit: log factor of an auto-served label, shape (S, stratum, alternative).
        miss: of any other label.
    """

    strata: Int64s
    hit: Floats
    miss: Floats

    @classmethod
    def against(cls, n: Floats, k: Floats, metric: Metric) -> ReferenceBets:
        """Bets that all strata have become worse than the bounds of these labels.

        The null rate of a stratum is its one-sided 95 % Wilson bound on the worse side (the
        lower one of a TPR), since its true rate is not known. A stratum with a bound of 0 or 1,
        beyond which no rate lies, has factors of 1.

        Args:
            n: reference labels, shape (S, C).
            k: auto-served ones among them.
            metric: TPR becomes worse downwards, FPR upwards.
        """
        strata = _strata(n)
        labels, hits = _joined(n, strata), _joined(k, strata)
        lower, upper = wilson(divide(hits, labels), labels, _Z)
        bound, sign = (lower, -1) if metric is Metric.TPR else (upper, 1)
        speaks = ((bound > 0) & (bound < 1))[..., None]
        null = np.where(speaks, _logit(np.where(speaks[..., 0], bound, 0.5))[..., None], 0)
        moved = null + sign * SHIFTS
        hit = np.where(speaks, _softplus(-null) - _softplus(-moved), 0)
        miss = np.where(speaks, _softplus(null) - _softplus(moved), 0)
        return cls(strata, hit, miss)

    def log_e(self, n: Floats, k: Floats) -> Floats:
        """Log e-values of one cohort's labels, shape (S, 5): sums over the strata.

        E[e] is at most 1 while the rate of every stratum is its bound or better.
        """
        labels, hits = _joined(n, self.strata), _joined(k, self.strata)
        total: Floats = np.einsum("sh,shm->sm", hits, self.hit)
        total += np.einsum("sh,shm->sm", labels - hits, self.miss)
        return total

    def compared(self, n: Floats) -> Bools:
        """Mask of the slices with labels in any stratum of the reference, shape (S,)."""
        found: Bools = _joined(n, self.strata).sum(axis=1) > 0
        return found


def _strata(labels: Floats) -> Int64s:
    """Stratum of each mix: its rank by labels, from the tenth on the same.

    A mix without a label in the reference is in none: there is nothing to compare it with.
    """
    rank = np.argsort(np.argsort(-labels, axis=1, kind="stable"), axis=1)
    strata: Int64s = np.where(labels > 0, np.minimum(rank, MAX_STRATA - 1), MAX_STRATA)
    return strata


def _joined(counts: Floats, strata: Int64s) -> Floats:
    """Counts by stratum, shape (S, MAX_STRATA)."""
    sums = np.zeros((len(counts), MAX_STRATA + 1))
    np.add.at(sums, (np.arange(len(counts))[:, None], strata), counts)
    return sums[:, :MAX_STRATA]


def _logit(rate: Floats) -> Floats:
    odds: Floats = np.log(rate) - np.log1p(-rate)
    return odds


def _softplus(x: Floats) -> Floats:
    """-ln(1 - expit(x)), the logarithm of which never meets a 0."""
    value: Floats = np.logaddexp(0, x)
    return value
