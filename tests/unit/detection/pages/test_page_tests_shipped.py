"""The shipped rule as the benchmark runs it: its pages, lists and weights, and its latch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fleet_catalogue import AT_LIMIT, BEST, ONE_BAND, Rates, changing, steady
from fleet_play import play
from fleet_rivals import Page
from fleet_shipped import Latches, ShippedFleet
from fleet_worlds import HOURS, LEVELS, Audits, Path, World, gaps

from monitor.core.contract import Metric
from monitor.detection.pages.streams import StreamKind

WIDE = Rates(0.50, 0.10)
KEPT = Rates(0.88, 0.10)
OF_SLICE_1 = Page(1, Metric.TPR, StreamKind.GAP)


def world(path: Path, days: int, change: int | None = None) -> World:
    """Three slices, everything labelled; gaps of the TPR, and levels."""
    return World(
        name="three slices",
        days=days,
        path=path,
        hourly=np.full(3, 40.0),
        audits=Audits.of(3),
        watches=(*gaps(Metric.TPR), *LEVELS),
        reference=0,
        profile=ONE_BAND,
        change=change,
    )


def test_it_pages_what_breaks_and_nothing_else() -> None:
    broken = changing(steady([BEST, KEPT, KEPT]), steady([BEST, WIDE, KEPT]), 3)
    score = play(world(broken, 8, change=3), {"rule": ShippedFleet(world(broken, 8))})["rule"]
    assert (score.false, score.early) == (0, 0)
    assert (score.breaches, len(score.found)) == (2, 2), "the gap and the level of slice 1"
    assert score.quantile("days", 1) <= 2


def test_weights_are_those_of_the_budget() -> None:
    rule = ShippedFleet(world(steady([BEST, AT_LIMIT, AT_LIMIT]), 1))
    # A fifth is kept for later; gaps of TPR and FPR and levels share the rest as 40 : 20 : 20.
    # __other__ is declared too: 3 x 2 gaps, 4 x 2 levels.
    assert rule.weight(OF_SLICE_1) == pytest.approx(0.8 * 0.50 / 6)
    assert rule.weight(Page(0, Metric.FPR, StreamKind.LEVEL)) == pytest.approx(0.8 * 0.25 / 8)


def test_a_list_comes_with_the_first_cohort_of_each_later_week() -> None:
    standing = world(steady([BEST, WIDE, KEPT]), 15)
    rule, lists = ShippedFleet(standing), {}
    for cohort in standing.cohorts():
        rule.advance(cohort)
        if (listed := rule.tickets()) is not None:
            lists[cohort.hour] = set(listed)
    assert list(lists) == [7 * HOURS, 14 * HOURS]
    both = {OF_SLICE_1, Page(1, Metric.TPR, StreamKind.LEVEL)}
    assert all(listed == both for listed in lists.values())


def test_the_reference_may_be_the_only_slice_with_decisions_enough_for_a_bet() -> None:
    busy = replace(world(steady([BEST, KEPT, KEPT]), 2), hourly=np.array([2_000.0, 1.0, 1.0]))
    score = play(busy, {"rule": ShippedFleet(busy)})["rule"]
    assert (score.false, score.days) == (0, 2)


def test_a_page_stands_as_long_as_the_breach() -> None:
    standing = world(steady([BEST, WIDE, KEPT]), 9)
    latches = Latches(standing)
    for cohort in standing.cohorts():
        assert latches.look(cohort, [OF_SLICE_1] if cohort.hour == 30 else []) == []


def test_a_page_ends_once_what_followed_shows_that_it_is_over() -> None:
    fixed = world(changing(steady([BEST, WIDE, KEPT]), steady([BEST, KEPT, KEPT]), 2), 9)
    latches = Latches(fixed)
    ended: dict[Page, int] = {}
    for cohort in fixed.cohorts():
        found = latches.look(cohort, [OF_SLICE_1] if cohort.hour == 2 * HOURS - 1 else [])
        ended |= dict.fromkeys(found, cohort.hour)
    assert list(ended) == [OF_SLICE_1]
    assert 2 * HOURS < ended[OF_SLICE_1] < 6 * HOURS
    assert ended[OF_SLICE_1] % HOURS == HOURS - 1, "looked at once a day"


def test_a_new_crossing_begins_the_evidence_anew() -> None:
    """Hours before the last crossing do not speak against the breach."""
    before, after = steady([BEST, KEPT, KEPT]), steady([BEST, WIDE, KEPT])
    relapsing = world(changing(before, after, 4), 6)
    latches = Latches(relapsing)
    crossings = {4 * HOURS - 2, 4 * HOURS + 12}
    ended = [
        page
        for cohort in relapsing.cohorts()
        for page in latches.look(cohort, [OF_SLICE_1] if cohort.hour in crossings else [])
        if cohort.hour > min(crossings)
    ]
    assert ended == []
