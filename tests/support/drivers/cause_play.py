"""Plays a world with a planted cause to the shipped pages, and judges what is named then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, sqrt

from cause_worlds import HOURS, START, CauseWorld, Fault
from stage_counts import ready_counts, stage_counts

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import Counts, merge, parse_atom
from monitor.core.counts.rollup import SliceCounts, roll_up
from monitor.core.metric import Metric
from monitor.core.publish.annotations import Stage
from monitor.core.rates.estimates import estimate
from monitor.core.rates.gaps import gap, references
from monitor.detection.diagnosis.explain import Explanation, explain
from monitor.detection.diagnosis.stages import Passage, diverging_stages
from monitor.detection.pages.budget import Budget
from monitor.detection.pages.declared import DetectorSettings, all_streams
from monitor.detection.pages.page_tests import HourCohort, PageTests
from monitor.detection.pages.streams import BUDGET_DAYS, Direction, Stream

QUARTER = HOURS // 4

WINDOW = 7
"""Days before the first crossing that are looked at too."""

PATIENCE = 60
"""Days; a cause that has not paged by then is left out of the judgement."""

SECOND = 8
"""Days after the first page in which a second cause may cross."""

STAGES = {
    Fault.EVIDENCE: Stage.EVIDENCE,
    Fault.JUDGE: Stage.SCORE,
    Fault.THRESHOLD: Stage.THRESHOLD,
}


@dataclass(frozen=True)
class Paged:
    """A world that was played until after its pages.

    Attributes:
        world: which.
        cohorts: all that were consumed.
        crossed: position of the cohort, and stream, of every crossing of the world's metric.
        hours: of a cohort.
    """

    world: CauseWorld
    cohorts: Sequence[Counts]
    crossed: Sequence[tuple[int, Stream]]
    hours: int = 1

    @property
    def early(self) -> bool:
        """Whether something had paged before anything was wrong."""
        return any(at * self.hours < self.world.onset for at, _ in self.crossed)

    @property
    def first(self) -> int:
        """Position of the cohort that paged first."""
        return self.crossed[0][0]

    @property
    def day(self) -> int:
        """Cohorts in a day."""
        return HOURS // self.hours

    @property
    def days(self) -> float:
        """From the onset to the first page."""
        return ((self.first + 1) * self.hours - self.world.onset) / HOURS

    @property
    def all_crossed(self) -> bool:
        """Whether every slice that something was planted in has crossed itself."""
        return set(self.world.planted) <= {stream.slice for _, stream in self.crossed}

    @property
    def over(self) -> bool:
        """Whether all was seen: a day after the page; with two causes, after both or longer."""
        now = len(self.cohorts) - 1
        if self.early or not self.crossed:
            return self.early or now * self.hours >= self.world.onset + PATIENCE * HOURS
        one = len(self.world.planted) == 1
        wait = 1 if one or self.all_crossed else SECOND
        return now >= (self.first if one else self.crossed[-1][0]) + wait * self.day

    def panes(self, now: int) -> list[Counts]:
        """Quarters of the day until a cohort, and days before."""
        start, end = max(0, self.first - WINDOW * self.day), now + 1
        newest = max(start, end - self.day)
        days = range(newest, start, -self.day)
        quarters = range(newest, end, QUARTER // self.hours)
        edges = sorted({start, *days, *quarters, end})
        return [merge(self.cohorts[one:other]) for one, other in pairwise(edges)]

    def explanation(self, now: int) -> Explanation:
        """Of what has crossed by a cohort."""
        standing = [stream for at, stream in self.crossed if at <= now]
        world = self.world
        return explain(standing, world.contract, world.coding, self.panes(now), world.index)

    def named(self, now: int) -> set[str]:
        """The slices that are named as worse off at a cohort; a better one is named by a ``+``."""
        return {
            cause.slice + "+" * (cause.direction is Direction.REFERENCE_WORSE)
            for cause in self.explanation(now).causes
        }

    def stages(self, now: int) -> set[Stage]:
        """At which the named slices part from their complements, since the gap arose."""
        found = self.explanation(now)
        counts = merge(self.panes(now)[found.since :])
        return {stage(self.world, counts, cause.slice) for cause in found.causes}


def stage(world: CauseWorld, counts: Counts, slice_: str) -> Stage:
    """At which a slice and its complement part: of ready decisions, or of all for blocked ones."""
    rolled = roll_up(counts, world.index, tuple(parse_atom(slice_)))
    row = rolled.slices.index(slice_)
    sides = [
        SliceCounts((slice_,), side.strata, side.values[[row]])
        for side in (rolled, rolled.complements)
    ]
    if world.metric is Metric.BLOCKED:
        passed = [Passage.of_decisions(*stage_counts(x, world.coding.bands)) for x in sides]
    else:
        passed = [Passage.of_ready(*ready_counts(x, world.coding.bands)) for x in sides]
    (found,) = diverging_stages(*passed)
    return found.stage


def play(world: CauseWorld) -> Paged:
    """Feed hours to the shipped tests."""
    fleet = PageTests.start(DetectorSettings((world.contract,), world.coding))
    cohorts: list[Counts] = []
    crossed: list[tuple[int, Stream]] = []
    paged = Paged(world, cohorts, crossed)
    for hour, counts in enumerate(world.cohorts()):
        cohorts.append(counts)
        (found,) = fleet.advance([HourCohort(START + hour, counts)], world.index)
        crossed += [(hour, stream) for stream in found.crossed if stream.metric is world.metric]
        if paged.over:
            break
    return paged


def play_known_onset(world: CauseWorld) -> Paged:
    """A hundred times faster: by a test that knows when the fault began, looked at once a day.

    A stream crosses when its gap since then is as surely beyond the limit as a page needs: by the
    interval whose likelihood ratio is the page's threshold. With no fewer labels than a page.
    """
    world = replace(world, onset=world.onset // HOURS * HOURS)
    cohorts: list[Counts] = []
    crossed: list[tuple[int, Stream]] = []
    paged = Paged(world, cohorts, crossed, QUARTER)
    for at, counts in enumerate(world.cohorts(QUARTER)):
        cohorts.append(counts)
        if at % paged.day == paged.day - 1 and at * QUARTER > world.onset:
            since = merge(cohorts[world.onset // QUARTER :])
            known = {stream for _, stream in crossed}
            crossed += [(at, stream) for stream in _beyond(world, since) if stream not in known]
        if paged.over:
            break
    return paged


def _beyond(world: CauseWorld, counts: Counts) -> Iterator[Stream]:
    streams = all_streams((world.contract,), world.coding)
    weights = Budget().declare(streams).weights
    by_group: dict[str, list[Stream]] = {}
    for stream in streams:
        if stream.metric is world.metric:
            by_group.setdefault(stream.group_by, []).append(stream)
    for name, group in by_group.items():
        rolled = roll_up(counts, world.index, tuple(name.split("+")))
        needed = log(BUDGET_DAYS / weights[group[0].key])
        sides = (rolled, references(rolled, COMPLEMENT))
        rates = [estimate(side, world.coding, world.metric, sqrt(2 * needed)) for side in sides]
        bounds = gap(rates[0], rates[1])
        for stream in group:
            if stream.slice in rolled.slices:
                row = rolled.slices.index(stream.slice)
                worse = stream.direction is Direction.SLICE_WORSE
                if (bounds.lower[row] if worse else -bounds.upper[row]) > stream.limit:
                    yield stream


@dataclass(frozen=True)
class Judgement:
    """What was named in one world; None where nothing could be judged.

    Attributes:
        days: from the onset to the page; None if none came in time.
        page: whether what was named at the page was planted, and nothing else was named.
        day: the same a day later.
        both: whether two causes were both named at the end; None unless both had crossed.
        stage: whether the stage was right at the page; None unless one was planted.
        stage_day: the same a day later.
    """

    days: float | None = None
    page: bool | None = None
    day: bool | None = None
    both: bool | None = None
    stage: bool | None = None
    stage_day: bool | None = None


def judge(paged: Paged) -> Judgement:
    """Compare what was named with what was planted."""
    if paged.early or not paged.crossed:
        return Judgement()
    world, moments = paged.world, (paged.first, paged.first + paged.day)
    page, day = (_right(paged.named(now), world) for now in moments)
    stage = stage_day = None
    if world.fault in STAGES:
        stage, stage_day = (paged.stages(now) == {STAGES[world.fault]} for now in moments)
    both = None
    if len(world.planted) > 1 and paged.all_crossed:
        both = paged.named(len(paged.cohorts) - 1) == set(world.planted)
    return Judgement(paged.days, page, day, both, stage, stage_day)


def _right(named: set[str], world: CauseWorld) -> bool:
    """With two causes planted, what has crossed so far may be of one."""
    return bool(named) and named <= set(world.planted)
