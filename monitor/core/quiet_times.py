"""Declared quiet times of a router, such as ``saturday`` or ``2026-12-25``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE, TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
QUIET_TIME = (
    rf"^(?P<days>daily|{'|'.join(WEEKDAYS)}|(?P<first>{_DATE})(?:\.\.(?P<last>{_DATE}))?)"
    rf"(?: (?P<start>{TIME})-(?P<end>{TIME}|24:00))?\Z"
)
"""Pattern of the text of a quiet time."""
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class QuietTime:
    """Declared quiet time of a router: hours of certain days, in local time.

    Attributes:
        days: ``daily``, the name of a weekday, or ``dates``.
        first: first day of dates; else None.
        last: last day of dates; else None.
        start: time of day at which it begins.
        end: time of day at which it ends, on the next day if not after the start; None is midnight.
    """

    days: str
    first: date | None
    last: date | None
    start: time
    end: time | None

    @classmethod
    def named(cls, text: str) -> QuietTime:
        """Parse the text of a quiet time, such as ``saturday 22:00-06:00`` or ``2026-12-25``.

        Raises:
            ValueError: the text names no quiet time.

        Example:
            >>> holidays = QuietTime.named("2026-12-25..2026-12-26")
            >>> [holidays.covers(datetime(2026, 12, day, 9)) for day in (24, 25, 26, 27)]
            [False, True, True, False]
            >>> night = QuietTime.named("saturday 22:00-06:00")
            >>> [night.covers(datetime(2026, 12, 26 + day, hour)) for day, hour in
            ...  ((0, 5), (0, 21), (0, 22), (1, 5), (1, 6), (1, 22))]
            [False, False, True, True, False, False]
        """
        match = re.match(QUIET_TIME, text)
        if match is None:
            raise ValueError(text)
        first = date.fromisoformat(match["first"]) if match["first"] else None
        last = date.fromisoformat(match["last"]) if match["last"] else first
        if first is not None and last is not None and last < first:
            raise ValueError(text)
        start, end = time.fromisoformat(match["start"] or "00:00"), match["end"] or "24:00"
        days = "dates" if first else match["days"]
        return cls(days, first, last, start, None if end == "24:00" else time.fromisoformat(end))

    def covers(self, at: datetime) -> bool:
        """Return True when a local datetime falls within this quiet time."""
        day, moment = at.date(), at.time()
        if self.end is None or self.start < self.end:
            has_ended = self.end is not None and moment >= self.end
            return moment >= self.start and not has_ended and self._begins_on(day)
        began_today = moment >= self.start and self._begins_on(day)
        return began_today or (moment < self.end and self._begins_on(day - _ONE_DAY))

    def _begins_on(self, day: date) -> bool:
        """Return True if the quiet time begins on this day: by its dates, else by its weekdays."""
        if self.first is not None and self.last is not None:
            return self.first <= day <= self.last
        return self.days in ("daily", WEEKDAYS[day.weekday()])
