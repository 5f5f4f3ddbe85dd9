"""Worlds for the detection benchmark: hourly cohorts of one group-by, drawn from known rates.

A slice is a mixture of classes of requests; each class has a ready rate, a TPR, an FPR and score
bands of its own. Counts are Poisson in every cell, so that hours, slices and cells are independent
and what is drawn follows the rates exactly. ``catalogue()`` lists the worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import Int64s
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.core.rates.gaps import Bools
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.streams import Direction, Stream, StreamKind

HOURS = 24
CONTRACT, GROUP_BY = "bench", "slice"
FLOOR, CEILING, GAP = Fraction("0.80"), Fraction("0.20"), Fraction("0.10")
"""Limits of the contract: smallest TPR, largest FPR, largest gap of each metric."""
RATIO = Fraction("0.80")
"""Smallest ratio of two selection rates."""

_SLACK = 1e-9
"""A rate that equals its limit but for rounding holds it."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A family of streams: the same comparison of every slice.

    Attributes:
        metric: TPR, FPR, BLOCKED, SELECTION or PRECISION.
        kind: a gap or a ratio to the reference, or a level.
        limit: inclusive.
        direction: who would be worse off; SLICE_WORSE for a level.
    """

    metric: Metric
    kind: StreamKind
    limit: Fraction
    direction: Direction = Direction.SLICE_WORSE


def gaps(*metrics: Metric) -> tuple[Watch, ...]:
    """Both directions of the gaps of these metrics."""
    return tuple(Watch(metric, StreamKind.GAP, GAP, way) for metric in metrics for way in Direction)


RATIOS = tuple(Watch(Metric.SELECTION, StreamKind.RATIO, RATIO, way) for way in Direction)
LEVELS = (Watch(Metric.TPR, StreamKind.LEVEL, FLOOR), Watch(Metric.FPR, StreamKind.LEVEL, CEILING))
EVERYTHING = (*gaps(Metric.TPR, Metric.FPR, Metric.BLOCKED), *LEVELS)


@dataclass(frozen=True, slots=True)
class Population:
    """Who asks and what the router does with it, at T instants.

    Attributes:
        share: of the classes in each slice, shape (T, S, C), sums to 1 over C.
        ready: P(ready), the same shape.
        tpr: P(auto_serve | ready), the same shape.
        fpr: P(auto_serve | not ready), the same shape.
        blocked: P(blocked_by_evidence), shape (T, S).
    """

    share: Floats
    ready: Floats
    tpr: Floats
    fpr: Floats
    blocked: Floats

    def cells(self, profile: Floats) -> Floats:
        """P(route, band, ready) of a reviewed decision, shape (T, S, 2, B, 2).

        Args:
            profile: P(band | class, ready), shape (C, 2, B).
        """
        outcome = np.stack([1 - self.ready, self.ready], axis=-1) * self.share[..., None]
        auto = np.stack([self.fpr, self.tpr], axis=-1)
        routed = np.stack([outcome * auto, outcome * (1 - auto)])
        cells: Floats = np.einsum("rtscy,cyb->tsrby", routed, profile)
        return cells


Path = Callable[[Floats], Population]
"""Days since the start, shape (T,), to the population then."""


@dataclass(frozen=True, slots=True)
class Audits:
    """Which decisions get a label.

    Attributes:
        rates: audit rates, decreasing, shape (R,).
        mix: share of a route's decisions at each rate, shape (S, 2, R).
        present: share of the labels asked for that are in when the cohort is released, (S, 2).
        lost: the same from the day ``lost_from`` on.
        lost_from: first day of another response; None where it never changes.
    """

    rates: Floats
    mix: Floats
    present: Floats
    lost: Floats | None = None
    lost_from: int | None = None

    @classmethod
    def of(cls, slices: int, auto: float = 1.0, review: float = 1.0) -> Audits:
        """One rate for each route, everything in at release."""
        rates = np.array(sorted({auto, review}, reverse=True))
        mix = np.array([rates == auto, rates == review], np.float64)
        return cls(rates, np.tile(mix, (slices, 1, 1)), np.ones((slices, 2)))

    def late(self, share: float, rows: slice) -> Audits:
        """A share of the audits of auto_serve in some slices is missing at release."""
        present = self.present.copy()
        present[rows, 0] = 1 - share
        return replace(self, present=present)

    def losing(self, day: int, row: int, share: float, routes: slice = slice(1)) -> Audits:
        """From a day on a slice loses a share of its labels: of auto_serve, if not said else."""
        lost = (self.present if self.lost is None else self.lost).copy()
        lost[row, routes] = 1 - share
        return replace(self, lost=lost, lost_from=day)

    def outcomes(self, day: int) -> Floats:
        """P(not asked for), P(asked for and not in), P(in) of a label, shape (S, 2, R, 3)."""
        lost = self.lost if self.lost_from is not None and day >= self.lost_from else None
        present = (self.present if lost is None else lost)[:, :, None]
        rates = np.broadcast_to(self.rates, (*present.shape[:2], len(self.rates)))
        return np.stack([1 - rates, rates * (1 - present), rates * present], axis=-1)


@dataclass(frozen=True, slots=True)
class WorldCohort:
    """The decisions of one hour, as they are released.

    Attributes:
        hour: of the decisions, from 0.
        counts: what the labels said.
        new_version: a change of version is annotated at this hour.
    """

    hour: int
    counts: SliceCohort
    new_version: bool


@dataclass(frozen=True, slots=True)
class World:
    """One world: a contract, and what happens under it.

    Attributes:
        name: as printed.
        days: how long it lasts.
        path: the population over time.
        hourly: reviewed decisions an hour, shape (S,); the mean of a day.
        audits: which are labelled.
        watches: the streams.
        reference: row of the reference slice; None is the complement.
        profile: P(band | class, ready), shape (C, 2, B).
        change: day from which something is in breach; None where nothing ever is.
        version_days: a version change is annotated so often; 0 is never.
        seed: of the draws.
        busy: how busy each hour of a day is, shape (24, S), 1 on average; None is always the same.
    """

    name: str
    days: int
    path: Path
    hourly: Floats
    audits: Audits
    watches: tuple[Watch, ...]
    reference: int | None
    profile: Floats
    change: int | None = None
    version_days: int = 0
    seed: tuple[int, ...] = (0,)
    busy: Floats | None = None

    @property
    def size(self) -> int:
        """Number of slices."""
        return len(self.hourly)

    @property
    def layout(self) -> Layout:
        """The axes of the cohorts."""
        rates = self.audits.rates
        return Layout(tuple(range(len(rates))), rates, self.profile.shape[2])

    @property
    def slices(self) -> tuple[str, ...]:
        """Texts of the rows, sorted."""
        return tuple(f"{GROUP_BY}={row:04d}" for row in range(self.size))

    def rows(self, watch: Watch) -> list[int]:
        """Rows that have a stream: a named reference is not compared with itself."""
        named = watch.kind is not StreamKind.LEVEL and self.reference is not None
        return [row for row in range(self.size) if not (named and row == self.reference)]

    def stream(self, watch: Watch, row: int) -> Stream:
        """One declared stream."""
        reference = COMPLEMENT if self.reference is None else self.slices[self.reference]
        return Stream(
            contract=CONTRACT,
            group_by=GROUP_BY,
            metric=watch.metric,
            kind=watch.kind,
            slice=self.slices[row],
            reference="" if watch.kind is StreamKind.LEVEL else reference,
            direction=watch.direction,
            limit=watch.limit,
        )

    def traffic(self, hours: Int64s) -> Floats:
        """Reviewed decisions in each of these hours, shape (T, S)."""
        if self.busy is None:
            return np.broadcast_to(self.hourly, (len(hours), self.size))
        traffic: Floats = self.busy[hours % HOURS] * self.hourly
        return traffic

    def cohorts(self) -> Iterator[WorldCohort]:
        """Every hour in order; the same draws each time."""
        rng = np.random.default_rng(self.seed)
        for day in range(self.days):
            drawn, blocked = self._draw(rng, day)
            for i in range(HOURS):
                hour = day * HOURS + i
                counts = _cohort(drawn[i], blocked[i])
                yield WorldCohort(hour, counts, self._changes_version(hour))

    def harm(self, metric: Metric) -> tuple[Floats, Floats]:
        """True rate of every hour and slice, and of its reference, higher is worse, (H, S)."""
        hours = np.arange(self.days * HOURS)
        hits, trials = _expected(self.path(hours / HOURS), metric)
        traffic = self.traffic(hours)
        weight = trials * traffic
        if self.reference is not None:
            row = slice(self.reference, self.reference + 1)
            return hits / trials, np.broadcast_to((hits / trials)[:, row], hits.shape)
        others = weight.sum(axis=1, keepdims=True) - weight
        total = hits * traffic
        rest = total.sum(axis=1, keepdims=True) - total
        return hits / trials, rest / np.where(others > 0, others, np.nan)

    def breaches(self, watch: Watch) -> Bools:
        """Where the contract does not hold, by hour and slice, (H, S)."""
        mine, theirs = self.harm(watch.metric)
        if watch.kind is StreamKind.LEVEL:
            return mine > harm_limit(watch) + _SLACK
        worse, better = (
            (mine, theirs) if watch.direction is Direction.SLICE_WORSE else (theirs, mine)
        )
        if watch.kind is StreamKind.RATIO:  # of the rates of those that are served, 1 - harm
            beyond = 1 - worse < harm_limit(watch) * (1 - better) - _SLACK
        else:
            beyond = worse - better > harm_limit(watch) + _SLACK
        beyond[:, np.setdiff1d(np.arange(self.size), self.rows(watch))] = False
        return beyond

    def _changes_version(self, hour: int) -> bool:
        return bool(self.version_days and hour and hour % (self.version_days * HOURS) == 0)

    def _draw(self, rng: np.random.Generator, day: int) -> tuple[Int64s, Int64s]:
        """Counts of (T, S, route, rate, band, ready, label), and blocked (T, S)."""
        population = self.path(day + np.arange(HOURS) / HOURS)
        traffic = self.traffic(np.arange(HOURS))
        labelled = self.audits.outcomes(day)
        mean = np.einsum(
            "ts,tsrby,srq,srql->tsrqbyl",
            *(traffic, population.cells(self.profile), self.audits.mix, labelled),
            optimize=True,
        )
        odds = population.blocked / (1 - population.blocked)
        return rng.poisson(mean), rng.poisson(traffic * odds)


def harm_limit(watch: Watch) -> float:
    """The limit of a rate that counts harm: a floor c of the TPR is a ceiling 1 - c of misses."""
    level = watch.kind is StreamKind.LEVEL and watch.metric.harmed_by_less
    return float(1 - watch.limit if level else watch.limit)


def _cohort(drawn: Int64s, blocked: Int64s) -> SliceCohort:
    decisions = drawn.sum(axis=(-1, -2))
    by_route = decisions.sum(axis=(-1, -2))
    return SliceCohort(
        decisions=decisions,
        labelled=drawn[..., 2].sum(axis=-1),
        ready=drawn[..., 1, 2],
        routed=np.concatenate([by_route, blocked[:, None]], axis=1),
        requested=drawn[..., 1:].sum(axis=(2, 3, 4, 5)),
        received=drawn[..., 2].sum(axis=(2, 3, 4)),
    )


def _expected(population: Population, metric: Metric) -> tuple[Floats, Floats]:
    """Expected harmed ones, and trials, of one reviewed decision: (T, S) each."""
    if metric is Metric.BLOCKED:
        reviewed = 1 - population.blocked
        return population.blocked / reviewed, 1 / reviewed
    served = population.ready * population.tpr, (1 - population.ready) * population.fpr
    if metric is Metric.SELECTION:
        selected = (population.share * sum(served)).sum(axis=-1)
        every = 1 / (1 - population.blocked)
        return every - selected, every
    if metric is Metric.PRECISION:
        ready, not_ready = ((population.share * one).sum(axis=-1) for one in served)
        return not_ready, ready + not_ready
    tpr = metric is Metric.TPR
    trials = population.share * (population.ready if tpr else 1 - population.ready)
    harmed = 1 - population.tpr if tpr else population.fpr
    return (trials * harmed).sum(axis=-1), trials.sum(axis=-1)
