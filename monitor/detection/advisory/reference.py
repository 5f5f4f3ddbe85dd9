"""Frozen reference rates of slices, mix by mix, and bets that a rate has become worse.

A *mix* is a joint value of the attributes that a group-by does not have: channel x difficulty, for
example, for the slices of a language.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats, divide, wilson
from monitor.core.metric import Metric
from monitor.core.rates.gaps import Bools
from monitor.core.time import DAY, HOUR
from monitor.detection.arrays import Arrays
from monitor.detection.pages.mixture import Rows

MAX_STRATA = 10
"""Limit on the distinct mixes of a slice; those with the fewest labels are joined. With more, each
would have too few labels for a reference of its own."""

ENOUGH_LABELS = 2000
"""Labels of a good reference: a drop of ten points then needs a third more labels than with a known
rate."""

FEW_LABELS = 500
"""Labels that suffice after :data:`LONG_ENOUGH`. Fewer labels cost delay, not false tickets: their
bound lies further away."""

LONG_ENOUGH = 14 * DAY
"""Time after which few labels suffice: the reference has seen each day of the week twice. A longer
wait would leave thin slices unwatched, and make a slow drift part of the reference."""

LEAST_TIME = DAY
"""Shortest time of any reference: a busy slice has enough labels within an hour, but its nights may
differ from its days."""

SHIFTS = np.array([0.15, 0.3, 0.6, 1.0, 1.6])
"""Alternatives: shifts of the log odds beyond the bound, equal in all mixes."""

NEVER = -1
"""Stands for no event time."""

_Z = 1.645  # one-sided 95 %


@dataclass(slots=True)
class Reference:
    """Labels of S slices in C mixes: collected until there are enough, then frozen.

    Attributes:
        n: labels, shape (S, C).
        k: auto-served labels among them.
        begun: event time (microseconds) of each slice's first cohort with labels, shape (S,);
            :data:`NEVER` before it.
        frozen: mask of the finished slices.
    """

    n: Floats
    k: Floats
    begun: Int64s
    frozen: Bools

    @classmethod
    def empty(cls, slices: int, mixes: int) -> Reference:
        """Return a reference for this many slices and mixes, without labels."""
        counts = np.zeros((slices, mixes))
        return cls(counts, counts.copy(), np.full(slices, NEVER), np.zeros(slices, bool))

    def collect(self, at: int, n: Floats, k: Floats) -> Bools:
        """Add one hour's labels to unfinished slices; return the mask of those finished now.

        Returns:
            Mask of the slices that this hour finishes, shape (S,).
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
        """Erase the labels of these slices, and begin to collect again."""
        self.n[rows] = self.k[rows] = 0
        self.begun[rows], self.frozen[rows] = NEVER, False

    def picked(self, slices: Int64s, mixes: Int64s) -> Reference:
        """Return the reference with these rows and columns, in order; -1 gives an empty one."""
        table = np.ix_(slices, mixes)
        n, k = (np.pad(counts, (0, 1))[table] for counts in (self.n, self.k))
        begun, frozen = np.append(self.begun, NEVER), np.append(self.frozen, False)
        return Reference(n, k, begun[slices], frozen[slices])

    def to_arrays(self) -> Arrays:
        """Return copies of the whole state as arrays by name."""
        arrays = {"n": self.n, "k": self.k, "begun": self.begun, "frozen": self.frozen}
        return {name: values.copy() for name, values in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Reference:
        """Return the reference that :meth:`to_arrays` wrote, bit for bit."""
        return cls(*(arrays[name].copy() for name in ("n", "k", "begun", "frozen")))


@dataclass(frozen=True, slots=True)
class ReferenceBets:
    """Log factors of each label in bets that a rate is worse than its reference.

    Attributes:
        strata: stratum of each mix, shape (S, C); :data:`MAX_STRATA` is none.
        hit: log factor of an auto-served label, shape (S, stratum, alternative).
        miss: log factor of any other label, the same shape.
    """

    strata: Int64s
    hit: Floats
    miss: Floats

    @classmethod
    def against(cls, n: Floats, k: Floats, metric: Metric) -> ReferenceBets:
        """Return bets that all strata have become worse than these labels' bounds.

        The null rate of a stratum is its one-sided 95 % Wilson bound on the worse side (the lower
        one of a TPR), because its true rate is unknown. A stratum whose bound is 0 or 1 has factors
        of 1.

        Args:
            n: reference labels, shape (S, C).
            k: auto-served labels among them.
            metric: TPR becomes worse downwards, FPR upwards.
        """
        strata = _strata_by_rank(n)
        labels, hits = _sums_by_stratum(n, strata), _sums_by_stratum(k, strata)
        lower, upper = wilson(divide(hits, labels), labels, _Z)
        bound, sign = (lower, -1) if metric is Metric.TPR else (upper, 1)
        speaks = ((bound > 0) & (bound < 1))[..., None]
        null = np.where(speaks, _logit(np.where(speaks[..., 0], bound, 0.5))[..., None], 0)
        moved = null + sign * SHIFTS
        hit = np.where(speaks, _softplus(-null) - _softplus(-moved), 0)
        miss = np.where(speaks, _softplus(null) - _softplus(moved), 0)
        return cls(strata, hit, miss)

    def log_e(self, n: Floats, k: Floats) -> Floats:
        """Return log e-values of one cohort's labels, summed over strata, shape (S, 5).

        E[e] is at most 1 while the rate of every stratum is its bound or better.
        """
        labels, hits = _sums_by_stratum(n, self.strata), _sums_by_stratum(k, self.strata)
        total: Floats = np.einsum("sh,shm->sm", hits, self.hit)
        total += np.einsum("sh,shm->sm", labels - hits, self.miss)
        return total

    def compared(self, n: Floats) -> Bools:
        """Return True for slices with labels in a stratum of the reference, shape (S,)."""
        mask: Bools = _sums_by_stratum(n, self.strata).sum(axis=1) > 0
        return mask


def _strata_by_rank(labels: Floats) -> Int64s:
    """Return the stratum of each mix, shape (S, C): its rank by labels, at most the tenth.

    A mix without reference labels is in none: it has nothing to be compared with.
    """
    rank = np.argsort(np.argsort(-labels, axis=1, kind="stable"), axis=1)
    strata: Int64s = np.where(labels > 0, np.minimum(rank, MAX_STRATA - 1), MAX_STRATA)
    return strata


def _sums_by_stratum(counts: Floats, strata: Int64s) -> Floats:
    """Return sums of counts by slice and stratum, shape (S, MAX_STRATA)."""
    sums = np.zeros((len(counts), MAX_STRATA + 1))
    np.add.at(sums, (np.arange(len(counts))[:, None], strata), counts)
    return sums[:, :MAX_STRATA]


def _logit(rate: Floats) -> Floats:
    odds: Floats = np.log(rate) - np.log1p(-rate)
    return odds


def _softplus(x: Floats) -> Floats:
    """Return ln(1 + exp(x)), which is -ln(1 - expit(x)) without the logarithm of 0."""
    value: Floats = np.logaddexp(0, x)
    return value
