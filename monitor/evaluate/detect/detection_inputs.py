"""Inputs of the detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.release_blocks import Span
from monitor.core.time import HOUR, Grain, pane_start
from monitor.evaluate.clusters import ClusterDays
from monitor.store.evaluator.stored_detection import CountedCohorts


@dataclass(frozen=True, slots=True)
class Inputs:
    """Counts, cells and exclusions that cohorts are made from.

    Attributes:
        cohorts: counts of hours.
        index: what all cells mean.
        excluded: event time whose data are known to be bad: it moves no detector.
        clusters: sizes of the units of each day.
    """

    cohorts: CountedCohorts
    index: CellIndex
    excluded: Sequence[Span] = ()
    clusters: ClusterDays = field(default_factory=ClusterDays)

    def excludes(self, hour: int) -> bool:
        """Return True when any data of an hour are known to be bad."""
        start = pane_start(hour, Grain.HOUR)
        return any(span.start < start + HOUR and start < span.end for span in self.excluded)
