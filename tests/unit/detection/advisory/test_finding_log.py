"""When something was found, by its laws: whoever counts it anew for any instant finds the same."""

from __future__ import annotations

import random
import zlib
from collections import Counter

import msgspec
import pytest

from monitor.core.metric import Metric
from monitor.core.time import Grain, pane_start
from monitor.detection.advisory.finding_log import (
    FORM,
    AnySubject,
    Drift,
    FindingLog,
    FindingTimes,
    LabelDelay,
    ListedGap,
    MixShift,
    RateChange,
    Timeline,
    VersionChange,
)
from monitor.detection.advisory.label_delays import Timing
from monitor.detection.advisory.river_advisory import FindingCount
from monitor.detection.advisory.river_detectors import ChangeDirection, Detector
from monitor.detection.pages.evidence_history import KEPT

FIRST = 490_000
CHAT = "c", "channel", "channel=chat"
FALL = RateChange(*CHAT, Metric.TPR, Detector.ADWIN, ChangeDirection.DOWN)
RELEASE = VersionChange(*CHAT)
NORTH = VersionChange("c", "region", "region=north")
ALL: tuple[AnySubject, ...] = (
    ListedGap(*CHAT, Metric.BLOCKED),
    Drift(*CHAT, Metric.TPR),
    MixShift(*CHAT, Metric.TPR),
    FALL,
    LabelDelay(*CHAT, Timing.LATER, 2),
    RELEASE,
    NORTH,
)


KINDS: dict[str, type[AnySubject]] = {
    "listed": ListedGap,
    "drifted": Drift,
    "mix_shifted": MixShift,
    "changed": RateChange,
    "delayed": LabelDelay,
    "versions": VersionChange,
}


def brought(hour: int, *subjects: AnySubject) -> FindingLog:
    """What a cohort brought."""
    parts = {
        name: tuple(subject for subject in subjects if isinstance(subject, kind))
        for name, kind in KINDS.items()
    }
    return FindingLog(pane_start(hour, Grain.HOUR), **parts)  # type: ignore[arg-type]


def history(seed: int, hours: int = 3 * KEPT) -> list[FindingLog]:
    """Cohorts of most hours; one in ten brings something, sometimes the same thing twice."""
    pick = random.Random(seed)
    return [
        brought(FIRST + hour, *pick.choices(ALL, k=pick.choice((0,) * 9 + (3,))))
        for hour in range(hours)
        if pick.random() < 0.9
    ]


def counted(cohorts: list[FindingLog], subject: AnySubject, hour: int) -> FindingCount | None:
    """From the start, one cohort after the other."""
    before = [f for f in cohorts if f.at < pane_start(hour, Grain.HOUR) and subject in f.subjects]
    if not before:
        return None
    return FindingCount(sum(Counter(f.subjects)[subject] for f in before), before[-1].at)


def played(cohorts: list[FindingLog], restarts: float = 0.0) -> FindingTimes:
    pick, ledger = random.Random(1), FindingTimes()
    for one in cohorts:
        ledger.note(one)
        if pick.random() < restarts:
            ledger = FindingTimes.from_bytes(ledger.to_bytes())
    return ledger


def timeline(ledger: FindingTimes, subject: AnySubject) -> Timeline:
    return ledger.group_timelines(subject.contract, subject.group_by)[subject]


@pytest.mark.parametrize("hours", [40, KEPT + 100, 3 * KEPT])
def test_before_any_instant_it_is_what_counting_anew_gives(hours: int) -> None:
    cohorts = history(5, hours)
    ledger, now = played(cohorts), FIRST + hours
    pick = random.Random(2)
    instants = {now, now - KEPT + 1, *(now - pick.randrange(KEPT) for _ in range(40))}
    for subject in {s for f in cohorts for s in f.subjects}:
        for hour in instants:
            expected = counted(cohorts, subject, hour)
            assert timeline(ledger, subject).before(hour) == expected, (subject, hour)
        assert ledger.tallies[subject] == counted(cohorts, subject, now)


def test_a_stop_after_any_cohort_is_seen_in_nothing() -> None:
    cohorts = history(6, KEPT + 300)
    straight, stopped = played(cohorts), played(cohorts, restarts=0.05)
    assert stopped == straight
    assert stopped.to_bytes() == straight.to_bytes()


def test_what_is_old_is_folded_into_its_total() -> None:
    ledger = FindingTimes()
    for hour in (0, 3, 3, 9):
        ledger.note(brought(FIRST + hour, FALL))
    ledger.note(brought(FIRST + KEPT + 8, RELEASE))
    one = timeline(ledger, FALL)
    assert (one.hours, one.totals) == ([FIRST + 3, FIRST + 9], [3, 4])
    ledger.note(brought(FIRST + 5 * KEPT))
    assert (one.hours, one.totals) == ([FIRST + 9], [4])
    assert one.now == FindingCount(4, pane_start(FIRST + 9, Grain.HOUR)), "the newest one stays"


def test_what_is_kept_is_bounded_by_the_hours() -> None:
    """Even where every cohort finds the same thing many times."""
    ledger = FindingTimes()
    for hour in range(FIRST, FIRST + KEPT + 200):
        ledger.note(brought(hour, *[FALL] * 50))
    one = timeline(ledger, FALL)
    assert len(one.hours) == len(one.totals) == KEPT + 2
    assert one.now == FindingCount(50 * (KEPT + 200), pane_start(FIRST + KEPT + 199, Grain.HOUR))
    assert len(ledger.to_bytes()) < 10_000


def test_equal_ledgers_have_equal_bytes() -> None:
    one, other = FindingTimes(), FindingTimes()
    one.note(brought(FIRST, *ALL))
    for subject in reversed(ALL):
        other.note(brought(FIRST, subject))
    assert one.to_bytes() == other.to_bytes()
    other.note(brought(FIRST, FALL))
    assert one.to_bytes() != other.to_bytes()
    assert FindingTimes.from_bytes(one.to_bytes()) == one


def test_of_another_group_by_nothing_is_told() -> None:
    ledger = FindingTimes()
    ledger.note(brought(FIRST, *ALL))
    assert {s.group_by for s in ledger.group_timelines("c", "channel")} == {"channel"}
    assert set(ledger.group_timelines("c", "region")) == {NORTH}
    assert not ledger.group_timelines("d", "channel")


def test_what_is_not_watched_any_more_is_forgotten() -> None:
    ledger = FindingTimes()
    ledger.note(brought(FIRST, *ALL))
    ledger.keep({("c", "region=north"), ("d", "channel=chat")})
    assert set(ledger.tallies) == {NORTH}
    assert not ledger.group_timelines("c", "channel")


@pytest.mark.parametrize(
    "stored",
    [
        [],
        [
            (FALL, FindingCount(3, pane_start(FIRST, Grain.HOUR)))
        ],  # as it was before there were timelines
        (FORM + 1, []),
    ],
    ids=str,
)
def test_another_form_is_refused(stored: object) -> None:
    with pytest.raises(ValueError, match="stored findings"):
        FindingTimes.from_bytes(zlib.compress(msgspec.msgpack.encode(stored)))
