"""What may be published of the detectors: as of the end of a block that they are past."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cubes import contract

from monitor.core.coding import Attribute, Coding
from monitor.core.contract import GroupBy, Metric
from monitor.core.families import Family, of_contracts
from monitor.core.findings import CROSSED, Finding
from monitor.core.snapshot import GroupTable, SliceRow
from monitor.core.time import HOUR, Grain, pane_of
from monitor.detection.advice import Advice
from monitor.detection.fleet import Fleet
from monitor.detection.streams import Direction, Kind, Stream
from monitor.evaluate.detect import Detection, DetectionPolicy
from monitor.evaluate.family_state import FamilyState
from monitor.evaluate.findings import Found
from monitor.store.detection import Crossing

START = 1_780_272_000_000_000
GROUP = GroupBy(("channel",))
CONTRACT = contract(GROUP)
CODING = Coding((Attribute("channel", ("chat", "email")),))
CHAT = "channel=chat"
TPR, BLOCKED = Metric.TPR, Metric.BLOCKED


def at(hours: int) -> int:
    return START + hours * HOUR


def stream(metric: Metric, direction: Direction = Direction.SLICE_WORSE) -> Stream:
    names = CONTRACT.name, GROUP.name, metric
    return Stream(*names, Kind.GAP, CHAT, "complement", direction, Fraction(1, 10))


def detection(consumed: int | None, **steps: int) -> Detection:
    """Past so many hours; the TPR of chat had step n after the hours in ``h<n>``."""
    policy = DetectionPolicy([CONTRACT], CODING, Fraction(95, 100), True, 1)
    made = Detection(policy, Fleet.start([CONTRACT], CODING), Advice.start([CONTRACT], CODING))
    first = pane_of(START, Grain.HOUR)
    row = made.fleet.streams.index(stream(TPR))
    for name, step in steps.items():
        levels = np.zeros(len(made.fleet.streams), np.int64)
        levels[row] = step
        made.fleet.history.note(first + int(name[1:]) - 1, levels)
    made.consumed = None if consumed is None else first + consumed - 1
    return made


def cross(made: Detection, metric: Metric, hours: int, resolved: int | None = None) -> None:
    ended = None if resolved is None else at(resolved)
    hour = pane_of(at(hours), Grain.HOUR) - 1
    one = Crossing(1, stream(metric).key, hour, True, at(hours), at(hours), ended)
    if ended is None:
        made.standing[one.stream] = one
    else:
        made.ended.append(one)


def family(labels: list[int], decisions: list[int], burned: tuple[int, ...] = ()) -> FamilyState:
    (one,) = (f for f in of_contracts([CONTRACT]) if f.attributes)
    assert isinstance(one, Family)
    state = FamilyState(one, edges=[at(h) for h in decisions], label_edges=[at(h) for h in labels])
    state.label_burned = {at(h) for h in burned}
    return state


def found(made: Detection, state: FamilyState, metric: Metric = TPR) -> Finding | None:
    return Found.start(made, None).of(CONTRACT, GROUP, state).get((CHAT, metric))


BLOCKS = family([0, 6, 18], [0, 1, 2, 5, 20])


@pytest.mark.parametrize(
    ("consumed", "expected"), [(None, None), (5, None), (6, 1), (17, 1), (18, 2), (30, 2)]
)
def test_evidence_is_that_of_the_newest_block_that_the_tests_are_past(
    consumed: int | None, expected: int | None
) -> None:
    steps = {"h3": 1, "h7": 3, "h9": 2, "h19": 3}
    past = {name: n for name, n in steps.items() if int(name[1:]) <= (consumed or 0)}
    seen = found(detection(consumed, **past), BLOCKS)
    assert seen == (None if expected is None else Finding(expected))


def test_before_the_first_block_nothing_is_told() -> None:
    assert Found.start(detection(9), None).of(CONTRACT, GROUP, family([0], [0])) == {}


def test_a_burned_block_is_no_end() -> None:
    made = detection(30, h3=1, h9=3)
    assert found(made, family([0, 6, 12, 18], [0], burned=(12, 18))) == Finding(1)
    assert found(made, family([0, 6, 12, 18], [0], burned=(6, 12))) == Finding(3)


def test_a_crossing_is_shown_from_the_end_of_its_block_on() -> None:
    made = detection(30, h3=1)
    cross(made, TPR, 8)
    assert found(made, family([0, 6], [0])) == Finding(1)
    assert found(made, BLOCKS) == Finding(CROSSED, at(18))
    assert found(made, family([0, 6, 18, 24], [0])) == Finding(CROSSED, at(18))


def test_what_does_not_rest_on_labels_goes_by_blocks_of_decisions() -> None:
    made = detection(9)
    cross(made, BLOCKED, 4)
    assert found(made, BLOCKS, BLOCKED) == Finding(CROSSED, at(5))
    assert found(made, BLOCKS) == Finding(0)
    assert found(made, family([0, 6], [0, 1, 2]), BLOCKED) == Finding(0)


@pytest.mark.parametrize("direction", list(Direction))
def test_either_direction_is_the_slice_s(direction: Direction) -> None:
    made = detection(30)
    cross(made, TPR, 4)
    (one,) = made.standing.values()
    key = stream(TPR, direction).key
    made.standing = {key: replace(one, stream=key)}
    assert found(made, BLOCKS) == Finding(CROSSED, at(6))


def test_a_resolved_crossing_was_there_until_then() -> None:
    """The day it ends on is known only with the next hour, so the block that ends there has it."""
    made = detection(60)
    cross(made, TPR, 4, resolved=24)
    assert found(made, family([0, 6, 24], [0])) == Finding(CROSSED, at(6))
    assert found(made, family([0, 6, 24, 30], [0])) == Finding(0)


@pytest.mark.parametrize("change", [{"live": False}, {"stream": ""}, {"stream": "x"}])
def test_what_never_paged_or_is_not_declared_any_more_is_no_breach(
    change: dict[str, object],
) -> None:
    made = detection(60)
    cross(made, TPR, 4)
    (one,) = made.standing.values()
    changed = replace(one, **change)  # type: ignore[arg-type]
    made.standing = {changed.stream: changed}
    assert found(made, BLOCKS) == Finding(0)


def test_since_when_it_is_shown_stays_as_it_was_said() -> None:
    """Blocks are made anew every week, and forgotten after two months."""
    made = detection(60)
    cross(made, TPR, 4)
    reader = Found.start(made, None)
    row = SliceRow(CHAT, {}, breach_since={TPR: at(6)})
    reader.told(CONTRACT.name, GroupTable(GROUP.name, (row,)))
    later = family([12, 24, 48], [12])
    assert reader.of(CONTRACT, GROUP, later)[CHAT, TPR] == Finding(CROSSED, at(6))
    reader.told(CONTRACT.name, GroupTable(GROUP.name, (SliceRow(CHAT, {}),)))
    assert reader.of(CONTRACT, GROUP, later)[CHAT, TPR] == Finding(CROSSED, at(24))
