"""The day on which a change began, from the run of evidence that led to a crossing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from betting import level_alternatives

from monitor.detection.pages.change_ages import ChangeAges
from monitor.detection.pages.mixture import SrMixture
from monitor.detection.pages.projection import log_likelihood_ratio

FLOOR = 0.8
SIX = level_alternatives(FLOOR, -1)
SIXTHS = np.full(6, 1 / 6)


@pytest.mark.parametrize(("rate", "batch"), [(0.7, 60), (0.6, 30), (0.75, 200)])
def test_the_age_of_a_change_is_estimated_within_the_days_that_found_it(
    rate: float, batch: int
) -> None:
    """After 40 good days. The error is at most as long as the evidence for the change took."""
    rng, runs, good = np.random.default_rng(3), 400, 40
    mixture, needed = SrMixture.empty(runs, 6), np.full(runs, np.inf)
    changes = ChangeAges.empty(runs)
    ages = np.full(runs, np.nan)
    for day in range(1, 120):
        mixture.add_clock(1)
        changes.age += 1
        hits = rng.binomial(batch, 0.85 if day <= good else rate, runs)
        log_e = log_likelihood_ratio(batch, hits[:, None], FLOOR, SIX)
        mixture.bet(np.arange(runs), log_e, SIXTHS)
        changes.bet(np.arange(runs), log_e, SIXTHS)
        crossed = np.isinf(needed) & (mixture.statistic() > math.log(500))
        needed[crossed], ages[crossed] = day, changes.age[crossed]
    right = needed > good
    assert right.mean() > 0.97
    began = needed[right] - ages[right]
    assert abs(np.median(began) - good) <= 1
    assert np.quantile(abs(began - good), 0.9) <= 1 + np.median(needed[right] - good)


def test_the_age_is_that_of_the_last_run_and_is_stored() -> None:
    changes = ChangeAges.empty(2)
    for evidence in (1.0, -3.0, 1.0, 0.5):
        changes.age += 1
        changes.bet(np.array([0]), np.full((1, 6), evidence), SIXTHS)
    restored = ChangeAges.from_arrays(changes.to_arrays())
    assert restored.age.tolist() == [2, 4]
    assert restored.run == pytest.approx([1.5, 0])
    restored.reset(np.array([True, False]))
    assert (restored.age.tolist(), restored.run.tolist()) == ([0, 4], [0, 0])
