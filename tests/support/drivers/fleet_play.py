"""Plays a world to rules that page, and judges every page by what was true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from fleet_rivals import Page, Rival, outcomes
from fleet_worlds import HOURS, Watch, World, WorldCohort

from monitor.core.counts.cells import Int64s


@dataclass(frozen=True, slots=True)
class Found:
    """A breach that was paged: what passed in its slice from the change to the page.

    Attributes:
        days: event days.
        labels: labels of the metric's class (labelled ready for a TPR).
        decisions: reviewed decisions.
    """

    days: float
    labels: int
    decisions: int


@dataclass(slots=True)
class Score:
    """What one rule did in one world; those of several seeds add up.

    Attributes:
        days: event days played.
        labels: labels of all slices and of the classes watched.
        false: pages while the contract had held in every hour since the stream's last page.
        breaches: streams in breach from the day of change.
        early: those that had paged before it: their delay says nothing, and is left out.
        found: pages of the rest, the first of each stream.
    """

    days: float = 0.0
    labels: int = 0
    false: int = 0
    breaches: int = 0
    early: int = 0
    found: list[Found] = field(default_factory=list)

    def __add__(self, other: Score) -> Score:
        return Score(
            self.days + other.days,
            self.labels + other.labels,
            self.false + other.false,
            self.breaches + other.breaches,
            self.early + other.early,
            self.found + other.found,
        )

    def quantile(self, what: str, share: float) -> float:
        """Of the delays; a breach that was not found is later than any; NaN if all were early."""
        watched = self.breaches - self.early
        if not watched:
            return float("nan")
        delays = sorted(getattr(one, what) for one in self.found)
        position = int(np.ceil(share * watched)) - 1
        return float(delays[position]) if position < len(delays) else float("inf")

    @property
    def share_found(self) -> float:
        """Of the breaches not paged early; NaN if all were."""
        watched = self.breaches - self.early
        return len(self.found) / watched if watched else float("nan")


class Truth:
    """What holds in a world, hour by hour."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._hours = {watch: _running(world.breaches(watch)) for watch in world.watches}

    def watch(self, page: Page) -> Watch:
        """The family a page belongs to."""
        wanted = (page.metric, page.kind, page.direction)
        (found,) = (w for w in self._hours if (w.metric, w.kind, w.direction) == wanted)
        return found

    def broken(self, watch: Watch, row: int, start: int, end: int) -> bool:
        """Whether a stream's contract was broken in any hour of start .. end - 1."""
        hours = self._hours[watch][:, row]
        return bool(hours[end] > hours[start])

    def changed(self) -> set[Page]:
        """Streams in breach from the hour of the change."""
        if self.world.change is None:
            return set()
        at = self.world.change * HOURS
        return {
            Page(row, watch.metric, watch.kind, watch.direction)
            for watch in self.world.watches
            for row in self.world.rows(watch)
            if self.broken(watch, row, at, at + 1)
        }


def _running(breaches: np.ndarray) -> Int64s:
    """Hours in breach before each hour, (H + 1, S)."""
    none = np.zeros((1, breaches.shape[1]), np.int64)
    total: Int64s = np.concatenate([none, breaches.cumsum(axis=0)])
    return total


class Referee:
    """Judges the pages of one rule."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._last: dict[Page, int] = {}
        self._open = truth.changed()
        self._change = (truth.world.change or 0) * HOURS
        self.score = Score(breaches=len(self._open))

    @property
    def done(self) -> bool:
        """Whether every breach was found, so that the rest of the world says nothing."""
        return self._truth.world.change is not None and not self._open

    def judge(self, pages: Iterable[Page], hour: int, tally: Tally) -> None:
        """Count the pages of one hour."""
        for page in pages:
            start = self._last.get(page, 0)
            self._last[page] = hour + 1
            watch = self._truth.watch(page)
            self.score.false += not self._truth.broken(watch, page.row, start, hour + 1)
            if page in self._open:
                self._open.remove(page)
                self._found(page, hour, tally)

    def _found(self, page: Page, hour: int, tally: Tally) -> None:
        if hour < self._change:
            self.score.early += 1
            return
        days = (hour + 1 - self._change) / HOURS
        labels, decisions = tally.since_change(page)
        self.score.found.append(Found(days, labels, decisions))


class Tally:
    """Labels and decisions of every slice, so far and since the change."""

    def __init__(self, world: World) -> None:
        metrics = {watch.metric for watch in world.watches if watch.metric.labelled}
        self._labels = {metric: np.zeros(world.size, np.int64) for metric in metrics}
        self._decisions = np.zeros(world.size, np.int64)
        self._change = (world.change or 0) * HOURS
        self._before = self._copy()

    def add(self, cohort: WorldCohort) -> None:
        """Count one hour."""
        if cohort.hour == self._change:
            self._before = self._copy()
        for metric in self._labels:
            self._labels[metric] += outcomes(cohort.counts, metric).sum(axis=1)
        self._decisions += cohort.counts.decisions.sum(axis=(1, 2, 3))

    @property
    def labels(self) -> int:
        """Of all slices, of every watched class."""
        return sum(int(labels.sum()) for labels in self._labels.values())

    def since_change(self, page: Page) -> tuple[int, int]:
        """Labels of the page's class and decisions, in its slice; blocked has no labels."""
        labels, decisions = self._before
        zeros = np.zeros_like(decisions)
        seen = self._labels.get(page.metric, zeros) - labels.get(page.metric, zeros)
        return int(seen[page.row]), int((self._decisions - decisions)[page.row])

    def _copy(self) -> tuple[dict[object, Int64s], Int64s]:
        return {m: x.copy() for m, x in self._labels.items()}, self._decisions.copy()


def play(world: World, rules: Mapping[str, Rival]) -> dict[str, Score]:
    """Feed a world to rules until its end, or until each has found all there is."""
    truth, tally = Truth(world), Tally(world)
    referees = {name: Referee(truth) for name in rules}
    for cohort in world.cohorts():
        tally.add(cohort)
        for name, rule in rules.items():
            referee = referees[name]
            if not referee.done:
                referee.judge(rule.advance(cohort), cohort.hour, tally)
                referee.score.days = (cohort.hour + 1) / HOURS
                referee.score.labels = tally.labels
    return {name: referee.score for name, referee in referees.items()}
