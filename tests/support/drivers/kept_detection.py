"""Detection fed by hours in memory: what it changes is kept as a store would, and goes on from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, cast

import numpy as np
from fleet_cells import MONDAY

from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s
from monitor.core.counts.completeness import CohortState
from monitor.core.counts.rollup import CellIndex
from monitor.core.time import DAY, HOUR, TimeSpan
from monitor.evaluate.cohorts import Cohorts
from monitor.evaluate.detect.cohorts_in_order import DetectionPolicy, DetectionState
from monitor.evaluate.detect.detection_inputs import Inputs
from monitor.store.evaluator.stored_detection import (
    CountedCohorts,
    DetectionChange,
    FrozenCohort,
    StoredDetection,
)


@dataclass
class KeptDetection:
    """What a store and the cohorts of the labels would tell, from the first hour on.

    Attributes:
        index: what the cells mean.
        policy: of the next start.
        asked: hours up to which frozen cohorts were asked for.
        hollow: hours whose labels never came.
        excluded: spans that are known to be bad.
        labels_take: microseconds until an hour's labels are in.
        first: the first hour.
    """

    index: ClassVar[CellIndex]

    policy: DetectionPolicy
    state: StoredDetection = field(default_factory=StoredDetection)
    cohorts: list[FrozenCohort] = field(default_factory=list)
    closed: list[FrozenCohort] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    hollow: frozenset[int] = frozenset()
    excluded: Sequence[TimeSpan] = ()
    labels_take: int = 0
    first: int = MONDAY

    @abstractmethod
    def feed(self, hour: int) -> Counts:
        """What is counted of an hour."""

    def counted(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        return [FrozenCohort.from_counts(one, self.feed(one), live=live) for one in hours]

    def decided(self, hours: Sequence[int], *, live: bool) -> list[FrozenCohort]:
        every = self.counted(hours, live=live)
        for one in every:
            one.counts.values[:, np.arange(COUNTERS) != Counter.N] = 0
        return every

    def first_counted(self) -> int:
        return self.first

    def requests(self, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        hours = {hour: self.feed(hour) for hour in range(first, end)}
        return (
            np.repeat([*hours], [len(one.keys) for one in hours.values()]),
            np.concatenate([one.keys for one in hours.values()]),
            np.concatenate([one.values[:, (Counter.N, Counter.Q)] for one in hours.values()]),
        )

    def answers(self, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        hours = {hour: self.feed(hour) for hour in range(first, end)}
        columns = (Counter.N, Counter.Q, Counter.LABELLED)
        return (
            np.repeat([*hours], [len(one.keys) for one in hours.values()]),
            np.concatenate([one.keys for one in hours.values()]),
            np.concatenate([one.values[:, columns] for one in hours.values()]),
        )

    def labels_due(self, watermark: int, horizon: int) -> None:
        """Hours are judged with their cohorts."""

    def frozen(self, first: int, end: int, *, labels: bool = True) -> list[FrozenCohort]:
        if labels:
            self.asked.append((first - self.first, end - self.first))
        return [x for x in (self.cohorts if labels else self.closed) if first <= x.hour < end]

    def next_closed(self, after: int | None, watermark: int) -> tuple[int, CohortState] | None:
        hour = self.first if after is None else after + 1
        return None if hour * HOUR >= watermark else (hour, CohortState.CONSUMED)

    def next_cohort(
        self, after: int | None, watermark: int, horizon: int, threshold: Fraction
    ) -> tuple[int, CohortState] | None:
        hour = self.first if after is None else after + 1
        if hour * HOUR >= watermark - self.labels_take:
            return None
        return hour, CohortState.INCOMPLETE if hour in self.hollow else CohortState.CONSUMED

    def run(self, hours: int) -> list[DetectionChange]:
        """All that is mature by a new evaluator, each change committed."""
        detection, changes = DetectionState.load(self.state, self.policy), []
        inputs = Inputs(cast(CountedCohorts, self), self.index, self.excluded)
        watermark = (self.first + hours) * HOUR
        while (
            found := detection.step(inputs, cast(Cohorts, self), watermark, 7 * DAY)
        ) is not None:
            self.commit(found)
            changes.append(found)
        return changes

    def commit(self, change: DetectionChange) -> None:
        kept = {one.id: one for one in self.state.crossings}
        for number, at in change.refreshed.items():
            kept[number] = replace(kept[number], latest=at)
        for number, at in change.resolved.items():
            assert kept[number].resolved_at is None
            kept[number] = replace(kept[number], resolved_at=at)
        assert not kept.keys() & {one.id for one in change.opened}
        kept |= {one.id: one for one in change.opened}
        parts = {name: x for name, x in self.state.parts.items() if name not in change.dropped}
        self.cohorts += change.cohorts
        crossings = tuple(kept[number] for number in sorted(kept))
        self.closed += change.closed
        newest = change.cohorts[-1].hour if change.cohorts else self.state.consumed
        closed = change.closed[-1].hour if change.closed else self.state.closed
        self.state = StoredDetection(parts | dict(change.parts), newest, crossings, closed)
        standing = [one.stream for one in crossings if one.resolved_at is None]
        assert len(standing) == len(set(standing)), "one stands once"
