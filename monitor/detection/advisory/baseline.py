"""Drift of a slice's labelled rate from its value when the running version began.

A shift of the request mix must not look like drift, so labels are compared with a frozen reference
mix by mix. The same test without mixes runs in parallel: if it alone has crossed, the mix has
changed.

Drift leads to tickets and annotations. Pages compare with the contract, never with the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.rates.gaps import Bools
from monitor.core.time import DAY, HOUR, WEEK
from monitor.detection.advisory.reference import NEVER, SHIFTS, Reference, ReferenceBets
from monitor.detection.arrays import Arrays, part, positions, prefixed
from monitor.detection.pages.budget import crossed
from monitor.detection.pages.mixture import RowBets, Rows, SrMixture

WEIGHTS = np.full(len(SHIFTS), 1 / len(SHIFTS))
"""Weights of the alternatives."""

REMEMBERED = WEEK
"""Time for which a crossing counts. The test starts again at once, so a lasting shift crosses
again."""


@dataclass(slots=True)
class DriftTest:
    """Shiryaev-Roberts test of every slice for drift; starts again when it crosses.

    Attributes:
        mixture: the evidence; its clock is in days.
        crossed_at: event time of the last crossing, shape (S,).
    """

    mixture: SrMixture
    crossed_at: Int64s

    @classmethod
    def empty(cls, slices: int) -> DriftTest:
        """Return a test of this many slices without evidence."""
        return cls(SrMixture.empty(slices, len(SHIFTS)), np.full(slices, NEVER))

    def bet(self, at: int, bets: RowBets, weights: Floats, cluster_size: float) -> None:
        """Bet on one hour's cohort; record crossings at ``at``, and reset these slices."""
        self.mixture.add_clock(HOUR / DAY)
        if not len(bets.rows) and self.is_empty:
            return
        self.mixture.bet(bets.rows, bets.log_e, WEIGHTS, cluster_size)
        has_crossed = crossed(self.mixture.statistic(), weights)
        self.crossed_at[has_crossed] = at
        self.mixture.reset(has_crossed)

    @property
    def is_empty(self) -> bool:
        """Return True when no slice has evidence."""
        return bool(np.isneginf(self.mixture.log_r).all())

    def crossed_recently(self, at: int) -> Bools:
        """Return True for slices whose drift test crossed in the week before ``at``, shape (S,)."""
        ever, lately = self.crossed_at != NEVER, at - self.crossed_at < REMEMBERED
        mask: Bools = ever & lately
        return mask

    def restart(self, rows: Rows) -> None:
        """Erase the evidence and crossings of these slices."""
        self.mixture.reset(rows)
        self.crossed_at[rows] = NEVER


@dataclass(slots=True)
class Baseline:
    """References and drift tests of all slices of one group-by, for one metric.

    Attributes:
        metric: TPR (drift is a fall) or FPR (drift is a rise).
        slices: slice texts: the rows.
        mixes: joint values of the group-by's other attributes: the columns.
        reference: labels to compare with.
        stratified: the test of drift, mix by mix.
        marginal: the test without mixes.
    """

    metric: Metric
    slices: tuple[str, ...]
    mixes: tuple[str, ...]
    reference: Reference
    stratified: DriftTest
    marginal: DriftTest
    _stratified_bets: ReferenceBets = field(init=False)
    _marginal_bets: ReferenceBets = field(init=False)

    def __post_init__(self) -> None:
        self._renew_bets()

    @classmethod
    def empty(cls, metric: Metric, slices: Sequence[str], mixes: Sequence[str]) -> Baseline:
        """Return a baseline for these slices and mixes, without labels."""
        rows = len(slices)
        reference = Reference.empty(rows, len(mixes))
        tests = DriftTest.empty(rows), DriftTest.empty(rows)
        return cls(metric, tuple(slices), tuple(mixes), reference, *tests)

    def advance(
        self, at: int, n: npt.ArrayLike, k: npt.ArrayLike, weights: Floats, cluster_size: float = 1
    ) -> RowBets:
        """Bet a cohort against finished references, add it to the others; return the bets.

        Args:
            at: event time of the cohort's hour, in microseconds; cohorts come in order.
            n: labels thinned to one probability, shape (S, C): positives for the TPR, negatives for
                the FPR.
            k: auto-served labels among them.
            weights: each slice's share of one false crossing in 90 days, shape (S,), at most 1 in
                sum.
            cluster_size: the largest number of dependent decisions.

        Returns:
            The bets mix by mix, for the weekly tickets.
        """
        labels, hits = np.asarray(n, np.float64), np.asarray(k, np.float64)
        bets = self._bets(self._stratified_bets, labels, hits)
        self.stratified.bet(at, bets, weights, cluster_size)
        self.marginal.bet(
            at, self._bets(self._marginal_bets, _total(labels), _total(hits)), weights, cluster_size
        )
        finished = self.reference.collect(at, labels, hits)
        if finished.any():
            # The clock of a test starts with its reference.
            self._restart_tests(finished)
            self._renew_bets()
        return bets

    def statistic(self) -> Floats:
        """Return S = ln R of the drift test, mix by mix, shape (S,)."""
        return self.stratified.mixture.statistic()

    def mix_shift(self, at: int) -> Bools:
        """Return True for slices whose rate moved while rates within mixes held, shape (S,).

        The test without mixes has crossed within a week of ``at``, the one with mixes has not.
        """
        return self.marginal.crossed_recently(at) & ~self.stratified.crossed_recently(at)

    def restart(self, rows: Rows) -> None:
        """Reset references and tests of slices that another version now answers."""
        self.reference.restart(rows)
        self._restart_tests(rows)
        self._renew_bets()

    def aligned(self, slices: Sequence[str], mixes: Sequence[str]) -> Baseline:
        """Return the baseline with these slices and mixes, in order; new ones are empty."""
        rows = positions(self.slices, slices)
        tests = (
            DriftTest(
                test.mixture.aligned(self.slices, slices), np.append(test.crossed_at, NEVER)[rows]
            )
            for test in (self.stratified, self.marginal)
        )
        reference = self.reference.picked(rows, positions(self.mixes, mixes))
        return Baseline(self.metric, tuple(slices), tuple(mixes), reference, *tests)

    def to_arrays(self) -> Arrays:
        """Return copies of the whole state as arrays by name."""
        arrays: Arrays = {
            "metric": np.array(self.metric.value),
            "slices": np.array(self.slices, np.str_),
            "mixes": np.array(self.mixes, np.str_),
        }
        arrays |= prefixed("reference", self.reference.to_arrays())
        for name, test in (("stratified", self.stratified), ("marginal", self.marginal)):
            arrays |= prefixed(name, test.mixture.to_arrays())
            arrays[f"{name}.crossed_at"] = test.crossed_at.copy()
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Baseline:
        """Return the baseline that :meth:`to_arrays` wrote, bit for bit."""
        parts = {name: part(arrays, name) for name in ("reference", "stratified", "marginal")}
        tests = (
            DriftTest(SrMixture.from_arrays(parts[name]), parts[name]["crossed_at"].copy())
            for name in ("stratified", "marginal")
        )
        return cls(
            Metric(str(arrays["metric"])),
            tuple(arrays["slices"].tolist()),
            tuple(arrays["mixes"].tolist()),
            Reference.from_arrays(parts["reference"]),
            *tests,
        )

    def _bets(self, against: ReferenceBets, n: Floats, k: Floats) -> RowBets:
        """Return the bets of a cohort against finished references; none before any is finished."""
        frozen = self.reference.frozen
        if not frozen.any():  # true for days; for most slices, weeks
            return RowBets(np.zeros(0, np.int64), np.zeros((0, len(SHIFTS))))
        return RowBets.from_mask(frozen & against.compared(n), against.log_e(n, k))

    def _renew_bets(self) -> None:
        """Compute the bets anew, after references have changed."""
        n, k = self.reference.n, self.reference.k
        self._stratified_bets = ReferenceBets.against(n, k, self.metric)
        self._marginal_bets = ReferenceBets.against(_total(n), _total(k), self.metric)

    def _restart_tests(self, rows: Rows) -> None:
        self.stratified.restart(rows)
        self.marginal.restart(rows)


def _total(counts: Floats) -> Floats:
    total: Floats = counts.sum(axis=1, keepdims=True)
    return total
