"""Flips as they are listed, counted and tested; the lesson's by hand, the guards by adversaries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from matched import REFERENCES, REVIEWED, VARIETY, row, seen, ten_pairs, varieties
from matched import pair as pair_of

from monitor.audit.audit_report import FlipCounts, ShownFlip, VariantOutcome
from monitor.audit.flip_counts import flip_counts, mcnemar, shown_flips
from monitor.audit.inputs import Compared, Pair
from monitor.audit.matching import comparisons
from monitor.core.privacy.bands import edges
from monitor.core.probes.flips import FlipCause, FlipDirection, FlipStage, Observed

HELD_BACK, SERVED = FlipDirection
K = 11


def compared(pairs: Sequence[Pair]) -> Sequence[Compared]:
    return comparisons(pairs, REFERENCES)


def exact(pairs: Sequence[Pair]) -> FlipCounts:
    (counts,) = flip_counts(compared(pairs), k=1, exact=True)
    return counts


def guarded(pairs: Sequence[Pair]) -> FlipCounts:
    """Flips of ready replies, as all of :func:`outcomes` are."""
    counts, others = flip_counts(compared(pairs), k=K, exact=False, declared={VARIETY})
    assert (others.expected_ready, others.withheld) == (False, True)
    return counts


def outcomes(alike: int = 0, held_back: int = 0, served: int = 0, at_gate: int = 0) -> list[Pair]:
    """Pairs by how they come out."""
    good, bad, stopped = seen(0.8), seen(0.6), seen(0.8, passed=False)
    cases = [(good, good)] * alike + [(good, bad)] * held_back
    cases += [(bad, good)] * served + [(good, stopped)] * at_gate
    return [varieties(f"p{i:05}", *case) for i, case in enumerate(cases)]


class TestListed:
    def test_the_lessons_flips(self) -> None:
        flips = shown_flips(compared(ten_pairs()))
        assert [(one.pair, one.expected_ready) for one in flips] == [
            ("n1", False),
            ("p4", True),
            ("p5", True),
        ]
        for one in flips:
            assert (one.reference.route, one.variant.route) == ("auto_serve", "human_review")
            assert one.direction is HELD_BACK
            assert (one.stage, one.cause) == (FlipStage.JUDGE_OR_ROUTE, FlipCause.JUDGE_SCORE)

    def test_a_flip_tells_both_sides(self) -> None:
        flips = shown_flips(compared([varieties("p4", seen(0.78), seen(0.67), channel="email")]))
        formal = VariantOutcome("formal", {VARIETY: "formal"}, "auto_serve", 0.78, 0.7, True)
        casual = VariantOutcome(
            "conversational", {VARIETY: "conversational"}, "human_review", 0.67, 0.7, True
        )
        at = (HELD_BACK, FlipStage.JUDGE_OR_ROUTE, FlipCause.JUDGE_SCORE)
        assert flips == (ShownFlip("p4", VARIETY, True, formal, casual, *at),)

    @pytest.mark.parametrize(
        ("formal", "conversational", "stage", "cause"),
        [
            (seen(0.9), seen(None, passed=False), FlipStage.EVIDENCE_GATE, None),
            (seen(0.9), seen(0.6), FlipStage.JUDGE_OR_ROUTE, FlipCause.JUDGE_SCORE),
            (seen(0.75), seen(0.75, 0.8), FlipStage.JUDGE_OR_ROUTE, FlipCause.THRESHOLD),
            (seen(0.85), seen(0.75, 0.8), FlipStage.JUDGE_OR_ROUTE, FlipCause.SCORE_AND_THRESHOLD),
            (seen(0.9), seen(0.9, route=REVIEWED), FlipStage.JUDGE_OR_ROUTE, FlipCause.ROUTE),
        ],
    )
    def test_each_stage(
        self, formal: Observed, conversational: Observed, stage: FlipStage, cause: FlipCause | None
    ) -> None:
        (flip,) = shown_flips(compared([varieties("p1", formal, conversational)]))
        assert (flip.stage, flip.cause) == (stage, cause)
        key = stage.value if cause is None else f"{stage}/{cause}"
        counts = exact([varieties("p1", formal, conversational)])
        assert counts.stages == {key: 1}

    def test_an_equal_score_is_served(self) -> None:
        assert not shown_flips(compared([varieties("p1", seen(0.70), seen(0.71))]))
        (flip,) = shown_flips(compared([varieties("p1", seen(0.69), seen(0.70))]))
        assert flip.direction is SERVED


class TestCounted:
    def test_the_lessons_numbers(self) -> None:
        ready, not_ready = flip_counts(compared(ten_pairs()), k=1, exact=True)
        assert ready == FlipCounts(
            by=VARIETY,
            expected_ready=True,
            compared=6,
            flips=2,
            directions={HELD_BACK: 2, SERVED: 0},
            stages={"judge_or_route/judge_score": 2},
            at_gate=0,
            p_value=0.5,
        )
        assert not_ready == FlipCounts(
            by=VARIETY,
            expected_ready=False,
            compared=4,
            flips=1,
            directions={HELD_BACK: 1, SERVED: 0},
            stages={"judge_or_route/judge_score": 1},
            at_gate=0,
            p_value=1.0,
        )

    def test_errors_of_opposite_kinds_are_not_added_up(self) -> None:
        """Ten delays of ready replies and ten services of unready ones: each is an error."""
        good, bad = seen(0.8), seen(0.6)
        pairs = [varieties(f"p{i}", good, bad) for i in range(10)]
        pairs += [varieties(f"n{i}", bad, good, ready=False) for i in range(10)]
        ready, not_ready = flip_counts(compared(pairs), k=1, exact=True)
        assert (ready.directions, ready.p_value) == ({HELD_BACK: 10, SERVED: 0}, mcnemar(10, 0))
        assert (not_ready.directions, not_ready.p_value) == (
            {HELD_BACK: 0, SERVED: 10},
            mcnemar(0, 10),
        )

    def test_the_gate_is_held_outside(self) -> None:
        counts = exact(outcomes(alike=4, held_back=3, served=1, at_gate=2))
        assert (counts.compared, counts.flips, counts.at_gate) == (8, 4, 2)
        assert counts.directions == {HELD_BACK: 3, SERVED: 1}
        assert counts.stages == {"evidence_gate": 2, "judge_or_route/judge_score": 4}
        assert counts.p_value == mcnemar(3, 1)

    def test_both_stopped_are_neither_compared_nor_a_flip(self) -> None:
        stopped = seen(0.9, passed=False)
        counts = exact([varieties("p1", stopped, stopped)])
        assert (counts.compared, counts.flips, counts.at_gate) == (0, 0, 0)
        assert counts.p_value == 1.0

    def test_both_stopped_yet_apart_are_counted_outside(self) -> None:
        stopped, reviewed = seen(0.9, passed=False), seen(0.9, route=REVIEWED, passed=False)
        counts = exact([varieties("p1", reviewed, stopped)])
        assert (counts.compared, counts.flips, counts.at_gate) == (0, 0, 1)
        assert counts.stages == {"judge_or_route/route": 1}

    def test_axes_are_counted_apart(self) -> None:
        both = pair_of(
            row("p2", name, {"channel": name, VARIETY: "formal"}, seen(score))
            for name, score in (("chat", 0.9), ("email", 0.6))
        )
        counts = flip_counts(compared([*ten_pairs(), both]), k=1, exact=True)
        assert [(one.by, one.expected_ready, one.compared, one.flips) for one in counts] == [
            ("channel", True, 1, 1),
            (VARIETY, True, 6, 2),
            (VARIETY, False, 4, 1),
        ]

    def test_nothing_to_compare_is_no_line(self) -> None:
        assert flip_counts((), k=1, exact=True) == ()

    def test_a_pairs_comparisons_are_not_tested_as_if_they_were_independent(self) -> None:
        # Five pairs whose three other variants are all held back: 15 flips, but five pairs.
        variants = {"formal": 0.8, "slang": 0.6, "terse": 0.6, "typos": 0.6}
        pairs = [
            pair_of(row(f"p{i}", name, {VARIETY: name}, seen(x)) for name, x in variants.items())
            for i in range(5)
        ]
        counts = exact(pairs)
        assert counts.flips == 15
        assert counts.p_value == 3 * mcnemar(5, 0)


class TestGuarded:
    def test_below_k_everything_is_withheld(self) -> None:
        for n in (1, K - 1, 2 * K - 1):
            counts = guarded(outcomes(held_back=n))
            assert counts.withheld
            assert (counts.compared, counts.flips, counts.at_gate) == (0, 0, 0)
            assert (counts.stages, set(counts.directions.values())) == ({}, {0})

    def test_numbers_are_at_least(self) -> None:
        counts = guarded(outcomes(alike=500, held_back=90, served=40, at_gate=60))
        assert not counts.withheld
        assert counts.p_value is None
        assert (counts.compared, counts.flips, counts.at_gate) == (515, 107, 54)
        assert counts.directions == {HELD_BACK: 85, SERVED: 32}

    @pytest.mark.parametrize("few", range(K))
    def test_a_small_part_and_its_rest_are_hidden(self, few: int) -> None:
        none = guarded(outcomes(alike=200, held_back=60))
        assert guarded(outcomes(alike=200, held_back=60 - few, served=few)) == none

    @pytest.mark.parametrize("few", range(K))
    def test_nearly_all_looks_like_all(self, few: int) -> None:
        assert (
            guarded(outcomes(held_back=90)).flips
            == guarded(outcomes(alike=few, held_back=90 - few)).flips
        )

    def test_stages_below_k_leave_no_trace(self) -> None:
        counts = guarded(outcomes(alike=200, held_back=60, at_gate=3))
        assert counts.stages.keys() == {"judge_or_route/judge_score"}
        assert counts.at_gate == 0

    def test_every_number_is_an_edge_and_true(self) -> None:
        bands = {0, *edges(K)}
        for parts in ((300, 40, 30, 20), (50, 15, 12, 11), (25, 25, 25, 25), (0, 80, 0, 40)):
            pairs = outcomes(*parts)
            shown, true = guarded(pairs), exact(pairs)
            for name in ("compared", "flips", "at_gate"):
                assert getattr(shown, name) in bands
                assert getattr(shown, name) <= getattr(true, name)
            assert all(shown.directions[way] <= true.directions[way] for way in FlipDirection)
            assert all(number <= true.stages[at] for at, number in shown.stages.items())
            assert bands.issuperset([*shown.directions.values(), *shown.stages.values()])

    def test_variants_of_one_pair_are_not_counted_as_people(self) -> None:
        names = ["formal", *(f"v{i}" for i in range(30))]
        counts = flip_counts(
            compared([pair_of(row("p1", name, {VARIETY: name}, seen(0.8)) for name in names)]),
            k=K,
            exact=False,
            declared={VARIETY},
        )
        assert [one.withheld for one in counts] == [True, True]

    def test_whether_few_differ_along_an_axis_is_not_told(self) -> None:
        alike = outcomes(alike=60)
        other = {VARIETY: "conversational", "channel": "email"}
        few = [
            pair_of(
                [
                    row(f"q{i}", "formal", {VARIETY: "formal", "channel": "chat"}, seen(0.8)),
                    row(f"q{i}", "conversational", other, seen(0.6)),
                ]
            )
            for i in range(3)
        ]
        for axes in ({VARIETY}, {VARIETY, "channel"}):
            none, some = (
                flip_counts(compared(pairs), k=K, exact=False, declared=axes)
                for pairs in (alike, [*alike, *few])
            )
            assert some == none
            assert {one.by for one in none} == axes
