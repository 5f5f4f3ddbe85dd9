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
    SOME_IN,
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
"""Label delays are taken from this fortnight before an hour: it is old enough that the last closed
bucket of delays is full."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """Cached maturity flags of successive hours, with the settings they were computed for."""

    hours: range
    flags: npt.NDArray[np.bool_]
    by: tuple[int, int, Fraction]


@dataclass(frozen=True, slots=True)
class CohortColumns:
    """Requested and received labels of rows, and the delays, as columns of equal length.

    Attributes:
        requested: requested labels, shape (n,).
        received: received labels among them, shape (n,).
        delays: received labels by delay bucket, shape (n, buckets).
    """

    requested: Int64s
    received: Int64s
    delays: Int64s

    @classmethod
    def from_counters(cls, values: Int64s) -> CohortColumns:
        """Return the label columns of counter rows, shape (n, COUNTERS)."""
        return cls(
            values[:, Counter.Q],
            values[:, Counter.LABELLED] + values[:, Counter.UNDECIDABLE],
            values[:, Counter.DELAY_0 : Counter.DELAY_7 + 1],
        )


class Cohorts:
    """Counts of requested and received labels by hour, route and audit rate, and their delays."""

    def __init__(self) -> None:
        self._hours: dict[int, Int64s] = {}
        self._delays: dict[int, Int64s] = {}
        self._begin: int | None = None
        self._kept = _FIRST
        self._judged: _Judged | None = None

    def add(self, hours: Int64s, strata: Int64s, counted: CohortColumns) -> None:
        """Add label counts of rows, given by hour and stratum; unlabelled strata are ignored."""
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
            delays = self._delays.setdefault(hour, np.zeros(shape, np.int64))
            np.add.at(delays, parts.route[rows], counted.delays[rows])

    def forget(self, before: int) -> None:
        """Drop the counts of hours before the pane index ``before``."""
        self._kept = max(self._kept, before)
        for hour in [hour for hour in self._hours if hour < before]:
            del self._hours[hour]
            self._judged = None
        for hour in [hour for hour in self._delays if hour < before]:
            del self._delays[hour]

    def frontier(
        self, watermark: int, horizon: int, threshold: Fraction, since: int = _FIRST
    ) -> int:
        """Return the event time (microseconds) up to which label tables can be made.

        It is the start of the first hour whose labels are neither in nor overdue, or the
        watermark's hour if nothing was ever requested. Labels are overdue after twice their usual
        delay. Until that is known, in the first week, the longest delay so far takes its place.

        Args:
            watermark: event time that decisions are complete to.
            horizon: microseconds after which a label is not waited for.
            threshold: smallest completeness of an hour whose labels are in.
            since: the first hour that counts (pane index). A process that has just read the store
                has no earlier hours, and must come to the same instant.
        """
        end = pane_of(watermark, Grain.HOUR)
        first = min((hour for hour in self._hours if since <= hour < end), default=end)
        if first == end:
            return pane_start(end, Grain.HOUR)
        ready = mature(*self._labels(first, end), threshold, ahead=horizon // HOUR)
        usual, longest = self._usual_delay(end, since), self._longest_delay(since)
        overdue = label_frontier(watermark, usual, longest, horizon)
        ready[: max(pane_of(overdue, Grain.HOUR) - first, 0)] = True
        waiting = np.flatnonzero(~ready)
        return pane_start(first + int(waiting[0]) if len(waiting) else end, Grain.HOUR)

    def labels_from(self, instant: int) -> int:
        """Return the number of labels received for decisions in an instant's hour or later."""
        first = pane_of(instant, Grain.HOUR)
        return sum(int(table[1].sum()) for hour, table in self._hours.items() if hour >= first)

    def next_cohort(
        self, after: int | None, watermark: int, horizon: int, threshold: Fraction
    ) -> tuple[int, CohortState] | None:
        """Return the next hour to consume with labels, and its state; None while it must wait.

        No hour is skipped, not even one without requests, which is mature once it is complete. An
        incomplete hour is consumed once its labels are overdue: half have come and the usual delay
        has passed, or a quarter and twice that time, or the horizon has passed. Otherwise a slice
        that nobody labels any more, or audits that never come back, would hold back the tests of
        all others. While the usual delay is not known, half must have come and twice the longest
        delay so far must have passed.

        Args:
            after: the hour before; None at the very beginning, for the first known hour.
            watermark: event time that decisions are complete to.
            horizon: microseconds after which a label is not waited for.
            threshold: smallest completeness of a mature cohort.

        Returns:
            Hour and CONSUMED, or INCOMPLETE if its requests are no longer known; None while the
            hour must be waited for.
        """
        end = pane_of(watermark, Grain.HOUR)
        hour = self._beginning if after is None else after + 1
        if hour is None or hour >= end:
            return None
        if hour < self._kept:  # its requests are no longer known
            return hour, CohortState.INCOMPLETE
        if self._is_mature(hour, end, horizon, threshold):
            return hour, CohortState.CONSUMED
        is_overdue = self._is_overdue(hour, watermark, horizon, threshold)
        return (hour, CohortState.CONSUMED) if is_overdue else None

    def next_closed(self, after: int | None, watermark: int) -> tuple[int, CohortState] | None:
        """Return the next closed hour to consume without labels, and its state; None while open.

        Args:
            after: the hour before; None at the very beginning, for the first known hour.
            watermark: event time that decisions are complete to.

        Returns:
            Hour and CONSUMED, or INCOMPLETE if its decisions are no longer kept; None while it is
            open.
        """
        hour = self._beginning if after is None else after + 1
        if hour is None or hour >= pane_of(watermark, Grain.HOUR):
            return None
        is_kept = hour >= self._kept
        return hour, CohortState.CONSUMED if is_kept else CohortState.INCOMPLETE

    def _is_overdue(self, hour: int, watermark: int, horizon: int, threshold: Fraction) -> bool:
        """Return True when the missing labels of an hour need not be waited for any longer."""
        if hour < pane_of(watermark - horizon, Grain.HOUR):
            return True
        shares = [
            share
            for delay, share in self._patience(hour, watermark)
            if hour < pane_of(watermark - delay, Grain.HOUR)
        ]
        if not shares:
            return False
        labels = self._labels(hour + 1 - MAX_JOINED_HOURS, hour + 1)
        return bool(mature(*labels, min(*shares, threshold))[-1])

    def labels_due(self, watermark: int, horizon: int) -> int | None:
        """Return the end (pane index) of the hours whose labels had their usual delay, or None.

        None while too few labels have come, or if they take longer than the horizon.
        """
        usual = self._usual_delay(pane_of(watermark, Grain.HOUR))
        if usual is None or usual > horizon:
            return None
        return pane_of(watermark - usual, Grain.HOUR)

    def _patience(self, hour: int, watermark: int) -> list[tuple[int, Fraction]]:
        """Return how long to wait for an hour's last labels, by the share that is in.

        In the first weeks the usual delay is that of the hours which are older than the longest
        delay so far, because all their labels are in: younger hours show their quickest labels
        alone. With labels that take one to five days, these are the hours of the first day once a
        week has passed.
        """
        usual = self._usual_delay(hour)
        longest = self._longest_delay(_FIRST) if usual is None else 0
        if longest:
            settled = pane_of(watermark - longest, Grain.HOUR)
            usual = self._usual_delay_of(range(self._beginning or 0, settled))
        if usual is not None:
            return [(usual, MOST_IN), (2 * usual, SOME_IN)]
        return [(2 * longest, MOST_IN)] if longest else []

    def _usual_delay(self, hour: int, since: int = _FIRST) -> int | None:
        """Return the usual label delay in the weeks before an hour (microseconds), or None."""
        return self._usual_delay_of(range(max(hour - _DELAYS_FROM, since), hour - _DELAYS_TO))

    def _usual_delay_of(self, hours: range) -> int | None:
        """Return the usual label delay of these hours (microseconds), or None; see usual_delay."""
        delays = [self._delays[hour] for hour in hours if hour in self._delays]
        return usual_delay(np.sum(delays, axis=0)) if delays else None

    def _longest_delay(self, since: int) -> int:
        """Return the longest label delay (microseconds, end of its bucket); 0 for none."""
        delays = np.sum([delays for hour, delays in self._delays.items() if hour >= since], axis=0)
        return longest_delay(delays) if np.any(delays) else 0

    @property
    def _beginning(self) -> int | None:
        return None if self._begin is None else max(self._begin, self._kept)

    def _is_mature(self, hour: int, end: int, horizon: int, threshold: Fraction) -> bool:
        """Return True when enough labels of ``hour`` are in; judge and cache later hours too.

        At most two horizons of hours are judged at once.
        """
        ahead = horizon // HOUR  # later labels are too late for the hour itself
        judged, basis = self._judged, (end, horizon, threshold)
        if judged is None or judged.by != basis or hour not in judged.hours:
            first, stop = hour + 1 - MAX_JOINED_HOURS, min(end, hour + 2 * ahead + 1)
            flags = mature(*self._labels(first, stop), threshold, ahead=ahead)
            hours = range(hour, stop if stop == end else stop - ahead)
            judged = self._judged = _Judged(hours, flags[hour - first :], basis)
        return bool(judged.flags[hour - judged.hours.start])

    def _labels(self, first: int, end: int) -> tuple[Int64s, Int64s]:
        """Return received and requested labels of ``first`` to ``end``, shape (hours, strata)."""
        table = np.zeros((end - first, 2, 2 * MAX_RATES), np.int64)
        for hour, counts in self._hours.items():
            if first <= hour < end:
                table[hour - first] = counts
        used_columns = table.any(axis=(0, 1))
        requested = table[:, 0, used_columns]
        return np.minimum(table[:, 1, used_columns], requested), requested


def _by_hour(hours: Int64s, mask: npt.NDArray[np.bool_]) -> Iterator[tuple[int, Int64s]]:
    """Yield each hour with the numbers of its rows for which ``mask`` is True."""
    rows = np.flatnonzero(mask)
    rows = rows[np.argsort(hours[rows], kind="stable")]
    for part in np.split(rows, np.flatnonzero(np.diff(hours[rows])) + 1):
        if len(part):
            yield int(hours[part[0]]), part
