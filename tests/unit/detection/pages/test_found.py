"""What the fleet finds and what it leaves alone, in seeded worlds.

A slice has 480 decisions a day; human_review is labelled completely, auto_serve in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp, factorial

import numpy as np
import pytest
from fleet_cells import MONDAY, Cells, Traffic, coding, contract, limits

from monitor.core.contract import COMPLEMENT, GroupBy, Limits
from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.page_tests import HourCohort, PageAdvance, PageTests
from monitor.detection.pages.streams import BUDGET_DAYS, Direction, Stream, StreamKind

pytestmark = pytest.mark.full

NAMES = "uvwx"
CODING = coding(a=NAMES)
CELLS = Cells(tuple(f"a={name}" for name in NAMES))
DAY, WEEK = 24, 7 * 24
FIFTH, TWENTIETH = 1, 2
"""Parts of auto_serve that are labelled: indices of audit rates."""

World = Mapping[str, Floats | float]
GOOD = {"tpr": 0.85, "fpr": 0.15, "blocked": 0.02}


def worse(**slices: tuple[str, float]) -> World:
    """Rates of all slices, some changed: ``worse(u=("tpr", -0.2))``."""
    rates = {name: np.full(len(NAMES), rate) for name, rate in GOOD.items()}
    for name, (metric, by) in slices.items():
        rates[metric][NAMES.index(name)] += by
    return rates


def play(
    seed: int,
    days: int,
    since: int,
    then: World,
    *,
    of: Limits | None = None,
    reference: str = COMPLEMENT,
    ready: float = 0.7,
    audit: int = TWENTIETH,
) -> Iterator[tuple[int, PageAdvance]]:
    """Hours from Monday on, all alike before day ``since``."""
    fleet = PageTests.start(DetectorSettings([contract(GroupBy(("a",), reference), of=of)], CODING))
    rng = np.random.default_rng(seed)
    before = Traffic(ready=ready, audit=audit, **GOOD)
    after = Traffic(ready=ready, audit=audit, **then)
    for hour in range(days * DAY):
        counts = CELLS.hour(rng, after if hour >= since * DAY else before)
        (advance,) = fleet.advance([HourCohort(MONDAY + hour, counts)], CELLS.index)
        yield hour, advance


def named(stream: Stream) -> tuple[Metric, str, Direction]:
    return stream.metric, stream.slice, stream.direction


PLANTED = {
    "tpr": (worse(u=("tpr", -0.2)), 0.7, TWENTIETH, {(Metric.TPR, "a=u")}),
    "fpr and blocked": (
        worse(v=("fpr", 0.2), w=("blocked", 0.2)),
        0.3,
        FIFTH,
        {(Metric.FPR, "a=v"), (Metric.BLOCKED, "a=w")},
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_gap_of_a_fifth_is_found_in_two_weeks_where_it_is(planted: str) -> None:
    """In nine of ten worlds, after two days in which all was well; nothing else is paged."""
    then, ready, audit, there = PLANTED[planted]
    sought = {(metric, of, Direction.SLICE_WORSE) for metric, of in there}
    complete = 0
    for seed in range(10):
        found: set[tuple[Metric, str, Direction]] = set()
        for hour, brought in play(seed, 16, 2, then, ready=ready, audit=audit):
            assert not brought.crossed or hour >= 2 * DAY
            found |= set(map(named, brought.crossed))
            if found >= sought:
                break
        assert found <= sought
        complete += found == sought
    assert complete >= 9


@pytest.mark.parametrize("seed", range(2))
def test_the_weekly_list_has_it_in_the_week_in_which_it_was(seed: int) -> None:
    """The first week is good, the second is not, the third is good again."""
    lists = {
        hour // WEEK: brought.listed
        for hour, brought in play(seed, 15, 7, worse(u=("tpr", -0.3)))
        if brought.listed is not None
    }
    assert lists.keys() == {1, 2}
    assert lists[1] == ()
    assert [named(one) for one in lists[2]] == [(Metric.TPR, "a=u", Direction.SLICE_WORSE)]


def test_at_its_limits_a_fleet_pages_as_rarely_as_it_says() -> None:
    """Every slice exactly at every limit, against a reference that is as good as it may be."""
    days, worlds = 20, 3
    at_limit: World = {
        metric: np.array([rate + by] * 3 + [rate])
        for (metric, rate), by in zip(GOOD.items(), (-0.1, 0.1, 0.1), strict=True)
    }
    of = limits("0.10", "0.75", "0.25")
    pages = sum(
        len(brought.crossed)
        for seed in range(worlds)
        for _, brought in play(seed, days, 0, at_limit, of=of, reference="a=x")
    )
    assert pages <= most(days * worlds / BUDGET_DAYS)


def most(mean: float, chance: float = 0.001) -> int:
    """What a Poisson variable exceeds this rarely."""
    below, number = 0.0, -1
    while below < 1 - chance:
        number += 1
        below += exp(-mean) * mean**number / factorial(number)
    return number


def test_a_level_is_found_where_it_is_without_any_gap() -> None:
    """All slices alike, all below the floor: nobody is worse off than the others."""
    of = limits("0.10", "0.80", None)
    then = worse(**dict.fromkeys(NAMES, ("tpr", -0.25)))
    found = {one for _, brought in play(3, 9, 1, then, of=of) for one in brought.crossed}
    assert {one.kind for one in found} == {StreamKind.LEVEL}
    assert {one.slice for one in found} == {f"a={name}" for name in NAMES}
