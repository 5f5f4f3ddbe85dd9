"""Drift of all slices of one group-by from their baselines: TPR and FPR, with weekly evidence.

When other versions answer a slice, its baselines begin anew. The pages do not: their null allows
any drift, so a version change resets none of their streams.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import Int64s
from monitor.core.counts.coding import Coding
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.rates.gaps import Bools
from monitor.core.time import Grain, pane_start
from monitor.detection import arrays
from monitor.detection.advisory.baseline import WEIGHTS, Baseline
from monitor.detection.advisory.mix_labels import RATES, GroupLabels, Places
from monitor.detection.advisory.versions import RunningVersions
from monitor.detection.arrays import Arrays
from monitor.detection.pages.mixture import SrMixture
from monitor.detection.pages.weekly_evidence import WeekBets

FORM = 1
"""Version of the stored form; it changes when older states cannot be read."""


@dataclass(frozen=True, slots=True)
class EndedWeek:
    """Drift evidence of one rate's streams in an ISO week that ended.

    Attributes:
        log_e: log e-values of drift, shape (S,); -inf where nothing was bet.
        mix_shift: mask of slices whose rate moved while rates within mixes held, shape (S,).
    """

    log_e: Floats
    mix_shift: Bools


@dataclass(slots=True)
class GroupDrift:
    """Drift detectors of one group-by: baselines, weekly evidence and running versions.

    Attributes:
        places: places of atoms; its slices are the rows of all arrays.
        baselines: baselines by rate.
        weeks: evidence by rate; empty before the first cohort.
        running: decisions by version of each slice.
        cluster_size: largest number of decisions that depend on each other.
    """

    places: Places
    baselines: dict[Metric, Baseline]
    running: RunningVersions
    cluster_size: int
    weeks: dict[Metric, WeekBets] = field(default_factory=dict)

    @classmethod
    def start(cls, group: GroupBy, coding: Coding, cluster_size: int) -> GroupDrift:
        """Return the drift detectors of a group-by without labels."""
        places = Places.for_group(group, coding)
        slices = places.slices
        baselines = {rate: Baseline.empty(rate, slices, ()) for rate in RATES}
        return cls(places, baselines, RunningVersions.empty(len(slices)), cluster_size)

    @property
    def streams(self) -> int:
        """Return the number of streams: slices times rates."""
        return len(RATES) * len(self.places.slices)

    def enter(self, hour: int) -> dict[Metric, EndedWeek]:
        """Begin an hour's cohort; return the evidence of a week that ended, by rate."""
        at = pane_start(hour, Grain.HOUR)
        ended = {}
        for rate, baseline in self.baselines.items():
            if rate not in self.weeks:
                rows, alternatives = baseline.stratified.mixture.log_r.shape
                self.weeks[rate] = WeekBets.begin(hour, rows, alternatives)
            log_e = self.weeks[rate].enter(hour)
            if log_e is not None:
                ended[rate] = EndedWeek(log_e, baseline.mix_shift(at))
        return ended

    def advance(self, hour: int, labels: GroupLabels, weight: float) -> list[str]:
        """Bet on an hour's labels; restart and return slices that other versions answer now.

        Args:
            hour: pane index.
            labels: labels of this group-by, from :attr:`places`.
            weight: each stream's share of one false crossing in 90 days.

        Returns:
            The slices that other versions answer now, whose baselines have begun anew.
        """
        renewed = self._restart(labels)
        weights = np.full(len(self.places.slices), weight)
        at = pane_start(hour, Grain.HOUR)
        for row, rate in enumerate(RATES):
            if len(self.baselines[rate].mixes) < labels.n.shape[2]:
                wider = self.baselines[rate].aligned(self.places.slices, self.places.mixes)
                self.baselines[rate] = wider
            bets = self.baselines[rate].advance(
                at, labels.n[row], labels.k[row], weights, self.cluster_size
            )
            self.weeks[rate].mixture.bet(bets.rows, bets.log_e, WEIGHTS, self.cluster_size)
        return [self.places.slices[row] for row in renewed.tolist()]

    def _restart(self, labels: GroupLabels) -> Int64s:
        """Begin the baselines anew of slices that other versions answer; return their rows."""
        finished = [baseline.reference.frozen for baseline in self.baselines.values()]
        collecting = ~np.all(finished, axis=0)
        rows = self.running.changed(labels.versions, labels.decided, collecting)
        if len(rows):
            for rate, baseline in self.baselines.items():
                baseline.restart(rows)
                self.weeks[rate].mixture.reset(rows)
        return rows

    def to_bytes(self) -> bytes:
        """Encode the whole state as bytes, for :meth:`restored`."""
        state = arrays.prefixed("running", self.running.to_arrays())
        for rate, baseline in self.baselines.items():
            state |= arrays.prefixed(rate, baseline.to_arrays())
        for rate, week in self.weeks.items():
            state |= arrays.prefixed(f"week.{rate}", week.mixture.to_arrays())
        weeks = {rate.value: week.week for rate, week in self.weeks.items()}
        return arrays.encode(
            state, {"form": FORM, "others": self.places.mix_attributes, "weeks": weeks}
        )

    def restored(self, body: bytes, group: GroupBy, coding: Coding) -> Self:
        """Return a copy with the stored state; slices not in it have no evidence.

        Raises:
            ValueError: if the bytes are damaged or of another form, or if the mixes were made of
                other attributes: then no stored mix matches.
        """
        state, facts = arrays.decode(body)
        if facts.get("form") != FORM or tuple(facts["others"]) != self.places.mix_attributes:
            raise ValueError("the baselines are of another form, or of other attributes")
        baselines = {rate: Baseline.from_arrays(arrays.part(state, rate)) for rate in RATES}
        first = baselines[RATES[0]]
        places = Places.for_group(group, coding, first.mixes)
        running = RunningVersions.from_arrays(arrays.part(state, "running"))
        aligned = {
            rate: baseline.aligned(places.slices, baseline.mixes)
            for rate, baseline in baselines.items()
        }
        rows = arrays.positions(first.slices, places.slices)
        weeks = {
            Metric(rate): WeekBets(week, _week(state, rate).aligned(first.slices, places.slices))
            for rate, week in facts["weeks"].items()
        }
        return type(self)(places, aligned, running.picked(rows), self.cluster_size, weeks)


def _week(state: Arrays, rate: str) -> SrMixture:
    return SrMixture.from_arrays(arrays.part(state, f"week.{rate}"))
