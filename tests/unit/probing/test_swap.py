"""Traces with one value exchanged: what is made, what is compared, what is listed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probing import answer

from monitor.core.counts.cells import Route
from monitor.core.intervals import wilson
from monitor.core.probes.flips import Observed
from monitor.errors import SlicewatchError
from monitor.probing.rounds import Answered
from monitor.probing.swap import (
    Swap,
    Swapped,
    SwapReview,
    SwapSide,
    Trace,
    for_review,
    parse_swap,
    read_traces,
    sides,
    summary,
    swapped,
)

SWAP = Swap("dialect", "north", "south")
SECRET = "what a customer wrote"


def trace(number: int = 1, dialect: str = "north", request: Any = None) -> Trace:
    return Trace(
        id=f"t{number}", attributes={"dialect": dialect, "channel": "chat"}, request=request
    )


def served(score: float | None = 0.8) -> Observed:
    return Observed(Route.AUTO_SERVE, score, 0.7)


def reviewed(score: float | None = 0.6) -> Observed:
    return Observed(Route.HUMAN_REVIEW, score, 0.7)


def test_a_swap_is_an_attribute_and_two_values() -> None:
    assert parse_swap("dialect=north:south") == SWAP
    assert parse_swap("dialect=deep north:x=y") == Swap("dialect", "deep north", "x=y")


@pytest.mark.parametrize(
    "text",
    ["", "dialect", "dialect=a", "dialect=a:", "dialect=:b", "=a:b", "D=a:b", "d=a:a", "d=a:b:c"],
)
def test_anything_else_is_no_swap(text: str) -> None:
    with pytest.raises(SlicewatchError, match="--swap"):
        parse_swap(text)


def test_the_value_is_exchanged_wherever_the_attribute_names_it_and_nowhere_else() -> None:
    request = {
        "dialect": "north",
        "text": "north",
        "customer": {"dialect": "north", "origin": "north"},
        "turns": [{"dialect": "north"}, {"dialect": "east"}, "north", ["north"]],
        "north": {"dialect": {"dialect": "north"}},
    }
    before = json.dumps(request)
    assert SWAP.in_request(request) == {
        "dialect": "south",
        "text": "north",
        "customer": {"dialect": "south", "origin": "north"},
        "turns": [{"dialect": "south"}, {"dialect": "east"}, "north", ["north"]],
        "north": {"dialect": {"dialect": "south"}},
    }
    assert json.dumps(request) == before


def test_both_variants_are_made_of_every_trace_that_has_the_value() -> None:
    found = swapped([trace(1, "north", {"dialect": "north"}), trace(2, "east"), trace(3)], SWAP)
    assert found.ids == {"swap-1": "t1", "swap-2": "t3"}
    assert found.silent == 1
    made = {(one.pair, one.variant): one for one in found.probe_set.items}
    assert made["swap-1", "original"].request == {"dialect": "north"}
    assert made["swap-1", "swapped"].request == {"dialect": "south"}
    assert made["swap-2", "swapped"].attributes == {"dialect": "south", "channel": "chat"}
    assert len(made) == 4
    assert not found.probe_set.synthetic


def test_a_value_that_no_trace_has_is_told() -> None:
    with pytest.raises(SlicewatchError, match="no trace has the value"):
        swapped([trace(1, "east")], SWAP)


def test_a_request_without_end_is_told() -> None:
    nested: Any = "end"
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(SlicewatchError, match="trace t1: request is nested too deeply"):
        swapped([trace(1, request=nested)], SWAP)


def test_traces_with_both_answers_are_compared() -> None:
    made = swapped([trace(number) for number in (1, 2, 3)], SWAP)
    high, low = answer(), answer(route="human_review", judge_score=0.6)
    missing = ("swap-2", "swapped")
    answered = [
        Answered(one, low if one.variant == "swapped" else high, 0)
        for one in made.probe_set.items
        if (one.pair, one.variant) != missing
    ]
    found = sides(answered, made.ids)
    assert [one.id for one in found] == ["t1", "t3"]
    assert found[0] == SwapSide("t1", high.observed, low.observed)
    assert found[0].flipped
    assert found[0].difference == pytest.approx(-0.21)


def play() -> list[SwapSide]:
    """Five held back, one served, nine alike, five of these without a score."""
    pairs = [(served(), reviewed())] * 5 + [(reviewed(), served(0.7))]
    pairs += [(served(), served(0.75))] * 4 + [(served(None), served(0.8))] * 5
    return [SwapSide(f"t{number}", *pair) for number, pair in enumerate(pairs)]


def test_all_together() -> None:
    found = summary(play(), k=11)
    assert found is not None
    assert (found.held_back.count, found.served.count) == (5, 1)
    assert (found.apart.count, found.apart.share) == (6, 0.4)
    assert (found.apart.lower, found.apart.upper) == pytest.approx(wilson(0.4, 15))
    assert found.scored == 10
    assert found.difference == pytest.approx((5 * -0.2 + 0.1 + 4 * -0.05) / 10)


def test_nothing_is_said_of_too_few() -> None:
    assert summary(play(), k=16) is None
    assert summary([], k=1) is None
    assert summary([SwapSide("t", served(None), served(None))], k=1).difference is None  # type: ignore[union-attr]


def test_scores_that_differ_by_the_limit_do_not_disagree() -> None:
    assert not SwapSide("t", served(0.7), served(0.8)).disagrees(0.1)
    assert SwapSide("t", served(0.7), served(0.801)).disagrees(0.1)
    assert SwapSide("t", served(0.8), served(0.7)).disagrees(0.09)
    assert SwapSide("t", served(0.7), reviewed(0.7)).disagrees(1.0)
    assert not SwapSide("t", served(None), served(0.9)).disagrees(0.0)


def alike(number: int) -> list[SwapSide]:
    return [SwapSide(f"same{n}", served(), served()) for n in range(number)]


def test_all_disagreements_are_listed_and_a_share_of_the_rest() -> None:
    apart = [one for one in play() if one.flipped]
    listed = for_review([*apart, *alike(100)], SwapReview(0.1, 0.05), np.random.default_rng(1))
    assert {one.side.id for one in listed if not one.spot_check} == {one.id for one in apart}
    assert len([one for one in listed if one.spot_check]) == 5
    assert len({one.side.id for one in listed}) == 11


def test_there_is_a_spot_check_unless_none_is_wanted() -> None:
    rng = np.random.default_rng(1)
    assert len(for_review(alike(3), SwapReview(0.1, 0.05), rng)) == 1
    assert for_review(alike(3), SwapReview(0.1, 0.0), rng) == []
    assert len(for_review(alike(3), SwapReview(0.1, 1.0), rng)) == 3
    assert for_review([], SwapReview(), rng) == []


def test_spot_checks_are_drawn_evenly_and_stand_anywhere_in_the_list() -> None:
    rng = np.random.default_rng(2)
    apart = [one for one in play() if one.flipped]
    drawn, places = Counter[str](), Counter[int]()
    for _ in range(1000):
        listed = for_review([*apart, *alike(10)], SwapReview(0.1, 0.1), rng)
        (place,) = (number for number, one in enumerate(listed) if one.spot_check)
        drawn[listed[place].side.id] += 1
        places[place] += 1
    assert len(drawn) == 10
    assert all(50 < count < 150 for count in drawn.values())  # 5 standard deviations: 53 to 147
    assert len(places) == 7


def write(path: Path, *lines: object) -> Path:
    path.write_text(
        "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines)
    )
    return path


ROW = {"id": "t1", "attributes": {"dialect": "north"}, "request": {"text": SECRET}}


def test_traces_are_read(tmp_path: Path) -> None:
    found = read_traces(write(tmp_path / "t.jsonl", ROW, "", ROW | {"id": "t2", "request": None}))
    assert [one.id for one in found] == ["t1", "t2"]
    assert found[0].request == {"text": SECRET}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (ROW, "line 2: id stands there twice"),
        (ROW | {SECRET: 1}, "line 2: has more fields than id, attributes and request"),
        (ROW | {"id": ""}, "line 2: Expected `str` of length >= 1"),
        (ROW | {"id": "a\nb"}, "line 2: id must be one line"),
        (ROW | {"id": 3}, "line 2: Expected `str`, got `int`"),
        (ROW | {"attributes": {"dialect": [SECRET]}}, "line 2: Expected `str`, got `array`"),
        (ROW | {"attributes": {SECRET: "x"}}, "line 2: Expected `str` matching regex"),
        ({"id": "t2"}, "line 2: Object missing required field `attributes`"),
        (f"{{{SECRET}", "line 2: is not valid JSON"),
        ([SECRET], "line 2: Expected `object`, got `array`"),
    ],
)
def test_what_is_no_trace_is_told_by_line_and_not_repeated(
    tmp_path: Path, row: object, told: str
) -> None:
    with pytest.raises(SlicewatchError) as refused:
        read_traces(write(tmp_path / "t.jsonl", ROW, row))
    assert told in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_empty_or_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(SlicewatchError, match="is empty"):
        read_traces(write(tmp_path / "t.jsonl", ""))
    with pytest.raises(SlicewatchError, match="No such file"):
        read_traces(tmp_path / "missing.jsonl")


def test_what_was_made_says_nothing_of_whom_it_is_about() -> None:
    made: Swapped = swapped([trace(17)], SWAP)
    assert not any("t17" in repr(one) for one in made.probe_set.items)
