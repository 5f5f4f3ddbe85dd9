"""Hourly label cohorts: how far the labels of each hour's decisions have come in."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from monitor.core.cells import Int64s, Route, decode_strata
from monitor.core.completeness import mature
from monitor.core.time import Grain, pane_of, pane_start

_LABELLED_ROUTES = (Route.AUTO_SERVE, Route.HUMAN_REVIEW)
_RATES = 64


class Cohorts:
    """Labels requested and received by hour and by route x audit rate."""

    def __init__(self) -> None:
        self._hours: dict[int, Int64s] = {}

    def add(self, hours: Int64s, strata: Int64s, requested: Int64s, received: Int64s) -> None:
        """Add rows; strata outside the labelled metrics do not count."""
        parts = decode_strata(strata)
        inside = parts.evidence_passed & ~parts.probe & np.isin(parts.route, _LABELLED_ROUTES)
        column = parts.route * _RATES + parts.rate
        for row in np.flatnonzero(inside & ((requested != 0) | (received != 0))).tolist():
            table = self._hours.setdefault(int(hours[row]), np.zeros((2, 2 * _RATES), np.int64))
            table[0, column[row]] += requested[row]
            table[1, column[row]] += received[row]

    def forget(self, before: int) -> None:
        """Drop hours before a pane index."""
        for hour in [hour for hour in self._hours if hour < before]:
            del self._hours[hour]

    def frontier(self, watermark: int, horizon: int, threshold: Fraction) -> int:
        """The instant that labelled windows may run to.

        It is the end of the newest complete hour whose cohort is mature, or whose horizon has
        passed; the watermark's hour when nothing was ever requested.
        """
        end = pane_of(watermark, Grain.HOUR)
        first = min((hour for hour in self._hours if hour < end), default=end)
        if first == end:
            return pane_start(end, Grain.HOUR)
        ready = self._mature(first, end, threshold)
        ready[: max(pane_of(watermark - horizon, Grain.HOUR) - first, 0)] = True
        found = np.flatnonzero(ready)
        newest = first + int(found[-1]) + 1 if len(found) else first
        return pane_start(newest, Grain.HOUR)

    def _mature(self, first: int, end: int, threshold: Fraction) -> npt.NDArray[np.bool_]:
        """One flag for every hour from ``first`` to ``end``, hours without requests included."""
        table = np.zeros((end - first, 2, 2 * _RATES), np.int64)
        for hour, counts in self._hours.items():
            if first <= hour < end:
                table[hour - first] = counts
        used = table.any(axis=(0, 1))
        requested = table[:, 0, used]
        received = np.minimum(table[:, 1, used], requested)
        return mature(received, requested, threshold)
