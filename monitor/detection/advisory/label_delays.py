"""Label delays: whether the labels of a slice come later than those of its reference.

Delays depend on the route and on the hour (nobody reviews at night), and slices differ in both. So
a slice is compared with its reference inside each cohort (hour of decisions) and route, where the
delays are fixed and only who has them is left to chance: with x the delay bucket of a label,

    U = sum over cohorts and routes of n_slice (mean of x in the slice - mean of x in both)

has expectation 0 under equal delays, and the variance of drawing n_slice of n labels without
replacement, however the delays of an hour depend on each other. Requested labels that are missing
when the cohort is consumed rank above the last bucket. The tallies of a week are summed and tested
once, at a stated error; slices whose labels come in clusters need ``cluster_size``.

Source: Mantel (1963), JASA 58 (mean score test with strata).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Self

import numpy as np

from monitor.core.contract import COMPLEMENT, GroupBy
from monitor.core.counts.cells import Counter, Int64s, decode_strata
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
"""Smallest reported mean difference, in buckets; a smaller one helps nobody, however
significant."""

MIN_PAIRS = 10
"""Smallest number of labels of slice and reference each; fewer are not normally distributed."""


class Timing(enum.StrEnum):
    """Timing of a slice's labels, compared with those of its reference."""

    LATER = "later"
    EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class DelayDifference:
    """A significant difference in label delay between a slice and its reference.

    Attributes:
        timing: whether the slice's labels come later or earlier.
        buckets: mean difference in whole buckets, at least 1 (edges: ``DELAY_EDGES_HOURS``).
    """

    timing: Timing
    buckets: int


@dataclass(frozen=True, slots=True)
class DelayTally:
    """Sums that compare the label delays of S slices with their references', shape (S,).

    Attributes:
        excess: U, in buckets x labels; positive where the slice is later.
        variance: variance of U under equal delays.
        pairs: sum of n_slice n_reference / n, so that excess / pairs is a mean difference.
    """

    excess: Floats
    variance: Floats
    pairs: Floats

    @classmethod
    def empty(cls, slices: int) -> DelayTally:
        """Return a tally of zeros for this many slices."""
        return cls(*(np.zeros(slices) for _ in range(3)))

    @classmethod
    def from_labels(cls, slices: Int64s, references: Int64s) -> DelayTally:
        """Return the tally of one cohort from labels by slice, route and delay.

        Args:
            slices: labels by (slice, route, bucket), from :func:`delay_counts`.
            references: labels of each slice's reference, disjoint from it; the same shape.
        """
        labels = slices + references
        n, n_slice = labels.sum(axis=2), slices.sum(axis=2)
        bucket = np.arange(labels.shape[2])
        mean = divide(labels @ bucket, n, empty=0)
        spread = np.maximum(divide(labels @ bucket**2, n, empty=0) - mean**2, 0)
        pairs = divide(n_slice * (n - n_slice), n, empty=0)
        variance = pairs * spread * divide(n, n - 1, empty=0)
        excess = slices @ bucket - n_slice * mean
        return cls(*(by_route.sum(axis=1) for by_route in (excess, variance, pairs)))

    def __add__(self, other: DelayTally) -> DelayTally:
        return DelayTally(
            self.excess + other.excess, self.variance + other.variance, self.pairs + other.pairs
        )

    def differences(
        self, comparisons: int, cluster_size: float = 1.0
    ) -> list[DelayDifference | None]:
        """Return the difference of each slice; None where it is not significant or too small.

        Args:
            comparisons: comparisons declared in the group-by; the error holds for all of them.
            cluster_size: largest number of decisions whose slice and delay go together.
        """
        size = divide(self.excess, self.pairs, empty=0)
        least = simultaneous_z(comparisons, CONFIDENCE) * np.sqrt(self.variance * cluster_size)
        sure = (np.abs(self.excess) > least) & (self.pairs >= MIN_PAIRS / 2)
        is_reported = sure & (np.abs(size) >= SMALLEST)
        return [
            _difference(buckets) if report else None
            for buckets, report in zip(size.tolist(), is_reported.tolist(), strict=True)
        ]


def delay_counts(counts: SliceCounts) -> Int64s:
    """Return the labels of one cohort by slice, route and delay, shape (S, 2, buckets).

    The last bucket holds missing labels. Only strata of labelled rates count. An undecidable label
    is in no bucket, because its delay is not counted.
    """
    columns = np.flatnonzero(reviewed(counts))
    values = counts.values[:, columns]
    received = values[:, :, [Counter.LABELLED, Counter.UNDECIDABLE]].sum(axis=2)
    waiting = np.maximum(values[:, :, Counter.Q] - received, 0)
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
"""Version of the stored form; it changes when older states cannot be read."""

_SUMS = ("excess", "variance", "pairs")


@dataclass(slots=True)
class WeeklyDelays:
    """Detector of label delays in a group-by, which compares slices with references weekly.

    Attributes:
        slices: the compared slices: the rows.
        reference: a slice text, or ``complement``.
        cluster_size: largest number of decisions that depend on each other.
        tally: sums of the present week.
        week: index of the ISO week; None before the first cohort.
    """

    slices: tuple[str, ...]
    reference: str
    cluster_size: int
    tally: DelayTally
    week: int | None = None

    @classmethod
    def start(cls, group: GroupBy, coding: Coding, cluster_size: int) -> WeeklyDelays:
        """Return the detector of a group-by without labels."""
        slices = tuple(
            slice_name
            for slice_name in named_slices(group, coding)
            if slice_name != group.reference
        )
        return cls(slices, group.reference, cluster_size, DelayTally.empty(len(slices)))

    def advance(self, hour: int, counts: SliceCounts) -> list[tuple[str, DelayDifference]]:
        """Add one cohort; return (slice, difference) of a week that ended before it.

        Args:
            hour: pane index.
            counts: counts of this group-by, all its slices.
        """
        week = pane_of(pane_start(hour, Grain.HOUR), Grain.WEEK)
        differences = self._differences() if self.week not in (None, week) else []
        if week != self.week:
            self.week, self.tally = week, DelayTally.empty(len(self.slices))
        self.tally = self.tally + DelayTally.from_labels(*self._labels_of_sides(counts))
        return differences

    def _differences(self) -> list[tuple[str, DelayDifference]]:
        by_row = self.tally.differences(len(self.slices), self.cluster_size)
        pairs = zip(self.slices, by_row, strict=True)
        return [(text, difference) for text, difference in pairs if difference is not None]

    def _labels_of_sides(self, counts: SliceCounts) -> tuple[Int64s, Int64s]:
        """Return the labels of each slice, and of its reference, by slice, route and delay."""
        table = delay_counts(counts)
        no_labels = np.zeros((1, *table.shape[1:]), np.int64)
        padded = np.concatenate([table, no_labels])
        slice_labels: Int64s = padded[arrays.positions(counts.slices, self.slices)]
        if self.reference == COMPLEMENT:
            return slice_labels, table.sum(axis=0) - slice_labels
        reference = padded[arrays.positions(counts.slices, [self.reference])]
        return slice_labels, np.broadcast_to(reference, slice_labels.shape)

    def to_bytes(self) -> bytes:
        """Encode the whole state as bytes, for :meth:`restored`."""
        sums = {name: getattr(self.tally, name) for name in _SUMS}
        facts = {"form": FORM, "reference": self.reference, "week": self.week}
        return arrays.encode(sums, facts | {"slices": self.slices})

    def restored(self, body: bytes) -> Self:
        """Return a copy with the stored state; slices not in it have no labels.

        Raises:
            ValueError: if the bytes are damaged, of another form, or of another reference.
        """
        sums, facts = arrays.decode(body)
        if (facts.get("form"), facts.get("reference")) != (FORM, self.reference):
            raise ValueError("the tallies of label delays are of another form or reference")
        rows = arrays.positions(facts["slices"], self.slices)
        tally = DelayTally(*(np.append(sums[name], 0.0)[rows] for name in _SUMS))
        return type(self)(self.slices, self.reference, self.cluster_size, tally, facts["week"])
