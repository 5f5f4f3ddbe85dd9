"""Crossings between cycles: opened, refreshed, resolved once a day, or closed by people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from monitor.core.contract import Metric
from monitor.core.time import Grain, pane_start
from monitor.detection.pages.streams import Stream
from monitor.store.evaluator.stored_detection import (
    Crossing,
    DetectionChange,
    FrozenCohort,
    StoredDetection,
)


@dataclass(slots=True)
class Changing:
    """Changes that a step has made so far.

    Attributes:
        cohorts: whose turn has come with their labels.
        closed: whose turn has come for what needs none.
        resolved: when crossings were resolved, by id.
        refreshed: the last crossing of unresolved ones, by id.
        opened: new crossings, by id.
        listed: the weekly list; None where no week has ended.
    """

    cohorts: list[FrozenCohort] = field(default_factory=list)
    closed: list[FrozenCohort] = field(default_factory=list)
    resolved: dict[int, int] = field(default_factory=dict)
    refreshed: dict[int, int] = field(default_factory=dict)
    opened: dict[int, Crossing] = field(default_factory=dict)
    listed: tuple[Stream, ...] | None = None

    def refresh(self, one: Crossing, at: int) -> None:
        """A crossing that was opened in this step is not in the store yet."""
        if one.id in self.opened:
            self.opened[one.id] = replace(one, latest=at)
        else:
            self.refreshed[one.id] = at


@dataclass(slots=True)
class Crossings:
    """Every crossing that is kept; always equal to what the store holds.

    Attributes:
        live: whether what crosses now may page; what is loaded in bulk never does.
        standing: those that are not resolved, by stream key.
        next_id: of the next one.
        ended: those that are resolved.
    """

    live: bool
    standing: dict[str, Crossing] = field(default_factory=dict)
    next_id: int = 1
    ended: list[Crossing] = field(default_factory=list)

    @classmethod
    def load(cls, stored: StoredDetection, *, live: bool) -> Self:
        """As they were committed last."""
        ended = [one for one in stored.crossings if one.resolved_at is not None]
        return cls(live, stored.standing, stored.next_id, ended)

    def stood(self, at: int) -> list[Crossing]:
        """Those unresolved after the cohorts up to an instant, which all had their turn."""
        return [one for one in (*self.ended, *self.standing.values()) if one.stood(at)]

    def standing_of(self, *, labels: bool) -> list[Crossing]:
        """Unresolved ones of metrics that rest on labels, or of those that do not."""
        known = self.standing.items()
        return [one for key, one in known if Stream.parse(key).metric.labelled is labels]

    def cross(self, streams: Sequence[Stream], hour: int, change: Changing) -> None:
        """Open crossings, or note that unresolved ones have crossed again."""
        for stream in streams:
            self._cross(stream, hour, change)

    def resolve(self, one: Crossing, at: int, change: Changing) -> None:
        """End a crossing."""
        change.resolved[one.id] = at
        self._end(one, at)

    def close(self, numbers: Collection[int], until: Callable[[Metric], int]) -> DetectionChange:
        """End crossings whose incident people have closed; they may cross again.

        Args:
            numbers: ids.
            until: end of the newest cohort, by metric.
        """
        gone = [one for one in self.standing.values() if one.id in numbers]
        ends = {one.id: until(Stream.parse(one.stream).metric) for one in gone}
        for one in gone:
            self._end(one, ends[one.id])
        return DetectionChange(resolved={number: ends[number] for number in sorted(ends)})

    def _cross(self, stream: Stream, hour: int, change: Changing) -> None:
        at = pane_start(hour + 1, Grain.HOUR)
        if (known := self.standing.get(stream.key)) is not None:
            change.refresh(known, at)
            self.standing[stream.key] = replace(known, latest=at)
            return
        ended = None if self.live else at
        one = Crossing(self.next_id, stream.key, hour, self.live, at, at, ended)
        self.next_id += 1
        change.opened[one.id] = one
        if ended is None:
            self.standing[stream.key] = one

    def _end(self, one: Crossing, at: int) -> None:
        self.ended.append(replace(one, resolved_at=at))
        del self.standing[one.stream]
