"""When decisions should have come by now: routers of every rhythm over twelve weeks.

Each world is a router that is well, so none of its silences may page. Then an outage is planted:
a rule that never fires would fail here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest

from monitor.core.expected_arrivals import (
    SLOT,
    SLOTS_DAY,
    SLOTS_HOUR,
    MissingDecisions,
    Unseen,
    missing_decisions,
)
from monitor.core.quiet_times import QuietTime
from monitor.core.time import MINUTE, WEEK, to_micros

BERLIN = ZoneInfo("Europe/Berlin")
KEPT = 5 * WEEK // SLOT
WEEKS = 12
LONG = 50 * MINUTE // SLOT
"""Shorter silences are never looked at."""

Day = Callable[[date, Random], Iterator[time]]


@dataclass(frozen=True)
class World:
    """A router: the local times at which it decides on a day.

    Attributes:
        day: the times of one day.
        first: its first day.
        off: days on which it decides nothing.
        zone: in which its clock runs.
        declared: the time zone of the settings.
        quiet: the quiet times of the settings.
    """

    day: Day
    first: date = date(2026, 9, 7)  # a Monday
    off: frozenset[date] = frozenset()
    zone: ZoneInfo = BERLIN
    declared: str = "Europe/Berlin"
    quiet: tuple[str, ...] = ()

    def unseen(self) -> Unseen:
        """What the settings say of it."""
        return Unseen(self.declared, tuple(map(QuietTime.named, self.quiet)))

    def arrivals(self) -> dict[int, int]:
        """Decisions by slot, of twelve weeks."""
        return dict(made(self))


@cache
def made(world: World) -> Mapping[int, int]:
    pick, found = Random(7), dict[int, int]()
    for number in range(WEEKS * 7):
        day = world.first + timedelta(days=number)
        for at in world.day(day, pick) if day not in world.off else ():
            slot = to_micros(datetime.combine(day, at, world.zone)) // SLOT
            found[slot] = found.get(slot, 0) + 1
    return found


def clock(minutes: float) -> time:
    return time(int(minutes) // 60, int(minutes) % 60)


def every(pick: Random, start: int, end: int, least: float, most: float) -> Iterator[time]:
    """Times between two minutes of a day, at random distances."""
    at = start + pick.uniform(0, most)
    while at < end:
        yield clock(at)
        at += pick.uniform(least, most)


def nightly(day: date, pick: Random) -> Iterator[time]:
    yield from (clock(120 + pick.uniform(0, 12)) for _ in range(50))


def hourly(day: date, pick: Random) -> Iterator[time]:
    yield from (clock(60 * hour + pick.uniform(0, 8)) for hour in range(24) for _ in range(9))


def office(day: date, pick: Random) -> Iterator[time]:
    if day.weekday() < 5:
        yield from every(pick, 8 * 60 + 30, 16 * 60 + 30, 0.1, 4)


def weekly(day: date, pick: Random) -> Iterator[time]:
    if day.weekday() == 2:
        yield from (clock(9 * 60 + pick.uniform(0, 20)) for _ in range(200))


def weekday_nights(day: date, pick: Random) -> Iterator[time]:
    if day.weekday() < 5:
        yield from nightly(day, pick)


def steady(day: date, pick: Random) -> Iterator[time]:
    """Day and night, and most at noon."""
    for hour in range(24):
        pace = 6 if hour < 7 else 2
        yield from every(pick, 60 * hour, 60 * hour + 60, pace / 3, pace)


def long_days(day: date, pick: Random) -> Iterator[time]:
    yield from every(pick, 7 * 60, 21 * 60, 0.5, 6)


def working_week(day: date, pick: Random) -> Iterator[time]:
    """Day and night from Monday 06:00 to Friday 22:00."""
    if day.weekday() < 5:
        start, end = 6 if day.weekday() == 0 else 0, 22 if day.weekday() == 4 else 24
        yield from every(pick, start * 60, end * 60, 0.5, 6)


def low(day: date, pick: Random) -> Iterator[time]:
    at = pick.uniform(0, 3)
    while at < 24 * 60:
        yield clock(at)
        at += pick.uniform(10, 20)


def by_chance(day: date, pick: Random) -> Iterator[time]:
    """Every quarter of an hour on average, each independent of the last."""
    at = pick.expovariate(1 / 15)
    while at < 24 * 60:
        yield clock(at)
        at += pick.expovariate(1 / 15)


def seldom(day: date, pick: Random) -> Iterator[time]:
    """Three times a day at any hour."""
    yield from sorted(clock(pick.uniform(0, 24 * 60)) for _ in range(3))


def days_off(first: date, number: int) -> frozenset[date]:
    return frozenset(first + timedelta(days=n) for n in range(number))


def day_and_night(day: Day) -> World:
    """A router that knows no local time."""
    return World(day, zone=ZoneInfo("UTC"), declared="UTC")


AUTUMN, SPRING = date(2026, 9, 7), date(2026, 2, 9)
"""Summer time ends in the seventh week that follows, and begins in the seventh week."""
WORLDS = {
    "nightly": World(nightly),
    "hourly": World(hourly),
    "office": World(office),
    "weekly": World(weekly),
    "weekday nights": World(weekday_nights),
    "steady": day_and_night(steady),
    "little traffic": day_and_night(low),
    "by chance": day_and_night(by_chance),
    "seldom": day_and_night(seldom),
}
DECLARED = {
    "nights declared": World(long_days, quiet=("daily 22:00-06:00",)),
    "weekends declared": World(working_week, quiet=("saturday", "sunday")),
    "all of the night declared": World(long_days, quiet=("daily 21:00-07:00",)),
    "all of the weekend declared": World(
        working_week, quiet=("friday 22:00-24:00", "saturday", "sunday", "monday 00:00-06:00")
    ),
}
"""The first two rest longer than is declared; outside declared times the last two are steady."""
CALENDARS = {
    **{f"first weekend, {name}": replace(WORLDS[name], first=date(2026, 9, 10)) for name in WORLDS},
    "Monday off": World(office, off=days_off(date(2026, 10, 19), 1)),
    "Wednesday off": World(office, off=days_off(date(2026, 10, 21), 1)),
    "Friday to Monday off": World(office, off=days_off(date(2026, 10, 16), 4)),
    "Thursday to Sunday off": World(office, off=days_off(date(2026, 10, 15), 4)),
    "Saturday to Tuesday off": World(office, off=days_off(date(2026, 10, 17), 4)),
    "nights of four days off": World(weekday_nights, off=days_off(date(2026, 10, 16), 4)),
    "one night off": World(nightly, off=days_off(date(2026, 10, 14), 1)),
    "spring, nightly": World(nightly, first=SPRING),
    "spring, office": World(office, first=SPRING),
    **{
        f"{season:%B}, zone not declared, {name}": replace(
            WORLDS[name], first=season, declared="UTC"
        )
        for name in ("nightly", "hourly", "office", "weekly", "weekday nights")
        for season in (AUTUMN, SPRING)
    },
}
FAST = {*WORLDS, "first weekend, office", "Thursday to Sunday off", "spring, nightly"} | {
    "September, zone not declared, nightly",
    "February, zone not declared, office",
}
"""Worlds of every change; combinations of them are left to the full suite."""


@dataclass
class Watched:
    """What is judged of a router at any time."""

    arrivals: dict[int, int]
    unseen: Unseen = field(default_factory=Unseen)

    def __post_init__(self) -> None:
        self.slots = sorted(self.arrivals)

    def judge(self, slot: int) -> MissingDecisions | None:
        """What is said at the end of a slot."""
        end = bisect_left(self.slots, slot + 1)
        start = bisect_left(self.slots, self.slots[end - 1] - KEPT)
        known = {at: self.arrivals[at] for at in self.slots[start:end]}
        return missing_decisions(known, (slot + 1) * SLOT - 1, self.unseen)

    def first(self, start: int, end: int, wanted: Callable[[MissingDecisions], bool]) -> int | None:
        """The first slot at whose end it is said; what is said once is said until the end."""

        def says(slot: int) -> bool:
            said = self.judge(slot)
            return said is not None and wanted(said)

        found = bisect_left(range(start, end), True, key=says) + start
        return found if found < end else None


def silences(slots: Sequence[int]) -> list[int]:
    """The last slot of every long silence."""
    return [following - 1 for last, following in pairwise(slots) if following - last >= LONG]


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(world, marks=() if name in FAST else pytest.mark.full, id=name)
        for name, world in {**WORLDS, **CALENDARS}.items()
    ],
)
def test_a_router_that_is_well_never_pages(world: World) -> None:
    watched = Watched(world.arrivals(), Unseen(world.declared))
    long = list(silences(watched.slots))
    said = [watched.judge(slot) for slot in long[:: 1 + len(long) // 120]]
    assert [one.text for one in said if one is not None and one.pages] == []


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(world, marks=pytest.mark.full if name == "nights declared" else (), id=name)
        for name, world in DECLARED.items()
    ],
)
def test_nor_does_one_with_declared_quiet_times_at_any_time_of_its_rest(world: World) -> None:
    watched = Watched(world.arrivals(), world.unseen())
    rests = [
        range(last + LONG, following)
        for last, following in pairwise(watched.slots)
        if following - last > LONG
    ]
    moments = [slot for rest in rests for slot in (rest[0], *rest[1::60], rest[-1])]
    sample = moments[:: 1 + len(moments) // 120]
    said = [(slot, watched.judge(slot)) for slot in sample]
    assert [slot for slot, missing in said if missing is not None and missing.pages] == []


@pytest.mark.parametrize(
    "name",
    [
        "nightly",
        pytest.param("hourly", marks=pytest.mark.full),
        pytest.param("office", marks=pytest.mark.full),
        "weekly",
        "steady",
    ],
)
def test_nor_is_there_a_ticket_once_four_weeks_are_known(name: str) -> None:
    watched = Watched(WORLDS[name].arrivals(), Unseen(WORLDS[name].declared))
    known = [slot for slot in silences(watched.slots) if slot > watched.slots[0] + KEPT]
    assert [watched.judge(slot) for slot in known[::9]] == [None] * len(known[::9])


# Outages

TUESDAY = datetime(2026, 10, 13, tzinfo=BERLIN)


def at(days: int, hours: float) -> datetime:
    return TUESDAY + timedelta(days=days, hours=hours)


@dataclass(frozen=True)
class Outage:
    """A router that stops for three weeks, and by when that is to be known."""

    name: str
    start: datetime
    ticket: datetime | None
    page: datetime


OUTAGES = [
    Outage("nightly", at(0, 12), at(1, 3.25), at(2, 3.25)),
    Outage("hourly", at(0, 11.9), at(0, 13.25), at(1, 13.25)),
    Outage("office", at(0, 10), at(0, 11.1), at(1, 11.1)),
    Outage("office", at(-1, 20), at(0, 9.75), at(1, 9.75)),
    Outage("office", at(3, 10), at(3, 11.1), at(6, 9.75)),
    # It may be a long weekend: the page waits for four days off.
    Outage("office", at(3, 20), at(6, 9.75), at(8, 9.75)),
    Outage("office", at(2, 20), at(3, 9.75), at(7, 9.75)),
    Outage("weekly", at(0, 12), at(1, 10.5), at(8, 10.5)),
    Outage("weekday nights", at(0, 12), at(1, 3.25), at(2, 3.25)),
    Outage("steady", at(0, 3), None, at(0, 3.95)),
    Outage("steady", at(0, 12), None, at(0, 12.95)),
    Outage("little traffic", at(0, 12), None, at(0, 12.95)),
    Outage("by chance", at(0, 12), at(0, 16), at(1, 17)),
    Outage("seldom", at(0, 12), at(3, 0), at(4, 0)),
]


def slot_of(at: datetime) -> int:
    return to_micros(at) // SLOT


def stopped(arrivals: dict[int, int], start: datetime, end: datetime) -> dict[int, int]:
    return {slot: n for slot, n in arrivals.items() if not slot_of(start) <= slot < slot_of(end)}


@pytest.mark.parametrize(
    "outage",
    [
        pytest.param(
            outage,
            id=f"{outage.name}, {outage.start:%a %H:%M}",
            marks=pytest.mark.full if outage in (OUTAGES[9], OUTAGES[12]) else (),
        )
        for outage in OUTAGES
    ],
)
def test_an_outage_is_told_in_time_and_as_long_as_it_lasts(outage: Outage) -> None:
    world, end = WORLDS[outage.name], outage.start + timedelta(weeks=3)
    arrivals = stopped(world.arrivals(), outage.start, end)
    watched = Watched(arrivals, Unseen(world.declared))
    span = slot_of(outage.start), slot_of(end)
    ticket = watched.first(*span, lambda said: True)
    page = watched.first(*span, lambda said: said.pages)
    assert page is not None
    assert page < slot_of(outage.page)
    if outage.ticket is not None:
        assert ticket is not None
        assert slot_of(outage.start) + 10 <= ticket < slot_of(outage.ticket)
        assert ticket < page
    texts = set()
    for slot in range(page, span[1], 577):
        said = watched.judge(slot)
        assert said is not None
        assert said.pages
        texts.add(said.text)
    assert len(texts) == 1, "a text that changes would be another alert"


@pytest.mark.parametrize("name", WORLDS)
def test_in_the_first_week_there_are_tickets_only(name: str) -> None:
    world = WORLDS[name]
    start = datetime.combine(world.first, time(12), world.zone) + timedelta(days=4)
    watched = Watched(stopped(world.arrivals(), start, start + timedelta(weeks=3)))
    said = [watched.judge(slot) for slot in range(slot_of(start), slot_of(start) + 6000, 193)]
    assert not any(one.pages for one in said if one is not None)
    if name not in ("weekly", "seldom"):
        assert any(said)


def test_a_steady_router_is_steady_although_it_was_out_once() -> None:
    world = WORLDS["steady"]
    arrivals = stopped(world.arrivals(), at(-9, 0), at(-9, 7))
    watched = Watched(stopped(arrivals, at(0, 12), at(20, 0)), Unseen("UTC"))
    found = watched.first(slot_of(at(0, 12)), slot_of(at(1, 0)), lambda said: said.pages)
    assert found is not None
    assert found < slot_of(at(0, 13))


def test_a_silence_is_told_in_plain_words() -> None:
    office_out = stopped(WORLDS["office"].arrivals(), at(0, 10), at(9, 0))
    said = Watched(office_out, Unseen("Europe/Berlin")).judge(slot_of(at(0, 12)))
    assert said is not None
    assert said.text == (
        "On the last four Tuesdays decisions came between 10:25 and 10:30; none since 09:55"
        " (Europe/Berlin)"
    )
    steady_out = stopped(WORLDS["steady"].arrivals(), at(0, 12), at(9, 0))
    said = Watched(steady_out, Unseen("UTC")).judge(slot_of(at(0, 13)))
    assert said is not None
    assert said.text == (
        "Decisions usually come at least every 10 minutes; none since 2026-10-13 09:55 (UTC)"
    )


# What says nothing


@pytest.mark.parametrize("name", ["all of the night declared", "all of the weekend declared"])
def test_a_router_that_is_steady_outside_quiet_times_pages_within_the_hour(name: str) -> None:
    world = DECLARED[name]
    arrivals = stopped(world.arrivals(), at(0, 12), at(9, 0))
    watched = Watched(arrivals, world.unseen())
    page = watched.first(slot_of(at(0, 12)), slot_of(at(0, 14)), lambda said: said.pages)
    assert page is not None
    assert page < slot_of(at(0, 13))
    said = watched.judge(page)
    assert said is not None
    assert said.text == (
        "Decisions usually come at least every 10 minutes outside declared quiet times;"
        " none since 2026-10-13 11:55 (Europe/Berlin)"
    )


@pytest.mark.parametrize(
    ("name", "start", "ticket", "page"),
    [
        ("nights declared", at(0, 12), at(0, 13.1), at(1, 13.1)),
        ("nights declared", at(0, 22), at(1, 8.25), at(2, 8.25)),
        ("weekends declared", at(0, 12), at(0, 13.1), at(1, 13.1)),
    ],
)
def test_one_that_rests_longer_is_told_as_if_nothing_were_declared(
    name: str, start: datetime, ticket: datetime, page: datetime
) -> None:
    """Its rest is no pause within a day's work, nor is a declared night a weekend."""
    world = DECLARED[name]
    arrivals = stopped(world.arrivals(), start, start + timedelta(weeks=3))
    for unseen in (world.unseen(), Unseen(world.declared)):
        watched = Watched(arrivals, unseen)
        before = [watched.judge(slot_of(ticket) - 12), watched.judge(slot_of(page) - 12)]
        assert before[0] is None
        assert before[1] is not None
        assert not before[1].pages
        later = [watched.judge(slot_of(ticket)), watched.judge(slot_of(page))]
        assert [missing is not None and missing.pages for missing in later] == [False, True]
        assert later[0] is not None


def test_in_declared_quiet_times_nothing_is_expected() -> None:
    """Nor at their end, until an hour has gone by; nor is a page given up because of them."""
    quiet = (QuietTime.named("2026-10-13..2026-10-14"), QuietTime.named("daily 12:00-13:00"))
    arrivals = stopped(WORLDS["office"].arrivals(), at(0, 0), at(15, 0))
    watched = Watched(arrivals, Unseen("Europe/Berlin", quiet))
    said = {hour: watched.judge(slot_of(at(2, hour))) for hour in (-20, -1, 9, 9.75, 12.5, 14)}
    assert [hour for hour, one in said.items() if one is not None] == [9.75, 14]
    ends = slot_of(at(4, 0)), slot_of(at(15, 0))
    pages = [watched.judge(slot) for slot in range(*ends, 1000)]
    assert pages[-1] is not None
    assert pages[-1].pages


def test_a_steady_router_may_have_quiet_times() -> None:
    unseen = Unseen("UTC", (QuietTime.named("sunday 02:00-06:00"),))
    world = WORLDS["steady"]
    arrivals = world.arrivals()
    for week in range(WEEKS):
        sunday = datetime.combine(world.first, time(2), world.zone) + timedelta(days=6 + 7 * week)
        arrivals = stopped(arrivals, sunday, sunday + timedelta(hours=4))
    watched = Watched(arrivals, unseen)
    assert [watched.judge(slot) for slot in silences(watched.slots)] == [None] * WEEKS
    out = Watched(stopped(arrivals, at(0, 12), at(9, 0)), unseen)
    said = out.judge(slot_of(at(0, 12.9)))
    assert said is not None
    assert said.pages


def test_what_was_lost_before_it_was_read_is_no_pause() -> None:
    lost = to_micros(at(-9, 0)), to_micros(at(-9, 30))
    also = to_micros(at(-16, 0)), to_micros(at(-16, 30))
    arrivals = WORLDS["steady"].arrivals()
    for start in (-9, -16):
        arrivals = stopped(arrivals, at(start, 0), at(start, 30))
    arrivals = stopped(arrivals, at(0, 12), at(9, 0))
    for spans, pages in (((lost, also), True), ((), False)):
        said = Watched(arrivals, Unseen("UTC", (), spans)).judge(slot_of(at(0, 13.2)))
        assert (said is not None and said.pages) == pages


def test_nothing_is_known_of_nothing() -> None:
    assert missing_decisions({}, to_micros(TUESDAY)) is None
    assert missing_decisions({1: 0}, to_micros(TUESDAY)) is None
    assert missing_decisions({1: 5}, to_micros(TUESDAY)) is None


@pytest.mark.parametrize("stray", [at(-33, 0), at(900, 0)], ids=["long ago", "to come"])
def test_a_decision_of_another_time_hides_no_silence(stray: datetime) -> None:
    """The router is ten days old; a wrong clock has dated one decision."""
    young = stopped(WORLDS["steady"].arrivals(), at(-60, 0), at(-10, 0))
    watched = Watched(stopped(young, at(0, 12), at(90, 0)))
    known = watched.arrivals | {slot_of(stray): 1}
    said = missing_decisions(known, to_micros(at(0, 13)))
    assert said is not None
    assert said.pages


def test_within_a_session_half_again_the_usual_pause_is_waited() -> None:
    """Every day from 8 to 20 decisions come all the time, but for a pause of 100 minutes."""
    pause, first = 20, 20_000
    slots = [
        SLOTS_DAY * (first + day) + slot
        for day in range(5)
        for slot in range(8 * SLOTS_HOUR, 20 * SLOTS_HOUR)
        if not 0 < slot - (9 + 2 * day) * SLOTS_HOUR < pause
    ]
    last = SLOTS_DAY * (first + 4) + 19 * SLOTS_HOUR
    arrivals = {slot: 1 for slot in slots if slot <= last}
    told_after = pause + pause // 2
    assert missing_decisions(arrivals, (last + told_after - 1) * SLOT) is None
    said = missing_decisions(arrivals, (last + told_after) * SLOT)
    assert said is not None
    assert said.text.startswith("On the last four days decisions came between 19:30 and 19:35")


def test_nothing_is_due_where_each_day_began_at_another_hour() -> None:
    starts = (8, 12, 16, 20)
    last = SLOTS_DAY * (20_000 + len(starts) - 1) + (starts[-1] + 1) * SLOTS_HOUR
    arrivals = {
        SLOTS_DAY * (20_000 + day) + start * SLOTS_HOUR + slot: 1
        for day, start in enumerate(starts)
        for slot in range(SLOTS_HOUR + 1)
    }
    assert missing_decisions(arrivals, (last + SLOTS_DAY + 3 * SLOTS_HOUR) * SLOT) is None
