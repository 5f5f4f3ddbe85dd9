"""Decisions that should have come by now, judged by their times in former weeks.

The time of a message is that of its arrival at the broker, in slots of five minutes. A message that
is read late still fills its slot, so down time of the service is no silence of the router.

A router that never pauses for long outside declared quiet times is steady, and its silence is an
outage. Other routers rest at night, between batches or on holidays. Their silence is measured by
the times at which every former week had decisions, and by their own working days.
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
"""Former weeks to compare with."""
DAYS = 6
"""Former days to compare with in the first week."""
KEPT = (WEEKS + 1) * WEEK
"""Time before the last decision for which arrivals must be known."""
HARDLY_ANY = 0.01
"""Share that counts as none: a trial before the service began, or a straggler in a silence."""
STEADY_GAP = 25 * MINUTE // SLOT
"""Longest pause of a steady router outside quiet times."""
STEADY_SILENCE = 50 * MINUTE // SLOT
"""Silence of a steady router that is an outage; the alert still pages within the hour."""
TAIL = 30 * MINUTE // SLOT
"""Time by which the last decision of a working day may come earlier than in other weeks."""
SOON = 45 * MINUTE // SLOT
"""Decisions due sooner than this continue the present session; later ones begin another."""
SHORT_PAUSE = 4 * SLOTS_HOUR
"""Longest pause within a session; longer ones are between sessions."""
AT_REST = 2 * SLOTS_HOUR
"""Time without due decisions after which a silence has begun while the router rested anyway."""
REST = 36 * SLOTS_HOUR
"""Pause of a weekend, or of a Sunday only."""
HOLIDAY = 4 * SLOTS_DAY
"""Longest weekend with holidays, such as Easter."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


@dataclass(frozen=True, slots=True)
class MissingDecisions:
    """Alert on decisions that should have come by now: page or ticket, and its text.

    Attributes:
        pages: True if they are missing for long enough to wake somebody; else a ticket.
        text: the expected decisions and their time, for people; constant while none come.
    """

    pages: bool
    text: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """Times at which missing decisions mean nothing: declared quiet times and lost spans.

    Attributes:
        zone: time zone of quiet times and days.
        quiet: declared times without decisions.
        lost: spans (microseconds) whose messages were lost before they were read.
    """

    zone: str = UTC_ZONE
    quiet: Sequence[QuietTime] = ()
    lost: Sequence[tuple[int, int]] = ()

    def slots(self) -> Callable[[int], bool] | None:
        """Return a predicate that is True for unseen slots; None if there are no unseen slots."""
        if not self.quiet and not self.lost:
            return None
        return cache(self._hides)

    def _hides(self, slot: int) -> bool:
        """Return True if a slot is in a quiet time, or events of it are lost."""
        start = slot * SLOT
        lost = any(since < start + SLOT and start <= until for since, until in self.lost)
        at = in_zone(start, self.zone)
        return lost or any(quiet.covers(at) for quiet in self.quiet)


def missing_decisions(
    arrivals: Mapping[int, int], now: int, unseen: Unseen = Unseen()
) -> MissingDecisions | None:
    """Return the alert on decisions that should have come since the last one; None if none should.

    Args:
        arrivals: decisions by the slot of their arrival, of the five weeks before the last.
        now: wall clock, microseconds.
        unseen: times at which a silence has no meaning.
    """
    present = now // SLOT
    arrived = {slot: number for slot, number in arrivals.items() if number > 0 and slot <= present}
    if not arrived or present - max(arrived) < STEADY_SILENCE:
        return None
    first = begun(arrived)
    return _Silence(sorted(slot for slot in arrived if slot >= first), present, unseen).overdue()


def begun(arrivals: Mapping[int, int]) -> int:
    """Return the first time by which more than 1 % of all arrivals had come.

    Args:
        arrivals: numbers above 0 by their time of arrival.
    """
    hardly_any, arrived = HARDLY_ANY * sum(arrivals.values()), 0
    for at in sorted(arrivals):
        arrived += arrivals[at]
        if arrived > hardly_any:
            return at
    return max(arrivals)


@dataclass(frozen=True, slots=True)
class _Pause:
    """Pause between two successive decisions, measured in slots.

    Attributes:
        length: distance of their slots.
        seen: distance without unseen slots, which is the pause of the router itself.
        end: slot of the second decision.
    """

    length: int
    seen: int
    end: int


class _Silence:
    """Present silence of a router, compared with its decisions in the weeks before.

    Times of day are compared on the local clock: a local slot is the UTC slot moved by the offset
    of the time zone. Distances ``ahead`` count from the last slot with decisions.
    """

    def __init__(self, arrival_slots: Sequence[int], present: int, unseen: Unseen) -> None:
        self._came = arrival_slots
        self._present = present
        self._zone = unseen.zone
        self._hidden = unseen.slots()
        self._when = " outside declared quiet times" if unseen.quiet else ""
        self._local = sorted({self._on_local_clock(slot) for slot in arrival_slots})
        self._last = self._on_local_clock(arrival_slots[-1])
        self._elapsed = self._on_local_clock(present) - self._last
        history = arrival_slots[-1] - arrival_slots[0] + 1
        self._weeks = min(WEEKS, history // SLOTS_WEEK)
        self._period = SLOTS_WEEK if self._weeks else SLOTS_DAY
        self._periods = self._weeks or min(DAYS, history // SLOTS_DAY)

    def overdue(self) -> MissingDecisions | None:
        """Return the alert on overdue decisions (page or ticket, with text); None if none are."""
        if self._is_hidden(self._present):
            return None
        if self._is_steady():
            return self._overdue_if_steady()
        if not self._periods or not self._pauses:
            return None
        due = self._next_due(TAIL)
        if due is not None and self._elapsed >= self._reported_after(due[1]):
            return MissingDecisions(self._pages(due[1]), self._due_text(*due))
        return self._overdue_by_longest_pause()

    # Steady routers

    def _is_steady(self) -> bool:
        """Return True if all former weeks were steady; of three or more weeks, one may not be."""
        steady = sum(pause <= STEADY_GAP for pause in self._longest_pauses)
        return steady > 0 and steady >= self._weeks - (self._weeks > 2)  # noqa: PLR2004

    def _overdue_if_steady(self) -> MissingDecisions | None:
        """Return the alarm for a router without long pauses; None while silence is no sign."""
        if self._hides(self._present - STEADY_SILENCE, STEADY_SILENCE):
            return None
        minutes = max(1, min(self._longest_pauses)) * SLOT // MINUTE
        text = f"Decisions usually come at least every {minutes} minutes{self._when}"
        return MissingDecisions(True, f"{text}; {self._none_since()}")

    @cached_property
    def _longest_pauses(self) -> list[int]:
        """Longest pause of each former week in slots without unseen ones, newest week first."""
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
        return _Pause(end - start, 1 + self._seen_slots(start + 1, end), end)

    def _seen_slots(self, start: int, end: int) -> int:
        """Return the number of slots from ``start`` to before ``end`` that are not unseen."""
        span = range(start, end)
        return len(span) if self._hidden is None else len(span) - sum(map(self._hidden, span))

    # Routers that rest

    def _reported_after(self, due: int) -> int:
        """Return the distance at which decisions that were due at ``due`` are reported missing."""
        pause = self._usual_pause()
        if due < SOON:
            return max(SLOTS_HOUR, pause + pause // 2)
        return due + max(SLOTS_HOUR, pause)

    def _usual_pause(self) -> int:
        """Return the third-longest pause within sessions in slots; 0 with fewer than three."""
        short = sorted(pause.seen for pause in self._pauses if pause.length < SHORT_PAUSE)
        return short[-3] if len(short) > 2 else 0  # noqa: PLR2004

    def _pages(self, due: int) -> bool:
        """Return True once decisions due at ``due`` are missing for a working day of the router.

        A silence that began next to a weekend, while the router rested, may be a holiday.
        """
        if not self._weeks:
            return False
        next_due = self._next_due(due + SLOTS_DAY - SLOTS_HOUR)
        if next_due is not None and due > AT_REST and self._rests_before(next_due[1] + SLOTS_DAY):
            next_due = self._next_due(max(due + SLOTS_DAY, HOLIDAY) + SLOTS_HOUR)
        return next_due is not None and self._elapsed >= next_due[1] + SLOTS_HOUR

    def _rests_before(self, end: int) -> bool:
        """Return True if some weekend-long span before ``end`` was empty in all former weeks."""
        ahead = 0
        while ahead <= end:
            waits = (self._slots_to_decision(number, ahead + 1) for number in range(self._periods))
            following = min((wait for wait in waits if wait is not None), default=REST) + 1
            if following >= REST:
                return True
            ahead += following
        return False

    def _overdue_by_longest_pause(self) -> MissingDecisions | None:
        """Return the alert if the silence is twice the longest pause plus an hour; else None."""
        longest = max(pause.seen for pause in self._pauses)
        over = self._seen_slots(self._came[-1] + 1, self._present + 1) - 2 * longest
        if over < SLOTS_HOUR:
            return None
        hours = -(-longest // SLOTS_HOUR)
        text = f"Decisions never paused for longer than {hours} hours{self._when}"
        pages = self._weeks > 0 and over >= SLOTS_DAY
        return MissingDecisions(pages, f"{text}; {self._none_since()}")

    def _next_due(self, ahead: int) -> tuple[int, int] | None:
        """Return distances (earliest, latest) of the next due decisions from ``ahead`` on, or None.

        Returns:
            Distances of the earliest and the latest first decision of these weeks, which are within
            an hour. None if there is no such time up to now.
        """
        end = ahead + self._period + SLOTS_HOUR  # the pattern repeats after this
        while ahead <= min(end, self._elapsed):
            firsts = self._first_decisions(ahead)
            latest = max(firsts, default=ahead)
            hidden = self._first_unseen(ahead, latest)
            if hidden is not None:
                end += hidden + 1 - ahead
                ahead = hidden + 1
            elif firsts and latest - min(firsts) < SLOTS_HOUR:
                return min(firsts), latest
            else:
                ahead = min(firsts, default=ahead) + 1
        return None

    def _first_unseen(self, ahead: int, latest: int) -> int | None:
        """Return the distance of the first unseen slot from ``ahead`` to ``latest``, or None."""
        if self._hidden is None:
            return None
        span = range(ahead, min(latest, self._elapsed) + 1)
        return next((x for x in span if self._is_hidden(self._came[-1] + x)), None)

    def _first_decisions(self, ahead: int) -> list[int]:
        """Return distances of the first decision from ``ahead`` on, per former week with one."""
        return [
            ahead + wait
            for number in range(self._periods)
            if (wait := self._slots_to_decision(number, ahead)) is not None
            and not self._hides(self._came[-1] + self._local_slot(number, ahead) - self._last, wait)
        ]

    def _slots_to_decision(self, number: int, ahead: int) -> int | None:
        """Return slots from ``ahead`` to the first decision in former week ``number``, or None."""
        base, place = self._last - self._period * (number + 1), self._local_slot(number, ahead)
        index = bisect_left(self._local, place)
        if index < len(self._local) and self._local[index] <= base + self._period:
            return self._local[index] - place
        first = self._local[bisect_right(self._local, base)]  # the same period again
        return self._period + first - place if first <= base + self._period else None

    def _local_slot(self, number: int, ahead: int) -> int:
        """Return the local slot in former week ``number`` that matches distance ``ahead``."""
        return self._last - self._period * (number + 1) + (ahead - 1) % self._period + 1

    def _hides(self, start: int, length: int) -> bool:
        """Return True if any of ``length`` slots from ``start`` is unseen."""
        return self._hidden is not None and any(map(self._hidden, range(start, start + length)))

    # Time

    def _is_hidden(self, slot: int) -> bool:
        return self._hidden is not None and self._hidden(slot)

    def _on_local_clock(self, slot: int) -> int:
        return slot + _offset(slot // SLOTS_HOUR, self._zone)

    def _at(self, ahead: int) -> datetime:
        """Return the local clock time at a distance from the last decision."""
        return to_datetime((self._last + ahead) * SLOT)

    # Words

    def _due_text(self, earliest: int, latest: int) -> str:
        """Say when decisions were due by the days before, and since when none has come."""
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
    """Return the slots by which a zone's clock is ahead of UTC at an hour (hours since 1970)."""
    offset = in_zone(hour * HOUR, zone).utcoffset() or timedelta()
    return offset // timedelta(microseconds=SLOT)
