"""Worst cases of missing labels: against every way in which they could have come."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from released_rows import rows_of

from monitor.core.contract import Metric, State
from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.publish.missing_labels import WorstCase, lacking, worst_cases
from monitor.core.publish.snapshot import ShownRate, SliceRow

CODING = Coding((), (0.5,), (1.0, 0.5))
STRATA = [Stratum(r, b, 0).code for r in (Route.AUTO_SERVE, Route.HUMAN_REVIEW) for b in (0, 1)]
Counted = tuple[int, int, int]
"""Labels received ready and not ready, and missing: every decision is requested."""


def row_of(strata: list[Counted]) -> SliceRow:
    """The published row of a synthetic contract, which is exact."""
    values = np.zeros((1, len(strata), COUNTERS), np.int64)
    for column, (ready, other, missing) in enumerate(strata):
        values[0, column, Counter.N] = values[0, column, Counter.Q] = ready + other + missing
        values[0, column, Counter.LABELLED] = ready + other
        values[0, column, Counter.READY] = ready
    order = np.argsort(STRATA)
    counts = SliceCounts(("channel=chat",), np.array(STRATA)[order], values[:, order])
    (row,) = rows_of(counts, CODING, exact=True)
    return row


def truths(strata: list[Counted]) -> list[tuple[Fraction, Fraction]]:
    """TPR and FPR for every way in which the missing labels of each stratum may all be one."""
    found = []
    for said in product((False, True), repeat=len(strata)):
        ready = [r + m * s for (r, _, m), s in zip(strata, said, strict=True)]
        other = [n + m * (not s) for (_, n, m), s in zip(strata, said, strict=True)]
        if sum(ready) and sum(other):
            found.append(
                (Fraction(sum(ready[:2]), sum(ready)), Fraction(sum(other[:2]), sum(other)))
            )
    return found


counted = st.tuples(st.integers(15, 300), st.integers(15, 300), st.integers(0, 200))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(counted, min_size=4, max_size=4))
def test_whatever_the_missing_labels_say_the_rates_are_inside(strata: list[Counted]) -> None:
    tpr, fpr = worst_cases(row_of(strata))
    for true_tpr, true_fpr in truths(strata):
        assert tpr.lower <= float(true_tpr) <= tpr.upper
        assert fpr.lower <= float(true_fpr) <= fpr.upper


def test_the_ends_can_be_reached_but_for_the_interval() -> None:
    """Of each route nearly all labels are missing, and none is what the few that came say.

    Millions of decisions: little is left to chance.
    """
    nothing: Counted = (0, 0, 0)
    ready, other = (9_999, 1, 1_000_000), (1, 9_999, 1_000_000)
    for served, held in ((ready, other), (other, ready)):
        strata: list[Counted] = [nothing, served, nothing, held]
        tpr, fpr = worst_cases(row_of(strata))
        tprs, fprs = ([float(one) for one in rates] for rates in zip(*truths(strata), strict=True))
        if served is ready:
            found, ends = (tpr.lower, fpr.upper), (min(tprs), max(fprs))
        else:
            found, ends = (tpr.upper, fpr.lower), (max(tprs), min(fprs))
        assert found == pytest.approx(ends, abs=0.02)


def shown(value: float, lower: float, upper: float) -> ShownRate:
    return ShownRate(value, lower, upper, 500)


RATES = {
    Metric.TPR: shown(0.8, 0.75, 0.84),
    Metric.FPR: shown(0.1, 0.07, 0.14),
    Metric.READY: shown(0.5, 0.47, 0.53),
}
ROW = SliceRow(
    "channel=chat",
    dict.fromkeys(RATES, State.MATURING),
    RATES,
    completeness=0.5,
)


def test_with_everything_there_the_range_is_the_interval() -> None:
    tpr, fpr = worst_cases(replace(ROW, completeness=1.0))
    assert tpr == WorstCase(Metric.TPR, 0.75, 0.84)
    assert fpr == WorstCase(Metric.FPR, 0.07, 0.14)


def test_less_complete_is_wider_and_without_labels_nothing_is_known() -> None:
    ranges = [worst_cases(replace(ROW, completeness=c / 10)) for c in range(10, -1, -1)]
    for wide, wider in pairwise(ranges):
        for one, other in zip(wide, wider, strict=True):
            assert other.lower <= one.lower
            assert other.upper >= one.upper
    assert [(one.lower, one.upper) for one in ranges[-1]] == [(0, 1), (0, 1)]


def test_it_reads_nothing_but_what_is_shown() -> None:
    """By hand: A = .375, H = .125, N_A = .425, N_H = .575 at the lower end, m = .5."""
    tpr, _ = worst_cases(ROW)
    least, most_held = 0.375 - 0.2125, 0.125 + 0.2875
    assert tpr.lower == np.floor(100 * least / (least + most_held)) / 100


@pytest.mark.parametrize("metric", list(RATES))
def test_without_one_of_the_rates_there_is_none(metric: Metric) -> None:
    coded = {**RATES, metric: ShownRate(None, 0.9, 1.0, 500, at_least=0.95)}
    assert worst_cases(replace(ROW, rates=coded)) == ()
    hidden = {m: rate for m, rate in RATES.items() if m is not metric}
    assert worst_cases(replace(ROW, rates=hidden)) == ()
    assert worst_cases(replace(ROW, completeness=None)) == ()


def test_only_rows_that_lack_more_than_the_others_are_named() -> None:
    fine = replace(ROW, slice="channel=email", completeness=0.95)
    same = [replace(ROW, slice=f"channel={i}") for i in range(3)]
    assert lacking([ROW, fine, replace(fine, slice="channel=fax")]) == [ROW]
    assert lacking(same) == [], "where all lack labels, none is lacking them more"
    assert lacking([ROW]) == []
    settled = replace(ROW, states=dict.fromkeys(RATES, State.INCONCLUSIVE))
    assert lacking([settled, fine]) == [], "a band's width is no lack"
