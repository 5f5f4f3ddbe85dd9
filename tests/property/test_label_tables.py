"""Where everything is labelled, all rates of a row together leave its small counts enough numbers.

The attacker tries every table of labels. TPR and FPR by themselves leave a small count k numbers;
the selection rate of the same time is what narrows it.
"""

from __future__ import annotations

import numpy as np
import pytest
from adversary.label_tables import RESOLUTION, K, Tables, shown_rate, told_apart, what_is_told
from cubes import CODING, LIMITS, Cell, auto, review, slices

from monitor.core.contract import Metric
from monitor.core.privacy.guards import Opened
from monitor.core.publish.label_tables import LabelTables
from monitor.core.publish.rows import Policy, Rolled, build_rows
from monitor.core.publish.snapshot import SliceRow
from monitor.core.publish.suppression import ShownColumns

pytestmark = pytest.mark.full

ENOUGH = (K + 1) // 2
SMALLEST = (10, 10, 11, 12)
"""Served: ready, not; reviewed: ready, not. Of fewer labels no count is known exactly."""


@pytest.fixture(
    scope="module",
    params=[((21, 32), (21, 32)), ((43, 54), (32, 43))],
    ids=["the smallest bands", "twice as many"],
)
def tables(request: pytest.FixtureRequest) -> Tables:
    ready, others = request.param
    return Tables.of(range(*ready), range(*others))


def hidden(tables: Tables) -> np.ndarray:
    """Tables whose labelled rates are withheld: asked once of all that are shown alike."""
    told = [what_is_told(rate) for rate in tables.shown]
    _, first, same = np.unique(told_apart(told), return_index=True, return_inverse=True)
    tpr, fpr, ready, selection = (
        ShownColumns(
            r.metric, *(np.asarray(getattr(r, name))[first] for name in ShownColumns.__slots__[1:])
        )
        for r in tables.shown
    )
    nobody, every = np.zeros(len(first), np.int64), np.ones(len(first), bool)
    asked = LabelTables(tpr, fpr, ready, selection, nobody, every)
    return np.asarray(asked.pinned(RESOLUTION)[same])


def test_no_small_count_is_left_less_than_half_of_k_numbers(tables: Tables) -> None:
    told = [what_is_told(rate) for rate in tables.shown]
    shown = tables.small & ~hidden(tables)
    assert tables.possible(told)[shown].min() == ENOUGH
    assert tables.possible(told)[tables.small].min() == 1, "with what is withheld there would be"


def test_few_are_withheld(tables: Tables) -> None:
    """Of tables with a rate that is coded; the others never are."""
    coded = np.isnan(tables.shown[0].value) | np.isnan(tables.shown[1].value)
    away = hidden(tables)
    assert not away[~coded].any()
    assert 0 < away.sum() < 0.14 * coded.sum()


def test_that_a_row_is_withheld_tells_next_to_nothing(tables: Tables) -> None:
    """Even to somebody who knows why, and in which bands its labels are."""
    away = hidden(tables)
    selection = [what_is_told(tables.shown[3]), away[None].astype(float)]
    assert tables.possible(selection)[tables.small & away].min() >= 4


def test_without_the_selection_rate_there_is_nothing_to_withhold(tables: Tables) -> None:
    told = [what_is_told(rate) for rate in tables.shown[:3]]
    assert tables.possible(told)[tables.small].min() == K - 1


@pytest.fixture(scope="module")
def smallest() -> Tables:
    return Tables.of(range(21, 32), range(21, 32))


def test_the_smallest_table_that_gives_a_count_away(smallest: Tables) -> None:
    told = [what_is_told(rate) for rate in smallest.shown]
    exact = (smallest.small & (smallest.possible(told) == 1)).any(axis=0)
    at = smallest.at(SMALLEST)
    assert exact[at]
    assert smallest.counts.sum(axis=0)[exact].min() == sum(SMALLEST)


def row(counts: tuple[int, int, int, int]) -> SliceRow:
    """The row as it is published."""
    a, b, c, d = counts
    cells: list[Cell] = [
        auto({"channel": "chat"}, a + b, a + b, a),
        review({"channel": "chat"}, c + d, c + d, c),
    ]
    rolled = slices(cells, "channel")
    every = np.ones(1, bool)
    policy = Policy(LIMITS, CODING, RESOLUTION)
    (made,) = build_rows(policy, Rolled(rolled, rolled), Opened(every, every)).rows
    return made


def test_its_labelled_rates_are_not_published() -> None:
    made = row(SMALLEST)
    assert {*made.rates} == {Metric.SELECTION, Metric.BLOCKED}
    assert not made.calibration
    assert made.completeness is None
    assert not made.as_labelled


def test_those_of_a_neighbour_are() -> None:
    assert {Metric.TPR, Metric.FPR, Metric.READY} <= {*row((20, 5, 12, 30)).rates}


def test_a_calibration_where_a_band_is_a_route_gives_counts_away(tables: Tables) -> None:
    """It is P(ready) among the served, and among the reviewed: ratios of the same table."""
    a, b, c, d = tables.counts
    bands = [shown_rate(Metric.READY, a, a + b), shown_rate(Metric.READY, c, c + d)]
    told = [what_is_told(rate) for rate in (*tables.shown, *bands)]
    assert tables.possible(told)[tables.small & ~hidden(tables)].min() == 1


@pytest.mark.parametrize(
    ("counts", "there"),
    [
        pytest.param((40, 20, 20, 40), True, id="both rates are numbers"),
        pytest.param((40, 20, 5, 40), False, id="one is coded"),
    ],
)
def test_calibration_is_published_where_all_counts_are_k(
    counts: tuple[int, int, int, int], there: bool
) -> None:
    made = row(counts)
    assert {Metric.TPR, Metric.FPR} <= {*made.rates}
    assert any(cell.rate for cell in made.calibration) is there
