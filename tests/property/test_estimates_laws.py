"""Laws that every table of counts obeys, edges and zeros included (warnings are errors)."""

from __future__ import annotations

from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from slice_tables import blocked, completeness

from monitor.core.contract import COMPLEMENT
from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.intervals import wilson
from monitor.core.metric import Metric
from monitor.core.rates.estimates import RateColumns, calibration, columns_of, estimate, measure
from monitor.core.rates.gaps import gap, references

CODING = Coding((), audit_rates=(1.0, 0.5, 0.05))
LABELLED = (Metric.TPR, Metric.FPR, Metric.READY)
NUMBERS = st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 3_000), st.just(10**9))
STRATA = st.builds(
    Stratum,
    route=st.sampled_from(Route),
    band=st.integers(0, 3),
    rate=st.integers(0, 2),
    evidence_passed=st.sampled_from([True, True, True, False]),
    probe=st.sampled_from([False, False, False, True]),
)


@st.composite
def cells(draw: st.DrawFn, *, complete: bool = False) -> npt.NDArray[np.int64]:
    """Consistent counters of one cell."""
    n = draw(NUMBERS)
    labelled = n if complete else min(n, draw(NUMBERS))
    row = np.zeros(COUNTERS, np.int64)
    row[Counter.N], row[Counter.LABELLED] = n, labelled
    row[Counter.READY] = min(labelled, draw(NUMBERS))
    row[Counter.Q] = min(n, labelled + draw(st.integers(0, 5)))
    return row


@st.composite
def tables(draw: st.DrawFn, *, complete: bool = False) -> SliceCounts:
    """Any group-by: no slices, no strata and empty slices included."""
    strata = sorted({s.code for s in draw(st.lists(STRATA, max_size=8))})
    slices = draw(st.integers(0, 4))
    values = np.zeros((slices, len(strata), COUNTERS), np.int64)
    for i, j in np.ndindex(values.shape[:2]):
        values[i, j] = draw(cells(complete=complete))
    names = tuple(f"a={i}" for i in range(slices))
    return SliceCounts(names, np.array(strata, np.int64), values)


def assert_same(first: RateColumns, second: RateColumns, rtol: float = 0) -> None:
    for name in ("value", "lower", "upper", "support", "hits", "misses", "route_labels"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=rtol)


def assert_sound(rates: RateColumns) -> None:
    """Bounds ordered in [0, 1] around their point, together or not at all; support finite."""
    value, lower, upper = rates.value, rates.lower, rates.upper
    assert (np.isnan(lower) == np.isnan(upper)).all()
    assert np.isnan(value[np.isnan(lower)]).all()
    seen = ~np.isnan(lower)
    assert (lower[seen] >= 0).all()
    assert (upper[seen] <= 1).all()
    assert (lower[seen] <= upper[seen]).all()
    points = ~np.isnan(value)
    assert (lower[points] <= value[points]).all()
    assert (value[points] <= upper[points]).all()
    assert np.isfinite(rates.support).all()
    assert (rates.support[~points] == 0).all()
    assert (rates.support[points] > 0).all()


@given(tables(), st.sampled_from(list(Metric)), st.sampled_from([1.0, 1.96, 3.5]))
def test_rates_are_sound(counts: SliceCounts, metric: Metric, z: float) -> None:
    assert_sound(estimate(counts, CODING, metric, z))


@given(tables())
def test_calibration_and_descriptions_are_sound(counts: SliceCounts) -> None:
    for rates in calibration(counts, CODING).values():
        assert_sound(rates)
    labelled = (estimate(counts, CODING, metric).as_labelled for metric in Metric)
    for shares in (completeness(counts), *labelled):
        known = shares[~np.isnan(shares)]
        assert ((known >= 0) & (known <= 1)).all()


@given(tables(), st.sampled_from(list(Metric)), st.sampled_from([COMPLEMENT, "a=0", "a=9"]))
def test_gaps_are_sound(counts: SliceCounts, metric: Metric, reference: str) -> None:
    ours = estimate(counts, CODING, metric)
    theirs = estimate(references(counts, reference), CODING, metric)
    gaps = gap(ours, theirs)
    for low, point, high in (
        (gaps.lower, gaps.value, gaps.upper),
        (gaps.ratio_lower, gaps.ratio, gaps.ratio_upper),
    ):
        assert not (low > point).any()
        assert not (point > high).any()
        assert not (low > high).any()
        assert not np.isinf([low, point, high]).any()
    assert not (np.abs([gaps.lower, gaps.upper]) > 1).any()
    back = gap(theirs, ours)
    np.testing.assert_array_equal(gaps.value, -back.value)
    np.testing.assert_array_equal(gaps.lower, -back.upper)


@given(tables(), st.sampled_from(LABELLED), st.randoms(use_true_random=False))
def test_order_of_strata_and_slices_does_not_matter(
    counts: SliceCounts, metric: Metric, random: Random
) -> None:
    rows, columns = (random.sample(range(n), n) for n in counts.values.shape[:2])
    shuffled = SliceCounts(
        tuple(counts.slices[i] for i in rows),
        counts.strata[columns],
        counts.values[rows][:, columns],
    )
    straight = estimate(counts, CODING, metric)
    mixed = estimate(shuffled, CODING, metric)
    for name in ("value", "lower", "upper", "support", "hits", "misses", "route_labels"):
        np.testing.assert_array_equal(getattr(straight, name)[rows], getattr(mixed, name))


@given(tables(complete=True), st.sampled_from(LABELLED))
def test_everything_labelled_is_plain_wilson(counts: SliceCounts, metric: Metric) -> None:
    rates = estimate(counts, CODING, metric)
    total = rates.hits + rates.misses
    some = total > 0
    np.testing.assert_array_equal(rates.support, total)
    np.testing.assert_array_equal(rates.value[some], rates.hits[some] / total[some])
    bounds = wilson(rates.hits[some] / total[some], total[some])
    np.testing.assert_array_equal((rates.lower[some], rates.upper[some]), bounds)
    assert np.isnan([rates.value[~some], rates.lower[~some], rates.upper[~some]]).all()


@given(tables(), st.booleans())
def test_blocked_unlabelled_decisions_move_the_blocked_rate_alone(
    counts: SliceCounts, evidence_passed: bool
) -> None:
    extra = np.zeros((len(counts.slices), 1, COUNTERS), np.int64)
    extra[:, 0, Counter.N] = 1 + counts.values[:, :, Counter.N].sum(axis=1) * 3 // 7
    code = blocked(3, 2, evidence_passed=evidence_passed).code
    more = SliceCounts(
        counts.slices,
        np.append(counts.strata, code),
        np.concatenate([counts.values, extra], axis=1),
    )
    for metric in LABELLED:
        assert_same(estimate(counts, CODING, metric), estimate(more, CODING, metric))
    before, after = (estimate(table, CODING, Metric.BLOCKED) for table in (counts, more))
    assert not (after.value < before.value).any()
    assert (after.hits > before.hits).all()


@given(tables(), st.sampled_from(list(Metric)))
def test_a_slice_does_not_depend_on_its_neighbours(counts: SliceCounts, metric: Metric) -> None:
    together = estimate(counts, CODING, metric)
    for i, name in enumerate(counts.slices):
        row = counts.values[i : i + 1]
        used = row.any(axis=(0, 2))
        alone = estimate(SliceCounts((name,), counts.strata[used], row[:, used]), CODING, metric)
        np.testing.assert_allclose(alone.value[0], together.value[i], rtol=1e-12)
        np.testing.assert_allclose(alone.support[0], together.support[i], rtol=1e-9)


@given(tables(), st.sampled_from(LABELLED))
@settings(max_examples=examples(50))
def test_a_higher_z_never_narrows(counts: SliceCounts, metric: Metric) -> None:
    narrow, wide = (estimate(counts, CODING, metric, z) for z in (1.96, 2.6))
    assert not (wide.lower > narrow.lower + 1e-12).any()
    assert not (wide.upper < narrow.upper - 1e-12).any()


@pytest.mark.parametrize("metric", list(Metric))
def test_probes_count_nowhere(metric: Metric) -> None:
    values = np.full((1, 2, COUNTERS), 50, np.int64)
    codes = [Stratum(route, 0, 0, probe=True).code for route in (Route(0), Route(1))]
    rates = estimate(SliceCounts(("",), np.array(codes), values), CODING, metric)
    assert np.isnan(rates.value).all()
    assert rates.hits.tolist() == rates.misses.tolist() == [0]


@settings(max_examples=examples(60), deadline=None)
@given(tables(), st.sampled_from(Metric), st.sampled_from([1.645, 1.96, 3.08]))
def test_slices_and_complements_at_once_are_each_by_itself(
    counts: SliceCounts, metric: Metric, z: float
) -> None:
    """Rows of a table do not know of each other: whatever is stacked gives the same bits."""
    apart = [measure(one, CODING, metric) for one in (counts, counts.complements)]
    stacked, size = measure(counts.above(counts.complements), CODING, metric), len(counts.slices)
    for side, (one, found) in enumerate(zip(apart, columns_of(apart, z), strict=True)):
        assert_same(found, one.columns(z))
        assert_same(stacked.rows(slice(side * size, (side + 1) * size)).columns(z), found)
