"""Streams that bet together: their mixtures for pages and for the weekly list, and their latch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.rates.gaps import Bools
from monitor.core.time import DAY, HOUR
from monitor.detection.arrays import Arrays, part, prefixed
from monitor.detection.pages import budget
from monitor.detection.pages.change_ages import ChangeAges
from monitor.detection.pages.mixture import Rows, SrMixture
from monitor.detection.pages.streams import Stream
from monitor.detection.pages.weekly_evidence import WeekBets

COHORT_DAYS = HOUR / DAY
"""Time that one cohort adds to the clock of pages."""


@dataclass(slots=True)
class StreamGroup:
    """Page and weekly evidence of J streams that bet together on K alternatives each.

    Attributes:
        streams: the streams: the rows.
        weights: shares of the error budget, shape (J,).
        mixture: evidence for pages; its clock is in days.
        ages: days since the change that the evidence for pages points to.
        week: evidence for the weekly list; None before the first cohort.
        finished: log e-values of the week that ended with the last cohort, or None.
        ended: index of that week, or None.
        _steps: progress of every stream; None until it is computed again.
    """

    streams: tuple[Stream, ...]
    weights: Floats
    mixture: SrMixture
    ages: ChangeAges
    week: WeekBets | None = None
    finished: Floats | None = None
    ended: int | None = None
    _steps: Int64s | None = None

    @classmethod
    def start(cls, streams: Sequence[Stream], weights: Floats, alternatives: int) -> StreamGroup:
        """Return streams without evidence, betting on this many alternatives."""
        mixture = SrMixture.empty(len(streams), alternatives)
        return cls(tuple(streams), weights, mixture, ChangeAges.empty(len(streams)))

    def enter(self, hour: int) -> None:
        """Begin an hour's cohort: advance both clocks, and store the evidence of an ended week."""
        if self.week is None:
            rows, alternatives = self.mixture.log_r.shape
            self.week = WeekBets.begin(hour, rows, alternatives)
        week = self.week.week
        self.finished = self.week.enter(hour)
        self.ended = None if self.finished is None else week
        self.mixture.add_clock(COHORT_DAYS)
        self.ages.age += COHORT_DAYS

    def bet(
        self, rows: Rows, log_e: Floats, cluster_size: float = 1, used: Bools | None = None
    ) -> None:
        """Multiply page and weekly evidence of these rows by e-values; see :meth:`SrMixture.bet`.

        Args:
            rows: the betting streams.
            log_e: log e-values of the alternatives, shape (len(rows), K).
            cluster_size: the largest number of dependent decisions; 1 if log e is already divided.
            used: alternatives that new evidence begins with, in equal parts, shape (K,); None: all.
        """
        assert self.week is not None, "a cohort begins before its bets"  # noqa: S101
        self._steps = None
        begun = np.ones(self.mixture.log_r.shape[1], np.bool_) if used is None else used
        weights = begun / begun.sum()
        self.mixture.bet(rows, log_e, weights, cluster_size)
        self.ages.bet(rows, log_e, weights, cluster_size)
        self.week.mixture.bet(rows, log_e, weights, cluster_size)

    def cross(self) -> dict[Stream, float]:
        """Reset the evidence of the streams that page now; return the age of each one's change.

        The age is the estimated time since the change, in days.
        """
        if self._steps is not None:  # no bet since the crossed streams began anew
            return {}
        statistic = self.mixture.statistic()
        rows = budget.crossed(statistic, self.weights)
        ages = self.ages.age[rows].tolist()
        self.mixture.reset(rows)
        self.ages.reset(rows)
        self._steps = budget.evidence(np.where(rows, -np.inf, statistic), self.weights)
        places = np.flatnonzero(rows).tolist()
        return {self.streams[row]: age for row, age in zip(places, ages, strict=True)}

    def evidence(self) -> Int64s:
        """Return each stream's progress towards a page, as steps 0 to 4, shape (J,)."""
        if self._steps is None:
            return budget.evidence(self.mixture.statistic(), self.weights)
        return self._steps.copy()

    def to_arrays(self, prefix: str) -> Arrays:
        """Return the whole state as arrays, names prefixed; stream names are left out."""
        arrays = prefixed(prefix, {**self.mixture.to_arrays(), **self.ages.to_arrays()})
        if self.week is not None:
            arrays |= prefixed(f"{prefix}.week", self.week.mixture.to_arrays())
            arrays[f"{prefix}.week"] = np.array(self.week.week, np.int64)
        return arrays

    def restore(self, prefix: str, arrays: Arrays, keys: Sequence[str]) -> None:
        """Load state stored by :meth:`to_arrays`; streams not in it stay without evidence.

        Args:
            prefix: the prefix given to :meth:`to_arrays`.
            arrays: the arrays of the whole state.
            keys: keys of the stored streams, in their order.
        """
        if f"{prefix}.log_r" not in arrays:
            return
        keys_now = [stream.key for stream in self.streams]
        self._steps = None
        own_arrays = part(arrays, prefix)
        self.mixture = SrMixture.from_arrays(own_arrays).aligned(keys, keys_now)
        self.ages = ChangeAges.from_arrays(own_arrays).aligned(keys, keys_now)
        if f"{prefix}.week" in arrays:
            week = SrMixture.from_arrays(part(arrays, f"{prefix}.week")).aligned(keys, keys_now)
            self.week = WeekBets(int(arrays[f"{prefix}.week"]), week)
