"""The demo's synthetic world: seeded, with the rates and delays that it says it has."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest

from monitor.core.counts.cells import Route
from monitor.core.counts.labels import UNDECIDABLE
from monitor.core.time import DAY, HOUR
from monitor.demo.world import (
    ATTRIBUTES,
    AUDIT_RATE,
    BEGINS,
    HISTORY,
    KEEP,
    RARE_VALUE,
    REGRESSED,
    REGRESSION_AFTER,
    STEP,
    THRESHOLD,
    Decisions,
    Labels,
    Synthetic,
    World,
    WorldStep,
)

DAYS = 6  # two of them after the regression


@pytest.fixture(scope="module")
def synthetic() -> Synthetic:
    return Synthetic(seed=11)


@pytest.fixture(scope="module")
def steps(synthetic: Synthetic) -> list[WorldStep]:
    return list(lived(synthetic, DAYS * DAY))


@pytest.fixture(scope="module")
def decisions(steps: list[WorldStep]) -> Decisions:
    names = ("number", "at", "values", "score", "route", "ready", "requested")
    return Decisions(
        *(np.concatenate([getattr(s.decisions, name) for s in steps]) for name in names)
    )


@pytest.fixture(scope="module")
def labels(steps: list[WorldStep]) -> Labels:
    joined = steps[0].labels
    for step in steps[1:]:
        joined = joined.joined(step.labels)
    return joined


def lived(synthetic: Synthetic, length: int) -> Iterator[WorldStep]:
    until = synthetic.now + length
    while synthetic.now < until:
        yield synthetic.step()


def has(decisions: Decisions, name: str, value: str) -> npt.NDArray[np.bool_]:
    column = decisions.values[:, list(ATTRIBUTES).index(name)]
    return np.equal(column, list(ATTRIBUTES[name]).index(value))


def tpr(decisions: Decisions, rows: np.ndarray) -> float:
    rows = rows & decisions.ready & (decisions.route != Route.BLOCKED_BY_EVIDENCE)
    return float((decisions.route[rows] == Route.AUTO_SERVE).mean())


def test_equal_seeds_give_equal_histories() -> None:
    for a, b in zip(lived(Synthetic(3), 6 * HOUR), lived(Synthetic(3), 6 * HOUR), strict=True):
        assert np.array_equal(a.decisions.number, b.decisions.number)
        assert np.array_equal(a.decisions.score, b.decisions.score)
        assert np.array_equal(a.labels.labelled_at, b.labels.labelled_at)


def test_other_seeds_give_other_histories() -> None:
    first, second = Synthetic(3).step().decisions, Synthetic(4).step().decisions
    assert not np.array_equal(first.score, second.score)


def test_about_twenty_thousand_decisions_a_day_each_once(decisions: Decisions) -> None:
    assert len(decisions) == pytest.approx(20_000 * DAYS, rel=0.02)
    assert len(np.unique(decisions.number)) == len(decisions)


def test_steps_cover_event_time_without_holes(steps: list[WorldStep]) -> None:
    assert steps[0].start == BEGINS
    for step in steps:
        assert step.end == step.start + STEP
        assert ((step.decisions.at >= step.start) & (step.decisions.at < step.end)).all()


def test_arrival_is_a_little_out_of_order(steps: list[WorldStep]) -> None:
    behind = [np.maximum.accumulate(s.decisions.at) - s.decisions.at for s in steps]
    assert max(b.max() for b in behind) > 0


def test_the_route_follows_score_and_evidence(decisions: Decisions) -> None:
    passed = decisions.passed
    served = decisions.route == Route.AUTO_SERVE
    assert np.array_equal(served[passed], (decisions.score >= THRESHOLD)[passed])
    assert (~passed).mean() == pytest.approx(0.08, abs=0.005)


def served(world: World, mean_score: float) -> float:
    """The true share that is served among requests of this mean score."""
    return 1 - NormalDist(mean_score, world.spread).cdf(THRESHOLD)


def test_only_the_regressed_slice_regresses(synthetic: Synthetic, decisions: Decisions) -> None:
    world = synthetic.world
    assert world.regression_at == BEGINS + HISTORY + REGRESSION_AFTER
    after = decisions.at >= world.regression_at
    for variety in ATTRIBUTES["language_variety"]:
        rows = has(decisions, "language_variety", variety)
        falls = world.drop if variety == REGRESSED else 0.0
        assert tpr(decisions, rows & ~after) == pytest.approx(
            served(world, world.ready_score), abs=0.015
        )
        assert tpr(decisions, rows & after) == pytest.approx(
            served(world, world.ready_score - falls), abs=0.03
        )


@pytest.mark.parametrize("name", ["channel", "device"])
def test_the_regression_induces_no_gap_elsewhere(decisions: Decisions, name: str) -> None:
    after = decisions.at >= BEGINS + HISTORY + REGRESSION_AFTER
    rates = [
        tpr(decisions, after & has(decisions, name, value))
        for value in ATTRIBUTES[name]
        if value != RARE_VALUE
    ]
    assert max(rates) - min(rates) < 0.04


def test_the_fpr_stays_where_it_is(synthetic: Synthetic, decisions: Decisions) -> None:
    world = synthetic.world
    for variety in ATTRIBUTES["language_variety"]:
        rows = decisions.passed & ~decisions.ready & has(decisions, "language_variety", variety)
        fpr = (decisions.route[rows] == Route.AUTO_SERVE).mean()
        assert fpr == pytest.approx(served(world, world.unready_score), abs=0.015)


def test_the_rare_value_comes_six_times_in_any_day(decisions: Decisions) -> None:
    at = np.sort(decisions.at[has(decisions, "device", RARE_VALUE)])
    hours = np.unique(at // HOUR)
    assert len(at) == len(hours) == 6 * DAYS
    for hour in range(BEGINS // HOUR, BEGINS // HOUR + 24 * (DAYS - 1)):
        assert ((hours >= hour) & (hours < hour + 24)).sum() == 6


def test_all_of_human_review_and_a_random_share_of_the_rest_is_asked_for(
    decisions: Decisions,
) -> None:
    reviewed = decisions.route == Route.HUMAN_REVIEW
    assert decisions.requested[reviewed].all()
    assert decisions.requested[~reviewed].mean() == pytest.approx(AUDIT_RATE, abs=0.004)
    assert set(decisions.audit_p[reviewed]) == {1.0}
    assert set(decisions.audit_p[~reviewed]) == {AUDIT_RATE}


def test_only_what_was_asked_for_is_labelled_once(decisions: Decisions, labels: Labels) -> None:
    first = labels.take(~labels.correction)
    assert len(np.unique(first.number)) == len(first)
    assert np.isin(labels.number, decisions.number[decisions.requested]).all()
    old = decisions.requested & (decisions.at < BEGINS + (DAYS - 2) * DAY)
    assert np.isin(decisions.number[old], first.number).all()


def test_labels_come_within_two_days_audits_later(labels: Labels) -> None:
    delay = (labels.labelled_at - labels.at) / HOUR
    assert delay.min() > 0
    assert delay.max() < 48
    first = ~labels.correction
    assert np.median(delay[first & labels.audit]) > 2 * np.median(delay[first & ~labels.audit])


def test_the_last_word_of_the_reviewers_is_the_truth(decisions: Decisions, labels: Labels) -> None:
    truth = dict(zip(decisions.number.tolist(), decisions.ready.tolist(), strict=True))
    corrections = labels.take(labels.correction)
    assert 0.01 < len(corrections) / (~labels.correction).sum() < 0.02
    for number, ready in zip(corrections.number.tolist(), corrections.ready.tolist(), strict=True):
        assert bool(ready) is truth[number]
    settled = ~np.isin(labels.number, corrections.number) & (labels.ready != UNDECIDABLE)
    settled &= labels.labelled_at < BEGINS + (DAYS - 2) * DAY
    said, true = labels.ready[settled], [truth[n] for n in labels.number[settled].tolist()]
    assert (said == np.array(true)).mean() > 0.985  # the rest is corrected later


def test_corrections_come_after_what_they_correct(labels: Labels) -> None:
    first = dict(zip(labels.number.tolist(), labels.labelled_at.tolist(), strict=True))
    for number, at in zip(
        labels.number[labels.correction].tolist(),
        labels.labelled_at[labels.correction].tolist(),
        strict=True,
    ):
        assert first[number] <= at


def test_truth_is_the_plain_count(synthetic: Synthetic, decisions: Decisions) -> None:
    start, end = BEGINS + 2 * DAY, BEGINS + 3 * DAY
    inside = (decisions.at >= start) & (decisions.at < end)
    rows = inside & has(decisions, "channel", "voice")
    assert synthetic.truth.tpr("channel=voice", start, end) == tpr(decisions, rows)


def test_truth_of_nothing_is_none(synthetic: Synthetic) -> None:
    assert synthetic.truth.tpr("channel=chat", BEGINS - DAY, BEGINS) is None


def test_truth_forgets_what_no_window_can_reach() -> None:
    synthetic = Synthetic(1)
    before = synthetic.step().start
    assert synthetic.truth.tpr("channel=chat", before, before + HOUR) is not None
    synthetic.now += KEEP * HOUR
    synthetic.step()
    assert synthetic.truth.tpr("channel=chat", before, before + HOUR) is None
