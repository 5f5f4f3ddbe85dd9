"""Probe sets of routers that treat all wordings alike: pages stay within the bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binomtest

from monitor.core.counts.cells import Route
from monitor.core.probes.flips import FlipDirection, Observed
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.probes.rounds import DeclaredSet, ProbePairs
from monitor.core.time import DAY, SECOND
from monitor.detection.flip_test import FlipWatch

pytestmark = pytest.mark.full

SETS = 300
PAIRS, RUNS, THRESHOLD = 40, 8, 0.70
LIMIT = 1e-3
"""How improbable a number of false pages may be at the bound; seeds are fixed."""


@dataclass(frozen=True)
class World:
    """How scores come about.

    Attributes:
        wording: spread of what wording does to the score, drawn once for each variant of a pair.
        noise: spread of the judge's score of one and the same request.
        version: spread of what a new version does to the score of each request.
        drift: what a new version does to all scores alike.
        held_back: how much lower the first variant's score is, from the middle of the runs on.
    """

    wording: float = 0.0
    noise: float = 0.0
    version: float = 0.0
    drift: float = 0.0
    held_back: float = 0.0

    def runs(self, rng: np.random.Generator, variants: int) -> Iterator[np.ndarray]:
        """Scores of each run, shape (PAIRS, variants)."""
        pair = rng.normal(THRESHOLD, 0.15, (PAIRS, 1))
        score = pair + rng.normal(0, self.wording, (PAIRS, variants))
        for run in range(RUNS):
            score = score + rng.normal(0, self.version, score.shape)
            score = score + self.drift * rng.choice([-1, 1])
            seen = score + rng.normal(0, self.noise, score.shape)
            if run >= RUNS // 2:
                seen[:, 0] -= self.held_back
            yield seen


def pages(world: World, seed: int, variants: int) -> dict[FlipDirection, int]:
    """Which directions ever page in the life of one set, and at which comparison."""
    rng = np.random.default_rng(seed)
    names = [f"v{number}" for number in range(variants)]
    declared = DeclaredSet("s", "a" * 64, PAIRS, tuple(names), names[-1])
    pairs, watch = ProbePairs(declared), FlipWatch.start(declared.compared)
    found: dict[FlipDirection, int] = {}
    for run, scores in enumerate(world.runs(rng, variants)):
        start = run * DAY
        pairs.add(
            ProbeDecision(
                declared.digest, f"p{pair}", name, start + pair * SECOND + at, observed(score)
            )
            for pair, row in enumerate(scores.tolist())
            for at, (name, score) in enumerate(zip(names, row, strict=True))
        )
        for compared in pairs.advance(start + DAY):
            watch.follow(compared, live=True)
            found = {**watch.shown(), **found}
    assert pairs.compared == PAIRS * RUNS * (variants - 1)
    return found


def observed(score: float) -> Observed:
    route = Route.AUTO_SERVE if score >= THRESHOLD else Route.HUMAN_REVIEW
    return Observed(route, score, THRESHOLD)


@pytest.mark.parametrize(
    ("world", "variants"),
    [
        pytest.param(World(wording=0.10), 2, id="wording, deterministic repeats"),
        pytest.param(World(wording=0.05, noise=0.05), 2, id="a noisy judge near the threshold"),
        pytest.param(World(wording=0.05, version=0.05, drift=0.1), 2, id="versions that change"),
        pytest.param(World(wording=0.05, noise=0.03, version=0.03), 4, id="three variants"),
    ],
)
def test_without_a_change_pages_stay_within_the_bound(world: World, variants: int) -> None:
    paged = sum(bool(pages(world, seed, variants)) for seed in range(SETS))
    assert binomtest(paged, SETS, 0.01, alternative="greater").pvalue > LIMIT


@pytest.mark.parametrize("variants", [2, 4])
def test_a_variant_that_is_held_back_pages_in_its_direction(variants: int) -> None:
    world = World(wording=0.01, held_back=0.25)
    found = [pages(world, seed, variants) for seed in range(20)]
    assert all([*one] == [FlipDirection.HELD_BACK] for one in found)
    begins = RUNS // 2 * DAY
    assert all(begins <= one[FlipDirection.HELD_BACK] < begins + DAY for one in found)


def test_after_a_page_chance_pages_rarely_and_the_same_fault_at_once() -> None:
    rng, rounds, repeats = np.random.default_rng(4), 30, 0
    returned = []
    for _ in range(20):
        declared = DeclaredSet("s", "a" * 64, 200, ("casual", "formal"), "formal")
        pairs, watch = ProbePairs(declared), FlipWatch.start(declared.compared)
        score = rng.normal(THRESHOLD, 0.03, (200, 1)) + rng.normal(0, 0.03, (200, 2))
        opened = []
        faults = [0.08] * 3 + [0.0] * rounds + [0.08] * 2
        for run, fault in enumerate(faults):
            seen = score + rng.normal(0, 0.03, score.shape) - [fault, 0]
            pairs.add(
                ProbeDecision(declared.digest, f"p{pair}", name, run * DAY + pair, observed(value))
                for pair, row in enumerate(seen.tolist())
                for name, value in zip(declared.variants, row, strict=True)
            )
            before = watch.shown()
            for compared in pairs.advance((run + 1) * DAY):
                watch.follow(compared, live=True)
                opened += [run] * len(watch.shown().keys() - before.keys())
                before = watch.shown()
        assert opened[0] < 3  # the fault is found while it is there
        repeats += sum(3 <= run < 3 + rounds for run in opened)
        returned.append(FlipDirection.HELD_BACK in watch.shown())
    found = binomtest(repeats, 20 * rounds, 0.01, alternative="greater")
    assert found.pvalue > LIMIT, "one round in a hundred"
    assert all(returned)


def test_a_page_ends_though_a_router_always_flips_a_few_pairs_near_the_threshold() -> None:
    """Five pairs flip one way and three the other, in every round, before the fault and after."""
    declared = DeclaredSet("s", "a" * 64, PAIRS, ("casual", "formal"), "formal")
    pairs, watch = ProbePairs(declared), FlipWatch.start(declared.compared)
    natural = np.full((PAIRS, 2), THRESHOLD + 0.05)
    natural[:5, 0], natural[5:8, 1] = THRESHOLD - 0.01, THRESHOLD - 0.01
    shown = []
    for run, fault in enumerate([0.0] * 3 + [0.1] * 2 + [0.0] * 3):
        seen = natural - [fault, 0]
        pairs.add(
            ProbeDecision(declared.digest, f"p{pair}", name, run * DAY + pair, observed(value))
            for pair, row in enumerate(seen.tolist())
            for name, value in zip(declared.variants, row, strict=True)
        )
        for compared in pairs.advance((run + 1) * DAY):
            watch.follow(compared, live=True)
        shown.append([*watch.shown()])
    paged = [FlipDirection.HELD_BACK]
    assert shown == [[], [], [], paged, paged, [], [], []]
    assert sum(pairs.standing.values()) == 8, "they flip still"
