"""Whether labels are asked for as often as the decisions say.

Every decision names the probability with which its label is requested, and every rate under
sampled labels rests on it. Counted requests are thinned to the grid of audit rates, so in a
stratum (route x audit rate, score bands merged) the requests are

    q ~ Binomial(N, pi), with pi the grid's rate.

Only what labelled rates are about is tested. Blocked requests, and decisions without evidence, need
no label, and a router that asks for none has no probability to name: it must be above 0.

This is tested by betting, not by a binomial test each hour: the e-value of an hour is a
likelihood ratio at the boundary of what is tolerated, and the hours go into the same
Shiryaev-Roberts mixture as the pages. So the expected number of false alarms, over all strata, is
at most one a year of consumed event time, however long it runs and under any dependence between
strata. Decisions that are audited together need ``cluster_size``, as everywhere.

Source: Robbins (1970), Annals of Mathematical Statistics 41 (mixtures of likelihood ratios);
Shin, Ramdas and Rinaldo (2024), New England Journal of Statistics in Data Science (e-detectors).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

from monitor.core.annotations import Fault
from monitor.core.cells import Int64s, decode_strata
from monitor.core.intervals import Floats
from monitor.core.strata import REVIEWED_ROUTES, is_reviewed

FALSE_ALARM_DAYS = 365.0
"""E[false alarms up to day t] <= t / FALSE_ALARM_DAYS, over all strata of one test."""

TOLERANCE = 0.02
"""Share by which requests may miss their rate. A rounded probability (0.031 for 1/32) would else be
found after ten million decisions, and harms nothing: the pages keep their bound with more than
twice this share of the labels missing."""

_ODDS = (1.15, 1.5, 3.0, 10.0)
_SHIFTS = np.log(_ODDS)
"""What is bet on: the odds of a request, so many times too low or too high. Between neighbours
three quarters of the best growth are kept."""

ALTERNATIVES = 2 * len(_ODDS)
"""Columns of :meth:`RequestTest.log_e`: the first half bets on too few requests."""


@dataclass(frozen=True, slots=True)
class RequestTest:
    """The bets on the requests of J strata; the strata are declared before any data is seen.

    Attributes:
        rates: shape (J,): probability of a request, in (0, 1].
        weights: shape (J,): share of the error budget of each; at most 1 in all.
    """

    rates: Floats
    weights: Floats

    @classmethod
    def of(cls, audit_rates: Sequence[float], share: float = 1.0) -> RequestTest:
        """All strata there can be, in the order of :func:`request_counts`.

        Args:
            audit_rates: the coding's grid.
            share: of the error budget, spread evenly.
        """
        rates = np.tile(np.asarray(audit_rates, np.float64), len(REVIEWED_ROUTES))
        return cls(rates, np.full(len(rates), share / len(rates)))

    def log_e(self, decisions: npt.ArrayLike, requests: npt.ArrayLike) -> Floats:
        """Log e-values of one hour, shape (J, ALTERNATIVES).

        E[e] <= 1 while requests are within :data:`TOLERANCE` of their rate, and exactly 1 at its
        edge. A rate near 1 cannot be exceeded: bets on too many are 0 there.

        Args:
            decisions: shape (J,): N.
            requests: shape (J,): q, from 0 to N.
        """
        n, q = (np.asarray(x, np.float64)[:, None] for x in (decisions, requests))
        asked, spared = self._log_ratios()
        return np.asarray(q * asked + (n - q) * spared, np.float64)

    def faults(self, log_r: Floats) -> list[Fault | None]:
        """The strata whose statistic has crossed, and on which side.

        Args:
            log_r: shape (J, ALTERNATIVES): the mixture's state. Rows that crossed are to be
                emptied, so that an alarm repeats only on new evidence.
        """
        few, many = np.logaddexp.reduce(np.split(log_r, 2, axis=1), axis=2)
        with np.errstate(divide="ignore"):  # a stratum without a share can never cross
            crossed = np.logaddexp(few, many) + np.log(self.weights) >= log(FALSE_ALARM_DAYS)
        sides = np.where(few >= many, Fault.TOO_FEW, Fault.TOO_MANY).tolist()
        return [
            Fault(side) if alarm else None
            for alarm, side in zip(crossed.tolist(), sides, strict=True)
        ]

    def _log_ratios(self) -> tuple[Floats, Floats]:
        """Log likelihood ratios of a decision with a request, and of one without."""
        low = (self.rates * (1 - TOLERANCE))[:, None]
        high = np.minimum(self.rates * (1 + TOLERANCE), 1)[:, None]
        edge = np.concatenate([low, high], axis=1).repeat(len(_ODDS), axis=1)
        shift = np.concatenate([-_SHIFTS, _SHIFTS])
        open_edge = np.where(edge < 1, edge, 0.5)
        other = 1 / (1 + np.exp(-shift) * (1 - open_edge) / open_edge)
        asked, spared = np.log(other / open_edge), np.log((1 - other) / (1 - open_edge))
        return np.where(edge < 1, asked, 0), np.where(edge < 1, spared, 0)


def request_counts(
    hour: Int64s, strata: Int64s, counted: Int64s, shape: tuple[int, int]
) -> tuple[Int64s, Int64s]:
    """Decisions N and requests q <= N of every hour and stratum, each of shape (H, J).

    Args:
        hour: for every row of counts, its position among the hours.
        strata: its stratum code; what labelled rates are not about is left out.
        counted: its decisions and requests, shape (rows, 2).
        shape: number of hours, and size of the coding's grid.
    """
    hours, rates = shape
    parts = decode_strata(strata)
    inside = is_reviewed(parts)
    column = parts.route * rates + parts.rate
    found = np.zeros((hours, len(REVIEWED_ROUTES) * rates, 2), np.int64)
    np.add.at(found, (hour[inside], column[inside]), counted[inside])
    decisions, requests = np.moveaxis(found, -1, 0)
    return decisions, np.clip(requests, 0, decisions)
