"""The check of label requests, hour by hour: whose turn it is, what it finds, what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import cast

import numpy as np
import pytest
from fleet_cells import AUDITS, MONDAY, Cells, Traffic, coding, contract

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import Counter, Counts, Int64s, Route, decode_strata
from monitor.core.publish.annotations import Fault
from monitor.core.time import DAY, HOUR, TimeSpan
from monitor.detection.advisory.advisors import Advisors
from monitor.detection.advisory.label_requests import RequestFault, RequestTest, RequestWatch
from monitor.detection.advisory.river_advisory import FindingCount
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.evidence_history import KEPT
from monitor.evaluate.cohorts import Cohorts
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy, DetectionState
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.evaluate.detect.request_checks import RequestChecks
from monitor.store.evaluator.stored_detection import (
    CountedCohorts,
    DetectionChange,
    StoredDetection,
)

CODING = coding(a="uv", b="xy")
CELLS = Cells(("a=u,b=x", "a=v,b=x"))
WATCHED = contract(GroupBy(("a",)))
TRAFFIC = Traffic(hourly=200, audit=1, blocked=0.2)
BROKEN = 30
"""Hours: from then on half of what is to be audited is not asked for."""
HALVED = RequestFault(Route.AUTO_SERVE, 1, Fault.TOO_FEW)


def sampled(hour: int) -> Counts:
    """An hour whose requests are as they should be, but that nobody asks for what is blocked."""
    return asked(hour, 1.0)


def halved(hour: int) -> Counts:
    """The same, until the audits of ``a=u`` and ``a=v`` break."""
    return asked(hour, 0.5 if hour - MONDAY >= BROKEN else 1.0)


def asked(hour: int, share: float) -> Counts:
    counts = CELLS.hour(np.random.default_rng((3, hour)), TRAFFIC)
    strata = decode_strata(CELLS.index.strata[np.searchsorted(CELLS.index.cells, counts.keys)])
    rate = np.array(AUDITS)[strata.rate] * np.where(strata.route == Route.AUTO_SERVE, share, 1)
    rate = np.where(strata.route == Route.BLOCKED_BY_EVIDENCE, 0, rate)
    values = counts.values.copy()
    rng = np.random.default_rng((4, hour))
    values[:, Counter.Q] = rng.binomial(values[:, Counter.N], rate)
    return Counts(counts.keys, values)


@dataclass
class Counted:
    """A store that has counted hours from the first on, and what was committed.

    Attributes:
        make: the counts of an hour.
        first: the oldest hour; None before any.
        reads: hours that were asked for.
    """

    make: Callable[[int], Counts] = halved
    first: int | None = MONDAY
    contracts: Sequence[Contract] = (WATCHED,)
    excluded: Sequence[TimeSpan] = ()
    parts: dict[str, bytes] = field(default_factory=dict)
    reads: list[tuple[int, int]] = field(default_factory=list)

    def first_counted(self) -> int | None:
        return self.first

    def requests(self, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        self.reads.append((first - MONDAY, end - MONDAY))
        tables = {hour: self.make(hour) for hour in range(max(first, self.first or first), end)}
        none = np.zeros((0, 2), np.int64)
        values = [one.values[:, (Counter.N, Counter.Q)] for one in tables.values()]
        return (
            np.repeat([*tables], [len(one.keys) for one in tables.values()]).astype(np.int64),
            np.concatenate([none[:, 0], *(one.keys for one in tables.values())]),
            np.concatenate([none, *values]),
        )

    def frozen(self, first: int, end: int) -> list[object]:
        raise AssertionError("no page stands")

    def next_cohort(self, *_: object) -> None:
        """No label ever comes."""

    def next_closed(self, *_: object) -> None:
        """Nothing but label requests has a turn."""

    def labels_due(self, *_: object) -> None:
        """Nobody knows how long labels take."""

    @property
    def inputs(self) -> Inputs:
        return Inputs(cast(CountedCohorts, self), CELLS.index, self.excluded)

    def run(self, hours: int) -> list[DetectionChange]:
        """All that is complete by a new evaluator, each change committed."""
        policy = DetectionPolicy(self.contracts, CODING, 1, completeness=Fraction(1), live=True)
        detection, changes = DetectionState.load(StoredDetection(self.parts), policy), []
        cohorts, watermark = cast(Cohorts, self), (MONDAY + hours) * HOUR
        while (found := detection.step(self.inputs, cohorts, watermark, 7 * DAY)) is not None:
            self.parts |= found.parts
            changes.append(found)
        return changes

    def watches(self) -> dict[str, RequestWatch]:
        """As they were committed last."""
        advice = Advisors.start(DetectorSettings(self.contracts, CODING), parts=self.parts)
        assert not advice.renewed
        return {one.name: one.requests for one in advice.watches}

    @property
    def watch(self) -> RequestWatch:
        return self.watches()["c"]


def test_a_broken_sampler_is_found_without_any_label() -> None:
    one = Counted()
    one.run(2 * 24)
    found = one.watch.before(MONDAY + 2 * 24)
    assert list(found) == [HALVED]
    assert not one.watch.before(MONDAY + BROKEN)
    hours = one.watch.faults[HALVED].hours
    assert BROKEN <= hours[0] - MONDAY < BROKEN + 4
    assert len(hours) >= 2, "it is found again on new evidence"
    assert one.watch.before(hours[1]) == {HALVED: FindingCount(1, hours[0] * HOUR)}


def test_nobody_has_to_ask_for_what_is_blocked() -> None:
    """Its audit_p is 1 here and no label is ever asked for, which is no fault of any sampler."""
    one = Counted(sampled)
    one.run(3 * 24)
    assert not one.watch.before(MONDAY + 3 * 24)
    blocked = sum(int(sampled(MONDAY + hour).values[:, Counter.N].sum()) for hour in range(9))
    assert blocked > 1_000


def test_only_its_part_is_written_and_no_cohort() -> None:
    one = Counted()
    changes = one.run(24)
    (change,) = changes
    assert set(change.parts) == {"~requests/c"}
    assert not change.cohorts
    assert one.run(24) == []


def test_hours_have_their_turn_once_they_are_complete() -> None:
    one = Counted()
    one.run(5)
    assert one.watch.consumed == MONDAY + 4
    detection = DetectionState.load(
        StoredDetection(one.parts),
        DetectionPolicy((WATCHED,), CODING, 1, completeness=Fraction(1), live=True),
    )
    almost = (MONDAY + 6) * HOUR - 1
    assert detection.step(one.inputs, cast(Cohorts, one), almost, DAY) is None
    assert detection.step(one.inputs, cast(Cohorts, one), almost + 1, DAY) is not None


@pytest.mark.parametrize("pace", [1, 5, 31])
def test_pace_and_restarts_move_no_hour_twice_and_end_in_the_same_bytes(pace: int) -> None:
    whole, often = Counted(), Counted()
    whole.run(3 * 24)
    for hours in [*range(pace, 3 * 24, pace), 3 * 24]:
        often.run(hours)
    assert often.parts == whole.parts
    read = [hour for first, end in often.reads for hour in range(first, end)]
    assert read == list(range(3 * 24))


def test_a_step_reads_one_day() -> None:
    one = Counted(first=MONDAY + 20)
    assert len(one.run(3 * 24)) == 3
    assert one.reads == [(20, 24), (24, 48), (48, 72)]


def test_an_old_store_begins_with_the_oldest_hour_that_it_keeps() -> None:
    one = Counted(first=MONDAY + 10)
    one.run(2 * 24)
    assert one.reads[0][0] == 10
    assert HALVED in one.watch.before(MONDAY + 2 * 24)


def test_an_empty_store_waits_for_its_first_whole_hour() -> None:
    one = Counted(first=None)
    assert one.run(24) == []
    one.first = MONDAY + 24
    assert one.run(24) == []
    assert len(one.run(25)) == 1


def test_hours_that_are_known_to_be_bad_move_nothing_and_have_their_turn() -> None:
    one, calm = Counted(), Counted(sampled)
    one.excluded = (TimeSpan((MONDAY + BROKEN) * HOUR + 1, (MONDAY + 99) * HOUR),)
    one.run(3 * 24)
    calm.run(BROKEN)
    assert one.watch.consumed == MONDAY + 3 * 24 - 1
    assert not one.watch.faults
    assert one.watch.mixture.log_r.tobytes() == calm.watch.mixture.log_r.tobytes()
    assert one.watch.mixture.pending.tobytes() == calm.watch.mixture.pending.tobytes()
    one.excluded = ()
    one.run(4 * 24)
    assert min(one.watch.faults[HALVED].hours) >= MONDAY + 3 * 24, "the hours are not read again"


def test_what_comes_after_its_hour_had_its_turn_is_ignored() -> None:
    one = Counted(sampled)
    one.run(10)
    before = dict(one.parts)
    one.make = lambda _: asked(MONDAY + 9, 0)
    assert one.run(10) == []
    assert one.parts == before


def test_every_contract_has_its_own_hours_and_a_new_one_begins_with_the_oldest() -> None:
    """It is of a part of all decisions, and the error budget is shared."""
    one, part = Counted(), contract(GroupBy(("b",)), where="a=u")
    one.run(40)
    one.contracts = (WATCHED, replace(part, name="new"))
    one.run(50)
    assert {name: w.consumed for name, w in one.watches().items()} == {
        "c": MONDAY + 49, "new": MONDAY + 49,
    }  # fmt: skip
    assert one.reads[-3:] == [(0, 24), (24, 48), (48, 50)]
    alone = Counted(contracts=(replace(part, name="new"), WATCHED))
    alone.run(50)
    assert alone.parts["~requests/new"] == one.parts["~requests/new"]
    assert alone.watches()["new"].mixture.log_r.tobytes() != one.watch.mixture.log_r.tobytes()


def test_the_state_of_another_form_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Counted()
    one.run(20)
    old = one.parts["~requests/c"]
    monkeypatch.setattr("monitor.detection.advisory.label_requests.FORM", 99)
    fresh = RequestWatch.start(RequestTest.for_audit_rates(CODING.audit_rates), 1)
    with pytest.raises(ValueError, match="another form"):
        fresh.restored(old)
    assert Advisors.start(DetectorSettings((WATCHED,), CODING), parts=one.parts).renewed == 1
    one.run(20)
    assert one.reads[-1] == (0, 20)


def test_what_is_old_is_only_counted() -> None:
    watch = RequestWatch.start(RequestTest.for_audit_rates(CODING.audit_rates), 1)
    size = len(watch.test.rates)
    decisions, none = np.zeros(size, np.int64), np.zeros(size, np.int64)
    decisions[len(CODING.audit_rates)] = 1000  # human_review, all of which is to be asked for
    review = RequestFault(Route.HUMAN_REVIEW, 0, Fault.TOO_FEW)
    hours = KEPT + 100
    for hour in range(hours):
        watch.advance(MONDAY + hour, decisions, none)
    assert watch.before(MONDAY + hours) == {
        review: FindingCount(hours, (MONDAY + hours - 1) * HOUR)
    }
    assert len(watch.faults[review].hours) <= KEPT + 2
    assert watch.before(MONDAY + 200)[review].count == 200
    again = RequestWatch.start(watch.test, 1).restored(watch.to_bytes())
    assert (again.faults, again.consumed) == (watch.faults, watch.consumed)


def test_without_anything_due_nothing_is_read() -> None:
    one = Counted()
    checks = RequestChecks([], len(CODING.audit_rates))
    assert checks.step(one.inputs, (MONDAY + 9) * HOUR) == {}
    assert not one.reads
