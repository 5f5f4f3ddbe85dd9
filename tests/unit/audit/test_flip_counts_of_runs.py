"""A candidate against the baseline: what is repaired, what is not, and what may be said."""

from __future__ import annotations

from collections.abc import Sequence

from matched import CANDIDATE, REFERENCES, VARIETY, row, seen, ten_pairs, varieties
from matched import pair as pair_of

from monitor.audit.audit_report import REPAIRED_SENTENCE, Comparison
from monitor.audit.flip_counts import NOTHING_SENTENCE, RunSide, broken, compare_runs
from monitor.audit.inputs import Pair
from monitor.audit.matching import comparisons


def side(pairs: Sequence[Pair]) -> RunSide:
    return RunSide(pairs, comparisons(pairs, REFERENCES))


def against_the_lesson(**scores: tuple[float, float]) -> Comparison:
    """The lesson's candidate, but for some pairs."""
    return compare_runs(side(ten_pairs()), side(ten_pairs(CANDIDATE | scores)))


def test_the_lessons_candidate_repairs_all_three() -> None:
    assert against_the_lesson() == Comparison(
        repaired=("n1", "p4", "p5"),
        still_failing=(),
        newly_failing=(),
        newly_held_back=(),
        newly_served=(),
        sentence=REPAIRED_SENTENCE,
    )


def test_what_still_and_newly_fails() -> None:
    found = against_the_lesson(p4=(0.78, 0.66), p1=(0.92, 0.60))
    assert (found.repaired, found.still_failing) == (("n1", "p5"), ("p4",))
    assert (found.newly_failing, found.newly_held_back) == (("p1",), ("p1/conversational",))
    assert found.sentence == "Not repaired: 1 still failing, 1 newly failing, 1 newly held back."


def test_closing_the_gap_by_serving_unclear_replies_is_no_repair() -> None:
    found = against_the_lesson(n1=(0.71, 0.71), n2=(0.75, 0.75))
    assert found.repaired == ("n1", "p4", "p5")
    assert found.newly_served == ("n1/conversational", "n2/conversational", "n2/formal")
    assert found.sentence == "Not repaired: 3 newly served though not ready."


def test_closing_the_gap_by_holding_everybody_back_is_no_repair() -> None:
    found = against_the_lesson(p4=(0.6, 0.6), p5=(0.6, 0.6))
    assert found.repaired == ("n1", "p4", "p5")
    assert found.newly_held_back == ("p4/formal", "p5/formal")
    assert found.sentence == "Not repaired: 2 newly held back."


def test_what_a_candidate_breaks_is_told_apart_from_what_it_does_not_repair() -> None:
    worse = against_the_lesson(p4=(0.78, 0.66), p1=(0.92, 0.60), n2=(0.75, 0.75))
    assert list(broken(worse)) == [
        "1 newly failing",
        "1 newly held back",
        "2 newly served though not ready",
    ]
    assert list(broken(against_the_lesson(p4=(0.78, 0.66)))) == []


def test_the_same_run_twice() -> None:
    same = compare_runs(side(ten_pairs()), side(ten_pairs()))
    assert same.still_failing == ("n1", "p4", "p5")
    assert same.sentence == "Not repaired: 3 still failing."


def test_nothing_to_repair_is_not_called_a_repair() -> None:
    found = compare_runs(side(ten_pairs(CANDIDATE)), side(ten_pairs(CANDIDATE)))
    assert (found.repaired, found.sentence) == ((), NOTHING_SENTENCE)


def test_a_pair_that_is_gone_is_not_repaired() -> None:
    fewer = [one for one in ten_pairs(CANDIDATE) if one.id != "p4"]
    found = compare_runs(side(ten_pairs()), side(fewer))
    assert found.repaired == ("n1", "p5")
    assert found.sentence == "Not repaired: 1 in one of the runs only."


def test_several_comparisons_of_a_pair_are_named_each() -> None:
    def run(**scores: float) -> RunSide:
        its = {"formal": 0.8, **scores}
        rows = (row("p1", name, {VARIETY: name}, seen(x)) for name, x in its.items())
        return side([pair_of(rows), varieties("p2", seen(0.8), seen(0.6))])

    found = compare_runs(run(slang=0.6, terse=0.6), run(slang=0.8, terse=0.6))
    assert found.repaired == ("p1/formal/slang",)
    assert found.still_failing == ("p1/formal/terse", "p2")


def test_a_flip_that_went_the_other_way_still_fails() -> None:
    before = side([varieties("p1", seen(0.8), seen(0.6))])
    after = side([varieties("p1", seen(0.6), seen(0.8))])
    found = compare_runs(before, after)
    assert (found.repaired, found.still_failing) == ((), ("p1",))
    assert found.newly_held_back == ("p1/formal",)
