"""Label checks of slices between cycles: which hour is due, and what it moves.

An hour is due when as much time has passed as labels usually take, or earlier with its cohort. So a
slice that is no longer labelled is found while others still are, although cohorts may wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import COUNTERS, Counter, Int64s
from monitor.core.counts.rollup import HourlyCounts, cells_within
from monitor.detection.advisory.contract_advisor import ContractWatch
from monitor.detection.advisory.slice_labels import SliceLabels
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.evaluate.detect.request_checks import next_day

_COUNTED = (Counter.N, Counter.Q, Counter.LABELLED)
"""Counters that labels are judged by; undecidable labels count as received."""


@dataclass(frozen=True, slots=True)
class SliceLabelChecks:
    """Checks of the labels of all contracts' slices, hour by hour.

    Attributes:
        watches: contracts with their watches.
    """

    watches: Sequence[tuple[Contract, ContractWatch]]

    def step(self, inputs: Inputs, end: int | None) -> dict[str, bytes]:
        """Check hours before ``end``, of one UTC day at most; return changed state by part name.

        Args:
            inputs: inputs of cohorts.
            end: pane index; None while nobody knows how long labels take.

        Returns:
            The changed parts of the state, by name.
        """
        due = [group for group in self._due_groups(inputs) if end is not None and group.hour < end]
        if end is None or not due:
            return {}
        first = min(group.hour for group in due)
        end = min(end, next_day(first))
        counted = _LabelCounts.read(inputs, first, end)
        due = [group for group in due if group.hour < end]
        for group in due:
            self._advance(group, counted, end, inputs)
        return {name: body for group in due for name, body in group.part.items()}

    def _due_groups(self, inputs: Inputs) -> Iterator[_DueGroup]:
        """Yield each group-by that has an unchecked hour, with its watch and this hour."""
        begin: int | None = None
        for contract, watch in self.watches:
            for group in contract.group_bys:
                consumed = watch.labels[group.name].consumed
                if consumed is None and begin is None:
                    begin = inputs.cohorts.first_counted()
                hour = begin if consumed is None else consumed + 1
                if hour is not None:
                    yield _DueGroup(contract, group, watch, hour)

    def _advance(self, due: _DueGroup, counted: _LabelCounts, end: int, inputs: Inputs) -> None:
        hours = [hour for hour in range(due.hour, end) if not inputs.excludes(hour)]
        for first in range(0, len(hours), inputs.hours_at_once):
            portion = hours[first : first + inputs.hours_at_once]
            counts = counted.for_hours(portion)
            if due.contract.where:
                counts = counts.among(cells_within(inputs.index, due.contract.where))
            due.labels.advance(portion, counts.roll_up(inputs.index, due.group.attributes))
        due.labels.skip_to(end - 1)


@dataclass(frozen=True, slots=True)
class _DueGroup:
    """Group-by of a contract with its watch and the next hour to check (pane index)."""

    contract: Contract
    group: GroupBy
    watch: ContractWatch
    hour: int

    @property
    def labels(self) -> SliceLabels:
        return self.watch.labels[self.group.name]

    @property
    def part(self) -> dict[str, bytes]:
        return self.watch.label_part(self.group.name)


@dataclass(frozen=True, slots=True)
class _LabelCounts:
    """Decisions, requests and labels of hours, as rows of hour, cell and counters."""

    hours: Int64s
    cells: Int64s
    values: Int64s

    @classmethod
    def read(cls, inputs: Inputs, first: int, end: int) -> _LabelCounts:
        """Read the counts of the hours ``first`` to ``end`` (exclusive) from the store."""
        return cls(*inputs.cohorts.answers(first, end))

    def for_hours(self, hours: Sequence[int]) -> HourlyCounts:
        """Return the counters that labels are judged by, of increasing ``hours``, by cell."""
        inside = np.isin(self.hours, hours)
        counts = np.zeros((np.count_nonzero(inside), COUNTERS), np.int64)
        counts[:, list(_COUNTED)] = self.values[inside]
        hour_positions = np.searchsorted(hours, self.hours[inside])
        return HourlyCounts(len(hours), hour_positions, self.cells[inside], counts)
