"""The benchmark's worlds are what they say, its rivals do what they are named for."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_catalogue import (
    QUICK,
    dropping_levels,
    nulls,
    part_in_breach,
    standing_breaches,
    standing_gaps,
)
from fleet_rivals import PageHinkley, evenly
from fleet_worlds import HOURS, Watch, World
from river import drift

from monitor.core.metric import Metric
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


def _excess(world: World, watch: Watch) -> np.ndarray:
    """How far beyond its limit each stream truly is, by hour and slice."""
    mine, theirs = world.harm(watch.metric)
    if watch.kind is StreamKind.LEVEL:
        limit_of = 1 - watch.limit if watch.metric is Metric.TPR else watch.limit
        return mine - float(limit_of)
    gap = mine - theirs if watch.direction is Direction.SLICE_WORSE else theirs - mine
    return gap - float(watch.limit)
