"""Labels of slices between cycles: whose turn it is, and what that moves.

An hour has its turn when as much time has passed as labels usually take, or with its cohort if that
comes before. A slice that nobody labels any more is to be found while others still are labelled,
and by the hours in which it happens: cohorts may wait for it.
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
"""What labels are judged by: those that reviewers could not decide have come as well."""


@dataclass(frozen=True, slots=True)
class SliceLabelChecks:
    """The checks of all contracts.

    Attributes:
        watches: each with its contract.
    """

    watches: Sequence[tuple[Contract, ContractWatch]]

    def step(self, inputs: Inputs, end: int | None) -> dict[str, bytes]:
        """Let the hours before ``end`` have their turn, of one UTC day at most.

        Args:
            inputs: what hours are made of.
            end: pane index; None while nobody knows how long labels take.

        Returns:
            The parts of the state that have changed, by name.
        """
        due = [one for one in self._next(inputs) if end is not None and one.hour < end]
        if end is None or not due:
            return {}
        first = min(one.hour for one in due)
        end = min(end, next_day(first))
        counted = _Hours.read(inputs, first, end)
        due = [one for one in due if one.hour < end]
        for one in due:
            self._advance(one, counted, end, inputs)
        return {name: body for one in due for name, body in one.part.items()}

    def _next(self, inputs: Inputs) -> Iterator[_DueGroup]:
        """The hour whose turn is next, of every group-by that has one."""
        begin: int | None = None
        for contract, watch in self.watches:
            for group in contract.group_bys:
                known = watch.labels[group.name].consumed
                if known is None and begin is None:
                    begin = inputs.cohorts.first_counted()
                hour = begin if known is None else known + 1
                if hour is not None:
                    yield _DueGroup(contract, group, watch, hour)

    def _advance(self, due: _DueGroup, counted: _Hours, end: int, inputs: Inputs) -> None:
        hours = [hour for hour in range(due.hour, end) if not inputs.excludes(hour)]
        for first in range(0, len(hours), inputs.hours_at_once):
            some = hours[first : first + inputs.hours_at_once]
            own = counted.of(some)
            if due.contract.where:
                own = own.among(cells_within(inputs.index, due.contract.where))
            due.labels.advance(some, own.roll_up(inputs.index, due.group.attributes))
        due.labels.skip(end - 1)


@dataclass(frozen=True, slots=True)
class _DueGroup:
    """A group-by and the hour that it is at."""

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
class _Hours:
    """Decisions, requests and labels of some hours, row by row."""

    hours: Int64s
    cells: Int64s
    values: Int64s

    @classmethod
    def read(cls, inputs: Inputs, first: int, end: int) -> _Hours:
        """Those of the hours ``first`` to ``end`` (exclusive)."""
        return cls(*inputs.cohorts.answers(first, end))

    def of(self, hours: Sequence[int]) -> HourlyCounts:
        """Some hours, increasing, with the counters that labels are judged by."""
        inside = np.isin(self.hours, hours)
        counts = np.zeros((np.count_nonzero(inside), COUNTERS), np.int64)
        counts[:, list(_COUNTED)] = self.values[inside]
        at = np.searchsorted(hours, self.hours[inside])
        return HourlyCounts(len(hours), at, self.cells[inside], counts)
