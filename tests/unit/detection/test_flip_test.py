"""The sequential flip test and its pages: what bets, what crosses, what stands and comes back."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from monitor.core.probes.flips import FlipDirection
from monitor.core.probes.rounds import ComparedRound, DeclaredSet
from monitor.detection import arrays
from monitor.detection.flip_test import FlipTest, FlipWatch, fewest_flips
from monitor.evaluate.probes import WatchedSet
from monitor.store.evaluator.probe_sets import StoredProbeSet

HELD_BACK, SERVED = FlipDirection.HELD_BACK, FlipDirection.SERVED
ONE = ("casual",)


def fed(*ways: FlipDirection, variants: tuple[str, ...] = ONE) -> FlipTest:
    test = FlipTest(variants)
    for way in ways:
        test.bet([(variants[0], way)])
    return test


def first(way: FlipDirection, excess: int, at: int = 0) -> ComparedRound:
    return ComparedRound(at, ((ONE[0], way),), excess, abs(excess))


def nothing_new(excess: int, at: int = 0, *, spread: int | None = None) -> ComparedRound:
    return ComparedRound(at, (), excess, abs(excess) if spread is None else spread)


def watched(flips: int, way: FlipDirection = HELD_BACK, live: bool = True) -> FlipWatch:
    """After so many pairs that flip one way and stay so, at the times 1, 2, ..."""
    watch, sign = FlipWatch.start(ONE), 1 if way is HELD_BACK else -1
    for number in range(1, flips + 1):
        watch.follow(first(way, sign * number, number), live=live)
    return watch


def test_without_bets_there_is_no_evidence() -> None:
    assert FlipTest(ONE).log_evidence(HELD_BACK) == 0
    test = fed()
    test.bet([])
    assert test.log_evidence(SERVED) == 0


def test_one_flip_weighs_by_hand() -> None:
    ahead = 0.5 * (1.2 + 1.5 + 1.8 + 2.0) / 4 + 0.5
    behind = 0.5 * (0.8 + 0.5 + 0.2 + 0.0) / 4 + 0.5
    test = fed(HELD_BACK)
    assert math.exp(test.log_evidence(HELD_BACK)) == pytest.approx(ahead)
    assert math.exp(test.log_evidence(SERVED)) == pytest.approx(behind)
    assert ahead + behind == pytest.approx(2), "fair where both ways are as likely"


def test_the_directions_mirror_each_other() -> None:
    ways = [HELD_BACK, HELD_BACK, SERVED, HELD_BACK]
    other = [SERVED if way is HELD_BACK else HELD_BACK for way in ways]
    assert fed(*ways).log_evidence(HELD_BACK) == fed(*other).log_evidence(SERVED)


def test_the_evidence_is_the_mean_over_variants() -> None:
    alone, variants = fed(*[HELD_BACK] * 5), ("casual", "terse", "warm")
    mean = (math.exp(alone.log_evidence(HELD_BACK)) + 2) / 3
    test = fed(*[HELD_BACK] * 5, variants=variants)
    assert math.exp(test.log_evidence(HELD_BACK)) == pytest.approx(mean)
    for flips in range(1, 30):  # those of one round are not multiplied with each other
        both = fed(variants=variants)
        for _ in range(flips):
            both.bet([("casual", HELD_BACK), ("warm", HELD_BACK)])
        one = math.exp(fed(*[HELD_BACK] * flips).log_evidence(HELD_BACK))
        assert math.exp(both.log_evidence(HELD_BACK)) == pytest.approx((2 * one + 1) / 3)


def test_the_shortest_run_that_pages() -> None:
    assert fewest_flips(1) == 10
    for variants in range(1, 6):
        names = tuple("abcdef"[:variants])
        fewest = fewest_flips(variants)
        assert not fed(*[SERVED] * (fewest - 1), variants=names).has_crossed(SERVED)
        assert fed(*[SERVED] * fewest, variants=names).has_crossed(SERVED)
    assert all(b - a in (0, 1) for a, b in pairwise(map(fewest_flips, range(1, 9))))


def test_a_change_is_found_after_many_flips_that_were_chance() -> None:
    chance = [HELD_BACK, SERVED] * 20
    needed = next(
        more for more in range(100) if fed(*chance, *[HELD_BACK] * more).has_crossed(HELD_BACK)
    )
    assert fewest_flips(1) < needed <= 2 * fewest_flips(1)


def test_a_reset_forgets_one_direction() -> None:
    test = fed(*[HELD_BACK] * 8)
    served = test.log_evidence(SERVED)
    test.reset(HELD_BACK)
    assert (test.log_evidence(HELD_BACK), test.log_evidence(SERVED)) == (0, served)
    test.bet([(ONE[0], HELD_BACK)])
    assert test.log_evidence(HELD_BACK) == fed(HELD_BACK).log_evidence(HELD_BACK)


def test_the_state_is_kept_bit_for_bit() -> None:
    test = fed(HELD_BACK, SERVED, SERVED)
    again = FlipTest.from_arrays(ONE, test.to_arrays())
    for name, values in test.to_arrays().items():
        assert again.to_arrays()[name].tobytes() == values.tobytes()
    again.bet([(ONE[0], SERVED)])
    assert again.log_evidence(SERVED) != test.log_evidence(SERVED), "a copy"
    with pytest.raises(ValueError, match="other variants"):
        FlipTest.from_arrays(("casual", "terse"), test.to_arrays())


@pytest.mark.parametrize("way", list(FlipDirection))
def test_a_page_opens_at_the_flip_that_crosses(way: FlipDirection) -> None:
    assert watched(9, way).shown() == {}
    assert watched(10, way).shown() == {way: 10}
    assert watched(30, way).shown() == {way: 10}, "and keeps its time"


def test_a_page_stands_until_the_excess_is_gone() -> None:
    watch = watched(12)
    for excess in (11, 5, 2):
        watch.follow(nothing_new(excess), live=True)
        assert watch.shown() == {HELD_BACK: 10}
    watch.follow(nothing_new(0), live=True)
    assert watch.shown() == {}
    assert watch.test.log_evidence(HELD_BACK) == 0, "the test begins anew"


def test_an_excess_that_chance_easily_makes_ends_a_page() -> None:
    """Of eight flips an excess of 3.33 is even odds: six to two is not gone, five to three is."""
    watch = watched(12)
    watch.follow(nothing_new(4, spread=8), live=True)
    assert watch.shown() == {HELD_BACK: 10}
    watch.follow(nothing_new(2, spread=8), live=True)
    assert watch.shown() == {}
    watch = watched(12)
    watch.follow(nothing_new(-2, spread=8), live=True)
    assert watch.shown() == {}


def test_flips_that_are_all_gone_again_open_no_page() -> None:
    watch = FlipWatch.start(ONE)
    for _ in range(15):
        watch.follow(first(HELD_BACK, 0), live=True)
    assert watch.test.has_crossed(HELD_BACK)
    assert watch.shown() == {}
    watch.follow(nothing_new(3, 76, spread=8), live=True)
    assert watch.shown() == {}, "chance easily makes it"
    watch.follow(nothing_new(2, 77), live=True)
    assert watch.shown() == {HELD_BACK: 77}


def test_after_a_page_others_can_page_by_the_test() -> None:
    watch = watched(12)
    watch.follow(nothing_new(0), live=True)
    for number in range(1, 10):
        watch.follow(first(HELD_BACK, min(number, 3), 100 + number), live=True)
        assert watch.shown() == {}
    watch.follow(first(HELD_BACK, 3, 110), live=True)
    assert watch.shown() == {HELD_BACK: 110}


def test_the_same_fault_that_comes_back_pages_again() -> None:
    watch = watched(12)
    watch.follow(nothing_new(0), live=True)
    watch.follow(nothing_new(9, 200), live=True)
    assert watch.shown() == {}, "not as many as the shortest run that crosses"
    watch.follow(nothing_new(10, 201), live=True)
    assert watch.shown() == {HELD_BACK: 201}
    watch.follow(nothing_new(-10, 202), live=True)
    assert watch.shown() == {}, "the other direction never crossed"


def test_an_excess_that_chance_makes_in_a_large_set_is_no_return_of_the_fault() -> None:
    watch = watched(12)
    watch.follow(nothing_new(0), live=True)
    watch.follow(nothing_new(30, 200, spread=100), live=True)
    assert watch.shown() == {}, "65 one way and 35 the other, at some time of a long life"
    watch.follow(nothing_new(31, 201, spread=100), live=True)
    assert watch.shown() == {HELD_BACK: 201}


def test_an_excess_that_never_crossed_is_no_page() -> None:
    watch = FlipWatch.start(ONE)
    watch.follow(nothing_new(50), live=True)
    assert watch.shown() == {}


def test_history_moves_the_test_and_never_pages() -> None:
    watch = watched(8, live=False)
    for number in (9, 10):
        watch.follow(first(HELD_BACK, number, number), live=True)
    assert watch.shown() == {HELD_BACK: 10}, "what was loaded counts"


def test_what_crossed_in_history_pages_once_it_is_seen_live() -> None:
    watch = watched(12, live=False)
    watch.follow(nothing_new(12, 200), live=False)
    assert watch.shown() == {}
    watch.follow(nothing_new(12, 300), live=True)
    watch.follow(nothing_new(12, 400), live=True)
    assert watch.shown() == {HELD_BACK: 300}, "the round that first showed it"


def test_what_crossed_in_history_and_is_over_stays_silent() -> None:
    watch = watched(12, live=False)
    watch.follow(nothing_new(0), live=True)
    assert watch.shown() == {}
    watch.follow(nothing_new(10, 300), live=True)
    assert watch.shown() == {HELD_BACK: 300}


@pytest.mark.parametrize("flips", [0, 5, 12])
def test_the_watch_goes_on_from_its_stored_state(flips: int) -> None:
    watch = watched(flips)
    facts = json.loads(json.dumps(watch.to_facts()))
    again = FlipWatch.from_state(ONE, watch.test.to_arrays(), facts)
    for compared in (first(HELD_BACK, flips + 1, 50), nothing_new(0), nothing_new(11, 60)):
        for one in (watch, again):
            one.follow(compared, live=True)
        assert again.shown() == watch.shown()
        assert again.to_facts() == watch.to_facts()
        assert np.array_equal(again.test.to_arrays()["log_r"], watch.test.to_arrays()["log_r"])


@pytest.mark.parametrize("part", ["pairs", "watch", "test"])
def test_a_state_that_lacks_a_part_begins_anew(part: str) -> None:
    declared = DeclaredSet("tone", "a" * 64, 2, ("casual", "formal"), "formal")
    kept, facts = arrays.decode(WatchedSet.start(declared).stored().body)
    facts.pop(part, None)
    body = arrays.encode({} if part == "test" else kept, facts)
    again = WatchedSet.load(declared, StoredProbeSet(declared.digest, body))
    assert again.stored() == WatchedSet.start(declared).stored()
