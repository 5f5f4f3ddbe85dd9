"""Cohorts of successive hours as one contract sees them, apart from their order.

Rolling up, thinning and laying out cost much the same for a day of hours as for one hour, so hours
that are due together are processed together. Each gives the same result as alone.
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
    """Counts of one hour for one contract's use case, rolled up and thinned for its tests.

    Attributes:
        counts: counts of its cells.
        rates: indices of the audit rates of this cohort and all before it, increasing.
        thinned: counts with labels thinned to one probability, for the advisory detectors; None
            where that is impossible, or no metric needs labels.
        rolled: ``counts`` rolled up to each watched group-by, by name.
        cohorts: ``rolled`` as arrays.
    """

    counts: Counts
    rates: tuple[int, ...]
    thinned: Counts | None
    rolled: Mapping[str, SliceCounts]
    cohorts: Mapping[str, SliceCohort]


@dataclass(frozen=True, slots=True)
class Watching:
    """View of one contract on hourly counts, as page tests and advisory detectors need it.

    Attributes:
        contract: the contract.
        coding: meaning of the strata.
        groups: rows of each watched group-by, by name.
        labels: whether any metric needs labels; else rates stay as they are, and nothing is
            thinned.
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
        """Return one view per hour: counts, audit rates, roll-ups and cohorts of the use case.

        Args:
            hours: pane indices, increasing.
            tables: counts of each hour by cell id; every id must be in ``index``.
            index: meaning of the cell ids.
            rates: indices of the audit rates seen before.

        Raises:
            ValueError: if a stratum has an audit rate that the coding does not know.
        """
        counts = HourlyCounts.from_tables(tables)
        if self.contract.where:
            counts = counts.among(cells_within(index, self.contract.where))
        before, after = self._rates_by_hour(counts, index, rates)
        rolled = {
            group.name: counts.roll_up(index, group.attributes)
            for group in self.contract.group_bys
            if group.name in self.groups
        }
        cohorts = {name: self._cohorts(name, hourly, after) for name, hourly in rolled.items()}
        thinned = self._thinned(hours, counts, index, before)
        return [
            WatchedUseCase(
                counts.at(hour),
                after[hour],
                thinned[hour],
                {name: hourly.at(hour) for name, hourly in rolled.items()},
                {name: hourly[hour] for name, hourly in cohorts.items()},
            )
            for hour in range(len(hours))
        ]

    def _rates_by_hour(
        self, counts: HourlyCounts, index: CellIndex, rates: Collection[int]
    ) -> tuple[list[_Rates], list[_Rates]]:
        """Return per hour the rate indices seen before it, and those seen until its end.

        A stratum without decisions in the hour, after all corrections, has no rate.
        """
        before, after, seen_rates = [], [], tuple(sorted(rates))
        total = counts.roll_up(index, ()) if self.labels else None
        for hour in range(counts.hours):
            before.append(seen_rates)
            if total is not None:
                seen_rates = tuple(sorted({*seen_rates, *rates_of(total.at(hour))}))
            after.append(seen_rates)
        return before, after

    def _cohorts(
        self, name: str, rolled: HourlySlices, rates: Sequence[_Rates]
    ) -> list[SliceCohort]:
        """Return the cohort of each hour for group-by ``name``, by the hour's audit rates."""
        cohorts: list[SliceCohort] = []
        while len(cohorts) < len(rates):
            first, rates_in_run = len(cohorts), rates[len(cohorts)]
            end = first + rates[first:].count(rates_in_run)  # rates are never removed
            part = HourlySlices(rolled.slices, rolled.strata, rolled.values[first:end])
            cohorts += SliceCohort.from_hours(
                part, self.groups[name], Layout.for_rates(rates_in_run, self.coding)
            )
        return cohorts

    def _thinned(
        self, hours: Sequence[int], counts: HourlyCounts, index: CellIndex, rates: Sequence[_Rates]
    ) -> list[Counts | None]:
        """Return each hour's counts, labels thinned to the smallest audit rate seen before.

        Hours with a smaller rate of their own get None. The rate must not depend on the routes of
        an hour's own decisions.
        """
        if not self.labels:
            return [None] * len(hours)
        audit_rates = np.asarray(self.coding.audit_rates)
        strata = decode_strata(index.strata[np.searchsorted(index.cells, counts.cells)])
        inside = is_reviewed(strata)
        audit: Floats = np.where(inside, audit_rates[strata.rate], 1.0)
        least = np.array(
            [audit_rates[max(seen_rates)] if seen_rates else np.inf for seen_rates in rates]
        )
        below = np.zeros(len(hours), bool)
        below[counts.hour[inside & (audit < least[counts.hour])]] = True
        below |= np.isinf(least)
        rows = ~below[counts.hour]
        thinnable = counts.only(rows)
        row_hours = np.array(hours, np.int64)[thinnable.hour]
        thinned = thin_labels(row_hours, thinnable, audit[rows], least[thinnable.hour])
        return [None if below[hour] else thinned.at(hour) for hour in range(len(hours))]


_Rates = tuple[int, ...]
