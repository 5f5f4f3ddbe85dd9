"""What is published of label requests: as of the end of a day."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from cubes import contract

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import Route
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import ContractTable, RequestsAtFault, SliceRow, WindowTable
from monitor.core.state import State
from monitor.core.time import HOUR, Grain, pane_of
from monitor.detection.advisory.finding_log import Timeline
from monitor.detection.advisory.label_requests import RequestFault
from monitor.detection.pages.declared import DetectorSettings
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy, DetectionState
from monitor.evaluate.publish.request_faults import RequestFaults
from monitor.store.evaluator.stored_detection import StoredDetection

START = 1_780_272_000_000_000
CONTRACT = contract(GroupBy(("channel",)))
CODING = Coding((Attribute("channel", ("chat", "email")),), audit_rates=(1.0, 0.05))
SETTINGS = DetectorSettings([CONTRACT], CODING)
FEW = RequestFault(Route.AUTO_SERVE, 1, Fault.TOO_FEW)
MANY = RequestFault(Route.AUTO_SERVE, 1, Fault.TOO_MANY)
ALL = RequestFault(Route.HUMAN_REVIEW, 0, Fault.TOO_FEW)


def at(hours: int) -> int:
    return START + hours * HOUR


def detection(consumed: int | None, **found: list[int]) -> DetectionState:
    """Past so many hours; ``few=[3]`` was found in the third."""
    policy = DetectionPolicy([CONTRACT], CODING, 1, completeness=Fraction(95, 100), live=True)
    made = DetectionState.load(StoredDetection(), policy)
    (watch,) = made.advice.watches
    first = pane_of(START, Grain.HOUR)
    watch.requests.consumed = None if consumed is None else first + consumed - 1
    for name, hours in found.items():
        one = {"few": FEW, "many": MANY, "all": ALL}[name]
        times = [first + hour - 1 for hour in hours]
        watch.requests.faults[one] = Timeline(times, list(range(1, len(hours) + 1)))
    return made


def table(state: State = State.WITHIN_CONTRACT) -> ContractTable:
    rows = SliceRow("", {Metric.SELECTION: state})
    windows = (WindowTable("1h", SliceRow("", {}), ()), WindowTable("7d", rows, ()))
    none: dict[Metric, float] = {}
    return ContractTable("replies", "1", "o", False, 11, "7d", none, none, none, {}, windows)


TABLE = replace(table(), contract=CONTRACT.name)


def shown(made: DetectionState) -> tuple[RequestsAtFault, ...]:
    return RequestFaults(made).lasting(TABLE, CONTRACT)


def few(count: int, days: int) -> RequestsAtFault:
    return RequestsAtFault(Route.AUTO_SERVE, 0.05, Fault.TOO_FEW, count, at(24 * days))


@pytest.mark.parametrize(
    ("consumed", "expected"),
    [(None, ()), (1, ()), (23, ()), (24, (few(2, 1),)), (47, (few(2, 1),)), (48, (few(3, 2),))],
)
def test_faults_are_those_of_the_newest_day_that_the_check_is_past(
    consumed: int | None, expected: tuple[RequestsAtFault, ...]
) -> None:
    hours = [hour for hour in (3, 24, 25) if hour <= (consumed or 0)]
    assert shown(detection(consumed, few=hours)) == expected


def test_nothing_moves_inside_a_day() -> None:
    states = [shown(detection(40, few=list(range(25, n)))) for n in range(25, 40)]
    assert set(states) == {()}


def test_strata_are_told_apart_and_sorted() -> None:
    assert shown(detection(48, many=[30], few=[1, 30], all=[3])) == (
        few(2, 2),
        RequestsAtFault(Route.AUTO_SERVE, 0.05, Fault.TOO_MANY, 1, at(48)),
        RequestsAtFault(Route.HUMAN_REVIEW, 1.0, Fault.TOO_FEW, 1, at(24)),
    )


def test_exact_contracts_tell_by_the_hour() -> None:
    exact = replace(CONTRACT, k=1, synthetic=True)
    (fault,) = RequestFaults(detection(5, few=[3])).lasting(TABLE, exact)
    assert fault.latest == at(3)


def test_of_a_hidden_total_nothing_is_told() -> None:
    faults = RequestFaults(detection(24, few=[5]))
    hidden = replace(table(State.SUPPRESSED), contract=CONTRACT.name)
    assert faults.lasting(hidden, CONTRACT) == ()
    assert faults.lasting(replace(hidden, windows=()), CONTRACT) == ()
    assert faults.lasting(TABLE, CONTRACT) == (few(1, 1),)
