"""The check of label requests over all hours of decisions: see :mod:`monitor.detection.sampler`.

What it needs of an hour, its decisions and requests, is complete once the watermark has passed
it, long before its labels are in. So hours have their turn then, strictly in order and each once,
by a cursor of their own. Decisions that come later than that are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from monitor.core.annotations import Fault
from monitor.core.cells import Int64s, Route
from monitor.core.strata import REVIEWED_ROUTES
from monitor.core.time import DAY, HOUR, Grain, pane_start
from monitor.detection import arrays
from monitor.detection.advisory import Tally
from monitor.detection.history import KEPT
from monitor.detection.mixture import SrMixture
from monitor.detection.sampler import ALTERNATIVES, RequestTest
from monitor.detection.timeline import Timeline

FORM = 2
"""Changes when what is kept cannot be read any more as it was."""

_EVENLY = np.full(ALTERNATIVES, 1 / ALTERNATIVES)


class RequestFault(NamedTuple):
    """Labels of a stratum are not asked for as often as its decisions say.

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

    def before(self, hour: int) -> dict[RequestFault, Tally]:
        """How often each was found in earlier hours, and the start of the newest of those hours.

        Of those older than :data:`~monitor.detection.history.KEPT` hours only the newest is known.
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
