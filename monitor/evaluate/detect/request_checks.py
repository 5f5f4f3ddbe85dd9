"""Checks of label requests between cycles: which hour is due, and what it moves.

An hour is due as soon as its decisions are complete, days before its cohort: a broken sampler shows
in the requests, before labels are missing. The evaluator commits the moved state, so a restart or
another evaluator goes on with the next hour.

A contract without a cursor (a new one, or one with an unreadable state) begins with the oldest
counted hour: it catches up with the whole stored past, a day per step.
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
    """Checks of the label requests of all contracts, hour by hour.

    Attributes:
        watches: contracts with their watches.
        rates: size of the grid of audit rates.
    """

    watches: Sequence[tuple[Contract, ContractWatch]]
    rates: int

    def step(self, inputs: Inputs, watermark: int) -> dict[str, bytes]:
        """Check hours the watermark has passed, of one UTC day; return changed state by part name.

        Returns:
            The changed parts of the state, by name.
        """
        due = [
            group
            for group in self._due_contracts(inputs)
            if group.hour < pane_of(watermark, Grain.HOUR)
        ]
        if not due:
            return {}
        first = min(group.hour for group in due)
        end = min(pane_of(watermark, Grain.HOUR), next_day(first))
        counted = _Counted(first, end, *inputs.cohorts.requests(first, end))
        due = [group for group in due if group.hour < end]
        for group in due:
            self._advance(group, counted, inputs)
        return {name: body for group in due for name, body in group.watch.request_part.items()}

    def _due_contracts(self, inputs: Inputs) -> Iterator[_DueContract]:
        """Yield each contract that has an unchecked hour, with its watch and this hour."""
        begin = None
        if any(watch.requests.consumed is None for _, watch in self.watches):
            begin = inputs.cohorts.first_counted()
        for contract, watch in self.watches:
            consumed = watch.requests.consumed
            hour = begin if consumed is None else consumed + 1
            if hour is not None:
                yield _DueContract(contract, watch, hour)

    def _advance(self, due: _DueContract, counted: _Counted, inputs: Inputs) -> None:
        decisions, requests = counted.for_contract(due.contract, inputs, self.rates)
        for hour in range(due.hour, counted.end):
            position = hour - counted.first
            if inputs.excludes(hour):
                due.watch.requests.skip(hour)
            else:
                due.watch.requests.advance(hour, decisions[position], requests[position])


@dataclass(frozen=True, slots=True)
class _DueContract:
    """Contract with its watch and the next hour to check (pane index)."""

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

    def for_contract(self, contract: Contract, inputs: Inputs, rates: int) -> tuple[Int64s, Int64s]:
        """Return the decisions and requests of a contract, as arrays by hour and stratum."""
        index, inside = inputs.index, np.ones(len(self.cells), bool)
        if contract.where:
            inside = np.isin(self.cells, cells_within(index, contract.where))
        strata = index.strata[np.searchsorted(index.cells, self.cells[inside])]
        shape = (self.end - self.first, rates)
        return request_counts(self.hours[inside] - self.first, strata, self.values[inside], shape)


def next_day(hour: int) -> int:
    """Return the first hour of the UTC day after the day of ``hour`` (pane indices)."""
    day = pane_of(pane_start(hour, Grain.HOUR), Grain.DAY)
    return pane_of(pane_start(day + 1, Grain.DAY), Grain.HOUR)
