"""Effective trials: what bounds and support rest on where a few labels stand for many decisions."""

from __future__ import annotations

import numpy as np
import pytest
from slice_tables import auto, counted, review, slice_counts

from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import Floats, wilson
from monitor.core.metric import Metric
from monitor.core.rates.effective import Evidence, Trials
from monitor.core.rates.estimates import measure
from monitor.core.rates.gaps import support_together

CODING = Coding(())
SERVED = (Metric.TPR, Metric.FPR)


def audited(
    found: int, *, decisions: int = 800, audits: int = 40, reviewed: int = 300
) -> SliceCounts:
    """So many of the audits were ready; a third of what was reviewed."""
    cells = {
        auto(): counted(decisions, audits, found),
        review(): counted(reviewed, reviewed, reviewed // 3),
    }
    return slice_counts({"a": cells})


def evidence(counts: SliceCounts, metric: Metric) -> Evidence:
    return measure(counts, CODING, metric).evidence


@pytest.mark.parametrize("metric", SERVED)
@pytest.mark.parametrize("z", [1.645, 1.96, 3.08])
def test_all_labelled_is_plain_wilson(metric: Metric, z: float) -> None:
    found = evidence(audited(30, audits=800), metric)
    np.testing.assert_array_equal(found.bounds(z), wilson(found.value, found.support, z))
    assert found.support_at(np.array([0.01])).tolist() == found.support.tolist()


@pytest.mark.parametrize("metric", SERVED)
@pytest.mark.parametrize("z", [1.0, 1.96, 3.08])
def test_sampled_bounds_hold_their_point(metric: Metric, z: float) -> None:
    for ready in range(41):
        found = evidence(audited(ready), metric)
        lower, upper = found.bounds(z)
        assert 0 <= lower <= found.value <= upper <= 1
        assert lower <= wilson(found.value, found.support, z)[0] + 1e-9, "few may have erred upward"


def test_a_sample_of_only_hits_or_of_none_still_varies_and_both_alike() -> None:
    """One rate of 40 audits of 800 is 0 as sampled, the other 1."""
    hits = np.array([0.0, 40.0])
    trials = Trials(np.full(2, 800.0), np.full(2, 40.0), hits)
    assert 0 < trials.rate[0] < 1 / 40, "less than where there is a hit"
    assert trials.rate.sum() == pytest.approx(1)
    assert trials.sampling[0] == pytest.approx(trials.sampling[1])
    whole = Trials(hits, hits, hits)
    assert whole.sampling.tolist() == [0, 0], "nothing is left to be sampled"


@pytest.mark.parametrize("metric", SERVED)
def test_bounds_widen_with_z_and_narrow_with_audits(metric: Metric) -> None:
    few, many = evidence(audited(20), metric), evidence(audited(100, audits=200), metric)
    widths = [float(np.ptp(few.bounds(z))) for z in (1.0, 1.645, 1.96, 3.08)]
    assert widths == sorted(widths)
    assert np.ptp(many.bounds(1.96)) < np.ptp(few.bounds(1.96))


@pytest.mark.parametrize("metric", SERVED)
def test_rows_do_not_depend_on_each_other(metric: Metric) -> None:
    """A row that is labelled completely has the same bounds beside one that is not."""
    names = ("a", "b")
    whole, part = audited(30, audits=800), audited(3)
    both = SliceCounts(names, whole.strata, np.concatenate([whole.values, part.values]))
    for index, alone in enumerate((whole, part)):
        found = np.array(evidence(both, metric).bounds(1.96))[:, index]
        np.testing.assert_array_equal(found, np.array(evidence(alone, metric).bounds(1.96))[:, 0])


@pytest.mark.parametrize("metric", SERVED)
def test_support_at_its_own_rate_is_n_eff(metric: Metric) -> None:
    for ready in range(1, 40):
        found = evidence(audited(ready), metric)
        np.testing.assert_allclose(found.support_at(found.value), found.support, rtol=1e-6)


def test_support_is_judged_alike_whatever_the_audits_found() -> None:
    """n_eff at its own rate follows what the audits found; at a common rate it hardly does."""
    few, many = (evidence(audited(ready), Metric.FPR) for ready in (36, 28))  # 4 and 12 not ready
    assert many.support > 1.5 * few.support
    common = np.array([0.2])
    assert float((many.support_at(common) / few.support_at(common))[0]) < 1.15


def test_together_is_the_mean_weighted_by_n_eff() -> None:
    slices, reference = (measure(audited(ready), CODING, Metric.FPR) for ready in (36, 28))
    a, b = slices.evidence, reference.evidence
    common: Floats = (a.value * a.support + b.value * b.support) / (a.support + b.support)
    mine, other = support_together(slices, reference)
    np.testing.assert_allclose(mine, a.support_at(common))
    np.testing.assert_allclose(other, b.support_at(common))


def test_without_a_rate_there_is_no_support() -> None:
    cells = {auto(): counted(500, 0, 0), review(): counted(300, 300, 100)}
    hidden = measure(slice_counts({"a": cells}), CODING, Metric.TPR)
    assert np.isnan(hidden.evidence.value[0])
    assert hidden.evidence.support_at(np.array([0.5])).tolist() == [0]
    mine, other = support_together(hidden, measure(audited(30), CODING, Metric.TPR))
    assert mine.tolist() == [0]
    assert other[0] > 0


EVERY = (*SERVED, Metric.READY, Metric.PRECISION)


@pytest.mark.parametrize("metric", EVERY)
@pytest.mark.parametrize("audits", [40, 800])
def test_independent_decisions_have_the_same_bounds_in_units(metric: Metric, audits: int) -> None:
    plain = evidence(audited(audits // 2, audits=audits), metric)
    in_units = plain.in_units(np.ones(1))
    np.testing.assert_array_equal(plain.bounds(1.96), in_units.bounds(1.96))
    np.testing.assert_array_equal(plain.support, in_units.support)


@pytest.mark.parametrize("metric", EVERY)
def test_in_units_all_labels_are_worth_less_by_the_effect(metric: Metric) -> None:
    plain = evidence(audited(300, audits=800), metric)
    in_units = plain.in_units(np.array([8.0]))
    assert in_units.support == pytest.approx(plain.support / 8)
    np.testing.assert_allclose(in_units.bounds(1.96), wilson(plain.value, plain.support / 8, 1.96))


@pytest.mark.parametrize("metric", [Metric.READY, Metric.PRECISION])
def test_in_units_few_labels_lose_little(metric: Metric) -> None:
    """At audits of 5 %, of the other 7 decisions of a unit a third of one has a label."""
    plain = evidence(audited(20, reviewed=1), metric)
    in_units = plain.in_units(np.array([8.0]))
    assert plain.support / in_units.support == pytest.approx(1 + 7 * 0.05, rel=0.02)


@pytest.mark.parametrize("metric", EVERY)
def test_bounds_widen_with_the_effect_and_hold_their_point(metric: Metric) -> None:
    for ready in range(1, 40):
        found = evidence(audited(ready), metric)
        rows = [found.in_units(np.array([effect])).bounds(1.96) for effect in (1.0, 1.5, 4.0, 64.0)]
        assert all(lower <= found.value <= upper for lower, upper in rows)
        widths = [float(upper[0] - lower[0]) for lower, upper in rows]
        assert widths == sorted(widths)


@pytest.mark.parametrize("size", [1, 6, 50])
def test_support_in_units_is_that_of_simulated_rates(size: int) -> None:
    """Units with one outcome each; a fifth of what is served is labelled, and all reviews."""
    rng, outcomes = np.random.default_rng(4), np.array([0.35, 0.3, 0.15, 0.2])
    drawn = size * rng.multinomial(12_000 // size, outcomes, 4_000)
    ready, not_ready = rng.binomial(drawn[:, :2], 0.2).T
    hits = drawn[:, :2].sum(axis=1) * ready / (ready + not_ready)
    rates = hits / (hits + drawn[:, 2])
    counts = {auto(): counted(7_800, 1_560, 840), review(): counted(4_200, 4_200, 1_800)}
    found = evidence(slice_counts({"a": counts}), Metric.TPR).in_units(np.array([float(size)]))
    assert found.value == pytest.approx(0.7)
    assert found.support[0] == pytest.approx(0.7 * 0.3 / rates.var(), rel=0.06)
