"""The sequential flip test against every path there is: evidence, guarantee and delay."""

from __future__ import annotations

import itertools
import math

import flip_oracle as oracle
import numpy as np
import pytest

from monitor.core.probes.flips import FlipDirection
from monitor.detection.flip_test import FlipTest

pytestmark = pytest.mark.full

HELD_BACK, SERVED = FlipDirection.HELD_BACK, FlipDirection.SERVED
LONG = 18
"""Flips of the longest paths that are all looked at."""
BOUND = 1 / oracle.THRESHOLD


def test_the_evidence_is_that_of_the_definition_on_every_path() -> None:
    paths = oracle.all_paths(9)
    expected = {HELD_BACK: oracle.evidence(paths), SERVED: oracle.evidence(~paths)}
    for number, path in enumerate(paths.tolist()):
        test = FlipTest(["casual"])
        for n, held_back in enumerate(path, 1):
            test.bet([("casual", HELD_BACK if held_back else SERVED)])
            for way in FlipDirection:
                assert math.exp(test.log_evidence(way)) == pytest.approx(expected[way][number, n])


@pytest.mark.parametrize("seed", range(5))
def test_long_runs_have_the_evidence_of_the_definition(seed: int) -> None:
    path = np.random.default_rng(seed).random(400) < (0.5, 0.5, 0.7, 0.3, 0.95)[seed]
    expected, test = oracle.evidence(path[None])[0], FlipTest(["casual"])
    for n, held_back in enumerate(path.tolist(), 1):
        test.bet([("casual", HELD_BACK if held_back else SERVED)])
        assert test.log_evidence(HELD_BACK) == pytest.approx(math.log(expected[n]), abs=1e-9)
        assert test.has_crossed(HELD_BACK) == (expected[n] >= oracle.THRESHOLD)


def test_the_expected_evidence_is_one_where_both_ways_are_as_likely() -> None:
    expected = oracle.evidence(oracle.all_paths(12)).mean(axis=0)
    assert expected == pytest.approx(np.ones(13))


def backwards(values: np.ndarray[tuple[int], np.dtype[np.float64]], chances: list[float]) -> float:
    """The largest expectation that an adversary reaches who picks each flip's chance by the past.

    The paths' number has their first flip in its lowest bit, so the last flip halves the array.
    """
    while len(values) > 1:
        half = len(values) // 2
        behind, ahead = values[:half], values[half:]
        values = np.max([p * ahead + (1 - p) * behind for p in chances], axis=0)
    return float(values[0])


def test_no_choice_of_chances_up_to_a_half_lifts_the_expectation_above_one() -> None:
    last = oracle.evidence(oracle.all_paths(14))[:, -1]
    assert backwards(last, [0, 0.25, 0.5]) == pytest.approx(1)
    assert backwards(last, [0, 0.3]) < 1
    assert backwards(last, [0.6]) > 1, "and beyond a half it grows"


def test_no_choice_of_chances_up_to_a_half_crosses_too_often() -> None:
    crossed = (oracle.crossings(LONG) <= LONG).astype(float)
    worst = backwards(crossed, [0, 0.1, 0.25, 0.4, 0.5])
    assert 0.2 * BOUND < worst <= BOUND
    assert crossed.mean() == pytest.approx(worst), "the worst is an even chance all the time"


def test_the_two_directions_together_keep_to_one_in_a_hundred() -> None:
    either = (oracle.crossings(LONG) <= LONG) | (oracle.crossings(LONG)[::-1] <= LONG)
    assert 0 < either.mean() <= 0.01


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9, 0.95, 1.0])
def test_the_delay_is_that_of_all_paths(share: float) -> None:
    rng, delays = np.random.default_rng(int(100 * share)), []
    for _ in range(1500):
        test, flips = FlipTest(["casual"]), 0
        while flips < LONG + 1 and not test.has_crossed(HELD_BACK):
            flips += 1
            if flips <= LONG:
                test.bet([("casual", HELD_BACK if rng.random() < share else SERVED)])
        delays.append(flips)
    exact, spread = oracle.delay(LONG, share), np.std(delays) / math.sqrt(len(delays))
    assert abs(np.mean(delays) - exact) <= 4 * spread + 1e-9
    if share == 1:
        assert exact == pytest.approx(10)


def fates(served: float) -> list[tuple[float, list[tuple[str, FlipDirection]]]]:
    """First flips of one pair of four variants with exchangeable routes, with probabilities."""
    found = []
    for routes in itertools.product([True, False], repeat=4):
        chance = math.prod(served if route else 1 - served for route in routes)
        reference, *others = routes
        flips = [
            (name, HELD_BACK if reference else SERVED)
            for name, route in zip("abc", others, strict=True)
            if route is not reference
        ]
        found.append((chance, flips))
    return found


def expected_evidence(served: float, variants: str) -> list[float]:
    """E[M] after three pairs; where there is one name, all variants bet under it."""
    expected = dict.fromkeys(FlipDirection, 0.0)
    for pairs in itertools.product(fates(served), repeat=3):
        test = FlipTest(variants)
        for _, flips in pairs:
            pooled = [[(variants, way)] for _, way in flips]
            for bets in [flips] if len(variants) > 1 else pooled:
                test.bet(bets)
        chance = math.prod(chance for chance, _ in pairs)
        for way in FlipDirection:
            expected[way] += chance * math.exp(test.log_evidence(way))
    return list(expected.values())


@pytest.mark.parametrize("served", [0.5, 0.8, 0.97])
def test_variants_of_one_pair_that_share_a_reference_are_fair_together(served: float) -> None:
    assert expected_evidence(served, "abc") == pytest.approx([1, 1])


def test_in_one_product_they_would_not_be() -> None:
    assert max(expected_evidence(0.8, "a")) > 1.1
