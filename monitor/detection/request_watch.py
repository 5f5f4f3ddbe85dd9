"""The check of label requests over all cohorts: see :mod:`monitor.detection.sampler`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from monitor.core.annotations import Fault
from monitor.core.cells import Route
from monitor.core.rollup import SliceCounts
from monitor.core.time import DAY, HOUR
from monitor.detection import arrays
from monitor.detection.mixture import SrMixture
from monitor.detection.sampler import ALTERNATIVES, RequestTest, request_counts

FORM = 1
"""Changes when what is kept cannot be read any more as it was."""

_EVENLY = np.full(ALTERNATIVES, 1 / ALTERNATIVES)


@dataclass(slots=True)
class RequestWatch:
    """The evidence against the requests of every route x audit rate of one contract.

    Attributes:
        test: the bets.
        mixture: its clock is in days.
        cluster_size: largest number of decisions that hang together.
    """

    test: RequestTest
    mixture: SrMixture
    cluster_size: int

    @classmethod
    def start(cls, test: RequestTest, cluster_size: int) -> RequestWatch:
        """Without evidence."""
        return cls(test, SrMixture.empty(len(test.rates), ALTERNATIVES), cluster_size)

    def advance(self, total: SliceCounts) -> list[tuple[Route, int, Fault]]:
        """Bet on one cohort; returns the strata at fault, whose evidence then begins anew.

        Args:
            total: counts of all decisions.

        Returns:
            Route, index of the audit rate, and what is wrong.
        """
        size = len(self.test.rates) // len(Route)
        decisions, requests = (x.sum(axis=0).ravel() for x in request_counts(total, size))
        rows = np.flatnonzero(decisions)
        self.mixture.add_clock(HOUR / DAY)
        log_e = self.test.log_e(decisions, requests)[rows]
        self.mixture.bet(rows, log_e, _EVENLY, self.cluster_size)
        faults = self.test.faults(self.mixture.log_r)
        self.mixture.reset(np.array([fault is not None for fault in faults]))
        return [
            (Route(row // size), row % size, fault)
            for row, fault in enumerate(faults)
            if fault is not None
        ]

    def to_bytes(self) -> bytes:
        """All that is kept."""
        return arrays.encode(self.mixture.to_arrays(), {"form": FORM})

    def restored(self, body: bytes) -> Self:
        """The same with what was kept.

        Raises:
            ValueError: if the bytes are damaged, or of another form or grid of audit rates.
        """
        state, facts = arrays.decode(body)
        mixture = SrMixture.from_arrays(state)
        if facts.get("form") != FORM or mixture.log_r.shape != self.mixture.log_r.shape:
            raise ValueError("the evidence on label requests is of another form")
        return type(self)(self.test, mixture, self.cluster_size)
