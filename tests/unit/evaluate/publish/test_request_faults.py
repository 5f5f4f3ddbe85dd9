"""What is published of label requests: as of the end of a block of all decisions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from cubes import contract

from monitor.core.contract import GroupBy, Metric, State
from monitor.core.counts.cells import Route
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.privacy.families import of_contracts
from monitor.core.publish.annotations import Fault
from monitor.core.publish.snapshot import (
    ContractTable,
    RequestsAtFault,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.time import HOUR, Grain, pane_of
from monitor.detection.advisory.finding_log import Timeline
from monitor.detection.advisory.label_requests import RequestFault
from monitor.detection.pages.declared import DetectorSettings
from monitor.evaluate.blocks.family_state import FamilyState
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
    policy = DetectionPolicy([CONTRACT], CODING, Fraction(95, 100), True, 1)
    made = DetectionState.load(StoredDetection(), policy)
    (watch,) = made.advice.watches
    first = pane_of(START, Grain.HOUR)
    watch.requests.consumed = None if consumed is None else first + consumed - 1
    for name, hours in found.items():
        one = {"few": FEW, "many": MANY, "all": ALL}[name]
        times = [first + hour - 1 for hour in hours]
        watch.requests.faults[one] = Timeline(times, list(range(1, len(hours) + 1)))
    return made


def total(*edges: int, burned: tuple[int, ...] = ()) -> FamilyState:
    (one,) = (f for f in of_contracts([CONTRACT]) if not f.attributes)
    state = FamilyState(one, edges=[at(h) for h in edges], label_edges=[at(0)])
    state.abandoned = {at(h) for h in burned}
    return state


def table(state: State = State.WITHIN_CONTRACT) -> ContractTable:
    rows = SliceRow("", {Metric.SELECTION: state})
    windows = (WindowTable("1h", SliceRow("", {}), ()), WindowTable("7d", rows, ()))
    none: dict[Metric, float] = {}
    return ContractTable("replies", "1", "o", False, 11, "7d", none, none, none, {}, windows)


def shown(
    made: DetectionState, state: FamilyState, before: Snapshot | None = None
) -> tuple[RequestsAtFault, ...]:
    return RequestFaults.start(made, before).of(replace(table(), contract=CONTRACT.name), state)


def few(count: int, latest: int) -> RequestsAtFault:
    return RequestsAtFault(Route.AUTO_SERVE, 0.05, Fault.TOO_FEW, count, at(latest))


def said(*faults: RequestsAtFault) -> Snapshot:
    one = replace(table(), contract=CONTRACT.name, requests_at_fault=faults)
    return Snapshot(None, None, (one,))


BLOCKS = total(0, 2, 6, 10)


@pytest.mark.parametrize(
    ("consumed", "expected"),
    [
        (None, ()),
        (1, ()),
        (2, ()),
        (5, ()),
        (6, (few(2, 6),)),
        (9, (few(2, 6),)),
        (10, (few(3, 10),)),
        (30, (few(3, 10),)),
    ],
)
def test_faults_are_those_of_the_newest_block_that_the_check_is_past(
    consumed: int | None, expected: tuple[RequestsAtFault, ...]
) -> None:
    hours = [hour for hour in (3, 6, 7, 12) if hour <= (consumed or 0)]
    assert shown(detection(consumed, few=hours), BLOCKS) == expected


def test_nothing_moves_inside_an_open_block() -> None:
    states = [shown(detection(20, few=list(range(11, n))), BLOCKS) for n in range(11, 20)]
    assert set(states) == {()}


def test_strata_are_told_apart_and_sorted() -> None:
    found = shown(detection(10, many=[7], few=[1, 7], all=[3]), BLOCKS)
    assert found == (
        few(2, 10),
        RequestsAtFault(Route.AUTO_SERVE, 0.05, Fault.TOO_MANY, 1, at(10)),
        RequestsAtFault(Route.HUMAN_REVIEW, 1.0, Fault.TOO_FEW, 1, at(6)),
    )


def test_a_burned_block_shows_nothing_and_the_next_one_does() -> None:
    made = detection(20, few=[5])
    assert shown(made, total(0, 2, 6, burned=(6,))) == ()
    assert shown(made, total(0, 2, 6, 10, burned=(6,))) == (few(1, 10),)


def test_of_a_hidden_total_nothing_is_told() -> None:
    faults = RequestFaults.start(detection(10, few=[5]), None)
    hidden = replace(table(State.SUPPRESSED), contract=CONTRACT.name)
    assert faults.of(hidden, BLOCKS) == ()
    assert faults.of(replace(hidden, windows=()), BLOCKS) == ()
    assert faults.of(replace(table(), contract=CONTRACT.name), BLOCKS) == (few(1, 6),)


def test_when_it_was_shown_stays_as_it_was_said() -> None:
    """Blocks are made anew every week, and forgotten after two months."""
    made, later = detection(60, few=[4, 5]), total(12, 24, 48)
    assert shown(made, total(0, 24, 48), said(few(2, 6))) == (few(2, 6),)
    assert shown(made, later, said(few(2, 6))) == (few(2, 6),)
    assert shown(made, later) == (), "it is older than all blocks, and nobody said when"
    again = detection(60, few=[4, 5, 30])
    assert shown(again, later, said(few(2, 6))) == (few(3, 48),)


def test_what_is_told_is_remembered_from_one_snapshot_to_the_next() -> None:
    faults = RequestFaults.start(detection(60, few=[4]), None)
    one = replace(table(), contract=CONTRACT.name)
    assert faults.of(one, total(0, 6)) == (few(1, 6),)
    assert faults.of(one, total(0, 8, 24)) == (few(1, 6),)
