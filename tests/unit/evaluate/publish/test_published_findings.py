"""What may be published of the detectors: as of the end of a day that they are past."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cubes import contract

from monitor.core.contract import GroupBy
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Annotation
from monitor.core.publish.snapshot import LimitKind, Noted
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
    policy = DetectionPolicy([CONTRACT], CODING, 1, completeness=Fraction(95, 100), live=True)
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


def crossed_since(since: int) -> SliceEvidence:
    return SliceEvidence(CROSSED, since, limit=LimitKind.MAX_GAP)


def found(made: DetectionState, metric: Metric = TPR) -> SliceEvidence | None:
    return PublishedFindings(made).for_group(CONTRACT, GROUP).tests.get((CHAT, metric))


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


def noted(made: DetectionState) -> tuple[Noted, ...]:
    return PublishedFindings(made).for_group(CONTRACT, GROUP).noted.get(CHAT, ())


@pytest.mark.parametrize(
    ("consumed", "expected"), [(None, None), (23, 0), (24, 1), (47, 1), (48, 2), (60, 2)]
)
def test_evidence_is_that_of_the_newest_day_that_the_tests_are_past(
    consumed: int | None, expected: int | None
) -> None:
    steps = {"h3": 1, "h25": 3, "h30": 2, "h49": 3}
    past = {name: n for name, n in steps.items() if int(name[1:]) <= (consumed or 0)}
    seen = found(detection(consumed, **past))
    assert seen == (None if expected is None else SliceEvidence(expected))


def test_before_anything_had_its_turn_nothing_is_told() -> None:
    assert PublishedFindings(detection(None)).for_group(CONTRACT, GROUP) == GroupFindings()


def test_a_crossing_is_shown_from_the_end_of_its_day_on() -> None:
    for consumed, expected in ((24, SliceEvidence(1)), (48, crossed_since(at(48)))):
        made = detection(consumed, h3=1)
        cross(made, TPR, 30)
        assert found(made) == expected


def test_exact_contracts_tell_by_the_hour() -> None:
    made = detection(5, h3=1)
    exact = replace(CONTRACT, k=1, synthetic=True)
    assert PublishedFindings(made).for_group(exact, GROUP).tests[CHAT, TPR] == SliceEvidence(1)


def test_what_does_not_rest_on_labels_goes_by_the_hours_of_decisions() -> None:
    made = detection(24)
    made.routes.consumed = pane_of(START, Grain.HOUR) + 47
    cross(made, BLOCKED, 30)
    assert found(made, BLOCKED) == crossed_since(at(48))
    assert found(made) == SliceEvidence(0)


def test_a_crossing_by_which_all_others_are_worse_off_is_no_breach_of_the_slice() -> None:
    made = detection(30)
    cross(made, TPR, 4)
    (one,) = made.crossings.standing.values()
    key = stream(TPR, Direction.REFERENCE_WORSE).key
    made.crossings.standing = {key: replace(one, stream=key)}
    assert found(made) == SliceEvidence(CROSSED, others_behind=True)


def test_a_crossing_by_which_a_named_reference_is_worse_off_is_its_breach() -> None:
    email = "channel=email"
    group = GroupBy(("channel",), email)
    policy = DetectionPolicy(
        [contract(group)], CODING, 1, completeness=Fraction(95, 100), live=True
    )
    made = DetectionState.load(StoredDetection(), policy)
    made.consumed = pane_of(START, Grain.HOUR) + 29
    ahead = replace(stream(TPR, Direction.REFERENCE_WORSE), reference=email)
    hour = pane_of(at(4), Grain.HOUR) - 1
    made.crossings.standing = {ahead.key: Crossing(1, ahead.key, hour, True, at(4), at(4))}
    tests = PublishedFindings(made).for_group(contract(group), group).tests
    assert tests[email, TPR] == SliceEvidence(CROSSED, at(24), limit=LimitKind.MAX_GAP)
    assert tests[CHAT, TPR] == SliceEvidence(CROSSED, others_behind=True)


def test_a_resolved_crossing_was_there_until_then() -> None:
    """The day it ends on is known only with the next hour, so the day that ends there has it."""
    for consumed, expected in ((24, crossed_since(at(24))), (48, SliceEvidence(0))):
        made = detection(consumed)
        cross(made, TPR, 4, resolved=24)
        assert found(made) == expected


@pytest.mark.parametrize("change", [{"live": False}, {"stream": ""}, {"stream": "x"}])
def test_what_never_paged_or_is_not_declared_any_more_is_no_breach(
    change: dict[str, object],
) -> None:
    made = detection(60)
    cross(made, TPR, 4)
    (one,) = made.crossings.standing.values()
    changed = replace(one, **change)  # type: ignore[arg-type]
    made.crossings.standing = {changed.stream: changed}
    assert found(made) == SliceEvidence(0)


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
    assert noted(made) == tuple(Noted(*one, at(24)) for one in expected)


@pytest.mark.parametrize(
    ("consumed", "expected"),
    [(23, None), (24, (1, 24)), (47, (1, 24)), (48, (3, 48)), (60, (3, 48))],
)
def test_what_is_noted_moves_with_the_ends_of_days_alone(
    consumed: int, expected: tuple[int, int] | None
) -> None:
    """Hour by hour more is found; of the day that goes on nothing is told."""
    made = detection(consumed)
    for hours in (6, 25, 48, 49, 50, 55):
        if hours <= consumed:
            note(made, hours, FALL)
    told = () if expected is None else (Noted(Annotation.ADWIN, TPR, expected[0], at(expected[1])),)
    assert noted(made) == told


def test_of_another_slice_or_group_by_nothing_is_noted() -> None:
    made = detection(30)
    contract, group, _ = WHERE
    note(made, 3, VersionChange(contract, group, "channel=email"))
    note(made, 4, VersionChange(contract, "channel+region", CHAT))
    note(made, 5, VersionChange("another", group, CHAT))
    findings = PublishedFindings(made).for_group(CONTRACT, GROUP)
    email = Noted(Annotation.VERSION_CHANGE, None, 1, at(24))
    assert findings.noted == {"channel=email": (email,)}


def test_after_a_restart_the_same_is_said() -> None:
    made = detection(60)
    note(made, 4, RELEASE)
    note(made, 5, FALL)
    before = noted(made)
    made.advice.ledger = FindingTimes.from_bytes(made.advice.ledger.to_bytes())
    assert noted(made) == before
