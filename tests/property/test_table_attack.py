"""A reader who solves all published tables at once learns no small count; one of windows does.

Every count below k (sizes, routes, labels) is asked for in whole numbers, over all levels,
group-bys, kinds and editions together. More worlds and longer climbs: ``make adversary``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from adversary.table_attack import NOTHING, Attack, narrowest
from adversary.table_campaign import SAMPLED_TRAFFIC
from adversary.table_cases import BUILT, COUNTEREXAMPLES, FOUND_AT_RANDOM
from adversary.table_climb import SAMPLED_SLOPES, SLOPES, climb
from adversary.table_rolling import pinned_by_windows, rolling_world
from adversary.table_worlds import TableWorld, Traffic, published, random_world

from monitor.core.tables.bands import Detail
from monitor.core.tables.spans import SpanKind

HOUR, DAY, WEEK, FOUR_WEEKS = SpanKind
LEAST, LEAST_AT_RANDOM = 4, 6
CASES = {world.name: world for world in (*COUNTEREXAMPLES, *BUILT)}

RANDOM = {
    "weeks": Traffic(150, (3,), 28, (WEEK, FOUR_WEEKS)),
    "days": Traffic(150, (3, 3)),
    "many": Traffic(600, (3, 3), pairs=False),
    "quiet hours": Traffic(200, (3, 2), 1, (HOUR, DAY), quiet=True),
    "rarely served": Traffic(300, (3, 3), served=0.12),
    "all labelled": Traffic(100, (3,), audits=(1.0,), missing=0.01, corrected=0.02),
}

FAST_SAMPLES = {"both audit rates", "one label missing", "audits and blocked replies"}
SLOW = {"quiet hours", "days", "many", "all labelled"}


def least(world: TableWorld, *, most: int, told: int = 0) -> int:
    tables = published(world)
    assert any((table.bands.detail == Detail.COUNTS).any() for table in tables)
    attack = Attack(world, tables, told=told)
    assert attack.guesses_right
    return min((left.values for left in narrowest(attack, most, 0)), default=99)


@pytest.mark.parametrize("name", CASES)
def test_worlds_that_were_built_against_the_guard(name: str) -> None:
    assert least(CASES[name], most=16) >= LEAST


@pytest.mark.parametrize("told", [NOTHING, 0])
@pytest.mark.parametrize("world", FOUND_AT_RANDOM, ids=lambda world: world.name)
def test_worlds_that_random_traffic_led_to(world: TableWorld, told: int) -> None:
    assert least(world, most=1000, told=told) >= LEAST_AT_RANDOM


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST_SAMPLES else pytest.mark.full)
        for name in SAMPLED_TRAFFIC
    ],
)
def test_labels_of_a_sample(name: str) -> None:
    traffic = SAMPLED_TRAFFIC[name]
    world = random_world(name, 1, traffic)
    attack = Attack(world, published(world), with_late=traffic.late > 0, told=NOTHING)
    assert attack.guesses_right
    lefts = narrowest(attack, 8, 1, whole=2)
    assert min(left.values for left in lefts) >= LEAST_AT_RANDOM


@pytest.mark.full
@pytest.mark.parametrize("name", SAMPLED_SLOPES)
def test_climbing_in_labels_of_a_sample_does_not_get_far(name: str) -> None:
    assert climb(SLOPES[name], 0, steps=4, targets=2).values >= LEAST


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name in SLOW else ()) for name in RANDOM]
)
def test_random_worlds(name: str) -> None:
    assert least(random_world(name, 1, RANDOM[name]), most=10) >= LEAST_AT_RANDOM


def test_complements_are_rows_like_any_other() -> None:
    world = random_world("complements", 1, Traffic(60, (3,), 7))
    assert least(replace(world, complements=True), most=10) >= LEAST_AT_RANDOM


def test_a_reader_who_does_not_know_which_rows_are_all_labelled() -> None:
    world = random_world("all labelled", 2, RANDOM["all labelled"])
    assert least(world, most=10, told=NOTHING) >= LEAST_AT_RANDOM


@pytest.mark.parametrize(
    "name", [pytest.param("days", marks=pytest.mark.full), "crossing", "labels"]
)
def test_climbing_does_not_get_far(name: str) -> None:
    assert climb(SLOPES[name], 1, steps=8).values >= LEAST


@pytest.mark.full
@pytest.mark.parametrize("told", [NOTHING, 0])
@pytest.mark.parametrize("name", ["labels", "labels of weeks", "labels that cross"])
def test_climbing_in_label_tables_does_not_get_far(name: str, told: int) -> None:
    assert climb(replace(SLOPES[name], told=told), 1, steps=100).values >= LEAST


def test_late_counts_whichever_way_they_are_read() -> None:
    world = random_world("late", 3, Traffic(200, (3,), late=0.03))
    tables = published(world)
    careful = narrowest(Attack(world, tables, with_late=True), 10, 0)
    assert min(left.values for left in careful) >= LEAST_AT_RANDOM
    believer = Attack(world, tables)
    assert not believer.guesses_right
    wrong = [left for left in narrowest(believer, 10, 0) if left.low == left.high]
    assert not [left for left in wrong if left.low == left.target.truth]


def test_rolling_windows_of_rounded_rates_give_counts_away() -> None:
    """The control: the same reader, and a guard that hides what is below k, hour after hour."""
    assert pinned_by_windows(rolling_world(0)) >= 1
