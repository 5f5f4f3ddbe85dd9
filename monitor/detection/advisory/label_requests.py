"""Label requests: whether labels are requested as often as the decisions say.

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
    def for_audit_rates(cls, audit_rates: Sequence[float], share: float = 1.0) -> RequestTest:
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
        asked, spared = self.log_ratios()
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

    def log_ratios(self) -> tuple[Floats, Floats]:
        """Log likelihood ratios of a decision with a request, and of one without.

        Each of shape (J, ALTERNATIVES); 0 where requests cannot be more often than always.
        """
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


FORM = 2
"""Changes when what is kept cannot be read any more as it was."""

_EVENLY = np.full(ALTERNATIVES, 1 / ALTERNATIVES)


class RequestFault(NamedTuple):
    """Labels of a stratum are not requested as often as its decisions say.

    Attributes:
        route: of the stratum.
        rate: index of its audit rate.
        fault: too few or too many.
    """

    route: Route
    rate: int
    fault: Fault


@dataclass(slots=True)
class RequestWatch:
    """The evidence against the requests of every route x audit rate of one contract.

    Attributes:
        test: the bets.
        mixture: its clock is in days.
        cluster_size: largest number of decisions that hang together.
        consumed: the newest hour whose turn has come; None before the first.
        faults: when each was found; what never was is absent.
    """

    test: RequestTest
    mixture: SrMixture
    cluster_size: int
    consumed: int | None = None
    faults: dict[RequestFault, Timeline] = field(default_factory=dict)

    @classmethod
    def start(cls, test: RequestTest, cluster_size: int) -> RequestWatch:
        """Without evidence."""
        return cls(test, SrMixture.empty(len(test.rates), ALTERNATIVES), cluster_size)

    @property
    def until(self) -> int | None:
        """End of the newest hour whose turn has come (microseconds)."""
        return None if self.consumed is None else pane_start(self.consumed + 1, Grain.HOUR)

    def advance(self, hour: int, decisions: Int64s, requests: Int64s) -> None:
        """Bet on one hour; the evidence of strata that are found at fault begins anew.

        Args:
            hour: pane index, the one after :attr:`consumed`.
            decisions: of every stratum, shape (J,).
            requests: of every stratum, shape (J,).
        """
        rows = np.flatnonzero(decisions)
        self.mixture.add_clock(HOUR / DAY)
        log_e = self.test.log_e(decisions, requests)[rows]
        self.mixture.bet(rows, log_e, _EVENLY, self.cluster_size)
        self._note(hour, self.test.faults(self.mixture.log_r))
        self.consumed = hour

    def skip(self, hour: int) -> None:
        """Let an hour have its turn whose data are known to be bad: it moves nothing."""
        self.consumed = hour

    def before(self, hour: int) -> dict[RequestFault, FindingCount]:
        """Count of each fault in earlier hours, and the start of the newest of those hours.

        Of those older than :data:`~monitor.detection.pages.evidence_history.KEPT` hours only the
        newest is known.
        """
        found = ((one, timeline.before(hour)) for one, timeline in sorted(self.faults.items()))
        return {one: tally for one, tally in found if tally is not None}

    def to_bytes(self) -> bytes:
        """All that is kept."""
        faults = [[*one, times.hours, times.totals] for one, times in sorted(self.faults.items())]
        facts = {"form": FORM, "consumed": self.consumed, "faults": faults}
        return arrays.encode(self.mixture.to_arrays(), facts)

    def restored(self, body: bytes) -> Self:
        """The same with what was kept.

        Raises:
            ValueError: if the bytes are damaged, or of another form or grid of audit rates.
        """
        state, facts = arrays.decode(body)
        mixture = SrMixture.from_arrays(state)
        if facts.get("form") != FORM or mixture.log_r.shape != self.mixture.log_r.shape:
            raise ValueError("the evidence on label requests is of another form")
        faults = dict(map(_found, facts["faults"]))
        return type(self)(self.test, mixture, self.cluster_size, facts["consumed"], faults)

    def _note(self, hour: int, faults: list[Fault | None]) -> None:
        """Remember what was found, and let what is old go."""
        size = len(faults) // len(REVIEWED_ROUTES)
        for row, fault in enumerate(faults):
            if fault is not None:
                one = RequestFault(Route(row // size), row % size, fault)
                self.faults.setdefault(one, Timeline()).note(hour)
        for timeline in self.faults.values():
            timeline.fold(hour - KEPT)
        self.mixture.reset(np.array([fault is not None for fault in faults]))


def _found(row: list[Any]) -> tuple[RequestFault, Timeline]:
    route, rate, fault, hours, totals = row
    return RequestFault(Route(route), rate, Fault(fault)), Timeline(hours, totals)
