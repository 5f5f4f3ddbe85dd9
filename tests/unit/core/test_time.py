"""Weeks at the ends of the calendar: a message may say any time that can be written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from monitor.core.time import DAY, HOUR, IsoWeek, to_micros

LAST = to_micros(datetime.max.replace(tzinfo=UTC))
FIRST = to_micros(datetime.min.replace(tzinfo=UTC))


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/New_York"])
def test_the_last_week_of_the_calendar_has_an_end(zone: str) -> None:
    week = IsoWeek.containing(LAST, zone)
    assert week.name == "9999-W52"
    assert week.start < LAST < week.end
    assert abs(week.end - week.start - 7 * DAY) <= 14 * HOUR


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/New_York"])
def test_the_first_moment_of_the_calendar_has_a_week(zone: str) -> None:
    assert IsoWeek.containing(FIRST, zone).name == "0001-W01"
