"""Which way a flip goes and what made it: one case for each stage and cause, and the laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matched import BLOCKED, REVIEWED, SERVED, seen

from monitor.core.counts.cells import Route
from monitor.core.probes.flips import (
    FlipCause,
    FlipDirection,
    FlipStage,
    Observed,
    cause,
    direction,
    explained,
    is_flip,
    stage,
)

SCORES = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 0.65, 0.7, 0.75, 0.8, 1.0]))
THRESHOLDS = st.sampled_from([0.0, 0.65, 0.7, 0.75, 1.0])
OBSERVED = st.builds(
    seen,
    SCORES,
    THRESHOLDS,
    st.sampled_from([None, SERVED, REVIEWED, BLOCKED]),
    passed=st.booleans(),
)
BY_SCORE = st.builds(seen, SCORES, THRESHOLDS)

GATE, BEHIND, NONE = FlipStage


@pytest.mark.parametrize(
    ("reference", "variant", "expected"),
    [
        (seen(0.78), seen(0.67), FlipCause.JUDGE_SCORE),
        (seen(0.70), seen(0.69), FlipCause.JUDGE_SCORE),  # equal to the threshold is served
        (seen(0.78), seen(None), FlipCause.JUDGE_SCORE),  # no score is never served
        (seen(0.9, 0.7), seen(0.6, 0.75), FlipCause.JUDGE_SCORE),  # under either threshold
        (seen(0.78, 0.70), seen(0.78, 0.80), FlipCause.THRESHOLD),
        (seen(0.80, 0.70), seen(0.78, 0.80 + 1e-9), FlipCause.THRESHOLD),
        (seen(0.80, 0.70), seen(0.78, 0.80), FlipCause.SCORE_AND_THRESHOLD),
        (seen(0.78, 0.80), seen(0.72, 0.70), FlipCause.THRESHOLD),
        (seen(0.90, route=REVIEWED), seen(0.90), FlipCause.ROUTE),
        (
            seen(0.78),
            seen(0.67, route=BLOCKED),
            FlipCause.ROUTE,
        ),  # blocked, though it passed the gate
        (seen(0.60, route=SERVED), seen(0.60), FlipCause.ROUTE),
    ],
)
def test_cause_behind_the_gate(reference: Observed, variant: Observed, expected: FlipCause) -> None:
    assert stage(reference, variant) is BEHIND
    assert cause(reference, variant) is expected
    assert cause(variant, reference) is expected


def test_the_gate_comes_first() -> None:
    # The scores lie apart too, but the gate hides that.
    assert stage(seen(0.9), seen(0.1, passed=False)) is GATE
    assert stage(seen(None, passed=False), seen(0.9)) is GATE


def test_a_gate_that_changes_no_route_makes_no_flip() -> None:
    assert stage(seen(0.6), seen(0.6, route=REVIEWED, passed=False)) is NONE


def test_both_stopped_are_no_flip() -> None:
    assert stage(seen(0.9, passed=False), seen(0.1, passed=False)) is NONE


def test_both_stopped_and_apart_are_not_the_judges_doing() -> None:
    stopped, reviewed = seen(0.9, passed=False), seen(0.1, route=REVIEWED, passed=False)
    assert stage(stopped, reviewed) is BEHIND
    assert cause(stopped, reviewed) is FlipCause.ROUTE
    served = seen(0.9, route=SERVED, passed=False)
    assert cause(served, reviewed) is FlipCause.ROUTE


@pytest.mark.parametrize(
    ("reference", "variant", "expected"),
    [
        (SERVED, REVIEWED, FlipDirection.HELD_BACK),
        (SERVED, BLOCKED, FlipDirection.HELD_BACK),
        (REVIEWED, BLOCKED, FlipDirection.HELD_BACK),
        (BLOCKED, REVIEWED, FlipDirection.SERVED),
        (REVIEWED, SERVED, FlipDirection.SERVED),
    ],
)
def test_direction(reference: Route, variant: Route, expected: FlipDirection) -> None:
    assert direction(seen(0.7, route=reference), seen(0.7, route=variant)) is expected


@given(OBSERVED, OBSERVED)
def test_a_flip_has_a_stage_and_the_other_way_round(one: Observed, other: Observed) -> None:
    assert is_flip(one, other) is (stage(one, other) is not NONE)
    assert stage(one, other) is stage(other, one)
    if is_flip(one, other):
        assert direction(one, other) is not direction(other, one)
        assert cause(one, other) is cause(other, one)


@given(BY_SCORE, BY_SCORE)
def test_what_score_and_threshold_made_is_never_put_on_the_route(
    one: Observed, other: Observed
) -> None:
    assert explained(one)
    if not is_flip(one, other):
        return
    if one.threshold == other.threshold:
        assert cause(one, other) is FlipCause.JUDGE_SCORE
    elif one.score == other.score:
        assert cause(one, other) is FlipCause.THRESHOLD
    else:
        assert cause(one, other) is not FlipCause.ROUTE
