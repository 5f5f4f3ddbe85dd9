"""Hourly label cohorts: how far the labels of each hour's decisions have come in."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from monitor.core.cells import Int64s, Route, decode_strata
from monitor.core.completeness import mature
from monitor.core.time import HOUR, Grain, pane_of, pane_start

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
        passed; hours after it in which nothing was requested are waited for by nobody and
        belong to it.
        """
        end = pane_of(watermark, Grain.HOUR)
        expired = pane_of(watermark - horizon, Grain.HOUR)
        hours = [hour for hour in sorted(self._hours) if hour < end]
        if not hours:
            return pane_start(end, Grain.HOUR)
        flags = self._mature(hours, threshold)
        ready = [i for i, hour in enumerate(hours) if flags[i] or hour < expired]
        if not ready:
            return hours[0] * HOUR
        newest = ready[-1]
        following = hours[newest + 1] if newest + 1 < len(hours) else end
        return pane_start(following, Grain.HOUR)

    def _mature(self, hours: list[int], threshold: Fraction) -> list[bool]:
        table = np.stack([self._hours[hour] for hour in hours])
        used = table.any(axis=(0, 1))
        flags: list[bool] = mature(table[:, 1, used], table[:, 0, used], threshold).tolist()
        return flags
