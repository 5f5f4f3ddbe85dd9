"""The information limit of a gap, and the shipped bets by days, which are measured against it."""

from __future__ import annotations

import math

import numpy as np
from daily_gaps import gap_delays
from fleet_catalogue import BEST, TPR_GAPS, TWO_BANDS, Rates, changing, steady
from fleet_play import play
from fleet_shipped import ShippedFleet
from fleet_worlds import HOURS, Audits, World

WIDE = Rates(0.60, 0.10)


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
