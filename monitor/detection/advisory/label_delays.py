"""Label delays: whether the labels of a slice come later than those of its reference.

Delays depend on the route and on the hour (nobody reviews at night), and slices differ in both. So
a slice is compared with its reference inside each cohort (hour of decisions) and route, where the
delays are fixed and only who has them is left to chance: with x the delay bucket of a label,

    U = sum over cohorts and routes of n_slice (mean of x in the slice - mean of x in both)

has expectation 0 under equal delays, and the variance of drawing n_slice of n labels without
replacement, however the delays of an hour depend on each other. Requested labels that have not
come when the cohort is consumed rank above the last bucket. Tallies of a week are added up
and tested once, at a stated error; slices whose labels come in clusters need ``cluster_size``.

Source: Mantel (1963), JASA 58 (mean score test with strata).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Self

import numpy as np

from monitor.core.contract import COMPLEMENT, GroupBy
from monitor.core.counts.cells import DELAY_EDGES_HOURS, Counter, Int64s, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import REVIEWED_ROUTES, reviewed
from monitor.core.intervals import Floats, divide
from monitor.core.rates.gaps import simultaneous_z
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection import arrays
from monitor.detection.advisory.mix_labels import named_slices

CONFIDENCE = 0.99
"""P(no false difference in a group-by's week): one in two years for each group-by."""

SMALLEST = 0.5
"""Buckets: a mean difference below half of one helps nobody, however significant it is."""

MIN_PAIRS = 10
"""Labels, as if slice and reference had this many each: fewer make no normal distribution."""

BUCKETS = len(DELAY_EDGES_HOURS) + 2
"""Delay buckets, and the one of requested labels that have not come."""


class Timing(enum.StrEnum):
    """Timing of a slice's labels, compared with its reference's."""

    LATER = "later"
    EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class DelayDifference:
    """A difference that is statistically significant, and large enough to be reported.

    Attributes:
        timing: of the slice.
        buckets: mean difference in whole buckets, at least 1 (edges: ``DELAY_EDGES_HOURS``).
    """

    timing: Timing
    buckets: int


@dataclass(frozen=True, slots=True)
class DelayTally:
    """Sums over cohorts and routes, arrays of shape (S,); they add up over a week.

    Attributes:
        excess: U, in buckets x labels; positive where the slice is later.
        variance: of U under equal delays.
        pairs: sum of n_slice n_reference / n, so that excess / pairs is a mean difference.
    """

    excess: Floats
    variance: Floats
    pairs: Floats

    @classmethod
    def empty(cls, slices: int) -> DelayTally:
        """The tally that adds nothing."""
        return cls(*(np.zeros(slices) for _ in range(3)))

    @classmethod
    def from_labels(cls, slices: Int64s, references: Int64s) -> DelayTally:
        """The tally of one cohort.

        Args:
            slices: labels by (slice, route, bucket), as :func:`delay_counts` gives them.
            references: the same of what each slice is compared with, disjoint from it.
        """
        both = slices + references
        n, n_slice = both.sum(axis=2), slices.sum(axis=2)
        bucket = np.arange(both.shape[2])
        mean = divide(both @ bucket, n, empty=0)
        spread = np.maximum(divide(both @ bucket**2, n, empty=0) - mean**2, 0)
        pairs = divide(n_slice * (n - n_slice), n, empty=0)
        variance = pairs * spread * divide(n, n - 1, empty=0)
        excess = slices @ bucket - n_slice * mean
        return cls(*(x.sum(axis=1) for x in (excess, variance, pairs)))

    def __add__(self, other: DelayTally) -> DelayTally:
        return DelayTally(
            self.excess + other.excess, self.variance + other.variance, self.pairs + other.pairs
        )

    def differences(
        self, comparisons: int, cluster_size: float = 1.0
    ) -> list[DelayDifference | None]:
        """Differences of every slice by a week's tally; None where not significant or too small.

        Args:
            comparisons: declared in the group-by; they hold together.
            cluster_size: largest number of decisions whose slice and delay go together.
        """
        size = divide(self.excess, self.pairs, empty=0)
        least = simultaneous_z(comparisons, CONFIDENCE) * np.sqrt(self.variance * cluster_size)
        sure = (np.abs(self.excess) > least) & (self.pairs >= MIN_PAIRS / 2)
        told = sure & (np.abs(size) >= SMALLEST)
        return [
            _difference(by) if tell else None
            for by, tell in zip(size.tolist(), told.tolist(), strict=True)
        ]


def delay_counts(counts: SliceCounts) -> Int64s:
    """Labels of one cohort by delay, shape (S, route, BUCKETS); the last bucket has not come.

    Of the strata that labelled rates rest on. A label that the reviewer could not decide has come,
    but its delay is not counted: it is in no bucket.
    """
    columns = np.flatnonzero(reviewed(counts))
    values = counts.values[:, columns]
    came = values[:, :, [Counter.LABELLED, Counter.UNDECIDABLE]].sum(axis=2)
    waiting = np.maximum(values[:, :, Counter.Q] - came, 0)
    delays = np.maximum(values[:, :, Counter.DELAY_0 : Counter.DELAY_7 + 1], 0)
    buckets = np.concatenate([delays, waiting[:, :, None]], axis=2)
    routes = decode_strata(counts.strata[columns]).route
    by_route = [buckets[:, routes == route].sum(axis=1) for route in REVIEWED_ROUTES]
    table: Int64s = np.stack(by_route, axis=1)
    return table


def _difference(buckets: float) -> DelayDifference:
    timing = Timing.LATER if buckets > 0 else Timing.EARLIER
    return DelayDifference(timing, max(int(abs(buckets) + 0.5), 1))


FORM = 1
"""Changes when what is kept cannot be read any more as it was."""

_SUMS = ("excess", "variance", "pairs")


@dataclass(slots=True)
class WeeklyDelays:
    """Label delays of the slices of a group-by relative to their reference's, week by week.

    Attributes:
        slices: the rows: what is compared.
        reference: a slice text, or ``complement``.
        cluster_size: largest number of decisions that hang together.
        tally: of the week so far.
        week: index of the ISO week; None before the first cohort.
    """

    slices: tuple[str, ...]
    reference: str
    cluster_size: int
    tally: DelayTally
    week: int | None = None

    @classmethod
    def start(cls, group: GroupBy, coding: Coding, cluster_size: int) -> WeeklyDelays:
        """Without any label."""
        slices = tuple(s for s in named_slices(group, coding) if s != group.reference)
        return cls(slices, group.reference, cluster_size, DelayTally.empty(len(slices)))

    def advance(self, hour: int, counts: SliceCounts) -> list[tuple[str, DelayDifference]]:
        """Add one cohort; returns the differences of the week that ended before it, if one has.

        Args:
            hour: pane index.
            counts: of this group-by, all its slices.
        """
        week = pane_of(pane_start(hour, Grain.HOUR), Grain.WEEK)
        told = self._told() if self.week not in (None, week) else []
        if week != self.week:
            self.week, self.tally = week, DelayTally.empty(len(self.slices))
        self.tally = self.tally + DelayTally.from_labels(*self._sides(counts))
        return told

    def _told(self) -> list[tuple[str, DelayDifference]]:
        found = self.tally.differences(len(self.slices), self.cluster_size)
        pairs = zip(self.slices, found, strict=True)
        return [(text, difference) for text, difference in pairs if difference is not None]

    def _sides(self, counts: SliceCounts) -> tuple[Int64s, Int64s]:
        """Labels of each slice and of its reference by route and delay."""
        table = delay_counts(counts)
        nothing = np.zeros((1, *table.shape[1:]), np.int64)
        padded = np.concatenate([table, nothing])
        own: Int64s = padded[arrays.positions(counts.slices, self.slices)]
        if self.reference == COMPLEMENT:
            return own, table.sum(axis=0) - own
        named = padded[arrays.positions(counts.slices, [self.reference])]
        return own, np.broadcast_to(named, own.shape)

    def to_bytes(self) -> bytes:
        """All that is kept."""
        sums = {name: getattr(self.tally, name) for name in _SUMS}
        facts = {"form": FORM, "reference": self.reference, "week": self.week}
        return arrays.encode(sums, facts | {"slices": self.slices})

    def restored(self, body: bytes) -> Self:
        """The same with what was kept; slices that are new begin without labels.

        Raises:
            ValueError: if the bytes are damaged or of another form, or of another reference.
        """
        sums, facts = arrays.decode(body)
        if (facts.get("form"), facts.get("reference")) != (FORM, self.reference):
            raise ValueError("the tallies of label delays are of another form or reference")
        rows = arrays.positions(facts["slices"], self.slices)
        tally = DelayTally(*(np.append(sums[name], 0.0)[rows] for name in _SUMS))
        return type(self)(self.slices, self.reference, self.cluster_size, tally, facts["week"])
