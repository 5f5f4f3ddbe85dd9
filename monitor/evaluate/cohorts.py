"""Hourly label cohorts: completeness of the labels of each hour's decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import MAX_RATES, Counter, Int64s, decode_strata
from monitor.core.counts.completeness import (
    MAX_JOINED_HOURS,
    MOST_IN,
    PATIENCE,
    CohortState,
    longest_delay,
    mature,
    usual_delay,
)
from monitor.core.counts.strata import REVIEWED_ROUTES, is_reviewed
from monitor.core.tables.spans import label_frontier
from monitor.core.time import HOUR, Grain, pane_of, pane_start

_FIRST = -(1 << 62)
_DELAYS_FROM, _DELAYS_TO = 21 * 24, 7 * 24
"""Hours before the one judged whose label delays say how long labels take: those of a fortnight,
old enough that the last closed bucket of delays is full."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """Flags of hours that were judged in their order, and what they were judged by."""

    hours: range
    flags: npt.NDArray[np.bool_]
    by: tuple[int, int, Fraction]


@dataclass(frozen=True, slots=True)
class CohortColumns:
    """Labels of the rows of an hour.

    Attributes:
        requested: labels, shape (n,).
        received: of these, shape (n,).
        delays: labels by delay bucket, shape (n, buckets).
    """

    requested: Int64s
    received: Int64s
    delays: Int64s

    @classmethod
    def of(cls, values: Int64s) -> CohortColumns:
        """Of rows of counters, shape (n, COUNTERS)."""
        return cls(
            values[:, Counter.Q],
            values[:, Counter.LABELLED] + values[:, Counter.UNDECIDABLE],
            values[:, Counter.DELAY_0 : Counter.DELAY_7 + 1],
        )


class Cohorts:
    """Labels requested and received by hour and by route x audit rate, and how late they came."""

    def __init__(self) -> None:
        self._hours: dict[int, Int64s] = {}
        self._delays: dict[int, Int64s] = {}
        self._begin: int | None = None
        self._kept = _FIRST
        self._judged: _Judged | None = None

    def add(self, hours: Int64s, strata: Int64s, counted: CohortColumns) -> None:
        """Add rows; strata outside the labelled metrics do not count."""
        requested, received = counted.requested, counted.received
        if len(hours):
            first = int(hours.min())
            self._begin = first if self._begin is None else min(self._begin, first)
        parts = decode_strata(strata)
        inside = is_reviewed(parts)
        column = parts.route * MAX_RATES + parts.rate
        asked = inside & ((requested != 0) | (received != 0))
        for hour, rows in _by_hour(hours, asked):
            table = self._hours.setdefault(hour, np.zeros((2, 2 * MAX_RATES), np.int64))
            np.add.at(table[0], column[rows], requested[rows])
            np.add.at(table[1], column[rows], received[rows])
            self._judged = None
        for hour, rows in _by_hour(hours, inside & counted.delays.any(axis=1)):
            shape = (len(REVIEWED_ROUTES), counted.delays.shape[1])
            came = self._delays.setdefault(hour, np.zeros(shape, np.int64))
            np.add.at(came, parts.route[rows], counted.delays[rows])

    def forget(self, before: int) -> None:
        """Drop hours before a pane index."""
        self._kept = max(self._kept, before)
        for hour in [hour for hour in self._hours if hour < before]:
            del self._hours[hour]
            self._judged = None
        for hour in [hour for hour in self._delays if hour < before]:
            del self._delays[hour]

    def frontier(
        self, watermark: int, horizon: int, threshold: Fraction, since: int = _FIRST
    ) -> int:
        """The instant up to which label tables are made, for all rows at once.

        It is the start of the first hour whose labels are neither in nor overdue; the watermark's
        hour when nothing was ever requested. Labels are overdue at twice their usual delay. Until
        that is known, in the first week, the longest delay seen so far stands for it.

        Args:
            watermark: event time that decisions are complete to.
            horizon: microseconds after which a label is not waited for.
            threshold: smallest completeness of an hour whose labels are in.
            since: the first hour that counts (pane index). Whoever has just read the store knows
                no earlier ones, and must come to the same instant.
        """
        end = pane_of(watermark, Grain.HOUR)
        first = min((hour for hour in self._hours if since <= hour < end), default=end)
        if first == end:
            return pane_start(end, Grain.HOUR)
        ready = mature(*self._labels(first, end), threshold, ahead=horizon // HOUR)
        usual, seen = self._usual_delay(end, since), self._longest_delay(since)
        overdue = label_frontier(watermark, usual, seen, horizon)
        ready[: max(pane_of(overdue, Grain.HOUR) - first, 0)] = True
        waiting = np.flatnonzero(~ready)
        return pane_start(first + int(waiting[0]) if len(waiting) else end, Grain.HOUR)

    def labels_from(self, instant: int) -> int:
        """Labels that have come for the decisions of an hour and of all later ones."""
        hour = pane_of(instant, Grain.HOUR)
        return sum(int(table[1].sum()) for at, table in self._hours.items() if at >= hour)

    def next_cohort(
        self, after: int | None, watermark: int, horizon: int, threshold: Fraction
    ) -> tuple[int, CohortState] | None:
        """The hour whose cohort comes next, and what is to become of it.

        Every hour has its turn, also one in which nothing was requested (it is mature as soon
        as it is complete); none is passed over for a later one. An hour that stays incomplete is
        consumed as it is once its labels are overdue: most have come, and the rest take twice as
        long as labels do; or its horizon has passed. One slice that nobody labels any more, or a
        share of audits that never come back, would else hold back the tests of all others.

        Args:
            after: the hour before; None at the very beginning, which is the first hour known.
            watermark: event time that decisions are complete to.
            horizon: microseconds after which a label is not waited for.
            threshold: smallest completeness of a mature cohort.

        Returns:
            Hour and CONSUMED, or INCOMPLETE where nobody knows any more what was requested; None
            while the hour must be waited for.
        """
        end = pane_of(watermark, Grain.HOUR)
        hour = self._beginning if after is None else after + 1
        if hour is None or hour >= end:
            return None
        if hour < self._kept:  # nobody knows any more what was requested
            return hour, CohortState.INCOMPLETE
        if self._is_mature(hour, end, horizon, threshold):
            return hour, CohortState.CONSUMED
        passed = self._is_overdue(hour, watermark, horizon, threshold)
        return (hour, CohortState.CONSUMED) if passed else None

    def next_closed(self, after: int | None, watermark: int) -> tuple[int, CohortState] | None:
        """The hour whose decisions come next where no labels are waited for.

        Args:
            after: the hour before; None at the very beginning, which is the first hour known.
            watermark: event time that decisions are complete to.

        Returns:
            Hour and CONSUMED, or INCOMPLETE where its decisions are no longer kept; None while it
            is not over.
        """
        hour = self._beginning if after is None else after + 1
        if hour is None or hour >= pane_of(watermark, Grain.HOUR):
            return None
        kept = hour >= self._kept
        return hour, CohortState.CONSUMED if kept else CohortState.INCOMPLETE

    def _is_overdue(self, hour: int, watermark: int, horizon: int, threshold: Fraction) -> bool:
        """Return True when an hour's labels need not be waited for any longer."""
        if hour < pane_of(watermark - horizon, Grain.HOUR):
            return True
        if hour >= pane_of(watermark - self._patience(hour, horizon), Grain.HOUR):
            return False
        labels = self._labels(hour + 1 - MAX_JOINED_HOURS, hour + 1)
        return bool(mature(*labels, min(MOST_IN, threshold))[-1])

    def labels_due(self, watermark: int, horizon: int) -> int | None:
        """End of the hours (pane index) whose labels had as much time as labels usually take.

        None while too few have come to tell, or where they take longer than their horizon.
        """
        usual = self._usual_delay(pane_of(watermark, Grain.HOUR))
        if usual is None or usual > horizon:
            return None
        return pane_of(watermark - usual, Grain.HOUR)

    def _patience(self, hour: int, horizon: int) -> int:
        """Microseconds that labels of an hour are waited for while most of them are in."""
        usual = self._usual_delay(hour)
        return horizon if usual is None else min(PATIENCE * usual, horizon)

    def _usual_delay(self, hour: int, since: int = _FIRST) -> int | None:
        """Microseconds that labels took in the weeks before an hour; None if nobody knows."""
        before = range(max(hour - _DELAYS_FROM, since), hour - _DELAYS_TO)
        known = [self._delays[one] for one in before if one in self._delays]
        return usual_delay(np.sum(known, axis=0)) if known else None

    def _longest_delay(self, since: int) -> int:
        """The longest that any label took (microseconds), to the end of its bucket; 0 for none."""
        came = np.sum([came for hour, came in self._delays.items() if hour >= since], axis=0)
        return longest_delay(came) if np.any(came) else 0

    @property
    def _beginning(self) -> int | None:
        return None if self._begin is None else max(self._begin, self._kept)

    def _is_mature(self, hour: int, end: int, horizon: int, threshold: Fraction) -> bool:
        """Return True when an hour is mature in its order; successive hours are judged once.

        However many hours wait, those of two horizons at most are judged at once.
        """
        ahead = horizon // HOUR  # what comes later is too late for the hour itself
        known, by = self._judged, (end, horizon, threshold)
        if known is None or known.by != by or hour not in known.hours:
            first, stop = hour + 1 - MAX_JOINED_HOURS, min(end, hour + 2 * ahead + 1)
            flags = mature(*self._labels(first, stop), threshold, ahead=ahead)
            hours = range(hour, stop if stop == end else stop - ahead)
            known = self._judged = _Judged(hours, flags[hour - first :], by)
        return bool(known.flags[hour - known.hours.start])

    def _labels(self, first: int, end: int) -> tuple[Int64s, Int64s]:
        """Received and requested from ``first`` to ``end``, hours without requests included."""
        table = np.zeros((end - first, 2, 2 * MAX_RATES), np.int64)
        for hour, counts in self._hours.items():
            if first <= hour < end:
                table[hour - first] = counts
        used = table.any(axis=(0, 1))
        requested = table[:, 0, used]
        return np.minimum(table[:, 1, used], requested), requested


def _by_hour(hours: Int64s, wanted: npt.NDArray[np.bool_]) -> Iterator[tuple[int, Int64s]]:
    """The wanted rows of each hour, an hour after the other."""
    rows = np.flatnonzero(wanted)
    rows = rows[np.argsort(hours[rows], kind="stable")]
    for part in np.split(rows, np.flatnonzero(np.diff(hours[rows])) + 1):
        if len(part):
            yield int(hours[part[0]]), part
