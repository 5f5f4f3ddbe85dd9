"""The worlds of the detection benchmark: nothing wrong, a gap that opens, a level that drops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from fleet_worlds import (
    EVERYTHING,
    HOURS,
    LEVELS,
    RATIOS,
    Audits,
    Path,
    Population,
    Watch,
    World,
    gaps,
)

from monitor.core.intervals import Floats
from monitor.core.metric import Metric

READY = 0.6
ONE_BAND = np.ones((1, 2, 1))
TWO_BANDS = np.array([[[0.7, 0.3], [0.3, 0.7]]])  # not ready scores low, ready scores high
BAND_OF_CLASS = np.array([np.tile([1.0, 0.0], (2, 1)), np.tile([0.0, 1.0], (2, 1))])

TPR_GAPS = gaps(Metric.TPR)
ALL_GAPS = gaps(Metric.TPR, Metric.FPR, Metric.BLOCKED)
LABELLED = (*gaps(Metric.TPR, Metric.FPR), *LEVELS)
FLOOR_ONLY = LEVELS[:1]
STANDING_GAPS = (0.13, 0.15, 0.20, 0.30)
RELEASED_GAP = 0.15
"""The gap that weekly releases must not slow down."""

DROPS = (0.05, 0.10, 0.20)
LATE = (0.05, 0.10, 0.30)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run.

    Attributes:
        huge: slices of the largest fleet.
        large: slices of a large one.
        fleet: slices of the others.
        calm: days of a world without a breach.
        calm_huge: of the largest one.
        calm_alone: times a fleet of one slice is run.
        before: days before a breach.
        after: days it is watched.
        standing: days that a breach stands which must not be taken for over.
        few: slices of a fleet with gaps. All share one reference and with it its noise: many
            small fleets tell more than a large one.
        repeats: times each gap is run.
        drops: times each drop of a level is run.
        alone: times one with a single comparison is run.
    """

    huge: int = 1_000
    large: int = 100
    fleet: int = 40
    calm: int = 60
    calm_huge: int = 30
    calm_alone: int = 8
    before: int = 10
    after: int = 60
    standing: int = 60
    few: int = 10
    repeats: int = 8
    drops: int = 5
    alone: int = 40


QUICK = Sizes(
    huge=200,
    large=20,
    fleet=10,
    calm=21,
    calm_huge=14,
    calm_alone=2,
    before=8,
    after=30,
    standing=30,
    few=5,
    repeats=2,
    drops=2,
    alone=5,
)


@dataclass(frozen=True, slots=True)
class Rates:
    """Constant rates of a slice."""

    tpr: float
    fpr: float
    blocked: float = 0.05


AT_LIMIT = Rates(0.80, 0.20, 0.15)
BEST = Rates(0.90, 0.10, 0.05)
"""Against these, the gap of :data:`AT_LIMIT` is exactly 0.10 in every metric."""


def steady(rows: Sequence[Rates]) -> Path:
    """The same population for ever, one row a slice."""
    tpr, fpr, blocked = np.array([[one.tpr, one.fpr, one.blocked] for one in rows]).T

    def path(days: Floats) -> Population:
        shape = (len(days), len(rows), 1)
        return Population(
            share=np.ones(shape),
            ready=np.full(shape, READY),
            tpr=np.broadcast_to(tpr[:, None], shape),
            fpr=np.broadcast_to(fpr[:, None], shape),
            blocked=np.broadcast_to(blocked, shape[:2]),
        )

    return path


def shifted(path: Path, shift: Callable[[Floats], Floats]) -> Path:
    """All TPRs move up by a common shift of the day, and all FPRs down."""

    def moved(days: Floats) -> Population:
        by = shift(days)[:, None, None]
        now = path(days)
        return replace(now, tpr=now.tpr + by, fpr=now.fpr - by)

    return moved


def changing(before: Path, after: Path, day: int) -> Path:
    """One population until a day, another from it on."""

    def path(days: Floats) -> Population:
        old, new = before(days), after(days)
        late = days >= day
        parts = zip(_arrays(old), _arrays(new), strict=True)
        return Population(
            *(np.where(late.reshape(-1, *[1] * (x.ndim - 1)), y, x) for x, y in parts)
        )

    return path


def mixing(slices: int) -> Path:
    """Easy and hard requests, TPR 0.95 and 0.75, whose shares swing over two weeks."""

    def path(days: Floats) -> Population:
        easy = 0.55 + 0.30 * np.sin(2 * np.pi * days / 14)
        shape = (len(days), slices, 2)
        share = np.broadcast_to(np.stack([easy, 1 - easy], axis=-1)[:, None], shape)
        tpr = np.broadcast_to([0.95, 0.75], shape)
        ready, fpr = np.full(shape, READY), np.full(shape, 0.15)
        return Population(share, ready, tpr, fpr, np.full(shape[:2], 0.05))

    return path


def nulls(sizes: Sizes) -> list[World]:
    """Worlds in which the contract always holds, most of them exactly."""
    n, days = sizes.fleet, sizes.calm
    at_limit = steady(_fleet(BEST, AT_LIMIT, n))
    swinging = steady(_fleet(Rates(0.85, 0.15), Rates(0.75, 0.25, 0.15), n))
    base = _world("", days, at_limit, _traffic(n), Audits.of(n, 0.05), EVERYTHING)
    flat = replace(base, audits=Audits.of(n, 0.2, 0.2))
    worlds = [
        replace(
            flat,
            name="flat, 1 slice",
            path=steady([AT_LIMIT]),
            hourly=_traffic(1),
            audits=Audits.of(1, 0.2, 0.2),
            watches=LEVELS,
            reference=None,
        ),
        _sized(flat, sizes.large, days),
        replace(_sized(flat, sizes.huge, sizes.calm_huge), hourly=_traffic(sizes.huge) / 4),
        replace(
            flat,
            name="comfortable",
            path=steady(_fleet(Rates(0.93, 0.07), Rates(0.90, 0.10, 0.08), n)),
        ),
        replace(
            flat,
            name="against the complement",
            path=steady(_fleet(AT_LIMIT, BEST, n)),
            reference=None,
        ),
        replace(
            flat,
            name="seasonal common swing",
            path=shifted(swinging, lambda day: 0.10 * np.sin(2 * np.pi * day / 7)),
            watches=ALL_GAPS,
        ),
        # Slices are busy at different hours, and in some of them all are served less.
        replace(
            flat,
            name="swing within a day, unequal hours",
            path=shifted(swinging, lambda day: 0.10 * np.sin(2 * np.pi * day)),
            busy=_busy(n),
            watches=ALL_GAPS,
        ),
        replace(flat, name="mix shift", path=mixing(n), profile=BAND_OF_CLASS),
        replace(base, name="audits 5 %, review 100 %"),
        replace(base, name="two audit rates", audits=_two_rates(n)),
        *(
            replace(
                base,
                name=f"{late:.0%} of one slice's audits late",
                audits=base.audits.late(late, slice(1, 2)),
            )
            for late in LATE
        ),
        # Released when 95 % of the audits are in: those of human_review all are by then.
        replace(base, name="labels delayed by route", audits=base.audits.late(0.05, slice(None))),
        replace(
            base,
            name="a version every 7 days",
            path=shifted(at_limit, _weekly_levels),
            version_days=7,
        ),
        replace(
            base,
            name=f"a slice loses all audits on day {days // 3}",
            audits=base.audits.losing(days // 3, 1, 1.0),
        ),
        replace(
            base,
            name=f"two slices lose 40 % of theirs on day {days // 3}",
            audits=base.audits.losing(days // 3, 1, 0.4).losing(days // 3, 2, 0.4),
        ),
    ]
    return [
        again
        for i, world in enumerate(worlds)
        for again in _repeated(replace(world, seed=(i,)), sizes.calm_alone if i == 0 else 1)
    ]


def standing_gaps(sizes: Sizes) -> list[World]:
    """TPR gaps of 0.03 that open on one day, under 5 % audits; 0.15 also with weekly versions."""
    n, times = sizes.few, sizes.repeats
    worlds = [
        *(_gap(sizes, gap, n) for gap in STANDING_GAPS),
        released(_gap(sizes, RELEASED_GAP, n)),
    ]
    pair, huge = (_gap(sizes, 0.20, slices) for slices in (2, sizes.huge))
    return [
        *(again for world in worlds for again in _repeated(world, times)),
        *_repeated(replace(pair, name="gap 0.20, 1 slice"), sizes.alone),
        replace(huge, name=f"gap 0.20, {sizes.huge:,} slices"),
    ]


def released(world: World) -> World:
    """The very same draws with a version change annotated every seven days."""
    return replace(world, name=f"{world.name}, weekly versions", version_days=7)


def dropping_levels(sizes: Sizes) -> list[World]:
    """TPRs exactly at the floor that drop on one day; everything labelled, then 5 % audits."""
    return [
        again
        for audited in (False, True)
        for drop in DROPS
        for again in _repeated(_drop(sizes, drop, audited), sizes.drops)
    ]


def standing_breaches(sizes: Sizes) -> list[World]:
    """Gaps in breach from the first day to the last, 100 + 100 labelled positives a day."""
    n = sizes.few
    hourly = np.full(n, 100 / READY / HOURS)
    worlds = [
        replace(
            _world("", sizes.standing, _opened(gap, n), hourly, Audits.of(n), TPR_GAPS),
            name=f"standing gap {gap:.2f}",
            profile=ONE_BAND,
            change=0,
            seed=(300 + round(100 * gap),),
        )
        for gap in STANDING_GAPS[:3]
    ]
    return [again for world in worlds for again in _repeated(world, sizes.repeats)]


@dataclass(frozen=True, slots=True)
class Limited:
    """A limit beyond those of TPR and FPR: who exactly keeps it, and who breaches it, against BEST.

    Attributes:
        name: as printed.
        watches: its streams.
        kept: at the limit.
        broken: beyond it.
        what: the breach, as printed.
    """

    name: str
    watches: tuple[Watch, ...]
    kept: Rates
    broken: Rates
    what: str


def _served(share: float) -> Rates:
    """A slice that is served this part as often as BEST, by a lower TPR."""
    of_best = READY * BEST.tpr + (1 - READY) * BEST.fpr
    return replace(BEST, tpr=(share * of_best - (1 - READY) * BEST.fpr) / READY)


def _precise(precision: float) -> Rates:
    """A slice with this precision, by a higher FPR."""
    return replace(BEST, fpr=READY * BEST.tpr * (1 / precision - 1) / (1 - READY))


_SELECTED = (1 - BEST.blocked) * (READY * BEST.tpr + (1 - READY) * BEST.fpr)
_PRECISION = READY * BEST.tpr / (READY * BEST.tpr + (1 - READY) * BEST.fpr)
LIMITED = (
    Limited(
        "selection gap",
        gaps(Metric.SELECTION),
        _served(1 - 0.10 / _SELECTED),
        _served(1 - 0.20 / _SELECTED),
        "0.20",
    ),
    Limited("selection ratio", RATIOS, _served(0.80), _served(0.65), "0.65"),
    Limited(
        "precision gap",
        gaps(Metric.PRECISION),
        _precise(_PRECISION - 0.10),
        _precise(_PRECISION - 0.20),
        "0.20",
    ),
    Limited(
        "blocked gap",
        gaps(Metric.BLOCKED),
        replace(BEST, blocked=BEST.blocked + 0.10),
        replace(BEST, blocked=BEST.blocked + 0.20),
        "0.20",
    ),
)


def limits_kept(sizes: Sizes) -> list[World]:
    """Fleets exactly at each of the further limits, under 5 % audits; selection also in a swing.

    In the swing all slices are served more and less often within the day, and are busy at
    different hours of it.
    """
    worlds = [
        _limited(one, f"{one.name} at its limit", steady(_fleet(BEST, one.kept, sizes.few)), sizes)
        for one in LIMITED
    ]
    swing = replace(
        worlds[0],
        name="selection gap, swing within a day",
        path=_swinging_share(worlds[0].path),
        busy=_busy(sizes.few),
    )
    seeded = [replace(world, seed=(500 + i,)) for i, world in enumerate((*worlds, swing))]
    return [again for world in seeded for again in _repeated(world, sizes.calm_alone)]


def limits_broken(sizes: Sizes) -> list[World]:
    """Fleets at no gap until one day, and beyond each of the further limits from it on."""
    worlds = [
        replace(
            _limited(
                one,
                f"{one.name} {one.what}",
                changing(
                    steady([BEST] * sizes.few),
                    steady(_fleet(BEST, one.broken, sizes.few)),
                    sizes.before,
                ),
                sizes,
            ),
            days=sizes.before + sizes.after,
            change=sizes.before,
            seed=(600 + i,),
        )
        for i, one in enumerate(LIMITED)
    ]
    return [again for world in worlds for again in _repeated(world, sizes.repeats)]


def _limited(one: Limited, name: str, path: Path, sizes: Sizes) -> World:
    n = sizes.few
    return _world(name, sizes.calm, path, _traffic(n), Audits.of(n, 0.05), one.watches)


def _swinging_share(path: Path) -> Path:
    """The same with all TPRs and FPRs moved by a common swing of the day: so is selection."""

    def moved(days: Floats) -> Population:
        now, by = path(days), 0.08 * np.sin(2 * np.pi * days)[:, None, None]
        return replace(now, tpr=now.tpr + by, fpr=now.fpr + by)

    return moved


def part_in_breach(sizes: Sizes) -> World:
    """A fifth of the slices below the floor from the first day on, the others exactly at it."""
    n = sizes.fleet
    low = [Rates(0.70, 0.20) if row % 5 == 0 else Rates(0.80, 0.20) for row in range(n)]
    world = _world(
        "a fifth in breach", sizes.calm, steady(low), _traffic(n), Audits.of(n, 0.05), LABELLED
    )
    return replace(world, reference=None, change=0, seed=(400,))


def _repeated(world: World, times: int) -> list[World]:
    return [replace(world, seed=(*world.seed, i)) for i in range(times)]


def _gap(sizes: Sizes, gap: float, slices: int) -> World:
    path = changing(_opened(0.03, slices), _opened(gap, slices), sizes.before)
    world = _world(
        f"gap {gap:.2f}",
        sizes.before + sizes.after,
        path,
        _traffic(slices),
        Audits.of(slices, 0.05),
        TPR_GAPS,
    )
    return replace(world, change=sizes.before, seed=(100 + round(100 * gap), slices))


def _opened(gap: float, slices: int) -> Path:
    return steady(_fleet(BEST, Rates(round(BEST.tpr - gap, 2), 0.10), slices))


def _drop(sizes: Sizes, drop: float, audited: bool) -> World:
    n = sizes.fleet
    before, after = Rates(0.80, 0.10), Rates(round(0.80 - drop, 2), 0.10)
    hourly = _traffic(n) if audited else np.full(n, 100 / READY / HOURS)
    world = _world(
        f"level -{drop:.2f}, " + ("5 % audits" if audited else "all labelled"),
        sizes.before + sizes.after,
        changing(steady([before] * n), steady([after] * n), sizes.before),
        hourly,
        Audits.of(n, 0.05) if audited else Audits.of(n),
        FLOOR_ONLY,
    )
    seed = (200 + audited, round(100 * drop))
    return replace(world, reference=None, profile=ONE_BAND, change=sizes.before, seed=seed)


def _world(  # noqa: PLR0917 - the fields of a world
    name: str, days: int, path: Path, hourly: Floats, audits: Audits, watches: tuple[Watch, ...]
) -> World:
    return World(name, days, path, hourly, audits, watches, reference=0, profile=TWO_BANDS)


def _sized(world: World, slices: int, days: int) -> World:
    """A flat world of another size."""
    return replace(
        world,
        name=f"flat, {slices:,} slices",
        days=days,
        path=steady(_fleet(BEST, AT_LIMIT, slices)),
        hourly=_traffic(slices),
        audits=Audits.of(slices, 0.2, 0.2),
    )


def _fleet(first: Rates, others: Rates, slices: int) -> list[Rates]:
    return [first, *[others] * (slices - 1)]


def _traffic(slices: int) -> Floats:
    """1,000 reviewed decisions a day and slice."""
    return np.full(slices, 1_000 / HOURS)


def _busy(slices: int) -> Floats:
    """One slice after the other is busiest, three times as much as twelve hours later."""
    hours, peaks = np.arange(HOURS)[:, None], HOURS * np.arange(slices) / slices
    busy: Floats = 1 + 0.5 * np.cos(2 * np.pi * (hours - peaks) / HOURS)
    return busy


def _two_rates(slices: int) -> Audits:
    """Auto_serve audited at 5 or 20 %: mostly the one in even slices, the other in odd ones."""
    often = np.where(np.arange(slices) % 2, 0.8, 0.2)
    mix = np.zeros((slices, 2, 3))
    mix[:, 0, 1], mix[:, 0, 2] = often, 1 - often
    mix[:, 1, 0] = 1
    return Audits(np.array([1.0, 0.2, 0.05]), mix, np.ones((slices, 2)))


def _weekly_levels(days: Floats) -> Floats:
    """A level of its own in every week, between 0 and 0.08 above the floor."""
    levels = np.array([0.00, 0.06, 0.02, 0.08, 0.01, 0.05])
    at: Floats = levels[(days // 7).astype(int) % len(levels)]
    return at


def _arrays(population: Population) -> tuple[Floats, ...]:
    return (population.share, population.ready, population.tpr, population.fpr, population.blocked)
