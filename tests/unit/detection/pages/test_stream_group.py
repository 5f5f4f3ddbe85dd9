"""Streams that bet together: clocks, crossings, the weekly list, and what is kept."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from fleet_cells import MONDAY

from monitor.core.metric import Metric
from monitor.detection.pages.stream_group import COHORT_DAYS, StreamGroup
from monitor.detection.pages.streams import BUDGET_DAYS, Direction, Stream, StreamKind

WIDTH = 4
WEIGHTS = np.array([0.5, 0.25, 0.05])


def stream(name: str) -> Stream:
    limit = Fraction(1, 10)
    return Stream(
        "c", "a", Metric.TPR, StreamKind.LEVEL, f"a={name}", "", Direction.SLICE_WORSE, limit
    )


STREAMS = tuple(map(stream, "uvw"))


def bets(rows: int, value: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.full((rows, WIDTH), value)


def entered(hours: int, first: int = MONDAY) -> StreamGroup:
    watch = StreamGroup.start(STREAMS, WEIGHTS, WIDTH)
    for hour in range(first, first + hours):
        watch.enter(hour)
    return watch


def test_a_bet_begins_with_the_days_that_have_run() -> None:
    watch = entered(48)
    watch.bet(np.array([1]), bets(1, math.log(3)), 1)
    assert watch.mixture.statistic()[1] == pytest.approx(math.log(2 * 3))
    assert np.isneginf(watch.mixture.statistic()[[0, 2]]).all()
    assert watch.mixture.pending == pytest.approx([2, 0, 2])
    assert watch.week is not None
    assert watch.week.mixture.statistic()[1] == pytest.approx(math.log(2 / 7 * 3))


def ended_with(watch: StreamGroup, hour: int) -> int | None:
    """The week that a cohort has ended."""
    watch.enter(hour)
    assert (watch.finished is None) == (watch.ended is None)
    return watch.ended


def test_the_cohort_after_a_week_says_which_one_has_ended() -> None:
    watch = entered(7 * 24 - 1)
    assert watch.week is not None
    week = watch.week.week
    hours = range(MONDAY + 7 * 24 - 1, MONDAY + 7 * 24 + 2)
    assert [ended_with(watch, hour) for hour in hours] == [None, week, None]
    assert watch.week.week == week + 1


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_cluster_size_divides_evidence_for_pages_and_for_the_list(size: int) -> None:
    watch = entered(24)
    watch.bet(np.arange(3), bets(3, 10.0), size)
    assert watch.mixture.statistic() == pytest.approx([10 / size] * 3)
    assert watch.week is not None
    assert watch.week.mixture.statistic() == pytest.approx([10 / size - math.log(7)] * 3)


def test_a_stream_pages_at_its_weight_and_begins_anew() -> None:
    watch = entered(24)
    edge = np.log(BUDGET_DAYS / WEIGHTS)
    watch.bet(np.arange(3), bets(3, 0.0) + (edge + np.array([1e-9, -1e-9, 1]))[:, None], 1)
    week = None if watch.week is None else watch.week.mixture.statistic()
    assert watch.evidence().tolist() == [4, 3, 4]
    assert watch.cross() == pytest.approx({STREAMS[0]: 1, STREAMS[2]: 1}), "a day old at most"
    assert np.isneginf(watch.mixture.statistic()).tolist() == [True, False, True]
    assert watch.mixture.pending.tolist() == [0, 0, 0]
    assert watch.cross() == {}
    assert watch.week is not None
    assert watch.week.mixture.statistic() == pytest.approx(week), "the list goes on"
    watch.enter(MONDAY + 24)
    assert watch.mixture.pending == pytest.approx([COHORT_DAYS] * 3)


def test_a_week_is_told_once_with_all_that_was_bet_in_it() -> None:
    watch = entered(7 * 24)
    assert watch.finished is None
    watch.bet(np.array([0]), bets(1, 2.0), 1)  # of the last day, before the next one begins
    watch.enter(MONDAY + 7 * 24)
    assert watch.finished is not None
    assert watch.finished[0] == pytest.approx(2.0), "a week's clock is 1"
    assert np.isneginf(watch.finished[1:]).all()
    watch.bet(np.array([0]), bets(1, 0.0), 1)
    watch.enter(MONDAY + 7 * 24 + 1)
    assert watch.finished is None
    assert watch.week is not None
    assert watch.week.mixture.statistic()[0] == pytest.approx(math.log(1 / 7 / 24))


def test_weeks_without_cohorts_are_passed_over() -> None:
    watch = entered(5)
    watch.bet(np.array([2]), bets(1, 1.0), 1)
    watch.enter(MONDAY + 30 * 24)
    assert watch.finished is not None
    assert watch.finished[2] == pytest.approx(1 + math.log(5 / 7 / 24))
    assert watch.mixture.pending == pytest.approx([6 / 24, 6 / 24, 1 / 24])


def test_streams_are_found_again_by_their_keys() -> None:
    """In another order, with one more and one less."""
    watch = entered(30)
    rng = np.random.default_rng(1)
    watch.bet(np.array([0, 2]), rng.normal(size=(2, WIDTH)), 1)
    kept = watch.to_arrays("p")
    new = StreamGroup.start((STREAMS[2], stream("z"), STREAMS[0]), WEIGHTS, WIDTH)
    new.restore("p", kept, [one.key for one in STREAMS])
    assert (new.mixture.log_r[[0, 2]] == watch.mixture.log_r[[2, 0]]).all()
    assert np.isneginf(new.mixture.log_r[1]).all()
    assert new.mixture.pending[1] == 0
    assert new.week is not None
    assert watch.week is not None
    assert new.week.week == watch.week.week
    assert (new.week.mixture.log_r[[0, 2]] == watch.week.mixture.log_r[[2, 0]]).all()


def test_a_state_without_these_streams_leaves_them_without_evidence() -> None:
    watch = StreamGroup.start(STREAMS, WEIGHTS, WIDTH)
    watch.restore("other", entered(3).to_arrays("p"), [one.key for one in STREAMS])
    assert watch.week is None
    assert not watch.mixture.pending.any()
    before_all = StreamGroup.start(STREAMS, WEIGHTS, WIDTH)
    before_all.restore("p", watch.to_arrays("p"), [one.key for one in STREAMS])
    assert before_all.week is None
    assert before_all.to_arrays("p").keys() == watch.to_arrays("p").keys()
