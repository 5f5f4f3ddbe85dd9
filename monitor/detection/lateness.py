"""Differences of label delays, week by week: see :mod:`monitor.detection.delays`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from monitor.core.cells import Int64s
from monitor.core.coding import Coding
from monitor.core.contract import COMPLEMENT, GroupBy
from monitor.core.rollup import SliceCounts
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection import arrays
from monitor.detection.delays import DelayDifference, DelayTally, delay_counts
from monitor.detection.labels import named_slices

FORM = 1
"""Changes when what is kept cannot be read any more as it was."""

_SUMS = ("excess", "variance", "pairs")


@dataclass(slots=True)
class WeeklyDelays:
    """How much later the labels of the slices of a group-by come than their reference's.

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
        """Add one cohort; returns what the week tells that has ended before it, if one has.

        Args:
            hour: pane index.
            counts: of this group-by, all its slices.
        """
        week = pane_of(pane_start(hour, Grain.HOUR), Grain.WEEK)
        told = self._told() if self.week not in (None, week) else []
        if week != self.week:
            self.week, self.tally = week, DelayTally.empty(len(self.slices))
        self.tally = self.tally + DelayTally.of(*self._sides(counts))
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
