"""Decisions that should have come by now, by the times at which they came in former weeks.

What counts is when a message arrived at the broker, in slots of five minutes. A message that is
read late fills the slot it arrived in, so the service's own down time is no silence of the router.

A router that never pauses for long outside declared quiet times is steady, and its silence is an
outage. Any other rests at night, between batches or on holidays. Its silence is measured by the
times at which every former week had decisions, and by its own working days.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property, lru_cache
from itertools import pairwise

from monitor.core.quiet_times import QuietTime
from monitor.core.time import DAY, HOUR, MINUTE, UTC_ZONE, WEEK, Grain, in_zone, to_datetime

SLOT = int(Grain.MINUTES5)
SLOTS_HOUR, SLOTS_DAY, SLOTS_WEEK = HOUR // SLOT, DAY // SLOT, WEEK // SLOT
WEEKS = 4
"""Former weeks that are looked at."""
DAYS = 6
"""Former days that are looked at in the first week."""
KEPT = (WEEKS + 1) * WEEK
"""How long before the last decision arrivals must be known."""
HARDLY_ANY = 0.01
"""Share that counts as none: a trial before the service began, or a straggler in a silence."""
STEADY_GAP = 25 * MINUTE // SLOT
"""A router that pauses no longer than this outside quiet times is steady."""
STEADY_SILENCE = 50 * MINUTE // SLOT
"""Twice that. The alert waits for another five minutes, and still pages within the hour."""
TAIL = 30 * MINUTE // SLOT
"""The last decision of a working day may come earlier than in other weeks by as much."""
SOON = 45 * MINUTE // SLOT
"""What is due sooner than this continues the present session; what is due later begins another."""
SHORT_PAUSE = 4 * SLOTS_HOUR
"""Longer pauses lie between sessions, and say nothing of the pauses within one."""
AT_REST = 2 * SLOTS_HOUR
"""A silence before which nothing was due for so long began when the router rested anyway."""
REST = 36 * SLOTS_HOUR
"""A pause of a weekend, or of Sunday alone."""
HOLIDAY = 4 * SLOTS_DAY
"""The longest weekend with holidays, such as Easter."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


@dataclass(frozen=True, slots=True)
class MissingDecisions:
    """Decisions that should have come by now.

    Attributes:
        pages: they were missed for long enough to wake somebody; else they are a ticket.
        text: what was expected when, for people; it stays the same while nothing comes.
    """

    pages: bool
    text: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """Times about which a silence says nothing.

    Attributes:
        zone: name of the time zone that quiet times and days are in.
        quiet: declared times at which nothing need come.
        lost: spans (microseconds) whose messages were lost before they were read.
    """

    zone: str = UTC_ZONE
    quiet: Sequence[QuietTime] = ()
    lost: Sequence[tuple[int, int]] = ()

    def slots(self) -> Callable[[int], bool] | None:
        """A function that says whether a slot is unseen; None where no slot is."""
        if not self.quiet and not self.lost:
            return None
        return cache(self._hides)

    def _hides(self, slot: int) -> bool:
        start = slot * SLOT
        lost = any(since < start + SLOT and start <= until for since, until in self.lost)
        at = in_zone(start, self.zone)
        return lost or any(quiet.covers(at) for quiet in self.quiet)


def missing_decisions(
    arrivals: Mapping[int, int], now: int, unseen: Unseen = Unseen()
) -> MissingDecisions | None:
    """Decisions that should have come since the last one; None while none should have.

    Args:
        arrivals: decisions by the slot in which they arrived, of the five weeks before the last.
        now: wall clock, microseconds.
        unseen: times about which a silence says nothing.
    """
    present = now // SLOT
    came = {slot: number for slot, number in arrivals.items() if number > 0 and slot <= present}
    if not came or present - max(came) < STEADY_SILENCE:
        return None
    first = begun(came)
    return _Silence(sorted(slot for slot in came if slot >= first), present, unseen).judge()


def begun(came: Mapping[int, int]) -> int:
    """The first time before which hardly any of all that came had come.

    Args:
        came: numbers above 0 by the time they came at.
    """
    most, before = HARDLY_ANY * sum(came.values()), 0
    for at in sorted(came):
        before += came[at]
        if before > most:
            return at
    return max(came)


@dataclass(frozen=True, slots=True)
class _Pause:
    """Time from one decision to the next.

    Attributes:
        length: distance of their slots.
        seen: the same without unseen slots: by as much the router itself paused.
        end: slot of the second.
    """

    length: int
    seen: int
    end: int


class _Silence:
    """A silence, with the weeks before it.

    Times of day are compared on the local clock: a slot there is that of UTC, moved by the offset
    of the time zone. Distances ``ahead`` count from the last slot in which decisions came.
    """

    def __init__(self, came: Sequence[int], present: int, unseen: Unseen) -> None:
        self._came = came
        self._present = present
        self._zone = unseen.zone
        self._hidden = unseen.slots()
        self._when = " outside declared quiet times" if unseen.quiet else ""
        self._local = sorted({self._on_local_clock(slot) for slot in came})
        self._last = self._on_local_clock(came[-1])
        self._elapsed = self._on_local_clock(present) - self._last
        history = came[-1] - came[0] + 1
        self._weeks = min(WEEKS, history // SLOTS_WEEK)
        self._period = SLOTS_WEEK if self._weeks else SLOTS_DAY
        self._periods = self._weeks or min(DAYS, history // SLOTS_DAY)

    def judge(self) -> MissingDecisions | None:
        """Whether decisions are missing, and since when they were due."""
        if self._is_hidden(self._present):
            return None
        if self._is_steady():
            return self._judge_steady()
        if not self._periods or not self._pauses:
            return None
        due = self._due(TAIL)
        if due is not None and self._elapsed >= self._told_after(due[1]):
            return MissingDecisions(self._pages(due[1]), self._due_text(*due))
        return self._judge_by_longest_pause()

    # A router that never pauses for long

    def _is_steady(self) -> bool:
        """In all of its weeks; of three or more, an outage may have spoilt one."""
        steady = sum(pause <= STEADY_GAP for pause in self._longest)
        return steady > 0 and steady >= self._weeks - (self._weeks > 2)  # noqa: PLR2004

    def _judge_steady(self) -> MissingDecisions | None:
        if self._hides(self._present - STEADY_SILENCE, STEADY_SILENCE):
            return None
        minutes = max(1, min(self._longest)) * SLOT // MINUTE
        text = f"Decisions usually come at least every {minutes} minutes{self._when}"
        return MissingDecisions(True, f"{text}; {self._none_since()}")

    @cached_property
    def _longest(self) -> list[int]:
        """The longest pause of every former week, newest first."""
        longest = [0] * self._weeks
        for pause in self._pauses:
            week = (self._came[-1] - pause.end) // SLOTS_WEEK
            if week < self._weeks:
                longest[week] = max(longest[week], pause.seen)
        return [slots or SLOTS_WEEK for slots in longest]

    @cached_property
    def _pauses(self) -> list[_Pause]:
        return [self._pause(start, end) for start, end in pairwise(self._came)]

    def _pause(self, start: int, end: int) -> _Pause:
        return _Pause(end - start, 1 + self._seen(start + 1, end), end)

    def _seen(self, start: int, end: int) -> int:
        """Number of slots of a span, its end excluded, that are not unseen."""
        span = range(start, end)
        return len(span) if self._hidden is None else len(span) - sum(map(self._hidden, span))

    # A router that rests

    def _told_after(self, due: int) -> int:
        """Distance at which it is told that decisions are missing."""
        pause = self._usual_pause()
        if due < SOON:
            return max(SLOTS_HOUR, pause + pause // 2)
        return due + max(SLOTS_HOUR, pause)

    def _usual_pause(self) -> int:
        """The third-longest pause within sessions: outages may have made the two longest."""
        short = sorted(pause.seen for pause in self._pauses if pause.length < SHORT_PAUSE)
        return short[-3] if len(short) > 2 else 0  # noqa: PLR2004

    def _pages(self, due: int) -> bool:
        """Return True once decisions are missing for one of the router's own working days.

        A silence that began while the router rested, beside a weekend, may be a holiday.
        """
        if not self._weeks:
            return False
        again = self._due(due + SLOTS_DAY - SLOTS_HOUR)
        if again is not None and due > AT_REST and self._rests_before(again[1] + SLOTS_DAY):
            again = self._due(max(due + SLOTS_DAY, HOLIDAY) + SLOTS_HOUR)
        return again is not None and self._elapsed >= again[1] + SLOTS_HOUR

    def _rests_before(self, end: int) -> bool:
        """Whether no former week had decisions in a span of weekend length that begins by then."""
        ahead = 0
        while ahead <= end:
            waits = (self._wait(number, ahead + 1) for number in range(self._periods))
            following = min((wait for wait in waits if wait is not None), default=REST) + 1
            if following >= REST:
                return True
            ahead += following
        return False

    def _judge_by_longest_pause(self) -> MissingDecisions | None:
        """A router without regular times: it has been silent for twice its longest pause."""
        longest = max(pause.seen for pause in self._pauses)
        over = self._seen(self._came[-1] + 1, self._present + 1) - 2 * longest
        if over < SLOTS_HOUR:
            return None
        hours = -(-longest // SLOTS_HOUR)
        text = f"Decisions never paused for longer than {hours} hours{self._when}"
        pages = self._weeks > 0 and over >= SLOTS_DAY
        return MissingDecisions(pages, f"{text}; {self._none_since()}")

    def _due(self, ahead: int) -> tuple[int, int] | None:
        """The next time at which every former week had decisions, if it has come.

        Returns:
            Distance of the earliest and of the latest first decision of these weeks: they lie
            within an hour. None where there is no such time up to now.
        """
        end = ahead + self._period + SLOTS_HOUR  # from there on it is the same again
        while ahead <= min(end, self._elapsed):
            firsts = self._firsts(ahead)
            latest = max(firsts, default=ahead)
            hidden = self._hidden_before(ahead, latest)
            if hidden is not None:
                end += hidden + 1 - ahead
                ahead = hidden + 1
            elif firsts and latest - min(firsts) < SLOTS_HOUR:
                return min(firsts), latest
            else:
                ahead = min(firsts, default=ahead) + 1
        return None

    def _hidden_before(self, ahead: int, latest: int) -> int | None:
        """Distance of the first unseen slot of a span of this silence; None without."""
        if self._hidden is None:
            return None
        span = range(ahead, min(latest, self._elapsed) + 1)
        return next((x for x in span if self._is_hidden(self._came[-1] + x)), None)

    def _firsts(self, ahead: int) -> list[int]:
        """Distances of the first decision from then on, one of each former week that shows it."""
        return [
            ahead + wait
            for number in range(self._periods)
            if (wait := self._wait(number, ahead)) is not None
            and not self._hides(self._came[-1] + self._place(number, ahead) - self._last, wait)
        ]

    def _wait(self, number: int, ahead: int) -> int | None:
        """Slots from then until the first decision in a former week; None where it had none."""
        base, place = self._last - self._period * (number + 1), self._place(number, ahead)
        index = bisect_left(self._local, place)
        if index < len(self._local) and self._local[index] <= base + self._period:
            return self._local[index] - place
        first = self._local[bisect_right(self._local, base)]  # the same period again
        return self._period + first - place if first <= base + self._period else None

    def _place(self, number: int, ahead: int) -> int:
        """The same time in a former week."""
        return self._last - self._period * (number + 1) + (ahead - 1) % self._period + 1

    def _hides(self, start: int, length: int) -> bool:
        return self._hidden is not None and any(map(self._hidden, range(start, start + length)))

    # Time

    def _is_hidden(self, slot: int) -> bool:
        return self._hidden is not None and self._hidden(slot)

    def _on_local_clock(self, slot: int) -> int:
        return slot + _offset(slot // SLOTS_HOUR, self._zone)

    def _at(self, ahead: int) -> datetime:
        """Local time of a distance, as a clock there shows it."""
        return to_datetime((self._last + ahead) * SLOT)

    # Words

    def _due_text(self, earliest: int, latest: int) -> str:
        since, first, last = self._at(0), self._at(earliest), self._at(latest + 1)
        days = (first.date() - since.date()).days
        day = "" if days == 0 else f"{since:%A} " if days < 7 else f"{since:%Y-%m-%d} "  # noqa: PLR2004
        return (
            f"{self._which_days(first)} decisions came between {first:%H:%M} and {last:%H:%M};"
            f" none since {day}{since:%H:%M} ({self._zone})"
        )

    def _which_days(self, at: datetime) -> str:
        day = f"{at:%A}" if self._weeks else "day"
        if self._periods == 1:
            return f"On the last {day}"
        return f"On the last {_NUMBERS[self._periods]} {day}s"

    def _none_since(self) -> str:
        return f"none since {self._at(0):%Y-%m-%d %H:%M} ({self._zone})"


@lru_cache(maxsize=4096)
def _offset(hour: int, zone: str) -> int:
    """Slots by which a local clock is ahead of UTC."""
    offset = in_zone(hour * HOUR, zone).utcoffset() or timedelta()
    return offset // timedelta(microseconds=SLOT)
