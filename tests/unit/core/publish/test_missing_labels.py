"""Worst cases of missing labels: against every way in which they could have come."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from released_rows import rows_of

from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.metric import Metric
from monitor.core.publish.snapshot import SliceRow

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


def worst_cases(strata: list[Counted]) -> list[tuple[float, float]]:
    """The shown ranges of TPR and FPR whatever the missing labels say."""
    rates = row_of(strata).rates
    ranges = [(rates[metric].least, rates[metric].most) for metric in (Metric.TPR, Metric.FPR)]
    return [(least, most) for least, most in ranges if least is not None and most is not None]


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


counted = st.tuples(st.integers(15, 300), st.integers(15, 300), st.integers(20, 200))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(counted, min_size=4, max_size=4))
def test_whatever_the_missing_labels_say_the_rates_are_inside(strata: list[Counted]) -> None:
    tpr, fpr = worst_cases(strata)
    for true_tpr, true_fpr in truths(strata):
        assert tpr[0] <= float(true_tpr) <= tpr[1]
        assert fpr[0] <= float(true_fpr) <= fpr[1]


def test_the_ends_can_be_reached_but_for_the_interval() -> None:
    """Of each route nearly all labels are missing, and none is what the few that came say.

    Millions of decisions: little is left to chance.
    """
    nothing: Counted = (0, 0, 0)
    ready, other = (9_999, 1, 1_000_000), (1, 9_999, 1_000_000)
    for served, held in ((ready, other), (other, ready)):
        strata: list[Counted] = [nothing, served, nothing, held]
        tpr, fpr = worst_cases(strata)
        tprs, fprs = ([float(one) for one in rates] for rates in zip(*truths(strata), strict=True))
        if served is ready:
            found, ends = (tpr[0], fpr[1]), (min(tprs), max(fprs))
        else:
            found, ends = (tpr[1], fpr[0]), (max(tprs), min(fprs))
        assert found == pytest.approx(ends, abs=0.02)


@pytest.mark.parametrize(("missing", "matter"), [(0, False), (10, False), (11, True), (200, True)])
def test_a_few_missing_labels_are_tolerated(missing: int, matter: bool) -> None:
    strata: list[Counted] = [(60, 20, missing), (90, 5, 0), (30, 80, 0), (40, 90, 0)]
    row = row_of(strata)
    assert [len(worst_cases(strata)) == 2, (row.completeness or 0) < 0.98] == [matter, missing > 3]


def test_one_in_fifty_is_tolerated_and_more_is_not() -> None:
    fifty = [
        ((6_000, 3_800, missing), (1, 0, 0), (3_000, 7_000, 0), (1, 0, 0)) for missing in (200, 201)
    ]
    assert [len(worst_cases([*strata])) for strata in fifty] == [0, 2]
