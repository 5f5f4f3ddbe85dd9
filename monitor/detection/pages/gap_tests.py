"""The gap or ratio streams of one metric of one group-by: hourly evidence that waits to be bet.

Streams come in pairs: the slice worse off than its reference, and the reverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.rates.gaps import Bools
from monitor.detection.arrays import Arrays, part, prefixed
from monitor.detection.pages.cohort import SliceCohort
from monitor.detection.pages.declared import Comparisons, of_references
from monitor.detection.pages.label_responses import Responses
from monitor.detection.pages.projection import (
    EXCESSES,
    PairCounts,
    PairLevel,
    gap_alternatives,
    pair_log_e,
    ratio_alternatives,
    trials,
)
from monitor.detection.pages.streams import StreamKind

DIRECTIONS = 2
ALTERNATIVES = len(EXCESSES)


@dataclass(slots=True)
class HourlyGaps:
    """Hourly two-sample evidence of P compared slices, for one metric and kind of limit.

    It is hourly, because the means of two arms over a longer time may differ although their rates
    never do, if their traffic comes at different times of the day.

    Bets without labels use one level per day, from the days before: a unit whose decisions are
    spread over the day must not choose its own bets.

    Attributes:
        metric: TPR, FPR, PRECISION (where every decision is to be labelled), BLOCKED or SELECTION.
        kind: GAP or RATIO.
        limit: largest gap or smallest ratio of each slice, inclusive, shape (P,).
        rows: row of each compared slice among the slices of the group-by, shape (P,).
        reference: row of the common reference; None for the complements.
        level: recent common rate of each slice and its reference, as it is bet on.
        learned: that rate with the hours of today.
        waiting: log e-values since the last bet, shape (P, 2, 5), each hour divided by its cluster
            size.
    """

    metric: Metric
    kind: StreamKind
    limit: Floats
    rows: Int64s
    reference: int | None
    level: PairLevel
    learned: PairLevel
    waiting: Floats

    @classmethod
    def start(cls, metric: Metric, streams: Comparisons, slices: tuple[str, ...]) -> HourlyGaps:
        """Return a test of these streams without evidence; pairs of streams become its rows."""
        first = streams.streams[0]
        rows = np.array(streams.rows[::DIRECTIONS], np.int64)
        reference = None if first.reference == COMPLEMENT else slices.index(first.reference)
        level, learned = (PairLevel.start(len(rows), metric.row.usual) for _ in range(2))
        waiting = np.zeros((len(rows), DIRECTIONS, ALTERNATIVES))
        limit = np.array([float(stream.limit) for stream in streams.streams[::DIRECTIONS]])
        return cls(metric, first.kind, limit, rows, reference, level, learned, waiting)

    def begin_day(self) -> None:
        """Set the level of the bets to the rates learned so far."""
        self.level = PairLevel(self.learned.trials.copy(), self.learned.hits.copy())

    def null(self, pairs: Bools) -> tuple[Floats, Floats]:
        """Return offset and slope of the null rate_a - slope rate_b <= offset, shape (n,) each."""
        limit = self.limit[pairs]
        if self.kind is StreamKind.RATIO:
            return np.zeros(len(limit)), 1 / limit
        return limit, np.ones(len(limit))

    def alternatives(
        self, pairs: Bools, counts: PairCounts, level: Floats
    ) -> tuple[Floats, Floats]:
        """Return the alternative rates of arms a and b, (2n, 5) each, both directions."""
        alternatives_of = ratio_alternatives if self.kind is StreamKind.RATIO else gap_alternatives
        return alternatives_of(counts, level, np.tile(self.limit[pairs], DIRECTIONS))

    def take(self, chosen: Bools | Int64s) -> Floats:
        """Return the waiting log e-values of the chosen slices, (n, 2, 5), and set them to 0."""
        waiting = self.waiting[chosen].copy()
        self.waiting[chosen] = 0
        return waiting

    def _learn(self, rows: Bools, counts: PairCounts, log_e: Floats) -> None:
        """Add log e-values of these slices to ``waiting``, and their counts to ``learned``."""
        self.waiting[rows] += log_e
        learned = PairLevel(self.learned.trials[rows], self.learned.hits[rows]).learned(counts)
        self.learned.trials[rows], self.learned.hits[rows] = learned.trials, learned.hits
        if self.metric.labelled:
            self.begin_day()

    def _pair_counts(self, cohort: SliceCohort, left_out: Bools | None) -> PairCounts:
        """Return trials and hits of slice and reference; arm a should have the higher rate.

        Labels are compared only where nearly all are in, in both arms: an hour without labels of
        auto_serve would look like one in which nobody was served.
        """
        n, k = trials(cohort, self.metric)
        left_out = left_out if self.metric.labelled else None
        n_rest, k_rest = (
            of_references(counts, self.reference, left_out)[self.rows] for counts in (n, k)
        )
        pairs = PairCounts(n[self.rows], k[self.rows], n_rest, k_rest)
        if self.metric.labelled:
            responses = Responses(cohort.requested, cohort.received)
            complete = responses.whole & responses.references(self.reference, left_out).whole
            pairs = pairs.only(complete[self.rows])
        return pairs.swapped if self.metric.harmed_by_less else pairs

    def to_arrays(self, prefix: str) -> Arrays:
        """Return the whole state as arrays, their names prefixed."""
        return prefixed(prefix, self._state)

    def restore(self, prefix: str, arrays: Arrays, kept: tuple[Int64s, Int64s]) -> None:
        """Load state stored by :meth:`to_arrays`, for slices that were compared then too.

        Args:
            prefix: the prefix given to :meth:`to_arrays`.
            arrays: the arrays of the whole state.
            kept: positions now, and positions then.
        """
        rows_now, rows_then = kept
        stored = part(arrays, prefix)
        for name, values in stored.items():
            self._state[name][rows_now] = values[rows_then]
        if "used_trials" not in stored:
            self.begin_day()

    @property
    def _state(self) -> dict[str, Floats]:
        """Return the arrays to store; without labels, the level of today's bets too."""
        state = {"trials": self.learned.trials, "hits": self.learned.hits, "waiting": self.waiting}
        if self.metric.labelled:
            return state
        return state | {"used_trials": self.level.trials, "used_hits": self.level.hits}


def add_hour(
    hour: Sequence[tuple[HourlyGaps, SliceCohort]],
    cluster_size: float = 1,
    left_out: Bools | None = None,
) -> list[Bools]:
    """Add an hour to several tests at once, and return the mask of slices compared in each.

    Args:
        hour: the gaps or ratios of each metric, and the cohort.
        cluster_size: the largest number of dependent decisions; log e is divided by it.
        left_out: mask of slices whose labels are missing: they are in no complement, shape (S,).

    Returns:
        The mask of comparable slices of each test, shape (P,).
    """
    gaps = [hourly_gaps for hourly_gaps, _ in hour]
    all_pairs = [hourly_gaps._pair_counts(cohort, left_out) for hourly_gaps, cohort in hour]
    comparable = [counts.comparable for counts in all_pairs]
    if not any(rows.any() for rows in comparable):
        return comparable
    pairs = [counts.selected(rows) for counts, rows in zip(all_pairs, comparable, strict=True)]
    both_directions = [PairCounts.joined([counts, counts.swapped]) for counts in pairs]
    rates = [
        np.tile(hourly_gaps.level.rate[rows], DIRECTIONS)
        for hourly_gaps, rows in zip(gaps, comparable, strict=True)
    ]
    columns = zip(gaps, comparable, both_directions, rates, strict=True)
    bets = [
        hourly_gaps.alternatives(rows, counts, rate) for hourly_gaps, rows, counts, rate in columns
    ]
    sizes = [DIRECTIONS * np.count_nonzero(rows) for rows in comparable]
    nulls = [hourly_gaps.null(rows) for hourly_gaps, rows in zip(gaps, comparable, strict=True)]
    offset, slope = (
        np.concatenate([np.tile(parts, DIRECTIONS) for parts in parts_of_tests])
        for parts_of_tests in zip(*nulls, strict=True)
    )
    a1, b1 = (np.concatenate(parts) for parts in zip(*bets, strict=True))
    log_e = pair_log_e(PairCounts.joined(both_directions), (a1, b1), offset, slope) / cluster_size
    log_e_of_tests = np.split(log_e, np.cumsum(sizes)[:-1])
    for hourly_gaps, rows, counts, own_log_e in zip(
        gaps, comparable, pairs, log_e_of_tests, strict=True
    ):
        by_direction = own_log_e.reshape(DIRECTIONS, -1, ALTERNATIVES)
        hourly_gaps._learn(rows, counts, by_direction.transpose(1, 0, 2))
    return comparable
