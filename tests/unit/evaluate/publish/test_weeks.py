"""When closed weeks are looked at: once a day, in a cycle that has little else to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from monitor.core.time import DAY, HOUR, IsoWeek
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.publish.publisher import Publisher
from monitor.evaluate.publish.weeks import Weeks, WeekSources

FRIDAY = IsoWeek.named("2026-W47").start + 4 * DAY


def released(until: int | None) -> ReleaseBlocks:
    return cast(ReleaseBlocks, SimpleNamespace(decisions=until))


@pytest.fixture
def weeks() -> Weeks:
    return Weeks(cast(Publisher, SimpleNamespace(contracts=())), horizon=HOUR)


def look(weeks: Weeks, until: int) -> None:
    """Look at the weeks, of which nothing was ever released."""
    none = {"rest": lambda _: None, "newest": lambda _: None}
    sources = SimpleNamespace(release=released(until), **none)
    assert weeks.revisions(cast(WeekSources, sources)) == []


def test_before_anything_is_released_it_is_nobodys_turn(weeks: Weeks) -> None:
    assert not weeks.turn(released(None), busy=False)


@pytest.mark.parametrize("busy", [False, True])
def test_after_a_start_the_first_cycle_looks(weeks: Weeks, busy: bool) -> None:
    assert weeks.turn(released(FRIDAY), busy=busy)


def test_a_day_is_looked_at_once(weeks: Weeks) -> None:
    look(weeks, FRIDAY)
    assert not weeks.turn(released(FRIDAY + HOUR), busy=False)
    assert weeks.turn(released(FRIDAY + DAY), busy=False)


def test_busy_steps_leave_it_to_a_quiet_one(weeks: Weeks) -> None:
    look(weeks, FRIDAY)
    at = [FRIDAY + DAY + n * HOUR for n in range(4)]
    turns = [
        weeks.turn(released(now), busy=busy)
        for now, busy in zip(at, (True, True, True, False), strict=True)
    ]
    assert turns == [False, False, False, True]


def test_no_day_goes_by_without_a_look(weeks: Weeks) -> None:
    look(weeks, FRIDAY)
    assert not weeks.turn(released(FRIDAY + 2 * DAY - 1), busy=True)
    assert weeks.turn(released(FRIDAY + 2 * DAY), busy=True)
    look(weeks, FRIDAY + 2 * DAY)
    assert not weeks.turn(released(FRIDAY + 3 * DAY), busy=True)
