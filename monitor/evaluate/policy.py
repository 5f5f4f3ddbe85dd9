"""Settings of the evaluator, resolved once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from monitor.core.contract import Contract
from monitor.core.counts.coding import CodingHistory
from monitor.core.probes.rounds import DeclaredSet
from monitor.core.time import DAY, UTC_ZONE, Grain, pane_of
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy


@dataclass(frozen=True, slots=True)
class EvaluatorPolicy:
    """Settings of the evaluator: lease, waiting times, coding, contracts and probe sets.

    Attributes:
        owner: name of this evaluator, for the lease.
        lease: microseconds; extended when a step takes longer.
        horizon: microseconds after which a label is not waited for.
        lateness: microseconds that events may arrive out of order.
        completeness: share of requested labels that makes a cohort mature.
        eras: how decisions were coded, by event time.
        contracts: contracts with their windows.
        live: whether consumed hours may page; hours loaded in bulk never do.
        cluster_size: largest number of decisions that depend on each other.
        probes: declared probe sets.
        timezone: time zone in which weeks begin.
        aggregates: microseconds that counts of days are kept.
    """

    owner: str
    lease: int
    horizon: int
    lateness: int
    completeness: Fraction
    eras: CodingHistory
    contracts: Sequence[Contract]
    live: bool = True
    cluster_size: int = 1
    probes: Sequence[DeclaredSet] = ()
    timezone: str = UTC_ZONE
    aggregates: int = 400 * DAY

    @property
    def detection(self) -> DetectionPolicy:
        """Return the settings that detection needs, with the newest coding."""
        return DetectionPolicy(
            contracts=self.contracts,
            coding=self.eras.newest,
            completeness=self.completeness,
            live=self.live,
            cluster_size=self.cluster_size,
        )

    def oldest_cohort(self, watermark: int) -> int:
        """Return the first hour (pane index) whose label cohort is kept at a watermark."""
        back = self.horizon + min(self.horizon, 7 * DAY)
        return pane_of(watermark - back, Grain.HOUR)
