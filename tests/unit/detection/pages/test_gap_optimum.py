"""The information limit of a gap, and the shipped bets by days, which are measured against it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from daily_gaps import gap_delays
from fleet_catalogue import BEST, ONE_BAND, TPR_GAPS, TWO_BANDS, Rates, changing, steady
from fleet_optimum import information
from fleet_play import play
from fleet_shipped import ShippedFleet
from fleet_worlds import HOURS, Audits, World
from gap_optimum import Arm, gap_information, gap_limit_days
from scipy.optimize import minimize_scalar

from monitor.core.intervals import Floats

READY = 0.6
WIDE = Rates(0.60, 0.10)


def arm(rates: Rates, audit: float, daily: float = 100.0, profile: Floats = TWO_BANDS) -> Arm:
    cells = steady([rates])(np.zeros(1)).cells(profile)[0, 0]
    return Arm(cells, daily, audit)


def divergence(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_where_all_is_labelled_it_is_that_of_two_binomials() -> None:
    def nearest(level: float) -> float:
        both = divergence(0.90, level + 0.10) + divergence(0.60, level)
        return 100 * READY * both

    expected = minimize_scalar(nearest, bounds=(0.60, 0.80), method="bounded").fun
    found = gap_information(arm(BEST, 1.0), arm(WIDE, 1.0), 0.10)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("audit", [0.05, 0.5, 1.0])
def test_of_one_arm_it_is_what_the_limit_of_levels_is(audit: float) -> None:
    """Found there by a search for the nearest world, and here by one for the best bet."""
    population = steady([WIDE])(np.zeros(1))
    expected = information(population, Audits.of(1, audit), 0, 0.70)
    found = arm(WIDE, audit, daily=1.0, profile=ONE_BAND).information(0.70, -1)
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.full
def test_fewer_labels_and_smaller_gaps_take_longer() -> None:
    days = [gap_limit_days(arm(BEST, p), arm(WIDE, p), 0.10, 1e4) for p in (1.0, 0.2, 0.05)]
    assert days == sorted(days)
    near = Rates(0.75, 0.10)
    assert gap_limit_days(arm(BEST, 0.05), arm(near, 0.05), 0.10, 1e4) > 2 * days[2]


def test_a_gap_within_the_limit_tells_nothing() -> None:
    assert arm(WIDE, 0.05).information(0.70, 1) == 0


def test_by_days_slices_are_paged_on_the_day_on_which_they_are_by_hours() -> None:
    fleet = [BEST, BEST, BEST]
    world = World(
        name="three slices", days=25, path=changing(steady(fleet), steady([BEST, WIDE, WIDE]), 8),
        hourly=np.full(3, 500 / HOURS), audits=Audits.of(3, 0.05), watches=TPR_GAPS, reference=0,
        profile=TWO_BANDS, change=8, seed=(3,),
    )  # fmt: skip
    hourly = play(world, {"shipped": ShippedFleet(world)})["shipped"]
    assert sorted(gap_delays(world, {1, 2})) == sorted(math.floor(x.days) for x in hourly.found)
    assert len(hourly.found) == 2
