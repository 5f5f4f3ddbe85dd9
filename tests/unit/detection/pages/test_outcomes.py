"""Outcomes of a day: which columns, what is counted in them, and what they say."""

from __future__ import annotations

import numpy as np
import pytest
from answered import answered
from betting import AUTO, LAYOUT, REVIEW, Arm, cohort, forecast, past

from monitor.core.metric import Metric
from monitor.detection.pages.cohort import Layout
from monitor.detection.pages.outcomes import BINS, LabelOutcome, Outcomes, Side, scores
from monitor.detection.pages.ready import ReadyRates

TWO = Outcomes.from_forecast(forecast((0.9, 0.3, 0.6), (0.5, 0.3, 0.5)))
METRICS = (Metric.TPR, Metric.FPR)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("audit", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("truth", [0.0, 0.2, 1.0])
def test_a_score_is_right_on_average_if_the_rate_or_the_forecast_is(
    metric: Metric, audit: float, truth: float
) -> None:
    def mean(f: float, pi: float) -> float:
        chances = [1 - pi, pi * truth, pi * (1 - truth)]
        return float(scores(metric, f, audit) @ chances)

    target = truth if metric is Metric.TPR else 1 - truth
    for f in (0.025, 0.5, 0.975):
        assert mean(f, audit) == pytest.approx(target, abs=1e-12)
    for pi in (0.01, 0.3, 1.0):
        assert mean(truth, pi) == pytest.approx(target, abs=1e-12)


def test_every_decision_is_counted_once_where_it_belongs() -> None:
    counts = TWO.bin_counts(
        cohort({(0, *AUTO): (500, 25, 20), (1, *AUTO): (100, 9, 4), (1, *REVIEW): (40, 30, 10)}, 2),
        LAYOUT,
    )
    at = {
        (row, *stratum): counts[row, TWO.first[row][stratum] + np.arange(3)].tolist()
        for row in (0, 1)
        for stratum in (AUTO, REVIEW)
    }
    assert at[0, *AUTO] == [475, 20, 5]
    assert at[1, *AUTO] == [91, 4, 5]
    assert at[1, *REVIEW] == [10, 10, 20]  # a label that never came is no label
    assert counts.sum() == 640


def test_columns_carry_the_middle_of_the_forecasts_bin() -> None:
    for row, stratum, centre in ((0, AUTO, 0.925), (1, AUTO, 0.525), (0, REVIEW, 0.325)):
        first = TWO.first[row][stratum]
        assert TWO.centre[first : first + 3] == pytest.approx([centre] * 3)
        assert TWO.outcome[first : first + 3].tolist() == list(LabelOutcome)
        assert TWO.audit[first] == (0.25 if stratum == AUTO else 1)


def test_equal_forecasts_share_their_columns() -> None:
    assert TWO.first[0][REVIEW] == TWO.first[1][REVIEW]
    assert TWO.columns == 3 * 3 + 2


@pytest.mark.parametrize("metric", METRICS)
def test_what_was_not_expected_counts_at_its_worst(metric: Metric) -> None:
    rare = (0, 0, 0, 0)  # auto_serve labelled completely
    new = Layout((0, 2, 4), np.array([1.0, 0.5, 0.25]), 1)
    counts = TWO.bin_counts(cohort({rare: (7, 3, 1), (1, *REVIEW): (5, 5, 5)}, 2), LAYOUT)
    assert counts[0, -2:].tolist() == [7, 0]
    moved, none = np.zeros((2, 2, *new.shape), np.int64)
    moved[1, 1, 1, 0] = 4  # human_review, at a rate that is new
    later = TWO.bin_counts(answered(moved, none, none, np.zeros((2, 3), np.int64)), new)
    assert later[1, -2:].tolist() == [0, 4]
    assert later.sum() == 4
    assert TWO.scores(metric, Side.ABOVE)[-2:].tolist() == [0, 1]
    assert TWO.scores(metric, Side.BELOW)[-2:].tolist() == [1, 0]


def test_known_audit_rates_are_found_in_a_layout_that_grew() -> None:
    new = Layout((0, 2, 4), np.array([1.0, 0.5, 0.25]), 1)
    old = cohort({(0, *AUTO): (50, 5, 4), (1, *REVIEW): (40, 30, 10)}, 2)
    decisions, labelled, ready = grown = np.zeros((3, 2, *new.shape), np.int64)
    for values, known in zip(grown, (old.decisions, old.labelled, old.ready), strict=True):
        values[:, :, [0, 2]] = known
    counts = TWO.bin_counts(answered(decisions, labelled, ready, old.routed), new)
    np.testing.assert_array_equal(counts, TWO.bin_counts(old, LAYOUT))


@pytest.mark.parametrize("metric", METRICS)
def test_no_possible_score_is_beyond_reach(metric: Metric) -> None:
    possible = TWO.possible()
    reach = TWO.reach(metric, possible)
    for side in Side:
        g = TWO.scores(metric, side)
        for row in (0, 1):
            for route, columns in ((0, TWO.auto), (1, ~TWO.auto)):
                found = g[possible[row] & columns]
                assert found.max() <= reach.up[row, route]
                assert -found.min() <= reach.down[row, route]
        for limit in (0.1, 0.8):
            losses = -side.value * TWO.evidence_per_decision(metric, side, limit)
            assert np.all(np.where(possible, losses, 0).max(1) <= reach.largest_loss(side, limit))


def test_traffic_divides_as_the_forecast_says() -> None:
    arm = Arm(t=0.8)
    outcomes = Outcomes.from_forecast(past(arm, decisions=100))
    ready, other = outcomes.traffic[:, 0]
    columns = outcomes.first[0][AUTO] + np.arange(3)
    by_outcome = 100 * arm.probabilities()[:3]
    np.testing.assert_allclose((ready + other)[columns], by_outcome, rtol=1e-12)
    assert ready.sum() == pytest.approx(60)
    assert ready[outcomes.auto].sum() == pytest.approx(60 * 0.8)
    assert other[outcomes.auto].sum() == pytest.approx(40 * 0.2)


def test_without_a_past_nothing_is_known() -> None:
    outcomes = Outcomes.from_forecast(ReadyRates.start(2, LAYOUT).forecast())
    assert not outcomes.known.any()
    assert outcomes.columns == 2
    counts = outcomes.bin_counts(cohort({(1, *AUTO): (9, 3, 1)}, 2), LAYOUT)
    assert counts.tolist() == [[0, 0], [9, 0]]


def test_forecasts_at_the_ends_stay_in_the_outer_bins() -> None:
    outcomes = Outcomes.from_forecast(forecast((1.0, 0.0, 0.5)))
    assert set(outcomes.centre[:-2]) == {0.5 / BINS, 1 - 0.5 / BINS}
