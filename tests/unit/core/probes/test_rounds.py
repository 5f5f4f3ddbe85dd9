"""Rounds of a probe set: what is compared, when it is given up, and that batching is no matter."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from monitor.core.counts.cells import Route
from monitor.core.probes.flips import Expected, FlipDirection, Observed
from monitor.core.probes.probe_decisions import ProbeDecision
from monitor.core.probes.rounds import (
    MAX_WAITING,
    ComparedRound,
    DeclaredSet,
    FlippingPair,
    ProbePairs,
)

SERVED = Observed(Route.AUTO_SERVE, 0.78, 0.70)
LOW_SCORE = Observed(Route.HUMAN_REVIEW, 0.67, 0.70)
HIGH_THRESHOLD = Observed(Route.HUMAN_REVIEW, 0.78, 0.80)
BLOCKED = Observed(Route.BLOCKED_BY_EVIDENCE, None, 0.70, evidence_passed=False)
TONE = DeclaredSet("tone", "a" * 64, 2, ("casual", "formal"), "formal", timeout=60)
THREE = replace(TONE, variants=("casual", "formal", "terse"))
HELD_BACK, SERVED_MORE = FlipDirection.HELD_BACK, FlipDirection.SERVED
READY, NOT_READY, UNKNOWN = Expected


def probe(
    pair: str, variant: str, at: int, observed: Observed = SERVED, *, ready: bool | None = True
) -> ProbeDecision:
    return ProbeDecision(TONE.digest, pair, variant, at, observed, ready)


def sent(
    pair: str, at: int, formal: Observed, casual: Observed, *, ready: bool | None = True
) -> list[ProbeDecision]:
    seen = {"formal": formal, "casual": casual}
    return [
        probe(pair, variant, at + i, one, ready=ready)
        for i, (variant, one) in enumerate(seen.items())
    ]


def compare(*decisions: ProbeDecision, declared: DeclaredSet = TONE) -> ProbePairs:
    """All of them, at a watermark that gives up nothing."""
    pairs = ProbePairs(declared)
    pairs.add(decisions)
    pairs.advance(max(one.at for one in decisions) + 1)
    return pairs


def test_a_flip_is_counted_by_variant_direction_and_cause() -> None:
    pairs = compare(
        *sent("p1", 10, SERVED, LOW_SCORE),
        *sent("p2", 20, HIGH_THRESHOLD, SERVED),
        *sent("p1", 30, SERVED, SERVED),
    )
    assert pairs.flips == {
        ("casual", HELD_BACK, "judge_score", READY): 1,
        ("casual", SERVED_MORE, "threshold", READY): 1,
    }
    assert (pairs.compared, pairs.incomplete) == (3, 0)


def test_the_two_kinds_of_error_are_counted_apart_and_tested_together() -> None:
    pairs = ProbePairs(TONE)
    pairs.add(sent("p1", 10, SERVED, LOW_SCORE, ready=True))
    pairs.add(sent("p2", 20, SERVED, LOW_SCORE, ready=False))
    assert [one.excess for one in pairs.advance(100)] == [1, 2]
    assert pairs.flips == {
        ("casual", HELD_BACK, "judge_score", READY): 1,
        ("casual", HELD_BACK, "judge_score", NOT_READY): 1,
    }
    assert [one.expected for one in pairs.flipping] == [READY, NOT_READY]


@pytest.mark.parametrize(
    ("formal", "casual"), [(None, None), (True, None), (None, False), (True, False)]
)
def test_what_the_set_does_not_say_of_both_is_unknown(
    formal: bool | None, casual: bool | None
) -> None:
    pairs = compare(
        probe("p1", "formal", 10, SERVED, ready=formal),
        probe("p1", "casual", 11, LOW_SCORE, ready=casual),
    )
    assert pairs.standing == {("casual", HELD_BACK, "judge_score", UNKNOWN): 1}


def test_of_two_that_differ_in_what_is_expected_the_same_one_has_its_turn() -> None:
    """Sent at the same time, they have no order but by what they say."""
    found = set()
    for order in ((True, False), (False, True)):
        twice = [probe("p1", "casual", 11, LOW_SCORE, ready=ready) for ready in order]
        pairs = compare(probe("p1", "formal", 10), *twice)
        found.add(tuple(pairs.flips))
    assert len(found) == 1


def test_a_flip_at_the_evidence_gate_is_counted_and_held_outside() -> None:
    pairs = ProbePairs(TONE)
    pairs.add(sent("p1", 10, SERVED, BLOCKED))
    assert pairs.advance(100) == [ComparedRound(11, (), 0, 0)]
    assert pairs.flips == {("casual", HELD_BACK, "evidence_gate", READY): 1}
    pairs.add(sent("p1", 110, SERVED, LOW_SCORE))
    first = ComparedRound(111, (("casual", HELD_BACK),), 1, 1)
    assert pairs.advance(200) == [first], "what the gate did does not spend the comparison"


def test_only_the_first_flip_of_a_comparison_is_first() -> None:
    pairs = ProbePairs(TONE)
    pairs.add(sent("p1", 10, SERVED, LOW_SCORE))
    pairs.add(sent("p1", 20, SERVED, SERVED))
    pairs.add(sent("p1", 30, LOW_SCORE, SERVED))
    rounds = pairs.advance(100)
    assert [one.first for one in rounds] == [(("casual", HELD_BACK),), (), ()]
    assert [one.excess for one in rounds] == [1, 0, -1]
    assert [one.spread for one in rounds] == [1, 0, 1]


def test_what_flips_now_is_what_the_newest_comparisons_say() -> None:
    pairs = compare(
        *sent("p1", 10, SERVED, LOW_SCORE),
        *sent("p2", 20, SERVED, BLOCKED),
        *sent("p1", 30, HIGH_THRESHOLD, SERVED),
    )
    assert pairs.standing == {
        ("casual", HELD_BACK, "evidence_gate", READY): 1,
        ("casual", SERVED_MORE, "threshold", READY): 1,
    }
    assert pairs.flipping == [
        FlippingPair("p1", "casual", SERVED_MORE, "threshold", READY, 31),
        FlippingPair("p2", "casual", HELD_BACK, "evidence_gate", READY, 21),
    ]
    pairs.add([*sent("p1", 40, SERVED, SERVED), *sent("p2", 50, BLOCKED, BLOCKED)])
    pairs.advance(60)
    assert (pairs.flipping, pairs.standing.total(), pairs.flips.total()) == ([], 0, 3)


def test_every_variant_is_compared_with_the_reference() -> None:
    pairs = ProbePairs(THREE)
    pairs.add([probe("p1", "terse", 11), probe("p1", "casual", 12), probe("p1", "formal", 13)])
    pairs.add([probe("p2", "terse", 21, LOW_SCORE), probe("p2", "casual", 22, LOW_SCORE)])
    assert pairs.advance(20) == [ComparedRound(13, (), 0, 0)]
    pairs.add([probe("p2", "formal", 23)])
    both = (("casual", HELD_BACK), ("terse", HELD_BACK))
    assert pairs.advance(24) == [ComparedRound(23, both, 2, 4)]
    assert pairs.compared == 4


def test_decisions_wait_until_the_watermark_has_passed_them() -> None:
    pairs = ProbePairs(TONE)
    pairs.add(sent("p1", 10, SERVED, LOW_SCORE))
    assert pairs.advance(11) == [], "one of exactly its time may still come"
    assert not pairs.is_due(11)
    assert pairs.is_due(12)
    assert len(pairs.advance(12)) == 1
    assert not pairs.is_due(1000)


def test_a_variant_that_is_seen_again_begins_a_new_round() -> None:
    pairs = compare(probe("p1", "formal", 10), *sent("p1", 20, SERVED, LOW_SCORE))
    assert (pairs.compared, pairs.incomplete, pairs.flips.total()) == (1, 1, 1)


def test_a_round_is_given_up_once_after_the_timeout() -> None:
    pairs = compare(probe("p1", "formal", 10))
    assert not pairs.is_due(70)
    pairs.advance(70)
    assert pairs.incomplete == 0, "a decision of 70 would still have been in time"
    assert pairs.is_due(71)
    pairs.advance(71)
    pairs.advance(500)
    assert (pairs.compared, pairs.incomplete) == (0, 1)


def test_the_last_moment_of_a_round_is_within_it() -> None:
    in_time = compare(probe("p1", "formal", 10), probe("p1", "casual", 70))
    assert (in_time.compared, in_time.incomplete) == (1, 0)
    late = compare(probe("p1", "formal", 10), probe("p1", "casual", 71))
    assert (late.compared, late.incomplete) == (0, 1), "and the second begins a round of its own"


def test_what_comes_too_late_joins_an_open_round() -> None:
    pairs = ProbePairs(TONE)
    pairs.add([probe("p1", "formal", 40)])
    assert pairs.advance(60) == []
    pairs.add([probe("p1", "casual", 20, LOW_SCORE)])
    assert pairs.advance(61) == [ComparedRound(40, (("casual", HELD_BACK),), 1, 1)]


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(probe("p1", "casual", 30), id="the variant is in the open round"),
        pytest.param(probe("p1", "formal", 9), id="further from it than the timeout"),
    ],
)
def test_what_comes_too_late_for_its_round_is_incomplete(late: ProbeDecision) -> None:
    pairs = ProbePairs(TONE)
    pairs.add([probe("p1", "casual", 70)])
    pairs.advance(80)
    pairs.add([late])
    pairs.advance(81)
    assert (pairs.compared, pairs.incomplete) == (0, 1)
    pairs.add([probe("p1", "formal", 90)])
    pairs.advance(91)
    assert (pairs.compared, pairs.incomplete) == (1, 1), "the open round went on"


def test_what_comes_after_its_pair_was_compared_is_incomplete() -> None:
    pairs = compare(*sent("p1", 50, SERVED, SERVED))
    pairs.add([probe("p1", "formal", 49)])
    pairs.advance(60)
    pairs.advance(500)
    assert (pairs.compared, pairs.incomplete) == (1, 1)


@pytest.mark.parametrize("at_once", [True, False])
def test_copies_are_compared_with_nothing_and_leave_the_round_as_it_is(at_once: bool) -> None:
    pairs, two = ProbePairs(TONE), sent("p1", 10, SERVED, LOW_SCORE)
    for step, some in enumerate([two * 3] if at_once else [two[:1], two, two[1:], two, two[:1]]):
        pairs.add(some)
        pairs.advance(11 + step)
    pairs.advance(500)
    copies = 4 if at_once else 5
    assert (pairs.compared, pairs.flips.total(), pairs.incomplete) == (1, 1, copies)


def test_what_was_compared_joins_no_later_round() -> None:
    pairs = compare(*sent("p1", 10, SERVED, LOW_SCORE), probe("p1", "formal", 40))
    pairs.add([probe("p1", "casual", 11, LOW_SCORE)])
    assert pairs.advance(42) == []
    pairs.add([probe("p1", "casual", 41)])
    assert pairs.advance(43) == [ComparedRound(41, (), 0, 0)], (
        "it is matched with what was sent with it"
    )
    assert (pairs.compared, pairs.flips.total(), pairs.incomplete) == (2, 1, 1)


def test_what_is_sent_again_takes_nobodys_room() -> None:
    pairs, old = compare(*sent("p1", 10, SERVED, SERVED)), sent("p1", 10, SERVED, SERVED)
    new = sent("p1", 200, SERVED, LOW_SCORE)
    pairs.add(old * 200 + new[:1] * 200 + new)
    assert pairs.advance(300) == [ComparedRound(201, (("casual", HELD_BACK),), 1, 1)]
    assert pairs.incomplete == 400 + 200


def test_more_pairs_than_declared_and_other_variants_take_no_memory() -> None:
    pairs = ProbePairs(TONE)
    for number in range(500):
        pairs.add(sent(f"p{number}", 10 * number, SERVED, LOW_SCORE))
        pairs.add([probe("p0", f"v{number}", 10 * number)])
        pairs.advance(10 * number + 5)
    assert (pairs.compared, pairs.flips.total()) == (2, 2)
    assert pairs.incomplete == 500 + 2 * 498
    assert len(json.dumps(pairs.to_facts())) < 1000


def test_what_waits_for_a_watermark_that_stands_still_is_bounded() -> None:
    pairs = ProbePairs(TONE)
    room = MAX_WAITING * 4
    pairs.add(probe("p1", "formal", at) for at in range(room + 10))
    pairs.advance(room + 10)
    assert pairs.incomplete == 10 + room - 1, "and of the others only the last is open"


def test_covered_is_the_oldest_newest_comparison_once_every_pair_has_one() -> None:
    pairs = ProbePairs(TONE)
    assert pairs.covered is None
    pairs.advance(1000)
    pairs.add(sent("p1", 1010, SERVED, SERVED))
    pairs.advance(1100)
    assert pairs.covered == 1000, "since it was declared"
    pairs.add(sent("p2", 1110, SERVED, SERVED))
    pairs.advance(1200)
    assert pairs.covered == 1011
    pairs.add(sent("p1", 1210, SERVED, SERVED))
    pairs.advance(1300)
    assert pairs.covered == 1111


def history(seed: int, declared: DeclaredSet) -> list[ProbeDecision]:
    """Runs of all pairs with everything that can go wrong in them, in event time."""
    rng = random.Random(seed)
    seen = [SERVED, SERVED, LOW_SCORE, HIGH_THRESHOLD, BLOCKED]
    decisions = []
    for start in range(0, 1200, 100):
        for pair in ("p1", "p2", "p3"):
            for variant in (*declared.variants, "stray"):
                if rng.random() < 0.85:
                    at = start + rng.choice([1, 5, 5, 30, 80])
                    ready = rng.choice([True, True, False, None])
                    decisions.append(probe(pair, variant, at, rng.choice(seen), ready=ready))
    return decisions


def play(
    declared: DeclaredSet, decisions: Sequence[ProbeDecision], steps: Sequence[int], seed: int
) -> tuple[list[ComparedRound], dict[str, object]]:
    """Each watermark finds the decisions before it stored, others too, and is a restart."""
    rng = random.Random(seed)
    pairs, left, rounds = ProbePairs(declared), list(decisions), []
    rng.shuffle(left)
    pairs.advance(0)
    for watermark in steps:
        come = [one for one in left if one.at < watermark or rng.random() < 0.3]
        pairs.add(come)
        left = [one for one in left if one not in come]
        rounds += pairs.advance(watermark)
        facts = json.loads(json.dumps(pairs.to_facts()))
        pairs = ProbePairs.from_facts(declared, facts)
        assert pairs.to_facts() == facts
    return rounds, pairs.to_facts()


@pytest.mark.parametrize("declared", [TONE, THREE])
@pytest.mark.parametrize("seed", range(8))
def test_neither_batching_nor_restarts_change_the_result(seed: int, declared: DeclaredSet) -> None:
    decisions = history(seed, declared)
    at_once = play(declared, decisions, [2000], 0)
    assert at_once[1]["incomplete"]
    assert len(at_once[0]) > 5
    for other in range(4):
        rng = random.Random(100 * seed + other)
        steps = [*sorted(rng.sample(range(1, 1999), 40)), 2000]
        assert play(declared, decisions, steps, other) == at_once


def brute_force(declared: DeclaredSet, decisions: Sequence[ProbeDecision]) -> tuple[int, int]:
    """Comparisons and incomplete rounds, pair by pair from the whole history."""
    compared = incomplete = 0
    order = sorted(decisions, key=lambda one: (one.at, one.pair, one.variant))
    known = list(dict.fromkeys(one.pair for one in order if one.variant in declared.variants))
    for pair in known[: declared.pairs]:
        open_: list[ProbeDecision] = []
        last = -1
        for one in (x for x in order if x.pair == pair and x.variant in declared.variants):
            if one.at == last:  # of the moment in which the pair was compared
                incomplete += 1
                continue
            again = one.variant in {x.variant for x in open_}
            if open_ and (again or one.at > open_[0].at + declared.timeout):
                incomplete, open_ = incomplete + 1, []
            open_.append(one)
            if len(open_) == len(declared.variants):
                compared, open_, last = compared + len(open_) - 1, [], one.at
        incomplete += bool(open_)
    kept = known[: declared.pairs]
    strays = [x for x in order if x.pair not in kept or x.variant not in declared.variants]
    return compared, incomplete + len(strays)


@pytest.mark.parametrize("declared", [TONE, THREE])
@pytest.mark.parametrize("seed", range(8))
def test_rounds_equal_those_found_from_the_whole_history(seed: int, declared: DeclaredSet) -> None:
    decisions = history(seed, declared)
    _, facts = play(declared, decisions, [700, 2000], 0)
    assert (facts["compared"], facts["incomplete"]) == brute_force(declared, decisions)


@pytest.mark.parametrize(
    "other",
    [
        replace(TONE, digest="b" * 64),
        replace(TONE, reference="casual"),
        replace(TONE, variants=("casual", "formal", "terse")),
    ],
)
def test_the_state_of_another_set_is_refused(other: DeclaredSet) -> None:
    facts = compare(*sent("p1", 10, SERVED, LOW_SCORE)).to_facts()
    with pytest.raises(ValueError, match="another probe set"):
        ProbePairs.from_facts(other, facts)
    slower = replace(TONE, timeout=120, every=1, variants=("formal", "casual"))
    assert ProbePairs.from_facts(slower, facts).compared == 1


def test_the_watermark_may_come_before_the_first_decision_or_after() -> None:
    pairs = ProbePairs(TONE)
    pairs.add(sent("p1", 10, SERVED, SERVED))
    pairs.advance(1000)
    assert (pairs.since, pairs.compared) == (1000, 1)


@pytest.mark.parametrize("version", [None, 2, 4])
def test_the_state_of_another_version_is_refused(version: int | None) -> None:
    facts = compare(*sent("p1", 10, SERVED, LOW_SCORE)).to_facts()
    with pytest.raises(ValueError, match="another version"):
        ProbePairs.from_facts(TONE, facts | {"format": version})
