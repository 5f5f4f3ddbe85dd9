"""Precision from shown rates: its ends hold the truth, and its support is proven."""

from __future__ import annotations

import numpy as np
import pytest
from slice_tables import counted, slice_counts

from monitor.core.contract import Metric
from monitor.core.counts.cells import Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import route_labels
from monitor.core.publish.shown_precision import shown_precision
from monitor.core.publish.suppression import ShownColumns, show
from monitor.core.rates.estimates import estimate

K11 = Precision(11)
AUDITS = (1.0, 0.5, 0.2, 0.05)
CODING = Coding((), score_bands=(), audit_rates=AUDITS)
AUTO, REVIEW = Route.AUTO_SERVE, Route.HUMAN_REVIEW


def beside(counts: SliceCounts) -> tuple[ShownColumns, ShownColumns, ShownColumns]:
    may, routes = np.ones(len(counts.slices), bool), route_labels(counts)
    tpr, fpr, ready = (
        show(estimate(counts, CODING, metric), may, K11, routes)
        for metric in (Metric.TPR, Metric.FPR, Metric.READY)
    )
    return tpr, fpr, ready


def worlds(rng: np.random.Generator, size: int) -> SliceCounts:
    """Slices of all sizes, served strata of two audit rates, rare and common faults."""
    cells = {}
    for at in range(size):
        rates = rng.choice(len(AUDITS), 2, replace=False)
        n = int(10 ** rng.uniform(2.5, 5))
        good = rng.choice([0.5, 0.8, 0.95, 0.999])
        strata = {}
        for rate in rates.tolist():
            decisions = rng.binomial(n, rng.uniform(0.1, 0.5))
            labelled = rng.binomial(decisions, AUDITS[rate])
            ready = rng.binomial(labelled, good)
            strata[Stratum(AUTO, 0, rate)] = counted(decisions, labelled, ready)
        rest = rng.binomial(n, 0.4)
        strata[Stratum(REVIEW, 0, 0)] = counted(rest, rest, rng.binomial(rest, 0.3))
        cells[f"x={at:04}"] = strata
    return slice_counts(cells)


def test_the_ends_hold_the_estimate_and_the_support_is_not_more_than_there_is() -> None:
    counts = worlds(np.random.default_rng(8), 3_000)
    exact = estimate(counts, CODING, Metric.PRECISION)
    found = shown_precision(*beside(counts), K11)
    plain = found.shown & ~np.isnan(found.value)
    assert 0.3 < plain.mean() < 0.95
    off = np.abs(found.value - exact.value)[plain]
    assert np.all(off <= found.step[plain] / 2 + 1e-9)
    assert off.mean() < 0.02
    assert found.step[plain].max() <= 0.2 + 0.01, (
        "ends that are 0.2 apart, and the rounding between"
    )
    coded = found.shown & ~plain
    assert coded.mean() > 0.05
    low, high = found.points
    assert np.all(low[coded] <= exact.value[coded] + 1e-9)
    assert np.all(high[coded] >= exact.value[coded] - 1e-9)
    # A zero of what is not ready smooths estimates; else what is proven is there.
    assert np.all(found.support[plain] <= exact.support[plain] * 1.02 + 1)
    rates = found.rates()
    assert np.all(rates.lower[plain] <= exact.value[plain])
    assert np.all(rates.upper[plain] >= exact.value[plain])


@pytest.mark.parametrize("hidden", range(3))
def test_it_is_hidden_with_any_of_the_three(hidden: int) -> None:
    counts = worlds(np.random.default_rng(9), 50)
    shown = list(beside(counts))
    none = np.zeros(50, bool)
    one = shown[hidden]
    shown[hidden] = ShownColumns(
        one.metric, none, one.value, one.at_least, one.at_most, one.support, one.trials, one.step
    )
    tpr, fpr, ready = shown
    assert not shown_precision(tpr, fpr, ready, K11).shown.any()


def test_where_hardly_anything_is_wrong_it_is_at_least_so_much() -> None:
    counts = slice_counts(
        {
            "x=a": {
                Stratum(AUTO, 0, 0): counted(600, 600, 597),
                Stratum(REVIEW, 0, 0): counted(400, 400, 150),
            }
        }
    )
    found = shown_precision(*beside(counts), K11)
    assert np.isnan(found.value[0])
    assert np.isnan(found.at_most[0])
    assert 0.94 < found.at_least[0] <= 597 / 600
    assert found.support[0] == 11
