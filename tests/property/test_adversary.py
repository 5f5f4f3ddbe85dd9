"""An attacker who reads bytes over HTTP, keeps all of them and solves, finds nothing below k."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from adversary.attack import Budget, Figures
from adversary.campaign import HIDE, attack
from adversary.label_tables import RESOLUTION, Tables, rate_columns, told_apart, what_is_told
from adversary.worlds import HOUR, Shape, make_world, small_shape

from monitor.core.contract import Metric
from monitor.core.publish.shown_precision import shown_precision
from monitor.core.publish.suppression import (
    ShownColumns,
    code_third_route,
    show,
    shown_rates,
)

WORLDS = 25
QUICK = Budget(places=1, targets=2, cuts=14, cells=1_500, whole=0, pauses=1)
MONTH = Budget(places=4, targets=4, cuts=20, cells=2_000, whole=1, pauses=6)


def assert_found_nothing(figures: Figures) -> None:
    """No hidden cell below k is bounded tighter than k, no single route or label is recovered."""
    assert not figures.leaks, "\n".join(figures.leaks[:10])
    assert (figures.tighter, figures.single_exact) == (0, 0)


@pytest.mark.full
def test_the_attacker_of_many_worlds_finds_nothing() -> None:
    total = Figures()
    for seed in range(WORLDS):
        total.add(attack(make_world(seed, small_shape(seed)), step=2 * HOUR, budget=QUICK))
    assert_found_nothing(total)
    assert total.cells > WORLDS
    assert total.single > WORLDS
    assert total.misread < 0.02 * total.facts, "the attacker does not understand what is shown"


@pytest.mark.full
def test_the_attacker_of_a_month_finds_nothing() -> None:
    world = make_world(1, Shape(values=(3,), days=28, busy=40, strays=1))
    figures = attack(world, step=6 * HOUR, budget=MONTH)
    assert_found_nothing(figures)
    assert figures.cells
    assert figures.single


@pytest.mark.full
def test_the_same_attacker_recovers_nearly_all_behind_a_naive_guard() -> None:
    """Rows below k are left out and nothing else: the test above can fail."""
    total = Figures()
    for seed in range(3):
        world = make_world(seed, small_shape(seed))
        total.add(attack(world, guard=HIDE, step=2 * HOUR, budget=QUICK))
    assert total.tighter > 0.9 * total.cells > 0
    assert total.single_exact > 0.9 * total.single > 0


def all_shown(metric: Metric, hits: np.ndarray, n: np.ndarray) -> list[object]:
    shown = show(rate_columns(metric, hits, n), np.ones(len(n), bool), RESOLUTION)
    return list(shown_rates(shown, RESOLUTION))


def unique_share(shown: list[object]) -> float:
    """Share of cells whose published numbers no other cell has."""
    times = Counter(map(repr, shown))
    return sum(times[repr(one)] == 1 for one in shown) / len(shown)


@pytest.mark.parametrize(("low", "high"), [(22, 49), (50, 99), (22, 500)])
def test_what_is_published_of_a_rate_does_not_give_its_counts_away(low: int, high: int) -> None:
    """(k, n) is unique from what is published in at most 1 % of cells."""
    n = np.concatenate([np.full(m + 1, m) for m in range(low, high + 1)])
    hits = np.concatenate([np.arange(m + 1) for m in range(low, high + 1)])
    assert unique_share(all_shown(Metric.SELECTION, hits, n)) <= 0.01


@pytest.mark.parametrize(("low", "high"), [(22, 49), pytest.param(50, 99, marks=pytest.mark.full)])
def test_two_rates_of_the_same_decisions_do_not_either(low: int, high: int) -> None:
    """Selection and blocked rate together: all three routes."""
    triples = np.array(
        [(a, b, n) for n in range(low, high + 1) for a in range(n + 1) for b in range(n + 1 - a)]
    )
    auto, blocked, n = triples.T
    every = np.ones(len(n), bool)
    selection = show(rate_columns(Metric.SELECTION, auto, n), every, RESOLUTION)
    second = show(rate_columns(Metric.BLOCKED, blocked, n), every, RESOLUTION)
    second = code_third_route(selection, second, n - auto - blocked, RESOLUTION)
    pairs = zip(shown_rates(selection, RESOLUTION), shown_rates(second, RESOLUTION), strict=True)
    assert unique_share(list(pairs)) <= 0.01


@pytest.fixture(scope="module")
def labelled() -> tuple[np.ndarray, list[ShownColumns], np.ndarray]:
    """Tables of labels where everything is labelled; what is shown of them, and by selection."""
    tables = Tables.of(range(54, 68), range(32, 43))
    others = np.concatenate([what_is_told(rate) for rate in tables.shown])
    return tables.counts, list(tables.shown[:3]), others


Labelled = tuple[np.ndarray, list[ShownColumns], np.ndarray]


def test_precision_tells_nothing_that_the_other_rates_do_not(labelled: Labelled) -> None:
    """An attacker who tries every table finds the same cells with it as without it."""
    _, shown, others = labelled
    tpr, fpr, ready = shown
    precision = shown_precision(tpr, fpr, ready, RESOLUTION)
    assert (precision.shown & ~np.isnan(precision.value)).sum() > 100
    assert precision.shown.mean() > 0.2
    told_more = what_is_told(precision)
    before, after = (told_apart(told) for told in ([others], [others, told_more]))
    assert before.max() == after.max()  # no two tables that were not told apart are now


@pytest.mark.parametrize(
    ("table", "cell", "without", "with_it"),
    [
        pytest.param((66, 22, 1, 10), 2, (1, 10), (1, 1), id="a single label"),
        pytest.param((19, 12, 35, 20), 0, (19, 30), (19, 19), id="all four cells are k"),
    ],
)
@pytest.mark.full
def test_a_precision_rounded_from_its_own_counts_gives_cells_away(
    labelled: Labelled,
    table: tuple[int, ...],
    cell: int,
    without: tuple[int, int],
    with_it: tuple[int, int],
) -> None:
    """The same attacker succeeds where it is rounded and coded as every other rate is."""
    tables, _, others = labelled
    a, b, _, _ = tables
    counts = rate_columns(Metric.PRECISION, a, a + b)
    naive = what_is_told(show(counts, np.ones(len(a), bool), RESOLUTION))
    at = int(np.flatnonzero(np.all(np.equal(tables.T, table), axis=1))[0])
    for told, expected in (([others], without), ([others, naive], with_it)):
        same = told_apart(told)
        possible = tables[cell][same == same[at]]
        assert (possible.min(), possible.max()) == expected
