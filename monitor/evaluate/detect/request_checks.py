"""Label requests between cycles: whose turn it is, and what that moves.

An hour has its turn as soon as its decisions are complete, days before its cohort: a broken sampler
is to be found by its requests, not by labels that do not come. What has moved is committed by the
evaluator, so a restart or another evaluator goes on with the next hour.

A contract without a cursor (a new one, or one whose state could not be read) begins with the oldest
hour that is counted: all of the past that is kept, a day a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.contract import Contract
from monitor.core.counts.cells import Int64s
from monitor.core.counts.rollup import cells_within
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection.advisory.contract_advisor import ContractWatch
from monitor.detection.advisory.label_requests import request_counts
from monitor.evaluate.detect.detection_inputs import Inputs


@dataclass(frozen=True, slots=True)
class RequestChecks:
    """The checks of all contracts.

    Attributes:
        watches: each with its contract.
        rates: size of the grid of audit rates.
    """

    watches: Sequence[tuple[Contract, ContractWatch]]
    rates: int

    def step(self, inputs: Inputs, watermark: int) -> dict[str, bytes]:
        """Let the hours have their turn that the watermark has passed, of one UTC day at most.

        Returns:
            The parts of the state that have changed, by name.
        """
        due = [one for one in self._next(inputs) if one.hour < pane_of(watermark, Grain.HOUR)]
        if not due:
            return {}
        first = min(one.hour for one in due)
        end = min(pane_of(watermark, Grain.HOUR), next_day(first))
        counted = _Counted(first, end, *inputs.cohorts.requests(first, end))
        due = [one for one in due if one.hour < end]
        for one in due:
            self._advance(one, counted, inputs)
        return {name: body for one in due for name, body in one.watch.request_part.items()}

    def _next(self, inputs: Inputs) -> Iterator[_DueContract]:
        """The hour whose turn is next, of every contract that has one."""
        begin = None
        if any(watch.requests.consumed is None for _, watch in self.watches):
            begin = inputs.cohorts.first_counted()
        for contract, watch in self.watches:
            known = watch.requests.consumed
            hour = begin if known is None else known + 1
            if hour is not None:
                yield _DueContract(contract, watch, hour)

    def _advance(self, due: _DueContract, counted: _Counted, inputs: Inputs) -> None:
        decisions, requests = counted.of(due.contract, inputs, self.rates)
        for hour in range(due.hour, counted.end):
            at = hour - counted.first
            if inputs.excludes(hour):
                due.watch.requests.skip(hour)
            else:
                due.watch.requests.advance(hour, decisions[at], requests[at])


@dataclass(frozen=True, slots=True)
class _DueContract:
    """A contract and the hour that it is at."""

    contract: Contract
    watch: ContractWatch
    hour: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """Decisions and requests of the hours ``first`` to ``end`` (exclusive), row by row."""

    first: int
    end: int
    hours: Int64s
    cells: Int64s
    values: Int64s

    def of(self, contract: Contract, inputs: Inputs, rates: int) -> tuple[Int64s, Int64s]:
        """Those of a use case, by hour and stratum."""
        index, inside = inputs.index, np.ones(len(self.cells), bool)
        if contract.where:
            inside = np.isin(self.cells, cells_within(index, contract.where))
        strata = index.strata[np.searchsorted(index.cells, self.cells[inside])]
        shape = (self.end - self.first, rates)
        return request_counts(self.hours[inside] - self.first, strata, self.values[inside], shape)


def next_day(hour: int) -> int:
    """The hour that the next UTC day begins with."""
    day = pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)
    return pane_of(pane_start(day + 1, Grain.DAY), Grain.HOUR)
