"""Another threshold on the same items: the lesson's by hand, the laws by brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matched import BLOCKED, CANDIDATE, REFERENCES, REVIEWED, VARIETY, seen, ten_pairs, varieties

from monitor.audit.audit_report import WhatIfLine
from monitor.audit.inputs import Pair
from monitor.audit.matching import comparisons
from monitor.audit.what_if import MAX_THRESHOLDS, what_if
from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Observed

FORMAL, CASUAL = f"{VARIETY}=formal", f"{VARIETY}=conversational"


def lines(pairs: list[Pair], thresholds: list[float] | None = None) -> tuple[WhatIfLine, ...]:
    return what_if(comparisons(pairs, REFERENCES), pairs, VARIETY, thresholds, "formal")


def at(pairs: list[Pair], threshold: float) -> WhatIfLine:
    return next(one for one in lines(pairs, [threshold]) if one.threshold == threshold)


def test_the_current_threshold_says_what_was_observed() -> None:
    (line,) = lines(list(ten_pairs()), [])
    assert line.current
    assert line.flips == 3
    assert line.tpr == {FORMAL: 5 / 6, CASUAL: 3 / 6}
    assert line.fpr == {FORMAL: 1 / 4, CASUAL: 0.0}
    assert line.tpr_gap == pytest.approx(1 / 3)
    assert line.fpr_gap == -0.25  # the reference serves more that is not ready


def test_other_thresholds_by_hand() -> None:
    pairs = list(ten_pairs())
    low = at(pairs, 0.60)
    assert (low.current, low.flips) == (False, 3)  # p5, n2 and n3
    assert (low.tpr, low.fpr) == ({FORMAL: 1.0, CASUAL: 5 / 6}, {FORMAL: 1.0, CASUAL: 0.5})
    high = at(pairs, 0.88)
    assert (high.flips, high.tpr_gap) == pytest.approx((1, 1 / 6))  # p2; p1 is equal to it


def test_the_candidate_has_no_gap_at_its_threshold() -> None:
    (line,) = lines(list(ten_pairs(CANDIDATE)), [])
    assert (line.flips, line.tpr_gap, line.fpr_gap) == (0, 0.0, 0.0)


def test_the_default_grid_is_where_something_changes() -> None:
    found = lines(list(ten_pairs()))
    tried = [one.threshold for one in found]
    scores = [x.observed.score for p in ten_pairs() for x in p.rows]
    assert tried == sorted({0.70, *(score for score in scores if score is not None)})
    assert None not in scores
    assert [one.threshold for one in found if one.current] == [0.70]


def test_the_default_grid_is_bounded() -> None:
    pairs = [varieties(f"p{i:03}", seen(i / 500), seen(i / 600)) for i in range(500)]
    tried = [one.threshold for one in lines(pairs)]
    assert len(tried) == MAX_THRESHOLDS + 1
    assert (tried[0], tried[-1]) == (0.0, 499 / 500)
    assert max(b - a for a, b in pairwise(tried)) < 0.08


def test_every_threshold_that_decided_is_marked() -> None:
    pairs = [varieties("p1", seen(0.75, 0.7), seen(0.75, 0.8))]
    found = lines(pairs, [0.9])
    assert [(x.threshold, x.current, x.flips) for x in found] == [
        (0.7, True, 0),
        (0.8, True, 0),
        (0.9, False, 0),
    ]


def test_what_was_overridden_stays_as_it_was() -> None:
    overridden = [varieties("p1", seen(0.9), seen(0.9, route=REVIEWED))]
    assert {x.flips for x in lines(overridden, [0.5, 0.9])} == {1}
    # Above its score the other is not served either.
    assert at(overridden, 0.95).flips == 0


def test_without_a_score_nothing_is_served() -> None:
    line = at([varieties("p1", seen(0.1), seen(None))], 0.0)
    assert (line.tpr, line.flips) == ({FORMAL: 1.0, CASUAL: 0.0}, 1)


def test_what_did_not_pass_the_gate_is_outside() -> None:
    pairs = [
        varieties("p1", seen(0.9), seen(0.9, passed=False)),
        varieties("p2", seen(0.9), seen(0.9, route=BLOCKED)),
    ]
    line = at(pairs, 0.7)
    assert (line.tpr, line.fpr) == ({FORMAL: 1.0, CASUAL: None}, {FORMAL: None, CASUAL: None})
    assert (line.tpr_gap, line.fpr_gap) == (None, None)
    assert line.flips == 1  # p2: blocked behind the gate


def test_nothing_behind_the_gate_is_no_line() -> None:
    assert lines([varieties("p1", seen(0.9, passed=False), seen(None, passed=False))]) == ()


def test_gaps_without_a_reference_are_the_largest_of_all() -> None:
    pairs = list(ten_pairs())
    for reference in (None, "nobody"):
        found = what_if(comparisons(pairs, REFERENCES), pairs, VARIETY, [], reference)
        assert found[0].tpr_gap == pytest.approx(1 / 3)


def test_an_attribute_that_nobody_has_is_no_slice() -> None:
    pairs = list(ten_pairs())
    (line,) = what_if(comparisons(pairs, REFERENCES), pairs, "persona", [])
    assert (line.tpr, line.fpr, line.tpr_gap, line.flips) == ({}, {}, None, 3)


SCORES = st.one_of(st.none(), st.integers(0, 20).map(lambda x: x / 20))
OBSERVED = st.builds(
    seen, SCORES, st.sampled_from([0.5, 0.7]), st.sampled_from([None, *Route]), passed=st.booleans()
)
PAIRS = st.lists(st.tuples(OBSERVED, OBSERVED, st.booleans()), min_size=1, max_size=12)


@given(PAIRS, SCORES.map(lambda x: 0.7 if x is None else x))
def test_against_routing_again_one_by_one(
    cases: list[tuple[Observed, Observed, bool]], threshold: float
) -> None:
    pairs = [varieties(f"p{i}", a, b, ready=ready) for i, (a, b, ready) in enumerate(cases)]
    found = [one for one in lines(pairs, [threshold]) if one.threshold == threshold]
    behind = [(routed(a, threshold), routed(b, threshold)) for a, b, _ in cases]
    expected = sum(
        x is not y
        for (x, y), (a, b, _) in zip(behind, cases, strict=True)
        if a.evidence_passed and b.evidence_passed
    )
    assert found[0].flips == expected
    for index, name in enumerate((FORMAL, CASUAL)):
        for ready, rates in ((True, found[0].tpr), (False, found[0].fpr)):
            mine = [case[:2][index] for case in cases if case[2] is ready]
            served = [
                routed(one, threshold) is Route.AUTO_SERVE
                for one in mine
                if one.evidence_passed and one.route is not BLOCKED
            ]
            assert rates[name] == (sum(served) / len(served) if served else None)
    assert all(x is None or math.isfinite(x) for x in (found[0].tpr_gap, found[0].fpr_gap))


def routed(one: Observed, threshold: float) -> Route:
    """Where it goes under another threshold, unless something else had sent it elsewhere."""
    if replace(one, route=seen(one.score, one.threshold).route) != one or not one.evidence_passed:
        return one.route
    return seen(one.score, threshold).route
