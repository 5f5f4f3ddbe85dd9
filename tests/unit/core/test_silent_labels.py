"""Whether labels are silent, judged by the hours of the weeks before: both sides of each limit."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from monitor.core.blindness import KEPT_WEEKS, LABELS_MISSED, WEEK_HOURS, WEEKS, silent_since

DAY = 24
MONDAY = 3_000 * WEEK_HOURS
"""Midnight of it; the hours of a week are counted from here."""
SATURDAY, NEXT_MONDAY = MONDAY + 5 * DAY, MONDAY + WEEK_HOURS
Arrivals = dict[int, int]


def office(weeks: Iterable[int], an_hour: int = 100) -> Arrivals:
    """Labels from 9 to 17 o'clock on working days of so many weeks before Monday's week."""
    return {
        MONDAY - back * WEEK_HOURS + day * DAY + hour: an_hour
        for back in weeks
        for day in range(5)
        for hour in range(9, 17)
    }


def until(arrivals: Arrivals, end: int) -> Arrivals:
    """What came before an hour."""
    return {hour: number for hour, number in arrivals.items() if hour < end}


def told(arrivals: Arrivals, first: int, end: int) -> list[int]:
    """The hours in which they are said to be silent."""
    return [now for now in range(first, end) if silent_since(arrivals, now) is not None]


USUAL = office(range(5))
"""Four weeks, and the week that begins on Monday."""


def test_of_nothing_nothing_is_said() -> None:
    assert silent_since({}, MONDAY) is None
    assert silent_since({MONDAY - 900: 0}, MONDAY) is None


def test_nights_and_weekends_are_usual() -> None:
    assert told(USUAL, MONDAY, NEXT_MONDAY + 9) == []


def test_a_silence_is_told_after_a_day_and_with_the_hour_it_began_in() -> None:
    """The last label came on Tuesday between 11 and 12."""
    arrivals = until(USUAL, MONDAY + DAY + 12)
    last = MONDAY + DAY + 11
    assert told(arrivals, MONDAY, last + 25) == []
    assert silent_since(arrivals, last + 25) == last


def test_once_told_it_is_told_until_labels_come() -> None:
    """At night, at the weekend, and when the silence itself has long been what is usual."""
    arrivals = until(USUAL, MONDAY + DAY + 12)
    last = MONDAY + DAY + 11
    later = range(last + 25, last + 30 * WEEK_HOURS, 7)
    assert {silent_since(arrivals, now) for now in later} == {last}
    now = last + 30 * WEEK_HOURS
    assert silent_since({**arrivals, now: 50}, now) is None


@pytest.mark.parametrize("hour", [9, 10, 11, 13, 16])
def test_what_stops_on_a_friday_is_told_on_monday(hour: int) -> None:
    arrivals = until(USUAL, MONDAY + 4 * DAY + hour)
    found = told(arrivals, MONDAY + 4 * DAY + 18, NEXT_MONDAY + 2 * DAY)
    # Who went home at four has missed an hour: that is less than a day's labels on Monday at nine.
    assert found[0] in range(NEXT_MONDAY + 9, NEXT_MONDAY + 17)
    assert found[-1] == NEXT_MONDAY + 2 * DAY - 1


def test_a_short_friday_is_no_silence_on_monday_morning() -> None:
    arrivals = until(USUAL, MONDAY + 4 * DAY + 16)
    assert told(arrivals, SATURDAY, NEXT_MONDAY + 13) == []


def test_what_stops_in_the_evening_is_told_when_a_working_day_was_missed() -> None:
    """On the morning after it: from a public holiday reviewers are back by then."""
    arrivals = until(USUAL, MONDAY + 2 * DAY)
    assert told(arrivals, MONDAY, NEXT_MONDAY)[0] == MONDAY + 3 * DAY + 9
    back = office(range(1, 5)) | {MONDAY + 3 * DAY + 9: 1_000}
    assert told(arrivals | back, MONDAY + 3 * DAY + 9, MONDAY + 4 * DAY) == []


@pytest.mark.parametrize(("weeks", "silent"), [(0, False), (1, True), (2, True), (4, True)])
def test_a_young_service_has_no_usual_pace(weeks: int, silent: bool) -> None:
    """It needs a week before the silence."""
    begun = MONDAY + DAY - weeks * WEEK_HOURS
    arrivals = {hour: n for hour, n in until(USUAL, MONDAY + DAY).items() if hour >= begun - 15}
    assert bool(told(arrivals, MONDAY + DAY, MONDAY + 3 * WEEK_HOURS)) is silent


def test_a_trial_long_before_is_not_the_beginning() -> None:
    """Three labels were tried a month before; the week since the beginning is what is usual."""
    arrivals = until(office([0, 1]), MONDAY + DAY) | {MONDAY - 4 * WEEK_HOURS - 1: 3}
    assert told(arrivals, MONDAY, NEXT_MONDAY)
    assert not told(until(office([0]), MONDAY + 3 * DAY) | {MONDAY - 700: 3}, MONDAY, NEXT_MONDAY)


@pytest.mark.parametrize(("number", "silent"), [(LABELS_MISSED - 1, False), (LABELS_MISSED, True)])
def test_with_few_labels_a_reviewers_day_off_is_no_silence(number: int, silent: bool) -> None:
    """All of a day's labels come at once, at ten."""
    days = range(-KEPT_WEEKS * 7, 0)
    arrivals = {MONDAY + day * DAY + 10: number for day in days}
    last = MONDAY - DAY + 10
    # What was due an hour ago has not come, and at this hour of the day some come.
    assert told(arrivals, last, last + 48) == []
    assert told(arrivals, last, last + 49) == ([last + 48] if silent else [])


def test_an_unusual_week_before_is_not_the_measure() -> None:
    """One holiday and one feast among four weeks."""
    arrivals = until(USUAL, MONDAY + DAY)
    for hour in list(arrivals):
        back = (MONDAY - hour - 1) // WEEK_HOURS
        arrivals[hour] *= {1: 0, 3: 20}.get(back, 1)
    assert told(arrivals, MONDAY + DAY, MONDAY + 3 * DAY)
    quiet = until(USUAL, MONDAY + DAY) | dict.fromkeys(office([1, 2, 3]), 0)
    assert told(quiet, MONDAY + DAY, MONDAY + 3 * DAY) == []


def test_stragglers_do_not_hide_a_silence() -> None:
    """Of five weeks with 600 labels a day on average, three a day are hardly any."""
    last = MONDAY + DAY + 11
    arrivals = until(USUAL, last + 1)
    few = {last + 8 * n: 1 for n in range(1, 40)}
    assert silent_since(arrivals | few, last + 200) == last
    assert silent_since(arrivals | few | {last + 199: 20}, last + 200) is None


def test_hours_beyond_the_clock_say_nothing() -> None:
    """A clock that was far ahead has counted some in the year 2100."""
    last = MONDAY + DAY + 11
    arrivals = until(USUAL, last + 1) | {MONDAY + 600_000: 10_000}
    assert silent_since(arrivals, last + 25) == last


def test_labels_at_every_hour_are_missed_after_a_day() -> None:
    arrivals = dict.fromkeys(range(MONDAY - 840, MONDAY), 10)
    assert silent_since(arrivals, MONDAY + 23) is None
    assert silent_since(arrivals, MONDAY + 24) == MONDAY - 1


def test_one_week_more_is_kept_than_is_looked_at_for_one_is_known_in_part() -> None:
    assert KEPT_WEEKS == WEEKS + 1
