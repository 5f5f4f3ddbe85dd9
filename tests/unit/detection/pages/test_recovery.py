"""The day from which a repaired slice can be resolved, against the rule that resolves it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from monitor.core.intervals import mover, wilson
from monitor.core.metric import Metric
from monitor.detection.label_power import PowerDesign
from monitor.detection.pages.budget import Z_ONE_SIDED
from monitor.detection.pages.recovery import LONGEST, days_to_resolve

LIMIT = Fraction("0.10")


def arms(metric: Metric, rate: object, mine: object, others: object) -> PowerDesign:
    columns = (np.asarray(x, np.float64) for x in (rate, mine, others))
    return PowerDesign(metric, *np.broadcast_arrays(*columns))


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR])
@pytest.mark.parametrize("weekly", [40, 150, 300, 700, 5000])
def test_it_is_the_first_day_whose_bound_of_equal_rates_is_within_the_limit(
    metric: Metric, weekly: int
) -> None:
    def over(day: int) -> bool:
        n, m = weekly * day / 7, 4000 * day / 7
        mine, other = ((0.8, *wilson(0.8, x, Z_ONE_SIDED)) for x in (n, m))
        pair = (other, mine) if metric is Metric.TPR else (mine, other)
        return bool(n >= 50 and mover(*pair[0], *pair[1])[1] <= 0.10)

    expected = next((day for day in range(1, LONGEST + 1) if over(day)), None)
    assert days_to_resolve(arms(metric, 0.8, [weekly], 4000), LIMIT, 50) == [expected]


def test_more_labels_are_never_later_and_few_or_hidden_ones_never_end_it() -> None:
    weekly = np.geomspace(20, 20_000, 30)
    days = days_to_resolve(arms(Metric.TPR, 0.8, weekly, 20_000), LIMIT, 50)
    known = [day for day in days if day is not None]
    assert days[0] is None
    assert days == [None] * (30 - len(known)) + sorted(known, reverse=True)
    assert known[-1] == 1

    assert days_to_resolve(arms(Metric.TPR, np.nan, [5000], 5000), LIMIT, 50) == [None]
    assert days_to_resolve(arms(Metric.TPR, 0.8, [0], 5000), LIMIT, 50) == [None]


def test_the_minimum_support_of_both_sides_is_waited_for() -> None:
    assert days_to_resolve(arms(Metric.TPR, 0.99, [700], 7000), LIMIT, 10) == [1]
    assert days_to_resolve(arms(Metric.TPR, 0.99, [700], 7000), LIMIT, 400) == [4]
