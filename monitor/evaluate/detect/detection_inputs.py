"""Inputs of the detectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor.core.counts.completeness import CohortState
from monitor.core.counts.rollup import CellIndex
from monitor.core.time import HOUR, Grain, TimeSpan, pane_start
from monitor.evaluate.clusters import ClusterDays
from monitor.store.evaluator.stored_detection import CountedCohorts

HourTurn = tuple[int, CohortState]
"""An hour (pane index) that is due, and its state."""

_ROWS_AT_ONCE = 1 << 17
"""Limit on rows of all slices and strata, hour by hour, in memory at once: 20 MB."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs of detection: reader of hourly counts, meaning of cells, bad spans, unit sizes.

    Attributes:
        cohorts: counts of hours.
        index: meaning of all cells.
        excluded: spans of event time with bad data; they move no detector.
        clusters: sizes of the units of each day.
    """

    cohorts: CountedCohorts
    index: CellIndex
    excluded: Sequence[TimeSpan] = ()
    clusters: ClusterDays = field(default_factory=ClusterDays)

    def excludes(self, hour: int) -> bool:
        """Return True when any data of an hour are marked as bad."""
        start = pane_start(hour, Grain.HOUR)
        return any(span.start < start + HOUR and start < span.end for span in self.excluded)

    def portions(self, hours: Sequence[HourTurn]) -> Iterator[Sequence[HourTurn]]:
        """Yield the hours in runs that fit into memory; hours with bad data become EXCLUDED."""
        turns = [
            (hour, CohortState.EXCLUDED if self.excludes(hour) else state) for hour, state in hours
        ]
        for first in range(0, len(turns), self.hours_at_once):
            yield turns[first : first + self.hours_at_once]

    @property
    def hours_at_once(self) -> int:
        """Return the number of hours whose tables fit into memory; at least 1."""
        index = self.index
        return max(1, _ROWS_AT_ONCE // (len(index.atom_texts) * len(np.unique(index.strata)) + 1))
