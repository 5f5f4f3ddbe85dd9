"""Hill climbing: worlds changed step by step so that a small count is left fewer values."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from adversary.table_attack import NOTHING, Attack, Left
from adversary.table_worlds import (
    COMES,
    LABELS,
    NEVER,
    NONE,
    NOT_READY,
    READY,
    Ints,
    TableWorld,
    all_pairs,
    decisions_only,
    published,
    without_changes,
)

from monitor.core.counts.cells import Route
from monitor.core.tables.settings import Part
from monitor.core.tables.spans import Edition, SpanKind

HOUR, DAY, WEEK, FOUR_WEEKS = SpanKind
FIRST = (Edition.FIRST,)
STEPS = (-11, -5, -3, -2, -1, 1, 2, 3, 5, 11)
SMALL_STEPS = (-2, -1, 1, 2)


@dataclass(frozen=True, slots=True)
class Slope:
    """A kind of worlds to climb in.

    Attributes:
        begin: makes the counts of a first world, with as many axes as ``world`` takes.
        world: makes a world of counts.
        told: what the reader knows of missing labels, as in :class:`Attack`.
        steps: by which a count may change.
    """

    begin: Callable[[np.random.Generator], Ints]
    world: Callable[[Ints], TableWorld]
    told: int = 0
    steps: tuple[int, ...] = STEPS

    def attack(self, counts: Ints) -> Attack:
        """The reader of all tables of a world."""
        world = self.world(counts)
        return Attack(world, published(world), told=self.told)


def _crossing(name: str, sizes: tuple[int, ...], *kinds: SpanKind) -> Callable[[Ints], TableWorld]:
    pairs = all_pairs(len(sizes))
    return lambda counts: TableWorld(name, sizes, decisions_only(counts), kinds, pairs)


def _labels(name: str, sizes: tuple[int, ...], *kinds: SpanKind) -> Callable[[Ints], TableWorld]:
    pairs = all_pairs(len(sizes))
    return lambda counts: TableWorld(
        name, sizes, without_changes(counts), kinds, pairs, labels=True, editions=FIRST
    )


def _labelled(rng: np.random.Generator, *shape: int) -> Ints:
    counts = rng.integers(0, 40, (*shape, 3))
    counts[..., NONE] = rng.integers(0, 2, shape)
    return counts


def _sampled(
    sizes: tuple[int, ...], kinds: tuple[SpanKind, ...], *rates: float, final: bool = False
) -> Callable[[Ints], TableWorld]:
    """Worlds whose served decisions are audited at these rates, in counts of :func:`_audited`."""
    served = tuple(Part(Route.AUTO_SERVE, rate) for rate in rates)
    parts = (*served, Part(Route.HUMAN_REVIEW, 1.0))
    pairs, editions = all_pairs(len(sizes)), tuple(Edition) if final else FIRST

    def world(counts: Ints) -> TableWorld:
        full = without_changes(counts[..., : len(LABELS)])
        full[:, :, -1, NEVER] = 0
        full[:, :, :, COMES[0], COMES[1], 0] = counts[..., len(LABELS) :] * final
        return TableWorld(
            "sampled", sizes, full, kinds, pairs, labels=True, parts=parts, editions=editions
        )

    return world


def _audited(rng: np.random.Generator, shape: tuple[int, int], labels: int, *rates: float) -> Ints:
    """Counts of every state and then of every change, shape (spans, atoms, parts, 8)."""
    counts = np.zeros((*shape, len(rates) + 1, len(LABELS) + len(COMES[0])), np.int64)
    counts[..., [READY, NOT_READY]] = rng.integers(0, labels + 1, (*counts.shape[:3], 2))
    counts[..., NONE] = rng.integers(0, 2, counts.shape[:3])
    asked = counts[..., : len(LABELS)].sum(axis=3)
    for place, rate in enumerate(rates):
        counts[:, :, place, NEVER] = asked[:, :, place] * (1 - rate) / rate
    counts[..., len(LABELS) :] = rng.integers(0, 4, (*counts.shape[:3], len(COMES[0])))
    return counts


def _one_missing(rng: np.random.Generator) -> Ints:
    counts = _audited(rng, (1, 4), 22, 0.2)
    counts[..., NONE] = 0
    counts[0, 0, 0, NONE] = 1
    return counts


def _quiet_nights(rng: np.random.Generator) -> Ints:
    counts = _audited(rng, (24, 2), 12, 0.2)
    counts[np.arange(24) % 24 < 8] //= 12
    return counts


SAMPLED_SLOPES = {
    "sizes near k at audits of 20 %": Slope(
        lambda rng: _audited(rng, (1, 4), 12, 0.2), _sampled((2, 2), (WEEK,), 0.2), NOTHING
    ),
    "sizes near 2 k at audits of 5 %": Slope(
        lambda rng: _audited(rng, (1, 4), 23, 0.05), _sampled((2, 2), (WEEK,), 0.05), NOTHING
    ),
    "tight margins at audits of 20 %": Slope(
        lambda rng: _audited(rng, (1, 6), 11, 0.2),
        _sampled((3, 2), (WEEK,), 0.2),
        steps=SMALL_STEPS,
    ),
    "three crossing group-bys at audits of 5 %": Slope(
        lambda rng: _audited(rng, (1, 8), 14, 0.05), _sampled((2, 2, 2), (WEEK,), 0.05), NOTHING
    ),
    "quiet nights at audits of 20 %": Slope(
        _quiet_nights, _sampled((2,), (HOUR, DAY), 0.2), NOTHING
    ),
    "two editions with corrections at audits of 20 %": Slope(
        lambda rng: _audited(rng, (1, 4), 16, 0.2), _sampled((2, 2), (WEEK,), 0.2, final=True)
    ),
    "weeks and four weeks at audits of 5 %": Slope(
        lambda rng: _audited(rng, (4, 2), 14, 0.05), _sampled((2,), (WEEK, FOUR_WEEKS), 0.05)
    ),
    "one missing label at audits of 20 %": Slope(
        _one_missing, _sampled((2, 2), (WEEK,), 0.2), steps=SMALL_STEPS
    ),
    "audits of 5 % and 20 %": Slope(
        lambda rng: _audited(rng, (1, 4), 14, 0.2, 0.05), _sampled((2, 2), (WEEK,), 0.2, 0.05)
    ),
}
"""Worlds in which labels of a sample of the served decisions are requested."""

SLOPES = {
    "days": Slope(lambda rng: rng.integers(0, 60, (7, 1, 2)), _crossing("days", (1,), DAY, WEEK)),
    "hours": Slope(
        lambda rng: rng.poisson(rng.choice([0, 1, 12, 30], (24, 1, 2))),
        _crossing("hours", (1,), HOUR, DAY),
    ),
    "crossing": Slope(
        lambda rng: rng.integers(0, 60, (1, 9, 2)), _crossing("crossing", (3, 3), DAY)
    ),
    "three": Slope(lambda rng: rng.integers(0, 40, (1, 8, 2)), _crossing("three", (2, 2, 2), DAY)),
    "both": Slope(
        lambda rng: rng.integers(0, 50, (4, 4, 2)), _crossing("both", (2, 2), WEEK, FOUR_WEEKS)
    ),
    "labels": Slope(lambda rng: _labelled(rng, 1, 2, 2), _labels("labels", (2,), WEEK)),
    "labels of weeks": Slope(
        lambda rng: _labelled(rng, 4, 2, 2), _labels("labels of weeks", (2,), WEEK, FOUR_WEEKS)
    ),
    "labels that cross": Slope(
        lambda rng: _labelled(rng, 1, 4, 2), _labels("labels that cross", (2, 2), WEEK)
    ),
    **SAMPLED_SLOPES,
}


@dataclass(frozen=True, slots=True)
class Climbed:
    """Where a climb ended: what is left of the narrowest count, the world, the steps tried."""

    left: Left | None
    counts: Ints
    tried: int

    @property
    def values(self) -> int:
        return 99 if self.left is None else self.left.values


def climb(
    slope: Slope, seed: int, *, steps: int, seconds: float = 1e9, targets: int = 3
) -> Climbed:
    """Climb from a random world, in reals; at most so many steps and seconds of this process."""
    rng = np.random.default_rng(seed)
    best = _worst(slope, slope.begin(rng), rng, targets)
    until = time.process_time() + seconds
    tried = 0
    while tried < steps and time.process_time() < until and best.values > 1:
        tried += 1
        found = _worst(slope, _changed(best.counts, rng, slope.steps), rng, targets)
        if found.values <= best.values:
            best = found
    return replace(best, left=_in_whole_numbers(slope, best), tried=tried)


def _in_whole_numbers(slope: Slope, climbed: Climbed) -> Left | None:
    if climbed.left is None:
        return None
    return slope.attack(climbed.counts).left(climbed.left.target)


def _worst(slope: Slope, counts: Ints, rng: np.random.Generator, targets: int) -> Climbed:
    """The narrowest count of a world, of those that intervals narrow most and some others."""
    attack = slope.attack(counts)
    every = sorted(attack.targets(), key=lambda target: target.easy)
    others = [every[i] for i in rng.permutation(len(every))[:targets]]
    narrowed = [attack.left(target, whole=False) for target in [*every[:targets], *others]]
    left = min(filter(None, narrowed), key=lambda left: left.values, default=None)
    return Climbed(left, counts, 0)


def _changed(counts: Ints, rng: np.random.Generator, steps: tuple[int, ...]) -> Ints:
    counts = counts.copy()
    for _ in range(int(rng.integers(1, 4))):
        cell = tuple(rng.integers(size) for size in counts.shape)
        if rng.random() < 0.85:
            counts[cell] = max(0, counts[cell] + int(rng.choice(steps)))
        else:
            counts[cell] = int(rng.choice([0, 5, 9, 10, 11, 12, 21, 22]))
    return counts
