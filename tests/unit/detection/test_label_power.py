from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from slice_tables import simulate

from monitor.core.counts.coding import Coding
from monitor.core.intervals import Z95
from monitor.core.metric import Metric
from monitor.core.privacy.bands import Precision
from monitor.core.rates.estimates import RateColumns, estimate
from monitor.core.rates.gaps import gap, simultaneous_z
from monitor.detection.label_power import (
    BEYOND,
    POWER,
    WEEKS,
    LabelNeed,
    PowerDesign,
    detectable_gaps,
    label_needs,
)

SOON, LATER, LATEST = LabelNeed
LIMIT = Fraction("0.10")
PRECISION = Precision(11)
Z = simultaneous_z(5)


def arms(metric: Metric, reference_rate: object, slices: object, references: object) -> PowerDesign:
    columns = (reference_rate, slices, references)
    return PowerDesign(metric, *np.broadcast_arrays(*(np.asarray(x, np.float64) for x in columns)))


# --- Following what is printed, in simulated weeks ------------------------------------------------


@dataclass(frozen=True)
class World:
    """A reference, and how many decisions it and a slice make in a week; 60 % are ready."""

    metric: Metric
    tpr: float
    fpr: float
    weekly: int
    reference_weekly: int
    audit_rate: float

    def rates(
        self, rng: np.random.Generator, gap_: float | None, weeks: float, runs: int
    ) -> RateColumns:
        """Estimated from so many weeks: of a slice worse off by a gap; None is the reference."""
        worse = gap_ or 0.0
        tpr = self.tpr - worse * (self.metric is Metric.TPR)
        fpr = self.fpr + worse * (self.metric is Metric.FPR)
        decisions = self.reference_weekly if gap_ is None else self.weekly
        counts = simulate(rng, shares(tpr, fpr), int(decisions * weeks), runs, self.audit_rate)
        return estimate(counts, Coding(()), self.metric, Z)

    def found(self, rng: np.random.Generator, gap_: float, weeks: float) -> float:
        """How often the interval of such a gap lies wholly above the limit."""
        worse, other = (self.rates(rng, g, weeks, 150) for g in (gap_, None))
        return float(np.mean(gap(worse, other).lower > float(LIMIT) + 1e-12))

    def published(self, rng: np.random.Generator, present_gap: float) -> PowerDesign:
        """What one week shows of the two."""
        mine, other = (self.rates(rng, g, 1, 1) for g in (present_gap, None))
        supports = (PRECISION.support(x.support).astype(float) for x in (mine, other))
        return PowerDesign(self.metric, PRECISION.rate(other.value, other.support), *supports)


def shares(tpr: float, fpr: float, ready: float = 0.6) -> np.ndarray:
    """P(ready, band, route) of a judge that knows the middle band badly."""
    table = np.zeros((2, 3, 2))
    table[1, :, 0] = ready * tpr * np.array([0, 0.2, 0.8])
    table[1, :, 1] = ready * (1 - tpr) * np.array([0.5, 0.5, 0])
    table[0, :, 0] = (1 - ready) * fpr * np.array([0, 0.5, 0.5])
    table[0, :, 1] = (1 - ready) * (1 - fpr) * np.array([0.7, 0.3, 0])
    return table


def worlds(rng: np.random.Generator, metric: Metric, audit_rate: float, n: int) -> list[World]:
    """Slices of 300 to 60,000 decisions a week, references of up to twenty times as many."""
    found = []
    for _ in range(n):
        weekly = int(np.exp(rng.uniform(np.log(300), np.log(60_000))))
        factor = np.exp(rng.uniform(0, np.log(20)))
        tpr, fpr = rng.uniform(0.6, 0.95), rng.uniform(0.05, 0.2)
        found.append(World(metric, tpr, fpr, weekly, int(weekly * factor), audit_rate))
    return found


@pytest.mark.parametrize(
    ("metric", "audit_rate"),
    [
        pytest.param(Metric.TPR, 0.05, marks=pytest.mark.full),
        pytest.param(Metric.FPR, 1.0, marks=pytest.mark.full),
        pytest.param(Metric.TPR, 1.0, marks=pytest.mark.full),
        (Metric.FPR, 0.05),
    ],
)
def test_what_is_printed_holds(metric: Metric, audit_rate: float) -> None:
    """The class of a world is true if a gap of limit + .05 is found in 80 % of its runs by the end
    of the class, and not yet by its beginning. Whoever waits until the end of the printed class
    finds it in 80 %, and a gap of the printed size after four weeks in 75 %.
    """
    rng = np.random.default_rng([int(100 * audit_rate), metric is Metric.TPR])
    right, by_the_end, detected = [], [], []
    for world in worlds(rng, metric, audit_rate, 120):
        shown = world.published(rng, float(rng.choice([0, 0.05, 0.12])))
        (need,), (detectable,) = label_needs(shown, LIMIT, Z), detectable_gaps(shown, LIMIT, Z)
        if need is None or detectable is None:
            continue  # a week shows nothing of such a small slice
        power = [world.found(rng, float(LIMIT + BEYOND), weeks) for weeks in WEEKS]
        true = SOON if power[0] >= POWER else LATER if power[1] >= POWER else LATEST
        right.append(need is true)
        if need is not LATEST:
            by_the_end.append(power[tuple(LabelNeed).index(need)])
        if detectable < world.tpr or metric is Metric.FPR:
            detected.append(world.found(rng, detectable, WEEKS[1]))
    assert len(right) >= 80
    assert np.mean(right) >= 0.80
    assert np.mean(by_the_end) >= 0.80
    assert np.mean(detected) >= 0.75
    assert np.mean(np.array(detected) >= 0.75) >= 0.9


# --- Laws and edges ------------------------------------------------------------------------------


def test_classes_by_the_labels_of_a_week() -> None:
    shown = arms(Metric.TPR, 0.9, [26, 400, 4000], 4000)
    assert label_needs(shown, LIMIT, Z95) == [LATEST, LATER, SOON]
    gaps = [gap for gap in detectable_gaps(shown, LIMIT, Z95) if gap is not None]
    assert detectable_gaps(shown, LIMIT, Z95) == sorted(gaps, reverse=True)


@pytest.mark.parametrize("metric", [Metric.TPR, Metric.FPR, Metric.BLOCKED])
def test_more_labels_never_take_longer(metric: Metric) -> None:
    weekly = np.arange(11, 20_000, 37)
    for rate in (0.2, 0.5, 0.8):
        shown = arms(metric, rate, weekly, 2 * weekly)
        order = [tuple(LabelNeed).index(need) for need in label_needs(shown, LIMIT, Z)]
        assert order == sorted(order, reverse=True)
        gaps = [gap_ for gap_ in detectable_gaps(shown, LIMIT, Z) if gap_ is not None]
        assert gaps == sorted(gaps, reverse=True)
        assert gaps[-1] > float(LIMIT)


def test_more_comparisons_need_more_labels() -> None:
    shown = arms(Metric.TPR, 0.8, np.arange(50, 5000, 50), 5000)
    alone, among_many = (label_needs(shown, LIMIT, simultaneous_z(n)) for n in (1, 40))
    assert sum(need is SOON for need in among_many) < sum(need is SOON for need in alone)


def test_a_detectable_gap_of_the_needs_own_size_is_a_need_of_at_most_four_weeks() -> None:
    shown = arms(Metric.FPR, 0.1, np.arange(20, 3000, 7), 3000)
    needs, gaps = label_needs(shown, LIMIT, Z), detectable_gaps(shown, LIMIT, Z)
    for need, gap_ in zip(needs, gaps, strict=True):
        assert (gap_ is not None and gap_ <= 0.15) == (need is not LATEST)


def test_tpr_and_fpr_mirror_each_other() -> None:
    weekly = np.arange(20, 2000, 20)
    tpr, fpr = arms(Metric.TPR, 0.9, weekly, 500), arms(Metric.FPR, 0.1, weekly, 500)
    assert label_needs(tpr, LIMIT, Z) == label_needs(fpr, LIMIT, Z)
    assert detectable_gaps(tpr, LIMIT, Z) == detectable_gaps(fpr, LIMIT, Z)


def test_hidden_and_impossible_have_none() -> None:
    """No slice is 15 points below a reference of .12; at .15 it just can be."""
    shown = arms(
        Metric.TPR,
        [np.nan, 0.9, 0.9, 0.12, 0.15],
        [400, 0, 400, 400, 4000],
        [400, 400, 0] + 2 * [4000],
    )
    needs, gaps = label_needs(shown, LIMIT, Z95), detectable_gaps(shown, LIMIT, Z95)
    assert needs[:4] == [None] * 4
    assert needs[4] is not None
    assert gaps[:3] == [None] * 3
    assert gaps[3] == 0.12
    few = arms(Metric.TPR, [0.12], 40, 40)
    assert detectable_gaps(few, LIMIT, Z95) == [None]


def test_gaps_are_whole_points_above_the_limit() -> None:
    shown = arms(Metric.BLOCKED, 0.05, [30, 300, 10**6], 10**6)
    for limit in (Fraction("0.10"), Fraction("0.03"), Fraction("0.125")):
        gaps = detectable_gaps(shown, limit, Z95)
        assert all(gap_ == round(gap_, 2) > limit for gap_ in gaps if gap_ is not None)
    assert detectable_gaps(shown, LIMIT, Z95)[2] == 0.11
