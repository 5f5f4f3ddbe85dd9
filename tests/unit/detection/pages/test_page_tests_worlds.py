"""The benchmark's worlds are what they say, its rivals do what they are named for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from fleet_catalogue import (
    AT_LIMIT,
    BEST,
    ONE_BAND,
    QUICK,
    Rates,
    changing,
    dropping_levels,
    nulls,
    part_in_breach,
    standing_breaches,
    standing_gaps,
    steady,
)
from fleet_play import Score, play
from fleet_rivals import (
    Page,
    PageHinkley,
    Rival,
    evenly,
)
from fleet_worlds import HOURS, LEVELS, Audits, Watch, World, WorldCohort, gaps
from river import drift

from monitor.core.contract import Metric
from monitor.detection.pages.cohort import SliceCohort
from monitor.detection.pages.streams import Direction, StreamKind

CALM = {world.name: world for world in nulls(QUICK)}
OPEN = {world.name: world for world in (*standing_gaps(QUICK), *dropping_levels(QUICK))}
STANDING = {world.name: world for world in (*standing_breaches(QUICK), part_in_breach(QUICK))}
ALL = CALM | OPEN | STANDING


def total(world: World) -> SliceCohort:
    """Everything a world draws."""
    first, *rest = (cohort.counts for cohort in world.cohorts())
    for counts in rest:
        first = first + counts
    return first


def small(**changes: Any) -> World:
    """Three slices for ten days, the first the reference."""
    world = World(
        name="small",
        days=10,
        path=steady([BEST, AT_LIMIT, AT_LIMIT]),
        hourly=np.array([200.0, 100.0, 50.0]),
        audits=Audits.of(3, 0.2),
        watches=(*gaps(Metric.TPR, Metric.FPR, Metric.BLOCKED), *LEVELS),
        reference=0,
        profile=ONE_BAND,
    )
    return replace(world, **changes)


# Worlds.


@pytest.mark.parametrize("world", ALL.values(), ids=ALL)
def test_what_is_drawn_has_the_rates_of_the_path(world: World) -> None:
    """Every stratum of every slice, against its expectation; 6 sigma over some 100,000 of them."""
    hours = np.arange(world.days * HOURS)
    population = world.path(hours / HOURS)
    cells = population.cells(world.profile)
    np.testing.assert_allclose(cells.sum(axis=(0, 2, 3, 4)), world.days * HOURS)
    traffic = world.traffic(hours)
    np.testing.assert_allclose(traffic.mean(axis=0), world.hourly)
    expected = np.einsum("ts,tsrby,srq->srqby", traffic, cells, world.audits.mix)
    come = np.stack([world.audits.outcomes(day)[..., 2] for day in range(world.days)])
    labels = np.einsum(
        "ts,tsrby,srq,tsrq->srqby", traffic, cells, world.audits.mix, come.repeat(HOURS, axis=0)
    )
    counts = total(world)
    for drawn, mean in (
        (counts.decisions, expected.sum(axis=-1)),
        (counts.labelled, labels.sum(axis=-1)),
        (counts.ready, labels[..., 1]),
    ):
        assert np.all(np.abs(drawn - mean) <= 6 * np.sqrt(mean) + 6)
    assert np.array_equal(counts.routed[:, :2], counts.decisions.sum(axis=(2, 3)))
    blocked = counts.routed[:, 2] / counts.routed.sum(axis=1)
    assert blocked == pytest.approx(population.blocked.mean(axis=0), abs=0.04)


@pytest.mark.parametrize("world", CALM.values(), ids=CALM)
def test_a_null_is_never_in_breach_and_mostly_at_the_limit(world: World) -> None:
    assert not any(world.breaches(watch).any() for watch in world.watches)
    nearest = max(_excess(world, watch).max() for watch in world.watches)
    if world.name == "comfortable":
        assert nearest < -0.05
    else:
        assert nearest == pytest.approx(0, abs=1e-12)


# The optimum.


# Rivals.


@pytest.mark.parametrize(("lower_is_worse", "mode"), [(True, "down"), (False, "up")])
def test_page_hinkley_in_arrays_is_rivers(lower_is_worse: bool, mode: str) -> None:
    """The same alarms at the same feeds, with drifts up and down and idle slices between."""
    rng = np.random.default_rng(11)
    mine = PageHinkley(4, lower_is_worse)
    theirs = [drift.PageHinkley(mode=mode) for _ in range(4)]
    alarms = 0
    for hour in range(1_500):
        rate = 0.9 if hour // 250 % 2 else 0.3
        trials = rng.integers(0, 8, 4) * (rng.random(4) < 0.8)
        hits = rng.binomial(trials, rate)
        expected = [_fed(theirs[row], evenly(hits[row], trials[row])) for row in range(4)]
        found = mine.feed(hits, trials).tolist()
        assert found == expected
        alarms += sum(found)
    assert alarms > 4


def _fed(detector: drift.PageHinkley, labels: list[int]) -> bool:
    alarms = []
    for x in labels:
        detector.update(x)
        alarms.append(detector.drift_detected)
    return any(alarms)


# Playing.


class Scripted:
    """Pages what it is told, when it is told."""

    def __init__(self, script: dict[int, list[Page]]) -> None:
        self._script = script

    def advance(self, cohort: WorldCohort) -> list[Page]:
        return self._script.get(cohort.hour, [])


TPR_GAP = Watch(Metric.TPR, StreamKind.GAP, Fraction("0.10"))


def breaking() -> World:
    """Slice 1 is in breach from day 4 on; slice 2 never."""
    before = [BEST, AT_LIMIT, AT_LIMIT]
    after = [BEST, Rates(0.70, 0.20, 0.15), AT_LIMIT]
    path = changing(steady(before), steady(after), 4)
    return small(path=path, watches=(TPR_GAP,), change=4)


def played(script: dict[int, list[Page]]) -> Score:
    rule: Rival = Scripted(script)
    return play(breaking(), {"rule": rule})["rule"]


def test_a_page_is_false_if_the_contract_held_since_the_last_one() -> None:
    one, two = (Page(row, Metric.TPR, StreamKind.GAP) for row in (1, 2))
    score = played({10: [two], 50: [two], 4 * HOURS + 6: [one]})
    assert score.false == 2
    assert score.breaches == 1
    assert [found.days for found in score.found] == [7 / HOURS]
    assert score.share_found == 1
    assert score.days == 4 + 7 / HOURS, "the rest of the world says nothing about this rule"


def _excess(world: World, watch: Watch) -> np.ndarray:
    """How far beyond its limit each stream truly is, by hour and slice."""
    mine, theirs = world.harm(watch.metric)
    if watch.kind is StreamKind.LEVEL:
        limit_of = 1 - watch.limit if watch.metric is Metric.TPR else watch.limit
        return mine - float(limit_of)
    gap = mine - theirs if watch.direction is Direction.SLICE_WORSE else theirs - mine
    return gap - float(watch.limit)
