"""Cohorts as dense arrays, against sums over plain rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.detection.pages.cohort import Layout, SliceCohort, rates_of

CODING = Coding((), score_bands=(0.5,), audit_rates=(1.0, 0.5, 0.05))
SLICES = ("a=x", "a=y", "a=z")

strata = st.builds(
    Stratum,
    st.sampled_from(Route),
    st.integers(0, 2),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)
rows = st.lists(
    st.tuples(st.sampled_from(SLICES[:2]), strata, st.integers(0, 9), st.integers(0, 9)),
    max_size=12,
)


def counts_of(found: list[tuple[str, Stratum, int, int]]) -> SliceCounts:
    """``n`` decisions of which some are labelled, half of those ready."""
    codes = np.array(sorted({one.code for _, one, _, _ in found}), np.int64)
    values = np.zeros((2, len(codes), COUNTERS), np.int64)
    for text, stratum, n, labelled in found:
        at = (SLICES.index(text), int(np.searchsorted(codes, stratum.code)))
        values[at][Counter.N] += n + labelled
        values[at][Counter.LABELLED] += labelled
        values[at][Counter.READY] += labelled // 2
    return SliceCounts(SLICES[:2], codes, values)


@given(rows)
def test_every_row_is_where_it_belongs(found: list[tuple[str, Stratum, int, int]]) -> None:
    layout = Layout.for_rates((2, 0), CODING)
    cohort = SliceCohort.from_counts(counts_of(found), SLICES, layout)
    expected = np.zeros((3, 3, *layout.shape), np.int64)
    routed = np.zeros((3, 3), np.int64)
    for text, one, n, labelled in found:
        row = SLICES.index(text)
        if one.probe:
            continue
        routed[row, one.route] += n + labelled
        if one.evidence_passed and one.route != Route.BLOCKED_BY_EVIDENCE and one.rate != 1:
            at = (row, one.route, layout.rates.index(one.rate), one.band)
            expected[0][at] += n + labelled
            expected[1][at] += labelled
            expected[2][at] += labelled // 2
    assert (cohort.decisions == expected[0]).all()
    assert (cohort.labelled == expected[1]).all()
    assert (cohort.ready == expected[2]).all()
    assert (cohort.routed == routed).all()
    rest = cohort.complements
    assert ((rest + cohort).decisions == cohort.decisions.sum(axis=0)).all()
    assert ((rest + cohort).routed == cohort.routed.sum(axis=0)).all()


def test_labels_that_were_folded_before_their_decisions_make_no_impossible_counts() -> None:
    codes = np.array([Stratum(Route.AUTO_SERVE, 0, 0).code])
    values = np.zeros((1, 1, COUNTERS), np.int64)
    values[0, 0, [Counter.LABELLED, Counter.READY]] = 3, 4
    cohort = SliceCohort.from_counts(
        SliceCounts(SLICES[:1], codes, values), SLICES, Layout.for_rates((0,), CODING)
    )
    at = (0, 0, 0, 0)
    assert (cohort.decisions[at], cohort.labelled[at], cohort.ready[at]) == (3, 3, 3)


def test_audit_rates_are_those_of_reviewed_decisions() -> None:
    found = [
        ("a=x", Stratum(Route.AUTO_SERVE, 0, 2), 1, 0),
        ("a=x", Stratum(Route.HUMAN_REVIEW, 0, 0), 1, 0),
        ("a=x", Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 1), 1, 0),
        ("a=y", Stratum(Route.AUTO_SERVE, 0, 1, evidence_passed=False), 1, 0),
    ]
    assert rates_of(counts_of(found)) == (0, 2)
    assert Layout.for_rates((2, 0, 2), CODING).audit.tolist() == [1.0, 0.05]
    with pytest.raises(ValueError, match="audit rate outside"):
        Layout.for_rates((3,), CODING)


def test_a_cohort_is_kept_as_arrays_and_one_of_an_earlier_version_without_requests() -> None:
    stratum = Stratum(Route.HUMAN_REVIEW, 0, 1)
    counts = counts_of([("a=x", stratum, 5, 3)])
    arrays = SliceCohort.from_counts(counts, SLICES, Layout.for_rates((2, 0), CODING)).to_arrays()
    kept = SliceCohort.from_arrays(arrays).to_arrays()
    assert all((kept[name] == arrays[name]).all() for name in arrays)
    earlier = {name: x for name, x in arrays.items() if name not in ("requested", "received")}
    assert not SliceCohort.from_arrays(earlier).requested.any()
