"""Crossings between cycles: opened, refreshed, resolved once a day, or closed by people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from monitor.core.metric import Metric
from monitor.core.time import DAY, Grain, pane_start
from monitor.detection.pages.streams import Stream
from monitor.store.evaluator.stored_detection import (
    Crossing,
    DetectionChange,
    FrozenCohort,
    StoredDetection,
)


@dataclass(slots=True)
class StepChanges:
    """Consumed hours and changes of crossings that one detection step collects.

    Attributes:
        cohorts: hours consumed with their labels.
        closed: hours consumed without labels.
        resolved: when crossings were resolved, by id.
        refreshed: the newest crossing time of unresolved crossings, by id.
        opened: new crossings, by id.
        listed: the weekly list; None unless a week has ended.
    """

    cohorts: list[FrozenCohort] = field(default_factory=list)
    closed: list[FrozenCohort] = field(default_factory=list)
    resolved: dict[int, int] = field(default_factory=dict)
    refreshed: dict[int, int] = field(default_factory=dict)
    opened: dict[int, Crossing] = field(default_factory=dict)
    listed: tuple[Stream, ...] | None = None

    def refresh(self, crossing: Crossing, at: int) -> None:
        """Record ``at`` as the latest time that an unresolved crossing crossed its limit.

        A crossing that was opened in this step is not in the store yet, so it is replaced.
        """
        if crossing.id in self.opened:
            self.opened[crossing.id] = replace(crossing, latest=at)
        else:
            self.refreshed[crossing.id] = at


@dataclass(slots=True)
class Crossings:
    """Kept crossings, unresolved and resolved; equal to the stored state.

    Attributes:
        live: whether new crossings may page; hours loaded in bulk never do.
        standing: unresolved crossings by stream key.
        next_id: id of the next crossing.
        ended: resolved crossings.
    """

    live: bool
    standing: dict[str, Crossing] = field(default_factory=dict)
    next_id: int = 1
    ended: list[Crossing] = field(default_factory=list)

    @classmethod
    def load(cls, stored: StoredDetection, *, live: bool) -> Self:
        """Return the crossings restored from the stored state."""
        ended = [crossing for crossing in stored.crossings if crossing.resolved_at is not None]
        return cls(live, stored.standing, stored.next_id, ended)

    def stood(self, at: int) -> list[Crossing]:
        """Return the live crossings that were unresolved after the cohorts up to an instant."""
        return [
            crossing for crossing in (*self.ended, *self.standing.values()) if crossing.stood(at)
        ]

    def standing_of(self, *, labels: bool) -> list[Crossing]:
        """Return the unresolved crossings of labelled metrics, or else of unlabelled ones."""
        standing = self.standing.items()
        return [
            crossing for key, crossing in standing if Stream.parse(key).metric.labelled is labels
        ]

    def cross(self, ages: Mapping[Stream, float], hour: int, change: StepChanges) -> None:
        """Open a crossing per stream, or refresh its unresolved one; record it in ``change``.

        Args:
            ages: the streams that crossed, each with the estimated days since its change.
            hour: the cohort's pane index.
            change: receives the changes.
        """
        for stream, age in ages.items():
            self._cross(stream, age, hour, change)

    def resolve(self, crossing: Crossing, at: int, change: StepChanges) -> None:
        """Resolve a crossing at an instant of event time; record it in ``change``."""
        change.resolved[crossing.id] = at
        self._end(crossing, at)

    def close(self, numbers: Collection[int], until: Callable[[Metric], int]) -> DetectionChange:
        """End the unresolved crossings with these ids; return their ends as a change.

        Args:
            numbers: ids of the crossings.
            until: returns the end of a metric's newest cohort.
        """
        closed = [crossing for crossing in self.standing.values() if crossing.id in numbers]
        ends = {crossing.id: until(Stream.parse(crossing.stream).metric) for crossing in closed}
        for crossing in closed:
            self._end(crossing, ends[crossing.id])
        return DetectionChange(resolved={number: ends[number] for number in sorted(ends)})

    def _cross(self, stream: Stream, age: float, hour: int, change: StepChanges) -> None:
        """Open a stream's crossing (in history, it ends at once), or refresh its open one."""
        at = pane_start(hour + 1, Grain.HOUR)
        if (crossing := self.standing.get(stream.key)) is not None:
            change.refresh(crossing, at)
            self.standing[stream.key] = replace(crossing, latest=at)
            return
        ended = None if self.live else at
        began = at - round(age * DAY)
        opened = Crossing(self.next_id, stream.key, hour, self.live, at, at, ended, began)
        self.next_id += 1
        change.opened[opened.id] = opened
        if ended is None:
            self.standing[stream.key] = opened

    def _end(self, crossing: Crossing, at: int) -> None:
        self.ended.append(replace(crossing, resolved_at=at))
        del self.standing[crossing.stream]
