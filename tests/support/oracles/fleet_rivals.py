"""What others would page by, run on the same cohorts as the shipped rule, and counted leniently.

Every rule here is silent on a stream for seven days after it alarmed, windows look from their
first full week on, and river's detectors count only where a rate moves to the worse.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import NamedTuple, Protocol

import numpy as np
from fleet_worlds import HOURS, Watch, World, WorldCohort, harm_limit

from monitor.core.counts.cells import Int64s, Route
from monitor.core.intervals import Z95, Floats, divide, mover, wilson
from monitor.core.metric import Metric
from monitor.core.rates.effective import Trials, served_share
from monitor.core.rates.gaps import Bools
from monitor.detection.pages.cohort import SliceCohort
from monitor.detection.pages.streams import BUDGET_DAYS, Direction, StreamKind

WEEK = 7 * HOURS


class Page(NamedTuple):
    """One alarm."""

    row: int
    metric: Metric
    kind: StreamKind
    direction: Direction = Direction.SLICE_WORSE


class Rival(Protocol):
    """A rule that reads cohorts in order and pages."""

    def advance(self, cohort: WorldCohort) -> list[Page]:
        """Read one cohort; what it pages."""
        ...


class Silence:
    """Seven days without another alarm of the same stream."""

    def __init__(self, slices: int) -> None:
        self._until = np.zeros(slices, np.int64)

    def let_through(self, crossed: Bools, hour: int) -> list[int]:
        """Rows that crossed and are not silent; they are from now on."""
        rows = np.flatnonzero(crossed & (self._until <= hour))
        self._until[rows] = hour + WEEK
        return rows.tolist()


# Windows.


@dataclass(frozen=True, slots=True)
class Side:
    """Harmed share of the last seven days, (S,): misses for a TPR; n is its effective size."""

    point: Floats
    n: Floats


Rule = Callable[[Side, Side | None, float], Bools]
"""A slice, its reference (None: a level) and the limit, to where it pages; NaN never does."""


def point_rule(mine: Side, theirs: Side | None, limit: float) -> Bools:
    """The point is beyond the limit."""
    return mine.point - (theirs.point if theirs else 0) > limit


def wilson_rule(mine: Side, theirs: Side | None, limit: float) -> Bools:
    """The 95 % interval is beyond the limit; of a gap, MOVER of both intervals."""
    lower, upper = wilson(mine.point, mine.n, Z95)
    if theirs is None:
        return lower > limit
    other = wilson(theirs.point, theirs.n, Z95)
    return mover(mine.point, lower, upper, theirs.point, *other)[0] > limit


def z_rule(mine: Side, theirs: Side | None, limit: float, z: float) -> Bools:
    """The distance from the limit is above z standard errors."""
    distance, variance = mine.point - limit, _variance(mine)
    if theirs is not None:
        distance, variance = distance - theirs.point, variance + _variance(theirs)
    return distance > z * np.sqrt(variance)


def weekly_z(streams: int) -> float:
    """The z at which this many streams would page falsely once in 90 days, if looked at weekly."""
    return NormalDist().inv_cdf(1 - 7 / (BUDGET_DAYS * streams))


def _variance(side: Side) -> Floats:
    smooth = (side.point * side.n + 0.5) / (side.n + 1)
    return divide(smooth * (1 - smooth), side.n)


class Windowed:
    """A rule on the last seven days, looked at after every cohort."""

    def __init__(self, world: World, rule: Rule) -> None:
        self._world = world
        self._rule = rule
        self._kept: deque[SliceCohort] = deque()
        self._sum: SliceCohort | None = None
        self._silence = {watch: Silence(world.size) for watch in world.watches}
        self._has_stream = {watch: _mask(world, watch) for watch in world.watches}

    def advance(self, cohort: WorldCohort) -> list[Page]:
        """Add the hour, drop the one that is a week old, look at every stream."""
        self._slide(cohort.counts)
        if len(self._kept) < WEEK:
            return []
        sides = {metric: self._sides(metric) for metric in {w.metric for w in self._world.watches}}
        return [
            Page(row, watch.metric, watch.kind, watch.direction)
            for watch in self._world.watches
            for row in self._crossing(watch, *sides[watch.metric], cohort.hour)
        ]

    def _slide(self, counts: SliceCohort) -> None:
        self._kept.append(counts)
        self._sum = counts if self._sum is None else self._sum + counts
        if len(self._kept) > WEEK:
            self._sum = _minus(self._sum, self._kept.popleft())

    def _sides(self, metric: Metric) -> tuple[Side, Side]:
        assert self._sum is not None
        mine = side_of(self._sum, metric)
        if self._world.reference is None:
            return mine, side_of(self._sum.complements, metric)
        row = slice(self._world.reference, self._world.reference + 1)
        return mine, Side(mine.point[row], mine.n[row])

    def _crossing(self, watch: Watch, mine: Side, theirs: Side, hour: int) -> list[int]:
        sides = (mine, None if watch.kind is StreamKind.LEVEL else theirs)
        if watch.direction is Direction.REFERENCE_WORSE:
            sides = theirs, mine
        crossed = self._rule(*sides, harm_limit(watch)) & self._has_stream[watch]
        return self._silence[watch].let_through(crossed, hour)


def side_of(counts: SliceCohort, metric: Metric) -> Side:
    """The harmed share of every slice, right under sampled labels; NaN where there is none."""
    if metric is Metric.BLOCKED:
        n = counts.routed.sum(axis=1)
        return Side(divide(counts.routed[:, Route.BLOCKED_BY_EVIDENCE], n), n.astype(np.float64))
    decisions, labelled, ready = (
        np.moveaxis(x.sum(axis=-1), 0, -1).astype(np.float64)
        for x in (counts.decisions, counts.labelled, counts.ready)
    )
    hits = labelled - ready if metric is Metric.FPR else ready
    found = served_share(Trials(decisions, labelled, hits))
    served = 1 - found.value if metric.harmed_by_less else found.value
    return Side(served, found.support)


def _minus(total: SliceCohort, oldest: SliceCohort) -> SliceCohort:
    return SliceCohort(
        total.decisions - oldest.decisions,
        total.labelled - oldest.labelled,
        total.ready - oldest.ready,
        total.routed - oldest.routed,
        total.requested - oldest.requested,
        total.received - oldest.received,
    )


# River: change detectors on the labels as they are, blind to audit rates and to the contract.


class Drift(Protocol):
    """One detector of each slice."""

    def feed(self, hits: Int64s, trials: Int64s) -> Bools:
        """Feed the labels of an hour to each slice's detector; where it alarms to the worse."""
        ...


class Drifting:
    """River's detectors on each watched TPR (labelled ready) and FPR (labelled not ready)."""

    def __init__(self, world: World, made: Callable[[int, bool], Drift]) -> None:
        labelled = [watch for watch in world.watches if watch.metric.labelled]
        self._watches = {watch.metric: watch for watch in reversed(labelled)}
        self._rows = {metric: _mask(world, watch) for metric, watch in self._watches.items()}
        self._silence = {metric: Silence(world.size) for metric in self._watches}
        self._drift = {metric: made(world.size, metric.harmed_by_less) for metric in self._watches}

    def advance(self, cohort: WorldCohort) -> list[Page]:
        """Feed the hour's labels; a drift pages for the metric's first stream."""
        return [
            Page(row, metric, watch.kind)
            for metric, watch in self._watches.items()
            for row in self._alarms(metric, cohort)
        ]

    def _alarms(self, metric: Metric, cohort: WorldCohort) -> list[int]:
        auto, review = outcomes(cohort.counts, metric).T
        alarms = self._drift[metric].feed(auto, auto + review) & self._rows[metric]
        return self._silence[metric].let_through(alarms, cohort.hour)


def outcomes(counts: SliceCohort, metric: Metric) -> Int64s:
    """Labels of a metric's class by route, (S, 2): ready for a TPR, not ready for an FPR.

    For a precision all labels of what was served.
    """
    hits = counts.ready if metric is Metric.TPR else counts.labelled - counts.ready
    if metric is Metric.PRECISION:
        hits = counts.labelled * np.array([1, 0])[:, None, None]
    by_route: Int64s = hits.sum(axis=(2, 3))
    return by_route


def evenly(hits: int, trials: int) -> list[int]:
    """So many hits among the trials, evenly spaced.

    Example:
        >>> evenly(2, 5)
        [0, 0, 1, 0, 1]
    """
    return [(i + 1) * hits // trials - i * hits // trials for i in range(trials)]


class Adwin:
    """``river.drift.ADWIN()`` of each slice."""

    def __init__(self, slices: int, worse_is_lower: bool) -> None:
        from river.drift import ADWIN

        self._detectors = [ADWIN() for _ in range(slices)]
        self._sign = -1 if worse_is_lower else 1

    def feed(self, hits: Int64s, trials: Int64s) -> Bools:
        """See :class:`Drift`; the way is read from the estimates before and after."""
        alarms = np.zeros(len(hits), np.bool_)
        for row in np.flatnonzero(trials):
            detector = self._detectors[row]
            before = detector.estimation
            for x in evenly(int(hits[row]), int(trials[row])):
                detector.update(x)
                if detector.drift_detected:
                    alarms[row] |= self._sign * (detector.estimation - before) > 0
        return alarms


class PageHinkley:
    """``river.drift.PageHinkley()`` of each slice in the mode of the worse side, in arrays.

    Its parameters are river's defaults; ``tests/unit/detection/pages/test_page_tests_worlds.py``
    holds it to river.
    """

    MIN_INSTANCES, DELTA, THRESHOLD, ALPHA = 30, 0.005, 50.0, 0.9999

    def __init__(self, slices: int, worse_is_lower: bool) -> None:
        self._sign = -1 if worse_is_lower else 1
        self._n, self._mean, self._sum, self._least = np.zeros((4, slices))

    def feed(self, hits: Int64s, trials: Int64s) -> Bools:
        """See :class:`Drift`."""
        alarms = np.zeros(len(hits), np.bool_)
        for i in range(int(trials.max(initial=0))):
            fed = i < trials
            many = np.maximum(trials, 1)
            x = (i + 1) * hits // many - i * hits // many
            alarms |= self._update(x.astype(np.float64), fed)
        return alarms

    def _update(self, x: Floats, fed: Bools) -> Bools:
        self._n[fed] += 1
        self._mean[fed] += (x - self._mean)[fed] / self._n[fed]
        # A fall is a rise of the negative: one side in one form.
        step = self._sign * (x - self._mean) - self.DELTA
        self._sum[fed] = (self.ALPHA * self._sum + step)[fed]
        self._least[fed] = np.minimum(self._least, self._sum)[fed]
        beyond = (self._sum - self._least > self.THRESHOLD) & (self._n >= self.MIN_INSTANCES) & fed
        for state in (self._n, self._mean, self._sum, self._least):
            state[beyond] = 0
        return beyond


def rivals(world: World) -> dict[str, Rival]:
    """Every rival of a world, by the name it is printed by."""
    streams = sum(len(world.rows(watch)) for watch in world.watches)
    z = weekly_z(streams)
    return {
        "river ADWIN": Drifting(world, Adwin),
        "river PageHinkley": Drifting(world, PageHinkley),
        "point threshold": Windowed(world, point_rule),
        "Wilson threshold": Windowed(world, wilson_rule),
        "windowed z": Windowed(world, partial(z_rule, z=z)),
    }


def _mask(world: World, watch: Watch) -> Bools:
    mask = np.zeros(world.size, np.bool_)
    mask[world.rows(watch)] = True
    return mask
