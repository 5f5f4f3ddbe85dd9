"""Event time: integer microseconds since 1970 UTC, panes of four grains and the windows over them.

A pane is the tumbling interval ``[index * grain, (index + 1) * grain)``. Weeks are ISO weeks, so
their panes are shifted to begin on Monday.

Example:
    >>> pane_of(7_200 * SECOND, Grain.HOUR)
    2
    >>> pane_start(2, Grain.HOUR) // SECOND
    7200
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple, overload
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
# 1970-01-01 was a Thursday: the ISO week that holds it began three days earlier.
_WEEK_SHIFT = 3 * DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UTC_ZONE = "UTC"
_LAST_MONDAY = date(9999, 12, 27)
_MONTHS = [(year, month) for year in range(2020, 2038) for month in range(1, 13)]
"""Months whose offset of a time zone is checked; tables have no later rules."""


class Grain(enum.IntEnum):
    """Length of a pane in microseconds."""

    MINUTES5 = 5 * MINUTE
    HOUR = HOUR
    DAY = DAY
    WEEK = WEEK


def _shift(grain: Grain) -> int:
    return _WEEK_SHIFT if grain is Grain.WEEK else 0


@overload
def pane_of(at: int, grain: Grain) -> int: ...
@overload
def pane_of(at: Int64s, grain: Grain) -> Int64s: ...
def pane_of(at: int | Int64s, grain: Grain) -> int | Int64s:
    """Return the index of the pane of this grain that holds an instant (microseconds)."""
    return (at + _shift(grain)) // int(grain)


@overload
def pane_start(pane: int, grain: Grain) -> int: ...
@overload
def pane_start(pane: Int64s, grain: Grain) -> Int64s: ...
def pane_start(pane: int | Int64s, grain: Grain) -> int | Int64s:
    """Return the first instant (microseconds) of the pane with this index and grain."""
    return pane * int(grain) - _shift(grain)


def to_micros(at: datetime) -> int:
    """Return the exact microseconds since 1970 UTC of an aware datetime."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def to_datetime(micros: int) -> datetime:
    """Return the aware UTC datetime of an instant in microseconds."""
    return _EPOCH + timedelta(microseconds=micros)


def optional_datetime(micros: int | None) -> datetime | None:
    """Return the aware UTC datetime of an instant in microseconds; None without an instant."""
    return None if micros is None else to_datetime(micros)


def day_text(at: int) -> str:
    """Return the UTC day of an instant in microseconds as ISO text."""
    return to_datetime(at).date().isoformat()


# First and last instant with a date in every time zone, in the first and last named week.
_FIRST = to_micros(datetime(1, 1, 2, tzinfo=UTC))
_LAST = to_micros(datetime(9999, 12, 31, tzinfo=UTC))


def in_zone(micros: int, zone: str) -> datetime:
    """Return an instant in microseconds as an aware datetime of a time zone."""
    return to_datetime(micros).astimezone(_zone(zone))


def _zone(name: str) -> tzinfo:
    return UTC if name == UTC_ZONE else ZoneInfo(name)


def whole_hours(zone: str) -> bool:
    """Return True when a time zone is a whole number of hours away from UTC all year round.

    Example:
        >>> [whole_hours(zone) for zone in ("UTC", "America/New_York", "Asia/Kolkata")]
        [True, True, False]
    """
    months = (datetime(year, month, 1, tzinfo=_zone(zone)) for year, month in _MONTHS)
    return not any((at.utcoffset() or timedelta()) % timedelta(hours=1) for at in months)


def standard_offset(zone: str) -> int:
    """Return the hours that a time zone is ahead of UTC in its standard time.

    Example:
        >>> [standard_offset(zone) for zone in ("UTC", "America/New_York", "Europe/Berlin")]
        [0, -5, 1]
    """
    months = (datetime(year, month, 1, tzinfo=_zone(zone)) for year, month in _MONTHS[:12])
    return min((at.utcoffset() or timedelta()) // timedelta(hours=1) for at in months)


@dataclass(frozen=True, slots=True)
class IsoWeek:
    """ISO week from Monday to Sunday, which begins and ends at midnight in its time zone.

    Attributes:
        year: ISO year, which may differ from the calendar year around New Year.
        week: 1 to 53.
        zone: time zone. A week in which clocks change is an hour shorter or longer.

    Example:
        >>> week = IsoWeek.named("2026-W01")
        >>> week.name, f"{to_datetime(week.start):%a %Y-%m-%d}", week.before.name
        ('2026-W01', 'Mon 2025-12-29', '2025-W52')
        >>> week.end - week.start == WEEK and IsoWeek.containing(week.end - 1) == week
        True
        >>> clocks_change = IsoWeek.named("2026-W43", "Europe/Berlin")
        >>> f"{to_datetime(clocks_change.start):%a %H:%M}"
        'Sun 22:00'
        >>> (clocks_change.end - clocks_change.start) // HOUR
        169
    """

    year: int
    week: int
    zone: str = UTC_ZONE

    @classmethod
    def containing(cls, at: int, zone: str = UTC_ZONE) -> IsoWeek:
        """Return the ISO week in a time zone that holds an instant (microseconds)."""
        iso_date = in_zone(min(max(at, _FIRST), _LAST), zone).isocalendar()
        return cls(iso_date.year, iso_date.week, zone)

    @classmethod
    def named(cls, name: str, zone: str = UTC_ZONE) -> IsoWeek:
        """Parse the name of a week, such as ``2026-W47``; the week begins at midnight in ``zone``.

        Raises:
            ValueError: there is no such week.
        """
        match = re.fullmatch(r"(\d{4})-W(\d{2})", name, re.ASCII)
        if match is None:
            raise ValueError(name)
        week = cls(int(match[1]), int(match[2]), zone)
        date.fromisocalendar(week.year, week.week, 1)
        return week

    @property
    def name(self) -> str:
        """Name in ISO 8601, such as ``2026-W47``."""
        return f"{self.year:04}-W{self.week:02}"

    @property
    def start(self) -> int:
        """First instant of the week (microseconds)."""
        return self._monday(0)

    @property
    def end(self) -> int:
        """First instant after the week (microseconds)."""
        return self._monday(1)

    def _monday(self, weeks: int) -> int:
        """Return the first microsecond of the Monday ``weeks`` later, in the week's zone."""
        monday = date.fromisocalendar(self.year, self.week, 1)
        if monday > _LAST_MONDAY - timedelta(weeks=weeks):  # the calendar ends there
            return to_micros(datetime.combine(monday, time(), UTC)) + weeks * 7 * DAY
        return to_micros(
            datetime.combine(monday + timedelta(weeks=weeks), time(), _zone(self.zone))
        )

    @property
    def before(self) -> IsoWeek:
        """Previous week in the same time zone."""
        return IsoWeek.containing(self.start - 1, self.zone)

    @property
    def after(self) -> IsoWeek:
        """Next week in the same time zone."""
        return IsoWeek.containing(self.end, self.zone)


class TimeSpan(NamedTuple):
    """Event time from start to end, exclusive (microseconds)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WindowKind:
    """Kind of a rolling window: name, length, and whether it has labels.

    Attributes:
        name: shown and exported name, for example ``7d``.
        length: microseconds.
        labelled: False for windows with selection and blocked rates only.
    """

    name: str
    length: int
    labelled: bool = True


WINDOWS: dict[str, WindowKind] = {
    "1h": WindowKind("1h", HOUR, labelled=False),
    "24h": WindowKind("24h", DAY),
    "7d": WindowKind("7d", 7 * DAY),
    "28d": WindowKind("28d", 28 * DAY),
}
