from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from slice_tables import auto, blocked, counted, review, slice_counts

from monitor.core.counts.cells import Counter, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import wilson
from monitor.core.metric import Metric
from monitor.core.rates.estimates import RateColumns, calibration, estimate, measure

CODING = Coding(())
LABELLED = (Metric.TPR, Metric.FPR, Metric.READY)


def one(
    cells: Mapping[Stratum, Mapping[Counter, int]], metric: Metric, z: float = 1.96
) -> list[float]:
    """Value, lower, upper and support of a single slice."""
    rates = estimate(slice_counts({"a": cells}), CODING, metric, z)
    return numbers(rates)[0]


def numbers(rates: RateColumns) -> list[list[float]]:
    columns = (rates.value, rates.lower, rates.upper, rates.support)
    return [[float(x) for x in row] for row in np.stack(columns, axis=1)]


def test_reference_values_of_a_sampled_tpr() -> None:
    cells = {auto(): counted(500, 25, 22), review(): counted(500, 500, 150)}
    value, lower, upper, support = one(cells, Metric.TPR)
    assert [value, support] == pytest.approx([0.7457627119, 373.497854], rel=2e-7)
    # Wilson's at 373.5 are .6992545 and .7872668; 25 audits may have erred upward.
    assert [lower, upper] == pytest.approx([0.688326, 0.787267], abs=2e-5)


def test_reference_values_of_a_sampled_fpr() -> None:
    cells = {auto(): counted(500, 25, 22), review(): counted(500, 500, 150)}
    value, lower, upper, support = one(cells, Metric.FPR)
    assert [value, support] == pytest.approx([0.1463414634, 26.844459], rel=1e-6)
    # Wilson's at 26.8 are .0579521 and .3232801; it rests on three audits.
    assert [lower, upper] == pytest.approx([0.044966, 0.309864], abs=2e-5)


def test_everything_labelled_is_plain_wilson_on_counts() -> None:
    cells = {
        auto(1, 0): counted(4, 4, 3),
        auto(2, 0): counted(2, 2, 2),
        review(0): counted(4, 4, 1),
    }
    assert one(cells, Metric.TPR) == pytest.approx([5 / 6, 0.436490, 0.969947, 6], abs=1e-6)
    assert one(cells, Metric.FPR)[::3] == [1 / 4, 4]
    assert one(cells, Metric.READY)[::3] == [6 / 10, 10]
    assert one(cells, Metric.SELECTION)[::3] == [6 / 10, 10]


@pytest.mark.parametrize("metric", list(Metric))
def test_an_empty_slice_is_nan_not_zero(metric: Metric) -> None:
    value, lower, upper, support = one({auto(): counted(0), review(): counted(0)}, metric)
    assert np.isnan([value, lower, upper]).all()
    assert support == 0


@pytest.mark.parametrize("metric", list(Metric))
def test_no_slices_and_no_strata(metric: Metric) -> None:
    table = slice_counts({"a": {auto(): counted(9, 9, 3)}})
    none = SliceCounts((), table.strata, table.values[:0])
    assert estimate(none, CODING, metric).value.shape == (0,)
    bare = slice_counts({"a": {}})
    assert np.isnan(estimate(bare, CODING, metric).value).tolist() == [True]


def test_no_positives_at_all_is_no_trial() -> None:
    value, lower, upper, support = one(
        {auto(rate=0): counted(5, 5, 0), review(): counted(5, 5, 0)}, Metric.TPR
    )
    assert np.isnan([value, lower, upper]).all()
    assert support == 0


def test_no_positive_seen_in_a_sample_leaves_everything_possible() -> None:
    cells = {auto(): counted(300, 12, 0), review(): counted(5, 5, 0)}
    value, lower, upper, support = one(cells, Metric.TPR)
    assert math.isnan(value)
    assert (lower, upper, support) == (0, 1, 0)


def test_one_route_without_decisions_rests_on_labelled_positives() -> None:
    value, lower, upper, support = one({auto(): counted(500, 25, 22)}, Metric.TPR)
    assert (value, upper, support) == (1, 1, 22)
    assert lower == pytest.approx(float(wilson(1, 22, 1.96)[0]))
    assert one({review(): counted(80, 80, 30)}, Metric.TPR)[::3] == [0, 30]


def test_a_complete_route_without_positives_is_the_limit_of_the_formula() -> None:
    near = one({auto(): counted(500, 25, 22), review(): counted(10**6, 10**6, 1)}, Metric.TPR)
    at = one({auto(): counted(500, 25, 22), review(): counted(10**6, 10**6, 0)}, Metric.TPR)
    assert at[::3] == pytest.approx([1, 440])
    assert near[3] == pytest.approx(440, rel=0.01)


def test_an_unlabelled_auto_serve_bounds_the_tpr_by_its_share() -> None:
    value, lower, upper, support = one(
        {auto(): counted(100), review(): counted(300, 300, 100)}, Metric.TPR
    )
    assert math.isnan(value)
    assert support == 0
    assert lower == 0
    assert upper == pytest.approx(float(wilson(0.5, 200, 1.96)[1]))


def test_an_unlabelled_review_bounds_the_tpr_from_below() -> None:
    value, lower, upper, _ = one(
        {auto(rate=0): counted(100, 100, 90), review(): counted(10)}, Metric.TPR
    )
    assert math.isnan(value)
    assert upper == 1
    assert lower == pytest.approx(float(wilson(0.9, 100, 1.96)[0]))


def test_nothing_labelled_is_not_identified() -> None:
    cells = {auto(): counted(100), review(): counted(100)}
    for metric in LABELLED:
        value, lower, upper, support = one(cells, metric)
        assert math.isnan(value)
        assert (lower, upper, support) == (0, 1, 0)


def test_an_unlabelled_route_bounds_the_ready_rate_by_its_share() -> None:
    cells = {auto(): counted(100), review(): counted(300, 300, 90)}
    value, lower, upper, _ = one(cells, Metric.READY)
    assert math.isnan(value)
    assert lower == pytest.approx(float(wilson(90 / 400, 400, 1.96)[0]))
    assert upper == pytest.approx(float(wilson(190 / 400, 400, 1.96)[1]))


def test_counts_behind_a_rate() -> None:
    counts = slice_counts(
        {
            "a": {auto(): counted(500, 25, 22), review(): counted(400, 300, 150)},
            "b": {review(): counted(400, 30, 10)},
            "c": {blocked(): counted(7)},
        }
    )
    tpr, fpr = (estimate(counts, CODING, metric) for metric in (Metric.TPR, Metric.FPR))
    assert (tpr.hits.tolist(), tpr.misses.tolist()) == ([22, 0, 0], [150, 10, 0])
    assert (fpr.hits.tolist(), fpr.misses.tolist()) == ([3, 0, 0], [150, 20, 0])
    assert tpr.route_labels.tolist() == [25, 30, 0]
    ready = estimate(counts, CODING, Metric.READY)
    assert (ready.hits.tolist(), ready.misses.tolist()) == ([172, 10, 0], [153, 20, 0])


def test_selection_and_blocked_are_over_all_production_decisions() -> None:
    cells = {
        auto(): counted(30),
        Stratum(Route.AUTO_SERVE, 0, 0, evidence_passed=False): counted(10),
        review(): counted(40),
        blocked(): counted(15),
        blocked(evidence_passed=True): counted(5),
        Stratum(Route.AUTO_SERVE, 0, 0, probe=True): counted(1000),
    }
    counts = slice_counts({"a": cells})
    selection = estimate(counts, CODING, Metric.SELECTION)
    assert (selection.value[0], selection.support[0]) == (0.4, 100)
    assert (selection.hits[0], selection.misses[0], selection.route_labels[0]) == (40, 60, 100)
    assert estimate(counts, CODING, Metric.BLOCKED).value[0] == 0.2


def test_blocking_moves_the_blocked_rate_and_nothing_else() -> None:
    cells = {auto(): counted(500, 25, 22), review(): counted(500, 500, 150)}
    more = cells | {blocked(): counted(300)}
    for metric in LABELLED:
        assert one(cells, metric) == one(more, metric)
    assert one(cells, Metric.BLOCKED)[0] == 0
    assert one(more, Metric.BLOCKED)[0] == 300 / 1300


def test_calibration_by_band_with_rates_pooled_and_bands_apart() -> None:
    counts = slice_counts(
        {
            "a": {
                auto(1, 0): counted(4, 4, 3),
                review(1, 0): counted(6, 6, 3),
                review(0, 0): counted(20, 20, 1),
                auto(2, 8): counted(100),
                review(3, 0): counted(5, 5, 5),
            }
        }
    )
    bands = calibration(counts, CODING)
    assert list(bands) == [0, 1, 2, 3]
    assert [bands[band].value[0] for band in (0, 1, 3)] == [0.05, 0.6, 1]
    assert [bands[band].support[0] for band in range(4)] == [20, 10, 0, 5]
    assert math.isnan(bands[2].value[0])
    assert (bands[2].lower[0], bands[2].upper[0]) == (0, 1)


def test_the_rate_over_labelled_rows_is_something_else() -> None:
    counts = slice_counts({"a": {auto(): counted(500, 25, 22), review(): counted(500, 500, 150)}})
    as_labelled = {metric: estimate(counts, CODING, metric).as_labelled[0] for metric in Metric}
    assert as_labelled[Metric.TPR] == 22 / 172
    assert as_labelled[Metric.FPR] == 3 / 353
    assert as_labelled[Metric.READY] == 172 / 525
    assert as_labelled[Metric.SELECTION] == 0.5
    assert np.isnan(estimate(slice_counts({"a": {}}), CODING, Metric.TPR).as_labelled).all()


def test_a_row_alone_is_that_row() -> None:
    cells = {"a": {auto(): counted(9, 9, 3)}, "b": {auto(): counted(9, 9, 6)}}
    measured = measure(slice_counts(cells), CODING, Metric.PRECISION)
    assert [measured.row(row).value.tolist() for row in range(2)] == [[3 / 9], [6 / 9]]
