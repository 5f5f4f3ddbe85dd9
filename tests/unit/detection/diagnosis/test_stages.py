from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from slice_tables import auto, blocked, counted, review, slice_counts
from stage_counts import ready_counts, stage_counts

from monitor.core.counts.cells import Stratum
from monitor.core.publish.annotations import Share, Stage
from monitor.detection.diagnosis.stages import Divergence, Passage, diverging_stages

BANDS = 5
"""The last one is that of decisions without a score."""


def one_slice(through: npt.ArrayLike, stopped: npt.ArrayLike) -> Passage:
    return Passage.of_decisions(np.asarray(through)[None], np.asarray(stopped)[None])


def ready_of(*tables: npt.ArrayLike) -> Passage:
    """Of one slice; decisions, labels and ready ones by (route, rate, band)."""
    decisions, labelled, ready = (np.array([table], np.float64) for table in tables)
    return Passage.of_ready(decisions, labelled, ready)


def diverging_stage(one: Passage, other: Passage) -> Divergence:
    (found,) = diverging_stages(one, other)
    return found


@dataclass(frozen=True)
class World:
    """A router: P(ready), P(passes the gate), mean scores, P(auto_serve | band), P(score sent)."""

    ready: float = 0.6
    gate: float = 0.92
    score: float = 0.82
    serve: tuple[float, ...] = (0.02, 0.1, 0.9, 0.98)
    scored: float = 1.0

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
        ready = rng.random(n) < self.ready
        passed = rng.random(n) < self.gate
        score = np.where(ready, self.score, 0.54) + 0.12 * rng.standard_normal(n)
        band = np.digitize(score, [0.6, 0.7, 0.9])
        served = rng.random(n) < np.array(self.serve)[band]
        if self.scored < 1:
            band = np.where(rng.random(n) < self.scored, band, BANDS - 1)
        return ready, passed, band, served

    def decisions(self, rng: np.random.Generator, n: int) -> Passage:
        _, passed, band, served = self.draw(rng, n)
        through = np.zeros((2, BANDS), np.int64)
        np.add.at(through, ((~served)[passed].astype(int), band[passed]), 1)
        return one_slice(through, [0, 0, (~passed).sum()])

    def ready_ones(self, rng: np.random.Generator, n: int, audit: float) -> Passage:
        """All of human_review labelled, and a sample of auto_serve."""
        ready, passed, band, served = self.draw(rng, n)
        labelled = ~served | (rng.random(n) < audit)
        tables = []
        for counted_ in (passed, passed & labelled, passed & labelled & ready):
            table = np.zeros((2, 1, BANDS), np.int64)
            np.add.at(table[:, 0], ((~served)[counted_].astype(int), band[counted_]), 1)
            tables.append(table)
        return ready_of(*tables)


USUAL = World()
CAUSES = {
    Stage.EVIDENCE: replace(USUAL, gate=0.86),
    Stage.SCORE: replace(USUAL, score=0.76),
    Stage.THRESHOLD: replace(USUAL, serve=(0.02, 0.1, 0.75, 0.98)),
}


@pytest.mark.parametrize("stage", list(CAUSES))
def test_a_planted_cause_is_named(stage: Stage) -> None:
    found: Tally[Stage] = Tally()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        one, other = CAUSES[stage].decisions(rng, 2000), USUAL.decisions(rng, 6000)
        found[diverging_stage(one, other).stage] += 1
    assert found[stage] >= 95


@pytest.mark.parametrize("sent_by_reference", [0.0, 1.0])
def test_without_scores_no_stage_behind_the_gate_is_claimed(sent_by_reference: float) -> None:
    """Neither of a slice whose router sends no score, nor where only its reference's does."""
    found: Tally[Stage] = Tally()
    reference = replace(USUAL, scored=sent_by_reference)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        for cause in (Stage.SCORE, Stage.THRESHOLD):
            blind = replace(CAUSES[cause], scored=0.0)
            found[
                diverging_stage(blind.decisions(rng, 2000), reference.decisions(rng, 6000)).stage
            ] += 1
            ready = blind.ready_ones(rng, 5000, 0.05), reference.ready_ones(rng, 10_000, 0.05)
            found[diverging_stage(*ready).stage] += 1
    assert set(found) <= {Stage.UNKNOWN, Stage.NONE}
    assert found[Stage.UNKNOWN] >= 0.95 * found.total()


def test_the_gate_is_named_without_scores() -> None:
    rng = np.random.default_rng(5)
    one, other = (replace(x, scored=0.0) for x in (CAUSES[Stage.EVIDENCE], USUAL))
    found = diverging_stage(one.decisions(rng, 4000), other.decisions(rng, 12_000))
    assert found.stage is Stage.EVIDENCE


@pytest.mark.parametrize("stage", list(CAUSES))
def test_a_few_decisions_without_a_score_hide_no_cause(stage: Stage) -> None:
    found: Tally[Stage] = Tally()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        one, other = (replace(x, scored=0.95) for x in (CAUSES[stage], USUAL))
        found[diverging_stage(one.decisions(rng, 2000), other.decisions(rng, 6000)).stage] += 1
    assert found[stage] >= 95


def test_without_a_cause_nothing_is_named() -> None:
    """At 95 %, for slices of any size."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(50, 5000, 1000).tolist()
    found = Tally(
        diverging_stage(USUAL.decisions(rng, n), USUAL.decisions(rng, 3 * n)).stage for n in sizes
    )
    assert found[Stage.NONE] >= 940


@pytest.mark.parametrize("stage", [Stage.SCORE, Stage.THRESHOLD])
def test_a_planted_cause_of_a_tpr_gap_is_named(stage: Stage) -> None:
    found: Tally[Stage] = Tally()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        one = CAUSES[stage].ready_ones(rng, 5000, 0.05)
        found[diverging_stage(one, USUAL.ready_ones(rng, 10_000, 0.05)).stage] += 1
    assert found[stage] >= 95


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(USUAL, marks=pytest.mark.full),
        replace(USUAL, ready=0.5),
        pytest.param(CAUSES[Stage.EVIDENCE], marks=pytest.mark.full),
    ],
)
def test_other_requests_and_the_gate_make_no_tpr_gap(world: World) -> None:
    """With fewer ready requests the selection differs by the scores, and the TPR does not."""
    rng = np.random.default_rng(1)
    found = Tally(
        diverging_stage(
            world.ready_ones(rng, 5000, 0.05), USUAL.ready_ones(rng, 10_000, 0.05)
        ).stage
        for _ in range(300)
    )
    assert found[Stage.NONE] >= 300 * 0.93


def test_fewer_ready_requests_are_a_difference_of_scores_in_all_decisions() -> None:
    rng = np.random.default_rng(2)
    fewer = replace(USUAL, ready=0.5).decisions(rng, 20_000)
    assert diverging_stage(fewer, USUAL.decisions(rng, 20_000)).stage is Stage.SCORE


def random_passage(rng: np.random.Generator) -> Passage:
    through = rng.integers(0, 60, (2, BANDS)) * (rng.random((2, BANDS)) < 0.7)
    return one_slice(through, rng.integers(0, 9, 3))


def selection(side: Passage) -> float:
    return float((side.through[:, 0].sum() + side.stopped[:, 0].sum()) / side.sizes.sum())


@pytest.mark.parametrize("seed", range(50))
def test_the_parts_add_up_to_the_difference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = random_passage(rng), random_passage(rng)
    assert sum(diverging_stage(one, other).parts) == pytest.approx(
        selection(one) - selection(other)
    )


@pytest.mark.parametrize("seed", range(20))
def test_swapping_and_scaling(seed: int) -> None:
    """The order of bands is nothing, more of the same makes the errors smaller."""
    rng = np.random.default_rng(seed)
    one, other = random_passage(rng), random_passage(rng)
    plain = diverging_stage(one, other)
    order = np.append(rng.permutation(BANDS - 1), BANDS - 1)
    turned = diverging_stage(*(replace(x, through=x.through[..., order]) for x in (one, other)))
    assert turned.parts == pytest.approx(plain.parts)
    assert turned.errors == pytest.approx(plain.errors)
    larger = diverging_stage(
        *(replace(x, through=4 * x.through, stopped=4 * x.stopped) for x in (one, other))
    )
    assert larger.parts == pytest.approx(plain.parts)
    assert larger.errors == pytest.approx([error / 2 for error in plain.errors])


def test_parts_by_hand() -> None:
    one = one_slice([[0, 40, 0], [40, 0, 0]], [0, 0, 20])
    other = one_slice([[10, 40, 0], [40, 10, 0]], [0, 0, 0])
    found = diverging_stage(one, other)
    # .8 x .5 - .5; the score bands are alike; .8 x (.5 x (0 - .2) + .5 x (1 - .8)).
    assert found.parts == pytest.approx((-0.1, 0, 0, 0))
    assert found.stage is Stage.EVIDENCE
    assert found.share is Share.MOST


def test_parts_of_decisions_without_a_score_by_hand() -> None:
    one = one_slice([[30, 0], [10, 60]], [0, 0, 0])
    other = one_slice([[40, 40], [0, 20]], [0, 0, 0])
    found = diverging_stage(one, other)
    # At the scores .4 x (.75 - 1); without one .0 x (1 - 2/3) + .6 x (0 - 2/3).
    assert found.parts == pytest.approx((0, 0, -0.1, -0.4))
    assert found.stage is Stage.UNKNOWN


@pytest.mark.full
def test_the_errors_are_those_of_chance() -> None:
    """Simulated under equal worlds; labels of 10 % of what is served."""
    rng = np.random.default_rng(3)
    half = replace(USUAL, scored=0.5)
    draws: tuple[Callable[[int], Passage], ...] = (
        lambda n: half.decisions(rng, n),
        lambda n: half.ready_ones(rng, n, 0.1),
    )
    for draw in draws:
        found = [diverging_stage(draw(3000), draw(5000)) for _ in range(400)]
        spread = np.std([divergence.parts for divergence in found], axis=0)
        errors = np.mean([divergence.errors for divergence in found], axis=0)
        assert spread == pytest.approx(errors, rel=0.15)


def test_audits_of_everything_count_like_decisions() -> None:
    decisions = np.array([[[5, 60, 9]], [[30, 20, 1]]])
    ready = np.array([[[3, 55, 9]], [[10, 12, 1]]])
    complete = ready_of(decisions, decisions, ready)
    assert complete.through[0] == pytest.approx(ready.sum(axis=1))
    assert complete.dispersion == pytest.approx(1)
    assert complete.stopped.tolist() == [[0, 0, 0]]


def test_a_band_without_labels_takes_the_rate_of_its_route() -> None:
    decisions = np.array([[[40, 100]], [[10, 10]]])
    labelled = np.array([[[0, 10]], [[10, 10]]])
    ready = np.array([[[0, 8]], [[4, 5]]])
    assert ready_of(decisions, labelled, ready).through.tolist() == [[[32, 80], [4, 5]]]


EMPTY = one_slice(np.zeros((2, BANDS)), np.zeros(3))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "other", [EMPTY, USUAL.decisions(np.random.default_rng(0), 900)], ids=["empty", "full"]
)
def test_no_decisions_no_difference(other: Passage, turned: bool) -> None:
    pair = (other, EMPTY) if turned else (EMPTY, other)
    assert diverging_stage(*pair) == Divergence(Stage.NONE, None, (0,) * 4, (0,) * 4)


def test_a_gate_that_stops_everything_is_the_gate() -> None:
    found = diverging_stage(
        one_slice(np.zeros((2, 3)), [0, 0, 100]), one_slice([[20, 40, 0], [30, 10, 0]], [0, 0, 0])
    )
    assert found.stage is Stage.EVIDENCE
    assert found.parts == pytest.approx((-0.6, 0, 0, 0))


def test_serving_without_evidence_is_the_threshold() -> None:
    """Whatever chooses the route did not heed the gate."""
    found = diverging_stage(
        one_slice([[0, 0], [300, 0]], [200, 0, 0]), one_slice([[0, 0], [300, 0]], [0, 0, 200])
    )
    assert found.stage is Stage.THRESHOLD
    assert found.parts == pytest.approx((0, 0, 0.4, 0))


def test_sure_but_small_is_not_named() -> None:
    through = np.array([[500_000, 0], [500_000, 0]])
    shifted = through + np.array([[9_000, 0], [-9_000, 0]])
    found = diverging_stage(one_slice(shifted, np.zeros(3)), one_slice(through, np.zeros(3)))
    assert found.parts[2] > 10 * found.errors[2]
    assert found.stage is Stage.NONE


def test_counts_by_stage() -> None:
    counts = slice_counts(
        {
            "a": {
                auto(2): counted(50),
                auto(2, 3): counted(5),
                review(0): counted(30),
                blocked(): counted(7),
                blocked(1, evidence_passed=True): counted(2),
                Stratum(review().route, 0, 0, evidence_passed=False): counted(4),
                Stratum(auto().route, 0, 0, probe=True): counted(99),
            },
            "b": {auto(0): counted(1)},
        }
    )
    through, stopped = stage_counts(counts, 3)
    assert through.tolist() == [[[0, 0, 55], [30, 0, 0]], [[1, 0, 0], [0, 0, 0]]]
    assert stopped.tolist() == [[0, 4, 9], [0, 0, 0]]


def test_ready_counts_are_those_of_reviewed_strata() -> None:
    counts = slice_counts(
        {
            "a": {
                auto(2, 0): counted(50, 50, 40),
                auto(2, 5): counted(40, 4, 3),
                review(0): counted(30, 31, 33),
                blocked(): counted(7),
                Stratum(review().route, 0, 0, evidence_passed=False): counted(4, 4, 4),
                Stratum(auto().route, 0, 0, probe=True): counted(99, 99, 99),
            },
            "b": {},
        }
    )
    decisions, labelled, ready = ready_counts(counts, 4)
    nothing = [0, 0, 0, 0]
    assert [side[1].tolist() for side in (decisions, labelled, ready)] == [[[nothing] * 2] * 2] * 3
    assert decisions[0].tolist() == [[[0, 0, 50, 0], [0, 0, 40, 0]], [[31, 0, 0, 0], nothing]]
    assert labelled[0].tolist() == [[[0, 0, 50, 0], [0, 0, 4, 0]], [[31, 0, 0, 0], nothing]]
    assert ready[0].tolist() == [[[0, 0, 40, 0], [0, 0, 3, 0]], [[31, 0, 0, 0], nothing]]


def test_every_slice_is_split_by_itself() -> None:
    rng = np.random.default_rng(4)
    ones, others = ([random_passage(rng) for _ in range(60)] for _ in range(2))
    ones[3], others[5] = EMPTY, EMPTY
    alone = [diverging_stage(*pair) for pair in zip(ones, others, strict=True)]
    assert diverging_stages(joined(ones), joined(others)) == alone
    assert len({found.stage for found in alone}) > 2


def joined(slices: list[Passage]) -> Passage:
    names = ("through", "stopped", "dispersion")
    return Passage(*(np.concatenate([getattr(one, name) for one in slices]) for name in names))
