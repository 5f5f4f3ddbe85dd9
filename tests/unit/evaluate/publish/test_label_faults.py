"""Published faults of the labels of slices: as of the end of a day, named where shown."""

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
from monitor.core.publish.snapshot import (
    WITHHELD,
    ContractTable,
    GroupTable,
    LabelsAtFault,
    SliceRow,
    WindowTable,
)
from monitor.core.publish.states import with_missing_labels
from monitor.core.state import State
from monitor.core.time import HOUR, Grain, pane_of
from monitor.detection.advisory.slice_labels import Episode, SliceFault
from monitor.detection.pages.declared import DetectorSettings
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy, DetectionState
from monitor.evaluate.publish.label_faults import LabelFaults
from monitor.store.evaluator.stored_detection import StoredDetection

START = 1_780_272_000_000_000
CONTRACT = contract(GroupBy(("channel",)))
CODING = Coding((Attribute("channel", ("chat", "email", "fax")),), audit_rates=(1.0, 0.05))
SETTINGS = DetectorSettings([CONTRACT], CODING)
MISSING, FEW = Fault.MISSING, Fault.TOO_FEW
AUTO, REVIEW = Route.AUTO_SERVE, Route.HUMAN_REVIEW
GREEN = State.WITHIN_CONTRACT


def at(hours: int) -> int:
    return START + hours * HOUR


def found(
    consumed: int | None, *faults: tuple[str, Fault, list[int], int | None]
) -> DetectionState:
    """Past so many hours; each fault with the hours it was found in, and the one it ended in."""
    policy = DetectionPolicy([CONTRACT], CODING, 1, completeness=Fraction(95, 100), live=True)
    made = DetectionState.load(StoredDetection(), policy)
    (watch,) = made.advice.watches
    (labels,) = watch.labels.values()
    first = pane_of(START, Grain.HOUR)
    labels.consumed = None if consumed is None else first + consumed - 1
    for value, fault, hours, ended in faults:
        shares = [0.52 + i / 10 for i in range(len(hours))]
        end = None if ended is None else first + ended - 1
        one = Episode([first + hour - 1 for hour in hours], shares, end)
        place = SliceFault(f"channel={value}", AUTO, fault)
        labels.episodes.setdefault(place, []).append(one)
    return made


def table(**states: State) -> ContractTable:
    rows = tuple(
        SliceRow(f"channel={value}", {Metric.SELECTION: state, Metric.TPR: state})
        for value, state in states.items()
    )
    group = GroupTable("channel", rows, ())
    windows = (WindowTable("7d", SliceRow("", {Metric.SELECTION: GREEN}), (group,)),)
    none: dict[Metric, float] = {}
    return ContractTable(CONTRACT.name, "1", "o", False, 11, "7d", none, none, none, {}, windows)


SHOWN = table(chat=GREEN, email=GREEN, fax=State.SUPPRESSED)


def shown(made: DetectionState) -> tuple[LabelsAtFault, ...]:
    return LabelFaults(made).lasting(SHOWN, CONTRACT)


def fault(slice_: str, days: int, share: float | None, kind: Fault = MISSING) -> LabelsAtFault:
    return LabelsAtFault("channel", slice_, AUTO, kind, at(24 * days), share)


@pytest.mark.parametrize(
    ("consumed", "expected"),
    [
        (None, ()),
        (23, ()),
        (24, (fault("channel=chat", 1, 0.6),)),
        (40, (fault("channel=chat", 1, 0.6),)),
    ],
)
def test_a_fault_is_shown_with_the_day_that_has_its_hour(
    consumed: int | None, expected: tuple[LabelsAtFault, ...]
) -> None:
    assert shown(found(consumed, ("chat", MISSING, [3, 5], None))) == expected


def test_a_fault_that_has_ended_is_shown_until_the_day_that_knows_it() -> None:
    for ended, expected in ((6, 0), (20, 0), (24, 0), (25, 1)):
        assert len(shown(found(26, ("chat", MISSING, [3], ended)))) == expected, ended


def test_slices_that_are_hidden_are_withheld_and_one_whatever_they_are() -> None:
    made = found(48, ("fax", MISSING, [30], None), ("__other__", MISSING, [1], None))
    assert shown(made) == (fault(WITHHELD, 1, None),)


def test_kinds_of_faults_are_apart() -> None:
    made = found(24, ("chat", MISSING, [3], None), ("chat", FEW, [3], None))
    assert [one.fault for one in shown(made)] == [MISSING, FEW]


@pytest.mark.parametrize("state", list(State))
def test_a_slice_that_lacks_labels_is_maturing_whatever_its_bounds_say(state: State) -> None:
    lacks = replace(
        table(chat=state, email=state), labels_at_fault=(fault("channel=chat", 6, 0.5),)
    )
    (group,) = with_missing_labels(lacks).windows[0].groups
    chat, email = group.rows
    hidden = (State.SUPPRESSED, State.INSUFFICIENT_SUPPORT)
    assert chat.states[Metric.TPR] is (state if state in hidden else State.MATURING)
    assert chat.states[Metric.SELECTION] is state, "it needs no label"
    assert email.states == {Metric.SELECTION: state, Metric.TPR: state}


def test_what_is_requested_too_seldom_ripens_all_the_same() -> None:
    few = replace(SHOWN, labels_at_fault=(fault("channel=chat", 6, 0.5, FEW),))
    assert with_missing_labels(few) == few
