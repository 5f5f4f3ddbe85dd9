"""The gap or ratio streams of one metric of one group-by: what waits to be bet, and the bets.

Streams come in pairs: a slice worse off than its reference, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.contract import COMPLEMENT, Metric
from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.rates.gaps import HARMED_BY_LESS, Bools
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

USUAL = {
    **{Metric.TPR: 0.85, Metric.FPR: 0.15, Metric.PRECISION: 0.9},
    **{Metric.BLOCKED: 0.05, Metric.SELECTION: 0.5},
}
"""Where the levels of the bets begin; a wrong start costs delay, never validity."""

DIRECTIONS = 2
ALTERNATIVES = len(EXCESSES)


@dataclass(slots=True)
class HourlyGaps:
    """Two-sample evidence, hour by hour, of the P slices that are compared.

    Hour by hour, because the means of both arms over a longer time may differ though their rates
    never do, where they have their traffic at different times of the day.

    Bets that need no labels are of one level a day, that of the days before: a unit whose decisions
    are spread over the day must not choose its own bets.

    Attributes:
        metric: TPR, FPR, PRECISION (where every decision is to be labelled), BLOCKED or SELECTION.
        kind: GAP or RATIO.
        limit: largest gap or smallest ratio of each, inclusive, shape (P,).
        rows: row of each compared slice among the slices of the group-by, shape (P,).
        reference: row of the slice that all are compared with; None for the complements.
        level: recent common rate of each slice and its reference, as it is bet on.
        learned: the same with the hours of today.
        waiting: log e-values since the last bet, shape (P, 2, 5), those of each hour divided by
            its cluster size.
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
        """Without evidence."""
        first = streams.streams[0]
        rows = np.array(streams.rows[::DIRECTIONS], np.int64)
        named = None if first.reference == COMPLEMENT else slices.index(first.reference)
        level, learned = (PairLevel.start(len(rows), USUAL[metric]) for _ in range(2))
        waiting = np.zeros((len(rows), DIRECTIONS, ALTERNATIVES))
        limit = np.array([float(one.limit) for one in streams.streams[::DIRECTIONS]])
        return cls(metric, first.kind, limit, rows, named, level, learned, waiting)

    def begin_day(self) -> None:
        """Bet on what was learned of all hours before."""
        self.level = PairLevel(self.learned.trials.copy(), self.learned.hits.copy())

    def null(self, pairs: Bools) -> tuple[Floats, Floats]:
        """Offset and slope of what is tested in some slices: rate_a - slope rate_b <= offset."""
        limit = self.limit[pairs]
        if self.kind is StreamKind.RATIO:
            return np.zeros(len(limit)), 1 / limit
        return limit, np.ones(len(limit))

    def alternatives(
        self, pairs: Bools, counts: PairCounts, level: Floats
    ) -> tuple[Floats, Floats]:
        """Alternatives that are bet on: rates of both arms, in both directions, (2n, 5) each."""
        made = ratio_alternatives if self.kind is StreamKind.RATIO else gap_alternatives
        return made(counts, level, np.tile(self.limit[pairs], DIRECTIONS))

    def take(self, chosen: Bools | Int64s) -> Floats:
        """Take the waiting evidence of some slices, shape (n, 2, 5); it waits no longer."""
        taken = self.waiting[chosen].copy()
        self.waiting[chosen] = 0
        return taken

    def _learn(self, rows: Bools, counts: PairCounts, log_e: Floats) -> None:
        """Let evidence of some slices wait, and their counts join the levels of the next hours."""
        self.waiting[rows] += log_e
        learned = PairLevel(self.learned.trials[rows], self.learned.hits[rows]).learned(counts)
        self.learned.trials[rows], self.learned.hits[rows] = learned.trials, learned.hits
        if self.metric.labelled:
            self.begin_day()

    def _pairs(self, cohort: SliceCohort) -> PairCounts:
        """Arm a has the higher rate where the slice is worse off.

        Labels are compared only where they are in, in both arms: an hour without those of
        auto_serve would look like one in which nobody was served.
        """
        n, k = trials(cohort, self.metric)
        n_rest, k_rest = (of_references(x, self.reference)[self.rows] for x in (n, k))
        pairs = PairCounts(n[self.rows], k[self.rows], n_rest, k_rest)
        if self.metric.labelled:
            responses = Responses(cohort.requested, cohort.received)
            whole = responses.whole & responses.references(self.reference).whole
            pairs = pairs.only(whole[self.rows])
        return pairs.swapped if self.metric in HARMED_BY_LESS else pairs

    def to_arrays(self, prefix: str) -> Arrays:
        """All that the state consists of."""
        return prefixed(prefix, self._state)

    def restore(self, prefix: str, arrays: Arrays, kept: tuple[Int64s, Int64s]) -> None:
        """Take what :meth:`to_arrays` gave, for slices that were compared then too.

        Args:
            prefix: as it was given there.
            arrays: of the whole state.
            kept: positions now, and positions then.
        """
        new, old = kept
        known = part(arrays, prefix)
        for name, values in known.items():
            self._state[name][new] = values[old]
        if "used_trials" not in known:
            self.begin_day()

    @property
    def _state(self) -> dict[str, Floats]:
        kept = {"trials": self.learned.trials, "hits": self.learned.hits, "waiting": self.waiting}
        if self.metric.labelled:
            return kept
        return kept | {"used_trials": self.level.trials, "used_hits": self.level.hits}


def add_hour(
    hour: Sequence[tuple[HourlyGaps, SliceCohort]], cluster_size: float = 1
) -> list[Bools]:
    """Take in an hour of several tests at once: a bisection of all costs little more than of one.

    Args:
        hour: the gaps or ratios of each metric, and the cohort.
        cluster_size: the largest number of dependent decisions; log e is divided by it.

    Returns:
        Of each test the slices that had something to compare, shape (P,).
    """
    gaps = [one for one, _ in hour]
    every = [one._pairs(cohort) for one, cohort in hour]
    found = [counts.comparable for counts in every]
    if not any(rows.any() for rows in found):
        return found
    some = [counts.selected(rows) for counts, rows in zip(every, found, strict=True)]
    both = [PairCounts.joined([counts, counts.swapped]) for counts in some]
    rates = [
        np.tile(one.level.rate[rows], DIRECTIONS) for one, rows in zip(gaps, found, strict=True)
    ]
    each = zip(gaps, found, both, rates, strict=True)
    bets = [one.alternatives(rows, counts, rate) for one, rows, counts, rate in each]
    sizes = [DIRECTIONS * np.count_nonzero(rows) for rows in found]
    nulls = [one.null(rows) for one, rows in zip(gaps, found, strict=True)]
    offset, slope = (
        np.concatenate([np.tile(x, DIRECTIONS) for x in one]) for one in zip(*nulls, strict=True)
    )
    a1, b1 = (np.concatenate(x) for x in zip(*bets, strict=True))
    log_e = pair_log_e(PairCounts.joined(both), (a1, b1), offset, slope) / cluster_size
    own = np.split(log_e, np.cumsum(sizes)[:-1])
    for one, rows, counts, mine in zip(gaps, found, some, own, strict=True):
        by_direction = mine.reshape(DIRECTIONS, -1, ALTERNATIVES)
        one._learn(rows, counts, by_direction.transpose(1, 0, 2))
    return found
