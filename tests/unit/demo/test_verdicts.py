"""Through the core alone: the demo suspects exactly the slice that regressed, soon, every time."""

from __future__ import annotations

import os

import pytest
from demo_history import History

from monitor.core.contract import Metric, State
from monitor.core.time import DAY, HOUR
from monitor.demo.view import REGRESSED_SLICE, SliceView, slice_views
from monitor.demo.world import BEGINS, HISTORY, REGRESSED

SEEDS = range(1, 1 + int(os.environ.get("DEMO_SEEDS", "2")))
"""The demo's own seed and another; DEMO_SEEDS=20 looks at twenty (four seconds each)."""
LOOK_EVERY = 2 * HOUR
HOURS_TO_SUSPECT = 52  # 22 seconds of the demo: a whole day and its labels


def views(history: History) -> list[SliceView]:
    return slice_views(history.snapshot(), history.synthetic.truth)


@pytest.fixture(
    scope="module",
    params=[SEEDS[0], *(pytest.param(seed, marks=pytest.mark.full) for seed in SEEDS[1:])],
)
def looks(request: pytest.FixtureRequest) -> list[tuple[float, list[SliceView]]]:
    """(hours since the regression, the table), from the first whole day of labels on."""
    history = History(request.param)
    began = history.synthetic.world.regression_at
    history.live_until(BEGINS + HISTORY + DAY)
    found = [((history.synthetic.now - began) / HOUR, views(history))]
    while history.synthetic.now < began + 3 * DAY:
        history.live_until(history.synthetic.now + LOOK_EVERY)
        found.append(((history.synthetic.now - began) / HOUR, views(history)))
    return found


def test_only_the_regressed_slice_is_ever_suspected_and_for_its_tpr(
    looks: list[tuple[float, list[SliceView]]],
) -> None:
    suspected = {(v.row.slice, m) for _, table in looks for v in table for m in v.suspected}
    assert suspected == {(REGRESSED_SLICE, "tpr")}


def test_it_is_suspected_soon_and_stays_so(looks: list[tuple[float, list[SliceView]]]) -> None:
    states = {hours: line(table, REGRESSED_SLICE).state for hours, table in looks}
    first = min(hours for hours, state in states.items() if state is State.SUSPECTED)
    assert 0 < first <= HOURS_TO_SUSPECT
    assert {state for hours, state in states.items() if hours >= first} == {State.SUSPECTED}


def test_before_the_regression_every_shown_slice_is_within_the_contract(
    looks: list[tuple[float, list[SliceView]]],
) -> None:
    table = looks[0][1]
    assert {v.state for v in table if v.tpr} == {State.WITHIN_CONTRACT}


def test_estimates_follow_the_truth_and_the_rate_over_labelled_rows_does_not(
    looks: list[tuple[float, list[SliceView]]],
) -> None:
    inside, lines = 0, [v for _, table in looks for v in table if v.tpr]
    for view in lines:
        assert view.tpr is not None
        assert view.truth is not None
        assert view.tpr.lower is not None
        assert view.tpr.upper is not None
        inside += view.tpr.lower <= view.truth <= view.tpr.upper
        assert view.row.as_labelled[Metric.TPR] < view.truth - 0.3
    assert inside / len(lines) > 0.9  # bounds speak of the router's rate, the truth is realised


def test_the_rare_value_alone_is_never_shown(
    looks: list[tuple[float, list[SliceView]]],
) -> None:
    for _, table in looks:
        assert {v.row.slice for v in table if not v.row.rates} == {"device=kiosk"}
        assert line(table, "device=kiosk").truth is None


def line(table: list[SliceView], text: str) -> SliceView:
    (found,) = (view for view in table if view.row.slice == text)
    return found


def test_the_regressed_slice_is_one_of_the_table() -> None:
    assert f"language_variety={REGRESSED}" == REGRESSED_SLICE
