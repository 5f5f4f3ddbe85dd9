"""Detection between cycles: crossings that are opened, refreshed and resolved, and when."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from fleet_cells import MONDAY, Cells, Traffic, coding, contract, limits
from kept_detection import KeptDetection

from monitor.core.contract import Contract, GroupBy
from monitor.core.counts.cells import Counter, Counts
from monitor.core.counts.completeness import CohortState
from monitor.core.counts.rollup import CellIndex
from monitor.core.time import DAY, HOUR, TimeSpan
from monitor.detection import arrays
from monitor.detection.pages.streams import Stream
from monitor.evaluate.detect.cohorts_in_order import RESOLVE_SPAN, DetectionPolicy
from monitor.store.evaluator.stored_detection import Crossing, DetectionChange

CODING = coding(a="uv", b="xy")
CELLS = Cells(("a=u,b=x", "a=v,b=x"))
BY_A = GroupBy(("a",))
WATCHED = contract(BY_A, of=limits(floor="0.50"))
SELECTED = contract(BY_A, of=replace(limits(floor="0.50"), max_selection_gap=Fraction("0.10")))
BROKEN, MENDED, LAST = 2, 6, 13
"""Days: between the first two, most of what is ready in the slice a=u is sent to review."""


def counted(hour: int, released: int | None = None) -> Counts:
    """By other versions from an hour on."""
    bad = BROKEN * 24 <= hour - MONDAY < MENDED * 24
    served = np.array([0.1 if bad else 0.85, 0.85])
    counts = CELLS.hour(np.random.default_rng(hour), Traffic(hourly=40, tpr=served, audit=1))
    return counts if released is None or hour < released else CELLS.renewed(counts)


@dataclass
class Kept(KeptDetection):
    """What a store and the cohorts of the labels would tell, from the first day on.

    Attributes:
        released: the hour from which on other versions answer.
    """

    index: ClassVar[CellIndex] = CELLS.index
    released: int | None = None

    def feed(self, hour: int) -> Counts:
        return counted(hour, self.released)


def policy(live: bool = True, *contracts: Contract) -> DetectionPolicy:
    return DetectionPolicy(contracts or (WATCHED,), CODING, 1, completeness=Fraction(1), live=live)


def kept(**changed: object) -> Kept:
    return Kept(policy(), **changed)  # type: ignore[arg-type]


def of_gap(one: Crossing) -> bool:
    return "|tpr|gap|a=u|complement|slice_worse|" in one.stream


@pytest.fixture(scope="module")
def lived() -> tuple[Kept, list[DetectionChange]]:
    """All days at once, a day a step."""
    one = kept()
    return one, one.run(LAST * 24)


def test_a_crossing_that_stands_is_refreshed_and_not_opened_twice(
    lived: tuple[Kept, list[DetectionChange]],
) -> None:
    one, changes = lived
    found = [crossing for crossing in one.state.crossings if of_gap(crossing)]
    assert len(found) == 1
    assert [crossing.id for crossing in one.state.crossings] == [*range(1, one.state.next_id)]
    assert sum(found[0].id in change.refreshed for change in changes) >= 2
    assert found[0].crossed_at == (found[0].hour + 1) * HOUR
    assert BROKEN * DAY < found[0].crossed_at - MONDAY * HOUR < found[0].latest - MONDAY * HOUR
    assert found[0].latest - MONDAY * HOUR <= (MENDED + 1) * DAY


def test_a_page_ends_after_it_is_mended_and_not_before(
    lived: tuple[Kept, list[DetectionChange]],
) -> None:
    one, _ = lived
    for crossing in one.state.crossings:
        assert crossing.resolved_at is not None
        since = crossing.resolved_at - MONDAY * HOUR
        assert MENDED * DAY < since <= (MENDED + 7) * DAY
        assert since % DAY == 0, "looked at when a day begins"


def test_what_other_versions_replaced_ends_no_page(
    lived: tuple[Kept, list[DetectionChange]],
) -> None:
    """The same days, but that versions change an hour before the page would have ended."""
    (before,) = (crossing for crossing in lived[0].state.crossings if of_gap(crossing))
    assert before.resolved_at is not None
    one = kept(released=before.resolved_at // HOUR - 1)
    one.run(LAST * 24)
    (after,) = (crossing for crossing in one.state.crossings if of_gap(crossing))
    assert after.latest == before.latest
    assert after.resolved_at is None or after.resolved_at >= before.resolved_at + DAY


def test_an_end_is_looked_for_once_a_day_in_the_days_before(
    lived: tuple[Kept, list[DetectionChange]],
) -> None:
    one, _ = lived
    ends = [end for _, end in one.asked]
    assert len(ends) == len(set(ends)) >= 4
    assert all(end % 24 == 0 for end in ends)
    assert all(end - first == RESOLVE_SPAN // HOUR for first, end in one.asked)


def test_a_step_is_of_one_day(lived: tuple[Kept, list[DetectionChange]]) -> None:
    days = [{cohort.hour // 24 for cohort in change.cohorts} for change in lived[1]]
    assert [len(day) for day in days] == [1] * LAST
    assert kept().run(0) == []


def test_what_is_loaded_in_bulk_ends_as_it_begins_and_refreshes_nothing(
    lived: tuple[Kept, list[DetectionChange]],
) -> None:
    one = Kept(policy(False))
    one.run(MENDED * 24)
    assert one.state.crossings
    assert all(c.resolved_at == c.crossed_at == c.latest for c in one.state.crossings)
    assert not any(c.live for c in one.state.crossings)
    assert not one.asked
    one.policy = policy(True)
    one.run(LAST * 24)
    assert one.state.parts == lived[0].state.parts


LATE = 5 * DAY


def of_routes_key(key: str) -> bool:
    return not Stream.parse(key).metric.labelled


def of_routes(one: Crossing) -> bool:
    return of_routes_key(one.stream)


@pytest.fixture(scope="module")
def early() -> Kept:
    """A limit on selection beside those of labels, which take five days."""
    one = Kept(policy(True, SELECTED), labels_take=LATE)
    one.run(LAST * 24)
    return one


def test_what_needs_no_labels_pages_before_they_come(early: Kept) -> None:
    first = min(one.crossed_at for one in early.state.crossings if of_routes(one))
    assert BROKEN * DAY < first - MONDAY * HOUR < (BROKEN + 1) * DAY
    assert [one.hour for one in early.closed] == [MONDAY + hour for hour in range(LAST * 24)]
    assert len(early.cohorts) == LAST * 24 - LATE // HOUR
    assert not any(one.counts.values[:, Counter.LABELLED].any() for one in early.closed)


def test_it_ends_by_what_was_decided_since(early: Kept) -> None:
    ends = [one.resolved_at for one in early.state.crossings if of_routes(one)]
    assert all(end is not None for end in ends)
    assert max(end or 0 for end in ends) - MONDAY * HOUR < (MENDED + 5) * DAY, "before labels come"


def test_labels_that_come_late_change_no_test_of_routes(early: Kept) -> None:
    """Nor does the pace, or a restart in the middle of a day."""
    at_once = Kept(policy(True, SELECTED))
    at_once.run(LAST * 24)
    slowly = Kept(policy(True, SELECTED), labels_take=LATE)
    for hours in [*range(7, LAST * 24, 7), LAST * 24]:
        slowly.run(hours)
    assert slowly.state == early.state

    def found(one: Kept) -> list[tuple[str, int, int | None]]:
        return sorted((c.stream, c.hour, c.resolved_at) for c in one.state.crossings)

    ends = (MONDAY + LAST * 24) * HOUR - LATE
    assert [x for x in found(early) if of_routes_key(x[0])] == [
        x for x in found(at_once) if of_routes_key(x[0])
    ]
    assert [(s, h) for s, h, _ in found(early) if not of_routes_key(s)] == [
        (s, h) for s, h, _ in found(at_once) if not of_routes_key(s) and h * HOUR < ends
    ]


def test_a_week_is_listed_when_that_of_labels_has_ended_too() -> None:
    """By both kinds of streams at once, though one of them has been for days."""
    one = Kept(policy(True, SELECTED), labels_take=LATE)
    early = [change.listed for change in one.run(11 * 24)]
    assert early == [None] * len(early)
    held = arrays.decode(one.state.parts["~routes/weeks"])[0]
    assert len(held) == 1
    (listed,) = (x.listed for x in one.run(LAST * 24) if x.listed is not None)
    at_once = Kept(policy(True, SELECTED))
    (expected,) = (x.listed for x in at_once.run(LAST * 24) if x.listed is not None)
    assert set(listed) == set(expected)
    assert {stream.metric.labelled for stream in listed} == {True, False}
    assert not arrays.decode(one.state.parts["~routes/weeks"])[0]


def test_a_stream_that_is_no_longer_declared_is_closed_and_its_state_goes() -> None:
    one = kept()
    one.run(5 * 24)
    standing = set(one.state.standing)
    assert standing
    other = contract(GroupBy(("b",)), of=limits(floor="0.50"))
    one.policy = policy(True, other)
    one.run(5 * 24 + 5)
    assert {c.resolved_at for c in one.state.crossings if c.stream in standing} == {
        (MONDAY + 5 * 24) * HOUR
    }
    advice = {"~found", "~requests/c", "~river/c", "~drift/c/b", "~delays/c/b", "~labels/c/b"}
    routes = {"~routes/c/b", "~routes/history", "~routes/weeks"}
    assert set(one.state.parts) == {"c/b", "budget", "history"} | routes | advice


def test_a_limit_that_changed_closes_its_crossing_and_leaves_the_others() -> None:
    one = kept()
    one.run(5 * 24)
    gaps = {c.stream for c in one.state.crossings if of_gap(c)}
    floors = {c.stream for c in one.state.crossings if "|level|" in c.stream}
    assert gaps
    assert floors
    one.policy = policy(True, contract(BY_A, of=limits(floor="0.55")))
    one.run(5 * 24 + 1)
    assert not floors & set(one.state.standing)
    assert gaps <= set(one.state.standing)


def test_hours_without_labels_and_bad_ones_move_nothing_and_have_their_turn() -> None:
    bad = range(BROKEN * 24, MENDED * 24)
    span = TimeSpan((MONDAY + bad[0]) * HOUR + 1, (MONDAY + bad[-1]) * HOUR + 1)
    for one, state in (
        (kept(excluded=(span,)), CohortState.EXCLUDED),
        (kept(hollow=frozenset(MONDAY + hour for hour in bad)), CohortState.INCOMPLETE),
    ):
        one.run(9 * 24)
        assert not one.state.crossings
        assert [c.hour - MONDAY for c in one.cohorts] == list(range(9 * 24))
        assert {c.hour - MONDAY for c in one.cohorts if c.state is state} == set(bad)
        assert not any(len(c.counts.keys) for c in one.cohorts if c.state is state)


def test_what_is_known_to_be_bad_ends_no_page() -> None:
    """Declared after its turn: the days that seemed to be good were not."""
    one = kept()
    one.run((MENDED + 1) * 24)
    standing = set(one.state.standing)
    assert standing
    one.excluded = (TimeSpan((MONDAY + MENDED * 24) * HOUR, (MONDAY + 99 * 24) * HOUR),)
    one.run((MENDED + 8) * 24)
    assert set(one.state.standing) == standing


def test_the_state_of_another_version_begins_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = kept()
    one.run(3 * 24)
    monkeypatch.setattr(arrays, "VERSION", arrays.VERSION + 1)
    with caplog.at_level(logging.WARNING):
        changes = one.run(3 * 24 + 1)
    assert "the detectors begin anew" in caplog.records[0].message
    assert [c.hour - MONDAY for change in changes for c in change.cohorts] == [3 * 24]
    found, _ = arrays.decode(one.state.parts["c/a"])
    assert np.isneginf(found["gap.tpr.log_r"]).all()
