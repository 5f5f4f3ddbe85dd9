"""Label requests: a test that labels are requested as often as the decisions say.

Every decision names the probability of its label request, and every rate under sampled labels
depends on it. Counted requests are thinned to the grid of audit rates, so in a stratum (route x
audit rate, score bands merged) the requests are

    q ~ Binomial(N, pi), with pi the grid's rate.

Only decisions that labelled rates count are tested. Blocked requests, and decisions without
evidence, need no label; a router that requests none has no probability to name, as it must be
above 0.

Instead of a binomial test each hour, the test bets: the e-value of an hour is a likelihood ratio at
the edge of the tolerance, and hours enter the same Shiryaev-Roberts mixture as pages. So
the expected number of false alarms, over all strata, is at most one per year of consumed event
time, however long it runs and under any dependence between strata. Decisions that are audited
together need ``cluster_size``, as everywhere.

Source: Robbins (1970), Annals of Mathematical Statistics 41 (mixtures of likelihood ratios);
Shin, Ramdas and Rinaldo (2024), New England Journal of Statistics in Data Science (e-detectors).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s, Route, decode_strata
from monitor.core.counts.strata import REVIEWED_ROUTES, is_reviewed
from monitor.core.intervals import Floats
from monitor.core.publish.annotations import Fault
from monitor.core.time import DAY, HOUR, Grain, pane_start
from monitor.detection import arrays
from monitor.detection.advisory.finding_log import Timeline
from monitor.detection.advisory.river_advisory import FindingCount
from monitor.detection.pages.evidence_history import KEPT
from monitor.detection.pages.mixture import SrMixture

FALSE_ALARM_DAYS = 365.0
"""E[false alarms up to day t] <= t / FALSE_ALARM_DAYS, over all strata of one test."""

TOLERANCE = 0.02
"""Share by which requests may miss their rate. Otherwise a rounded probability (0.031 for 1/32)
would be found after ten million decisions, although it is harmless: the pages keep their bound with
more than twice this share of the labels missing."""

_ODDS = (1.15, 1.5, 3.0, 10.0)
_SHIFTS = np.log(_ODDS)
"""Factors by which the odds of a request are bet to be too low or too high. Between neighbours,
bets keep three quarters of the best growth."""

ALTERNATIVES = 2 * len(_ODDS)
"""Columns of :meth:`RequestTest.log_e`: the first half bets on too few requests."""


@dataclass(frozen=True, slots=True)
class RequestTest:
    """Bets on the label requests of J strata, declared before any data is seen.

    Attributes:
        rates: probability of a request, in (0, 1], shape (J,).
        weights: share of the error budget, shape (J,); at most 1 in sum.
    """

    rates: Floats
    weights: Floats

    @classmethod
    def for_audit_rates(cls, audit_rates: Sequence[float], share: float = 1.0) -> RequestTest:
        """Return the test of every route and audit rate; see :func:`request_counts` for order.

        Args:
            audit_rates: the coding's grid.
            share: part of the error budget, spread evenly.
        """
        rates = np.tile(np.asarray(audit_rates, np.float64), len(REVIEWED_ROUTES))
        return cls(rates, np.full(len(rates), share / len(rates)))

    def log_e(self, decisions: npt.ArrayLike, requests: npt.ArrayLike) -> Floats:
        """Return log e-values of one hour's decisions and requests, shape (J, ALTERNATIVES).

        E[e] <= 1 while requests are within :data:`TOLERANCE` of their rate, and exactly 1 at its
        edge. A rate near 1 cannot be exceeded: bets on too many are 0 there.

        Args:
            decisions: N, shape (J,).
            requests: q, from 0 to N, shape (J,).
        """
        n, q = (np.asarray(counts, np.float64)[:, None] for counts in (decisions, requests))
        asked, spared = self.log_ratios()
        return np.asarray(q * asked + (n - q) * spared, np.float64)

    def faults(self, log_r: Floats) -> list[Fault | None]:
        """Return TOO_FEW or TOO_MANY for each stratum whose evidence has crossed, else None.

        Args:
            log_r: the mixture's state, shape (J, ALTERNATIVES). The caller empties the rows that
                crossed, so that an alarm repeats only on new evidence.
        """
        few, many = np.logaddexp.reduce(np.split(log_r, 2, axis=1), axis=2)
        with np.errstate(divide="ignore"):  # a stratum without a share can never cross
            crossed = np.logaddexp(few, many) + np.log(self.weights) >= log(FALSE_ALARM_DAYS)
        sides = np.where(few >= many, Fault.TOO_FEW, Fault.TOO_MANY).tolist()
        return [
            Fault(side) if alarm else None
            for alarm, side in zip(crossed.tolist(), sides, strict=True)
        ]

    def log_ratios(self) -> tuple[Floats, Floats]:
        """Return log likelihood ratios of a decision with a request, and of one without.

        Each has shape (J, ALTERNATIVES); it is 0 where requests cannot be more often than always.
        """
        low = (self.rates * (1 - TOLERANCE))[:, None]
        high = np.minimum(self.rates * (1 + TOLERANCE), 1)[:, None]
        edge = np.concatenate([low, high], axis=1).repeat(len(_ODDS), axis=1)
        shift = np.concatenate([-_SHIFTS, _SHIFTS])
        open_edge = np.where(edge < 1, edge, 0.5)
        alternative = 1 / (1 + np.exp(-shift) * (1 - open_edge) / open_edge)
        asked, spared = np.log(alternative / open_edge), np.log((1 - alternative) / (1 - open_edge))
        return np.where(edge < 1, asked, 0), np.where(edge < 1, spared, 0)


def request_counts(
    hour: Int64s, strata: Int64s, counted: Int64s, shape: tuple[int, int]
) -> tuple[Int64s, Int64s]:
    """Return decisions N and requests q <= N by hour and stratum, shape (H, J) each.

    Args:
        hour: position of each row among the hours.
        strata: stratum code of each row; strata outside labelled rates are left out.
        counted: decisions and requests of each row, shape (rows, 2).
        shape: number of hours, and size of the coding's grid.
    """
    hours, rates = shape
    parts = decode_strata(strata)
    inside = is_reviewed(parts)
    column = parts.route * rates + parts.rate
    table = np.zeros((hours, len(REVIEWED_ROUTES) * rates, 2), np.int64)
    np.add.at(table, (hour[inside], column[inside]), counted[inside])
    decisions, requests = np.moveaxis(table, -1, 0)
    return decisions, np.clip(requests, 0, decisions)


FORM = 2
"""Version of the stored form; it changes when older states cannot be read."""

_EVENLY = np.full(ALTERNATIVES, 1 / ALTERNATIVES)


class RequestFault(NamedTuple):
    """A route and audit rate whose labels are requested too rarely or too often.

    Attributes:
        route: route of the stratum.
        rate: index of its audit rate.
        fault: too few or too many.
    """

    route: Route
    rate: int
    fault: Fault


@dataclass(slots=True)
class RequestWatch:
    """Detector of wrong label requests over all slices of one contract.

    Attributes:
        test: the bets.
        mixture: the evidence; its clock is in days.
        cluster_size: largest number of decisions that depend on each other.
        consumed: the newest consumed hour; None before the first.
        faults: times at which each fault was found; absent if it never was.
    """

    test: RequestTest
    mixture: SrMixture
    cluster_size: int
    consumed: int | None = None
    faults: dict[RequestFault, Timeline] = field(default_factory=dict)

    @classmethod
    def start(cls, test: RequestTest, cluster_size: int) -> RequestWatch:
        """Return a detector that uses these bets, without evidence."""
        return cls(test, SrMixture.empty(len(test.rates), ALTERNATIVES), cluster_size)

    @property
    def until(self) -> int | None:
        """Return the end of the newest consumed hour (microseconds); None before the first."""
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    def advance(self, hour: int, decisions: Int64s, requests: Int64s) -> None:
        """Bet on one hour's label requests, record faults, and reset their strata's evidence.

        Args:
            hour: pane index, the one after :attr:`consumed`.
            decisions: decisions of each stratum, shape (J,).
            requests: requests of each stratum, shape (J,).
        """
        rows = np.flatnonzero(decisions)
        self.mixture.add_clock(HOUR / DAY)
        log_e = self.test.log_e(decisions, requests)[rows]
        self.mixture.bet(rows, log_e, _EVENLY, self.cluster_size)
        self._record_faults(hour, self.test.faults(self.mixture.log_r))
        self.consumed = hour

    def skip(self, hour: int) -> None:
        """Mark an hour with bad data as consumed, without betting on it."""
        self.consumed = hour

    def before(self, hour: int) -> dict[RequestFault, FindingCount]:
        """Return count and newest time of each fault found before an hour.

        Beyond :data:`~monitor.detection.pages.evidence_history.KEPT`, only the newest time is
        known.
        """
        tallies = (
            (fault, timeline.before(hour)) for fault, timeline in sorted(self.faults.items())
        )
        return {fault: tally for fault, tally in tallies if tally is not None}

    def to_bytes(self) -> bytes:
        """Encode the whole state as bytes, for :meth:`restored`."""
        faults = [
            [*fault, times.hours, times.totals] for fault, times in sorted(self.faults.items())
        ]
        facts = {"form": FORM, "consumed": self.consumed, "faults": faults}
        return arrays.encode(self.mixture.to_arrays(), facts)

    def restored(self, body: bytes) -> Self:
        """Return a copy with the state that :meth:`to_bytes` wrote.

        Raises:
            ValueError: if the bytes are damaged, or of another form or grid of audit rates.
        """
        state, facts = arrays.decode(body)
        mixture = SrMixture.from_arrays(state)
        if facts.get("form") != FORM or mixture.log_r.shape != self.mixture.log_r.shape:
            raise ValueError("the evidence on label requests is of another form")
        faults = dict(map(_fault_timeline, facts["faults"]))
        return type(self)(self.test, mixture, self.cluster_size, facts["consumed"], faults)

    def _record_faults(self, hour: int, faults: list[Fault | None]) -> None:
        """Record these faults, fold old times, and reset the evidence of strata at fault."""
        size = len(faults) // len(REVIEWED_ROUTES)
        for row, fault in enumerate(faults):
            if fault is not None:
                request_fault = RequestFault(Route(row // size), row % size, fault)
                self.faults.setdefault(request_fault, Timeline()).note(hour)
        for timeline in self.faults.values():
            timeline.fold(hour - KEPT)
        self.mixture.reset(np.array([fault is not None for fault in faults]))


def _fault_timeline(row: list[Any]) -> tuple[RequestFault, Timeline]:
    route, rate, fault, hours, totals = row
    return RequestFault(Route(route), rate, Fault(fault)), Timeline(hours, totals)
