"""What may be published of the detectors: as of the end of a block that they are past."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cubes import contract

from monitor.core.contract import GroupBy, Metric
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.privacy.families import SliceFamily, of_contracts
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.contract_tables import Builder
from monitor.core.publish.snapshot import (
    GroupTable,
    LimitKind,
    Noted,
    SliceRow,
    Snapshot,
    WindowTable,
)
from monitor.core.publish.states import CROSSED, GroupFindings, SliceEvidence
from monitor.core.time import HOUR, Grain, pane_of
from monitor.detection.advisory.finding_log import (
    AnySubject,
    Drift,
    FindingTimes,
    LabelDelay,
    ListedGap,
    MixShift,
    RateChange,
    VersionChange,
)
from monitor.detection.advisory.finding_log import FindingLog as Cohort
from monitor.detection.advisory.label_delays import Timing
from monitor.detection.advisory.river_detectors import ChangeDirection, Detector
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy, DetectionState
from monitor.evaluate.publish.published_findings import PublishedFindings
from monitor.store.evaluator.stored_detection import Crossing, StoredDetection

START = 1_780_272_000_000_000
GROUP = GroupBy(("channel",))
CONTRACT = contract(GROUP)
CODING = Coding((Attribute("channel", ("chat", "email")),))
SETTINGS = DetectorSettings([CONTRACT], CODING)
CHAT = "channel=chat"
TPR, BLOCKED = Metric.TPR, Metric.BLOCKED


def at(hours: int) -> int:
    return START + hours * HOUR


def stream(metric: Metric, direction: Direction = Direction.SLICE_WORSE) -> Stream:
    names = CONTRACT.name, GROUP.name, metric
    return Stream(*names, StreamKind.GAP, CHAT, "complement", direction, Fraction(1, 10))


def detection(consumed: int | None, **steps: int) -> DetectionState:
    """Past so many hours; the TPR of chat had step n after the hours in ``h<n>``."""
    policy = DetectionPolicy([CONTRACT], CODING, Fraction(95, 100), True, 1)
    made = DetectionState.load(StoredDetection(), policy)
    first = pane_of(START, Grain.HOUR)
    row = made.fleet.streams.index(stream(TPR))
    for name, step in steps.items():
        levels = np.zeros(len(made.fleet.streams), np.int64)
        levels[row] = step
        made.fleet.history.note(first + int(name[1:]) - 1, levels)
    made.consumed = None if consumed is None else first + consumed - 1
    made.routes.consumed = made.consumed
    return made


def cross(made: DetectionState, metric: Metric, hours: int, resolved: int | None = None) -> None:
    ended = None if resolved is None else at(resolved)
    hour = pane_of(at(hours), Grain.HOUR) - 1
    one = Crossing(1, stream(metric).key, hour, True, at(hours), at(hours), ended)
    if ended is None:
        made.crossings.standing[one.stream] = one
    else:
        made.crossings.ended.append(one)


def family(labels: list[int], decisions: list[int], burned: tuple[int, ...] = ()) -> FamilyState:
    (one,) = (f for f in of_contracts([CONTRACT]) if f.attributes)
    assert isinstance(one, SliceFamily)
    state = FamilyState(one, edges=[at(h) for h in decisions], label_edges=[at(h) for h in labels])
    state.label_abandoned = {at(h) for h in burned}
    return state


def crossed_since(since: int) -> SliceEvidence:
    return SliceEvidence(CROSSED, since, limit=LimitKind.MAX_GAP)


def found(made: DetectionState, state: FamilyState, metric: Metric = TPR) -> SliceEvidence | None:
    return PublishedFindings.start(made, None).of(CONTRACT, GROUP, state).tests.get((CHAT, metric))


def note(made: DetectionState, hours: int, *subjects: AnySubject) -> None:
    """The cohort that ends after so many hours found these."""
    kinds: dict[str, type[AnySubject]] = {
        "listed": ListedGap,
        "drifted": Drift,
        "mix_shifted": MixShift,
    }
    kinds |= {"changed": RateChange, "delayed": LabelDelay, "versions": VersionChange}
    parts: dict[str, Any] = {
        name: tuple(s for s in subjects if isinstance(s, k)) for name, k in kinds.items()
    }
    made.advice.ledger.note(Cohort(at(hours) - HOUR, **parts))


def noted(made: DetectionState, state: FamilyState) -> tuple[Noted, ...]:
    return PublishedFindings.start(made, None).of(CONTRACT, GROUP, state).noted.get(CHAT, ())


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
    assert seen == (None if expected is None else SliceEvidence(expected))


def test_before_the_first_block_nothing_is_told() -> None:
    assert (
        PublishedFindings.start(detection(9), None).of(CONTRACT, GROUP, family([0], [0]))
        == GroupFindings()
    )


def test_a_burned_block_is_no_end() -> None:
    made = detection(30, h3=1, h9=3)
    assert found(made, family([0, 6, 12, 18], [0], burned=(12, 18))) == SliceEvidence(1)
    assert found(made, family([0, 6, 12, 18], [0], burned=(6, 12))) == SliceEvidence(3)


def test_a_crossing_is_shown_from_the_end_of_its_block_on() -> None:
    made = detection(30, h3=1)
    cross(made, TPR, 8)
    assert found(made, family([0, 6], [0])) == SliceEvidence(1)
    assert found(made, BLOCKS) == crossed_since(at(18))
    assert found(made, family([0, 6, 18, 24], [0])) == crossed_since(at(18))


def test_what_does_not_rest_on_labels_goes_by_blocks_of_decisions() -> None:
    made = detection(9)
    cross(made, BLOCKED, 4)
    assert found(made, BLOCKS, BLOCKED) == crossed_since(at(5))
    assert found(made, BLOCKS) == SliceEvidence(0)
    assert found(made, family([0, 6], [0, 1, 2]), BLOCKED) == SliceEvidence(0)


def test_a_crossing_by_which_all_others_are_worse_off_is_no_breach_of_the_slice() -> None:
    made = detection(30)
    cross(made, TPR, 4)
    (one,) = made.crossings.standing.values()
    key = stream(TPR, Direction.REFERENCE_WORSE).key
    made.crossings.standing = {key: replace(one, stream=key)}
    assert found(made, BLOCKS) == SliceEvidence(CROSSED, others_behind=True)


def test_a_crossing_by_which_a_named_reference_is_worse_off_is_its_breach() -> None:
    email = "channel=email"
    group = GroupBy(("channel",), email)
    policy = DetectionPolicy([contract(group)], CODING, Fraction(95, 100), True, 1)
    made = DetectionState.load(StoredDetection(), policy)
    made.consumed = pane_of(START, Grain.HOUR) + 29
    ahead = replace(stream(TPR, Direction.REFERENCE_WORSE), reference=email)
    hour = pane_of(at(4), Grain.HOUR) - 1
    made.crossings.standing = {ahead.key: Crossing(1, ahead.key, hour, True, at(4), at(4))}
    tests = PublishedFindings.start(made, None).of(contract(group), group, BLOCKS).tests
    assert tests[email, TPR] == SliceEvidence(CROSSED, at(6), limit=LimitKind.MAX_GAP)
    assert tests[CHAT, TPR] == SliceEvidence(CROSSED, others_behind=True)


def test_a_resolved_crossing_was_there_until_then() -> None:
    """The day it ends on is known only with the next hour, so the block that ends there has it."""
    made = detection(60)
    cross(made, TPR, 4, resolved=24)
    assert found(made, family([0, 6, 24], [0])) == crossed_since(at(6))
    assert found(made, family([0, 6, 24, 30], [0])) == SliceEvidence(0)


@pytest.mark.parametrize("change", [{"live": False}, {"stream": ""}, {"stream": "x"}])
def test_what_never_paged_or_is_not_declared_any_more_is_no_breach(
    change: dict[str, object],
) -> None:
    made = detection(60)
    cross(made, TPR, 4)
    (one,) = made.crossings.standing.values()
    changed = replace(one, **change)  # type: ignore[arg-type]
    made.crossings.standing = {changed.stream: changed}
    assert found(made, BLOCKS) == SliceEvidence(0)


def test_since_when_it_is_shown_stays_as_it_was_said() -> None:
    """Blocks are made anew every week, and forgotten after two months."""
    made = detection(60)
    cross(made, TPR, 4)
    reader = PublishedFindings.start(made, None)
    row = SliceRow(CHAT, {}, breach_since={TPR: at(6)})
    reader.told(CONTRACT.name, GroupTable(GROUP.name, (row,)))
    later = family([12, 24, 48], [12])
    assert reader.of(CONTRACT, GROUP, later).tests[CHAT, TPR] == crossed_since(at(6))
    reader.told(CONTRACT.name, GroupTable(GROUP.name, (SliceRow(CHAT, {}),)))
    assert reader.of(CONTRACT, GROUP, later).tests[CHAT, TPR] == crossed_since(at(24))


# What advises.

WHERE = CONTRACT.name, GROUP.name, CHAT
FALL, RISE = (
    RateChange(*WHERE, TPR, Detector.ADWIN, one)
    for one in (ChangeDirection.DOWN, ChangeDirection.UP)
)
RELEASE = VersionChange(*WHERE)


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [
        ([ListedGap(*WHERE, TPR)], [(Annotation.GAP, TPR, 1)]),
        ([Drift(*WHERE, Metric.FPR)], [(Annotation.DRIFT, Metric.FPR, 1)]),
        ([MixShift(*WHERE, TPR)], [(Annotation.MIX_SHIFT, TPR, 1)]),
        ([FALL, RISE, FALL], [(Annotation.ADWIN, TPR, 3)]),
        (
            [RateChange(*WHERE, TPR, Detector.PAGE_HINKLEY, ChangeDirection.DOWN)],
            [(Annotation.PAGE_HINKLEY, TPR, 1)],
        ),
        (
            [LabelDelay(*WHERE, Timing.LATER, 2), LabelDelay(*WHERE, Timing.LATER, 1)],
            [(Annotation.LABELS_LATER, None, 2)],
        ),
        ([LabelDelay(*WHERE, Timing.EARLIER, 1)], [(Annotation.LABELS_EARLIER, None, 1)]),
        ([RELEASE], [(Annotation.VERSION_CHANGE, None, 1)]),
        (
            [RELEASE, Drift(*WHERE, TPR), Drift(*WHERE, Metric.FPR)],
            [
                (Annotation.DRIFT, Metric.FPR, 1),
                (Annotation.DRIFT, TPR, 1),
                (Annotation.VERSION_CHANGE, None, 1),
            ],
        ),
    ],
)
def test_every_kind_is_noted_and_what_is_alike_to_a_reader_is_one(
    subjects: list[AnySubject], expected: list[tuple[Annotation, Metric | None, int]]
) -> None:
    made = detection(30)
    note(made, 8, *subjects)
    assert noted(made, BLOCKS) == tuple(Noted(*one, at(18)) for one in expected)


@pytest.mark.parametrize(
    ("consumed", "expected"),
    [(5, None), (6, (1, 6)), (17, (1, 6)), (18, (3, 18)), (21, (3, 18)), (40, (3, 18))],
)
def test_what_is_noted_moves_with_the_ends_of_blocks_alone(
    consumed: int, expected: tuple[int, int] | None
) -> None:
    """Hour by hour more is found; of the block that is open nothing is told."""
    made = detection(consumed)
    for hours in (6, 7, 18, 19, 20, 25):
        if hours <= consumed:
            note(made, hours, FALL)
    told = () if expected is None else (Noted(Annotation.ADWIN, TPR, expected[0], at(expected[1])),)
    assert noted(made, BLOCKS) == told


def test_what_does_not_rest_on_labels_is_noted_by_blocks_of_decisions() -> None:
    made = detection(9)
    note(made, 4, ListedGap(*WHERE, BLOCKED), ListedGap(*WHERE, TPR), RELEASE)
    assert noted(made, BLOCKS) == (
        Noted(Annotation.GAP, BLOCKED, 1, at(5)),
        Noted(Annotation.GAP, TPR, 1, at(6)),
        Noted(Annotation.VERSION_CHANGE, None, 1, at(6)),
    )
    assert noted(made, family([0, 9], [0, 3])) == (
        Noted(Annotation.GAP, TPR, 1, at(9)),
        Noted(Annotation.VERSION_CHANGE, None, 1, at(9)),
    )


def test_what_was_found_in_a_burned_block_is_told_with_the_next() -> None:
    made = detection(30)
    note(made, 8, FALL)
    (one,) = noted(made, family([0, 6, 12, 18], [0], burned=(12,)))
    assert one.latest == at(18)


def test_of_another_slice_or_group_by_nothing_is_noted() -> None:
    made = detection(30)
    contract, group, _ = WHERE
    note(made, 3, VersionChange(contract, group, "channel=email"))
    note(made, 4, VersionChange(contract, "channel+region", CHAT))
    note(made, 5, VersionChange("another", group, CHAT))
    findings = PublishedFindings.start(made, None).of(CONTRACT, GROUP, BLOCKS)
    email = Noted(Annotation.VERSION_CHANGE, None, 1, at(6))
    assert findings.noted == {"channel=email": (email,)}


def tell(reader: PublishedFindings, *many: Noted) -> None:
    row = SliceRow(CHAT, {}, noted=many)
    reader.told(CONTRACT.name, GroupTable(GROUP.name, (row,)))


def test_the_block_that_first_showed_it_stays_as_it_was_said() -> None:
    """Until it is found again: blocks are made anew every week, and forgotten after two months."""
    made = detection(60)
    note(made, 4, RELEASE)
    reader, first = (
        PublishedFindings.start(made, None),
        Noted(Annotation.VERSION_CHANGE, None, 1, at(6)),
    )
    tell(reader, first)
    wider, later = family([0, 24, 48], [0]), family([12, 24, 48], [12])
    for state in (wider, later):
        assert reader.of(CONTRACT, GROUP, state).noted[CHAT] == (first,)
    note(made, 26, RELEASE)
    again = Noted(Annotation.VERSION_CHANGE, None, 2, at(48))
    assert reader.of(CONTRACT, GROUP, later).noted[CHAT] == (again,)


def test_what_is_older_than_all_blocks_and_was_not_said_is_left_out() -> None:
    made = detection(60)
    note(made, 4, RELEASE)
    note(made, 12, FALL)
    later = family([12, 24, 48], [12])
    assert noted(made, later) == ()
    assert noted(made, family([11, 24, 48], [12])) == (Noted(Annotation.ADWIN, TPR, 1, at(24)),)
    note(made, 13, RELEASE)
    assert noted(made, later) == (Noted(Annotation.VERSION_CHANGE, None, 2, at(24)),)


def test_what_was_said_of_a_newer_finding_is_not_said_of_an_older_one() -> None:
    """Blocks that are made anew may end earlier than those before."""
    made = detection(60)
    note(made, 4, RELEASE)
    note(made, 20, RELEASE)
    reader = PublishedFindings.start(made, None)
    tell(reader, Noted(Annotation.VERSION_CHANGE, None, 2, at(24)))
    before = Noted(Annotation.VERSION_CHANGE, None, 1, at(6))
    assert reader.of(CONTRACT, GROUP, BLOCKS).noted[CHAT] == (before,)


def test_after_a_restart_the_same_is_said() -> None:
    made = detection(60)
    note(made, 4, RELEASE)
    note(made, 5, FALL)
    one = PublishedFindings.start(made, None).of(CONTRACT, GROUP, BLOCKS)
    row = SliceRow(CHAT, {}, noted=one.noted[CHAT])
    group = GroupTable(GROUP.name, (row,))
    window = WindowTable(CONTRACT.window, SliceRow("", {}), (group,))
    before = Snapshot(at(60), at(60), (Builder(CONTRACT, CODING).table([window]),))
    made.advice.ledger = FindingTimes.from_bytes(made.advice.ledger.to_bytes())
    assert (
        PublishedFindings.start(made, before).of(CONTRACT, GROUP, family([0, 24], [0])).noted
        == one.noted
    )
