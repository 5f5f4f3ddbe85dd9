"""The shipped bets on TPR gaps alone, fed by days: a hundred times faster than by hours.

A slice with fewer than a thousand decisions a day is bet on once a day anyway, so that only the
hour of the page differs; of a larger one the page may come up to a day later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
from fleet_counts import coding, contract
from fleet_shipped import FIRST_HOUR
from fleet_worlds import HOURS, World

from monitor.core.counts.cells import Int64s
from monitor.core.metric import Metric
from monitor.detection.pages.budget import Budget
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.declared import all_streams
from monitor.detection.pages.group import GroupTests
from monitor.detection.pages.stream_group import COHORT_DAYS
from monitor.detection.pages.streams import Direction


def gap_tests(world: World) -> GroupTests:
    """The tests of a world's TPR gaps, with the weights that they have beside all others."""
    terms, coded = contract(world), coding(world)
    budget = Budget().declare(all_streams((terms,), coded))
    return GroupTests.start(terms, terms.group_bys[0], coded, budget, metrics=[Metric.TPR])


def gap_delays(world: World, broken: set[int]) -> list[float]:
    """Days from the change until each of these slices is paged; infinite for one that never is.

    One that was paged before the change is left out.
    """
    tests = gap_tests(world)
    layout = Layout.for_rates(range(len(world.audits.rates)), coding(world))
    change, waited, found = world.change or 0, set(broken), []
    for day, cohort in enumerate(_days(world, tests.slices, layout)):
        for watch in tests.watches.values():
            watch.mixture.add_clock(1 - COHORT_DAYS)
        crossed = tests.advance(FIRST_HOUR + day * HOURS, cohort, layout)
        paged = {
            world.slices.index(one.slice)
            for one in crossed
            if one.direction is Direction.SLICE_WORSE and one.slice in world.slices
        }
        found += [float(day - change)] * len(paged & waited) if day > change else []
        waited -= paged
        if not waited:
            break
    return found + [float("inf")] * len(waited)


def _days(world: World, slices: tuple[str, ...], layout: Layout) -> Iterator[SliceCohort]:
    """Cohorts of whole days, on the axes of the tests."""
    rows = [slices.index(text) for text in world.slices]
    hours: list[SliceCohort] = []
    for hour in world.cohorts():
        hours.append(hour.counts)
        if len(hours) == HOURS:
            yield _widened(reduce(add, hours), rows, len(slices), layout)
            hours = []


def _widened(day: SliceCohort, rows: list[int], size: int, layout: Layout) -> SliceCohort:
    """With rows for the values nobody listed, and a band for what has no score."""

    def wide(values: Int64s) -> Int64s:
        found = np.zeros((size, *values.shape[1:]), np.int64)
        found[rows] = values
        return found

    def banded(values: Int64s) -> Int64s:
        further = layout.bands - values.shape[3]
        return wide(np.pad(values, [(0, 0), (0, 0), (0, 0), (0, further)]))

    return replace(
        day, decisions=banded(day.decisions), labelled=banded(day.labelled),
        ready=banded(day.ready), routed=wide(day.routed), requested=wide(day.requested),
        received=wide(day.received),
    )  # fmt: skip
