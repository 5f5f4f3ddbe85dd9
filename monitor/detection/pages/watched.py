"""Cohorts of successive hours as one contract sees them: what does not depend on their order.

Rolling up, thinning and laying out cost much the same for a day of hours as for one, so hours that
have their turn together are done together; each comes out as if it had been alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.contract import Contract
from monitor.core.counts.cells import Counts, decode_strata
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import (
    CellIndex,
    HourlyCounts,
    HourlySlices,
    SliceCounts,
    cells_within,
)
from monitor.core.counts.strata import is_reviewed
from monitor.core.intervals import Floats
from monitor.detection.pages.cohort import Layout, SliceCohort, rates_of
from monitor.detection.pages.projection import thin_labels


@dataclass(frozen=True, slots=True)
class WatchedUseCase:
    """One cohort as one contract sees it.

    Attributes:
        counts: of its cells.
        rates: indices of the audit rates of this cohort and all before it, increasing.
        thinned: the same counts with labels thinned to one probability, for the advisory
            detectors; None where that cannot be done, or nothing rests on labels.
        rolled: ``counts`` rolled up to each group-by that is looked at, by name.
        cohorts: the same as arrays.
    """

    counts: Counts
    rates: tuple[int, ...]
    thinned: Counts | None
    rolled: Mapping[str, SliceCounts]
    cohorts: Mapping[str, SliceCohort]


@dataclass(frozen=True, slots=True)
class Watching:
    """How a contract looks at cohorts.

    Attributes:
        contract: whose use case it is.
        coding: what the strata mean.
        groups: names of the group-bys that are looked at, and the rows of each.
        labels: whether anything rests on labels; else rates are as they were, nothing is thinned.
    """

    contract: Contract
    coding: Coding
    groups: Mapping[str, Sequence[str]]
    labels: bool

    def see(
        self,
        hours: Sequence[int],
        tables: Sequence[Counts],
        index: CellIndex,
        rates: Collection[int],
    ) -> list[WatchedUseCase]:
        """Cohorts of some hours, each in the light of those before.

        Args:
            hours: pane indices, increasing.
            tables: counts of each by cell id; every id must be in ``index``.
            index: what the cell ids mean.
            rates: indices of the audit rates seen before.

        Raises:
            ValueError: if a stratum has an audit rate that the coding does not know.
        """
        counts = HourlyCounts.from_tables(tables)
        if self.contract.where:
            counts = counts.among(cells_within(index, self.contract.where))
        before, after = self._rates(counts, index, rates)
        rolled = {
            group.name: counts.roll_up(index, group.attributes)
            for group in self.contract.group_bys
            if group.name in self.groups
        }
        cohorts = {name: self._laid_out(name, one, after) for name, one in rolled.items()}
        thinned = self._thinned(hours, counts, index, before)
        return [
            WatchedUseCase(
                counts.at(hour),
                after[hour],
                thinned[hour],
                {name: one.at(hour) for name, one in rolled.items()},
                {name: one[hour] for name, one in cohorts.items()},
            )
            for hour in range(len(hours))
        ]

    def _rates(
        self, counts: HourlyCounts, index: CellIndex, rates: Collection[int]
    ) -> tuple[list[_Rates], list[_Rates]]:
        """Audit rates that were seen before each hour, and after it: those of reviewed decisions.

        A stratum that the hour has no decision of, all corrections added up, has no rate.
        """
        before, after, seen = [], [], tuple(sorted(rates))
        total = counts.roll_up(index, ()) if self.labels else None
        for hour in range(counts.hours):
            before.append(seen)
            if total is not None:
                seen = tuple(sorted({*seen, *rates_of(total.at(hour))}))
            after.append(seen)
        return before, after

    def _laid_out(
        self, name: str, rolled: HourlySlices, rates: Sequence[_Rates]
    ) -> list[SliceCohort]:
        """Arrays of each hour; audit rates may be seen first in the midst of a day."""
        found: list[SliceCohort] = []
        while len(found) < len(rates):
            first, same = len(found), rates[len(found)]
            end = first + rates[first:].count(same)  # a rate that was seen stays
            part = HourlySlices(rolled.slices, rolled.strata, rolled.values[first:end])
            found += SliceCohort.of_hours(part, self.groups[name], Layout.of(same, self.coding))
        return found

    def _thinned(
        self,
        hours: Sequence[int],
        counts: HourlyCounts,
        index: CellIndex,
        rates: Sequence[_Rates],
    ) -> list[Counts | None]:
        """Labels thinned to the smallest audit rate of earlier cohorts; None below it.

        It must not depend on the routes of an hour's own decisions.
        """
        if not self.labels:
            return [None] * len(hours)
        known = np.asarray(self.coding.audit_rates)
        strata = decode_strata(index.strata[np.searchsorted(index.cells, counts.cells)])
        inside = is_reviewed(strata)
        audit: Floats = np.where(inside, known[strata.rate], 1.0)
        least = np.array([known[max(seen)] if seen else np.inf for seen in rates])
        below = np.zeros(len(hours), bool)
        below[counts.hour[inside & (audit < least[counts.hour])]] = True
        below |= np.isinf(least)
        rows = ~below[counts.hour]
        some = counts.only(rows)
        own = np.array(hours, np.int64)[some.hour]
        thinned = thin_labels(own, some, audit[rows], least[some.hour])
        return [None if below[at] else thinned.at(at) for at in range(len(hours))]


_Rates = tuple[int, ...]
