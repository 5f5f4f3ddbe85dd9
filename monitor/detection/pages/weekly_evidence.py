"""The weekly ticket list: an e-value per stream and ISO week, and the rule for listing.

Each week starts without evidence: with the running statistic of the pages, false discoveries would
accumulate (measured: a rate of .47 by week 13 instead of .10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor.core.intervals import Floats
from monitor.core.rates.gaps import Bools
from monitor.core.time import Grain, pane_of, pane_start
from monitor.detection.arrays import Arrays, positions
from monitor.detection.pages.mixture import SrMixture

FALSE_DISCOVERIES = 0.10
"""Largest expected share of streams on a weekly list that kept their contract."""

_PANE = Grain.HOUR / Grain.WEEK


@dataclass(slots=True)
class WeekBets:
    """Evidence of all streams of a group in one ISO week; changed in place.

    The clock of the mixture is in weeks: starting times of one week have a mass of at most 1, so
    E[R] is at most 1 at the week's end, and R is an e-value.

    Attributes:
        week: index of the week (a pane of :attr:`~monitor.core.time.Grain.WEEK`).
        mixture: mixture of the page streams' e-values, see :meth:`SrMixture.bet`.
    """

    week: int
    mixture: SrMixture

    @classmethod
    def begin(cls, hour: int, streams: int, alternatives: int) -> WeekBets:
        """Return empty evidence for the week that contains an hour (pane index)."""
        return cls(_week_of(hour), SrMixture.empty(streams, alternatives))

    def enter(self, hour: int) -> Floats | None:
        """Begin an hour's cohort before any bet on it; return the evidence of an ended week.

        Returns:
            The finished week's log e-values, shape (J,), if the hour is the first of a later week;
            -inf where nothing was bet. Else None.

        Raises:
            ValueError: for an hour of an earlier week.
        """
        week, finished = _week_of(hour), None
        if week < self.week:
            raise ValueError("cohorts come in order: this hour is in an earlier week")
        if week > self.week:
            finished = self.mixture.statistic()
            self.mixture.reset(np.ones(len(finished), bool))
            self.week = week
        self.mixture.add_clock(_PANE)
        return finished


@dataclass(slots=True)
class HeldWeeks:
    """Evidence of ended weeks of unlabelled streams, held until labelled streams catch up.

    A list covers all streams, so the streams that are ahead wait; changed in place.

    Attributes:
        keys: keys of the streams.
        weeks: log e-values by index of the week, each of shape (J,).
    """

    keys: tuple[str, ...]
    weeks: dict[int, Floats] = field(default_factory=dict)

    def take_before(self, hour: int) -> tuple[int, Floats] | None:
        """Remove all weeks before the hour's; return the last one and its log e-values, or None.

        Earlier weeks are dropped: a list has one week per stream.
        """
        due = [week for week in sorted(self.weeks) if week < _week_of(hour)]
        weeks = [(week, self.weeks.pop(week)) for week in due]
        return weeks[-1] if weeks else None

    def to_arrays(self) -> Arrays:
        """Return the log e-values by week; stream names are left out."""
        return {str(week): log_e for week, log_e in self.weeks.items()}

    def restore(self, arrays: Arrays, keys: Sequence[str]) -> None:
        """Load weeks stored by :meth:`to_arrays`; streams not among ``keys`` get -inf."""
        rows = positions(keys, self.keys)
        for week, log_e in arrays.items():
            self.weeks[int(week)] = np.append(log_e, -np.inf)[rows]


def ebh(log_e: Floats, log_weights: Floats, alpha: float = FALSE_DISCOVERIES) -> Bools:
    """Return the mask of streams listed by weighted e-BH: the k* largest values of w e.

    The expected share of streams on the list whose null holds is at most alpha, under any
    dependence, if every E[e] is at most 1 and the weights sum to at most 1.

    Args:
        log_e: log e-values, shape (J,); -inf is an e-value of 0.
        log_weights: log weights, shape (J,).
        alpha: in (0, 1).

    Returns:
        Mask of the listed streams, shape (J,).

    Source: Wang and Ramdas (2022), JRSS B 84.

    Example:
        >>> log_e = np.log([200.0, 50.0, 30.0, 5.0])
        >>> ebh(log_e, np.full(4, np.log(1 / 4))).tolist()
        [True, True, True, False]
    """
    score: Floats = log_e + log_weights
    needed = -math.log(alpha) - np.log(np.arange(1, len(score) + 1))
    enough = np.flatnonzero(np.sort(score)[::-1] >= needed)
    if not len(enough):
        return np.zeros(len(score), bool)
    listed: Bools = score >= needed[enough[-1]]
    return listed


def _week_of(hour: int) -> int:
    return pane_of(pane_start(hour, Grain.HOUR), Grain.WEEK)
