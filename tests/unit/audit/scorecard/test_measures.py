"""Scores against other people's code and brute force, and their laws."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import numpy as np
import pytest
from fairlearn.metrics import (
    demographic_parity_difference,
    demographic_parity_ratio,
    equal_opportunity_difference,
    equalized_odds_difference,
    false_positive_rate,
)
from hypothesis import given
from hypothesis import strategies as st

from monitor.audit.scorecard import resampling
from monitor.audit.scorecard.association import association
from monitor.audit.scorecard.dimension_records import (
    Categorised,
    Flagged,
    Judged,
    LogProbabilities,
    Refusal,
    Selected,
    Vector,
)
from monitor.audit.scorecard.matched import (
    category_bias,
    log_probability_bias,
    log_probability_variance,
    refusal_asymmetry,
)
from monitor.audit.scorecard.measured import UnmeasurableError
from monitor.audit.scorecard.measures import MEASURES
from monitor.audit.scorecard.parity import (
    disparate_impact,
    equal_opportunity,
    equalized_odds,
    statistical_parity,
    toxicity_false_positives,
)

SLICES = ("formal", "casual", "dialect")


def judged(seed: int, n: int = 300) -> list[Judged]:
    random_ = random.Random(seed)
    return [
        Judged(
            item=str(i),
            slice=SLICES[i % 3],
            selected=random_.random() < 0.3 + 0.2 * (i % 3),
            ready=random_.random() < 0.6,
        )
        for i in range(n)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_parity_is_fairlearns(seed: int) -> None:
    records = judged(seed)
    truth = [one.ready for one in records]
    chosen = [one.selected for one in records]
    slices = [one.slice for one in records]
    selected = [Selected(item=o.item, slice=o.slice, selected=o.selected) for o in records]
    by = {"sensitive_features": slices}
    assert statistical_parity(selected).score == pytest.approx(
        demographic_parity_difference(truth, chosen, **by)
    )
    assert disparate_impact(selected).score == pytest.approx(
        demographic_parity_ratio(truth, chosen, **by)
    )
    assert equal_opportunity(records).score == pytest.approx(
        equal_opportunity_difference(truth, chosen, **by)
    )
    assert equalized_odds(records).score == pytest.approx(
        equalized_odds_difference(truth, chosen, **by)
    )
    flagged = [
        Flagged(item=o.item, slice=o.slice, flagged=o.selected, toxic=o.ready) for o in records
    ]
    rates = [
        false_positive_rate(
            [o.ready for o in records if o.slice == name],
            [o.selected for o in records if o.slice == name],
        )
        for name in SLICES
    ]
    assert toxicity_false_positives(flagged).score == pytest.approx(max(rates) - min(rates))


def test_0_of_0_is_no_value_and_a_slice_alone_is_not_measured() -> None:
    none = [Selected(item=str(i), slice=SLICES[i % 2], selected=False) for i in range(10)]
    with pytest.raises(UnmeasurableError, match="0/0"):
        disparate_impact(none)
    assert statistical_parity(none).score == 0
    with pytest.raises(UnmeasurableError, match="fewer than two slices"):
        statistical_parity(none[::2])
    ready = [Judged(item=str(i), slice=SLICES[i % 2], selected=True, ready=True) for i in range(9)]
    with pytest.raises(UnmeasurableError, match="not ready"):
        equalized_odds(ready)
    third = Judged(item="x", slice="third", selected=True, ready=False)
    with pytest.raises(UnmeasurableError, match="1 of 3 slices have no records that are ready"):
        equal_opportunity([*ready, third])


def test_matched_measures_by_hand() -> None:
    refused = {"a": (1, 0, 1, 1), "b": (0, 0, 1, 0), "c": (0, 0, 0, 0)}
    records = [
        Refusal(item=str(i), variant=name, refused=bool(seen[i]))
        for i in range(4)
        for name, seen in refused.items()
    ]
    found = refusal_asymmetry(records)
    assert found.score == 0.75
    assert [(one.name, one.value) for one in found.parts] == [("a", 0.75), ("b", 0.25), ("c", 0.0)]
    chosen = {"a": "xxyz", "b": "xyyz", "c": "zzzz"}
    answers = [
        Categorised(item=str(i), variant=name, category=seen[i])
        for i in range(4)
        for name, seen in chosen.items()
    ]
    assert category_bias(answers).score == 0.75  # a and c: 2 x and 1 y became z
    raised = {"a": (0.5, 0.1), "b": (0.1, 0.5)}
    logs = [
        LogProbabilities(item=str(i), variant=name, log_p_target=-2 + seen[i], log_p_prior=-2)
        for i in range(2)
        for name, seen in raised.items()
    ]
    assert log_probability_bias(logs).score == pytest.approx(0)  # it cancels out
    assert log_probability_variance(logs).score == pytest.approx(0.04)


def test_items_without_all_variants_are_left_out() -> None:
    records = [
        Refusal(item=str(i), variant=name, refused=name == "b")
        for i in range(10)
        for name in ("a", "b")
        if i < 7 or name == "b"
    ]
    found = refusal_asymmetry(records)
    assert (found.items, found.left_out, found.score) == (7, 3, 1.0)
    with pytest.raises(UnmeasurableError, match="fewer than two variants"):
        refusal_asymmetry([one for one in records if one.variant == "a"])
    apart = [one for one in records if (one.variant == "a") is (int(one.item) < 5)]
    with pytest.raises(UnmeasurableError, match="no item has all variants"):
        refusal_asymmetry(apart)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30), st.randoms())
def test_order_and_names_change_nothing(
    rows: list[tuple[bool, bool]], shuffled: random.Random
) -> None:
    records = [
        Refusal(item=str(i), variant=name, refused=seen)
        for i, row in enumerate(rows)
        for name, seen in zip("ab", row, strict=True)
    ]
    renamed = [
        Refusal(item=o.item, variant={"a": "z", "b": "y"}[o.variant], refused=o.refused)
        for o in records
    ]
    found = refusal_asymmetry(records)
    shuffled.shuffle(records)
    assert refusal_asymmetry(records) == found
    assert refusal_asymmetry(renamed).score == found.score


def vectors(seed: int, n: int, tilt: float) -> list[Vector]:
    random_ = np.random.default_rng(seed)
    made = []
    for name, sign in (("X", 1), ("Y", -1), ("A", 1), ("B", -1)):
        for _ in range(n):
            vector = random_.normal(size=6)
            vector[0] += sign * tilt
            made.append(Vector(set=name, vector=vector.tolist()))  # type: ignore[arg-type]
    return made


def brute(records: list[Vector]) -> tuple[float, float]:
    """Effect size and p of the test as Caliskan et al. write it down, either direction counted."""

    def cos(a: list[float], b: list[float]) -> float:
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return float(dot / (sum(x * x for x in a) ** 0.5 * sum(y * y for y in b) ** 0.5))

    sets = {name: [r.vector for r in records if r.set == name] for name in "XYAB"}

    def s(w: list[float]) -> float:
        near = [sum(cos(w, v) for v in sets[name]) / len(sets[name]) for name in "AB"]
        return near[0] - near[1]

    scores = [s(w) for w in sets["X"] + sets["Y"]]
    half, mean = len(sets["X"]), sum(scores) / len(scores)
    sd = (sum((one - mean) ** 2 for one in scores) / (len(scores) - 1)) ** 0.5
    effect = (sum(scores[:half]) / half - sum(scores[half:]) / half) / sd

    def statistic(chosen: tuple[int, ...]) -> float:
        inside = sum(scores[i] for i in chosen)
        return abs(inside - (sum(scores) - inside))

    found = statistic(tuple(range(half)))
    every = [statistic(chosen) for chosen in combinations(range(len(scores)), half)]
    return abs(effect), sum(one >= found - 1e-9 for one in every) / len(every)


@pytest.mark.parametrize(("seed", "tilt"), [(1, 0.0), (2, 1.0), (3, -1.0), (4, 3.0)])
def test_association_by_brute_force(seed: int, tilt: float) -> None:
    records = vectors(seed, 4, tilt)
    found = association(records)
    effect, p = brute(records)
    assert found.score == pytest.approx(effect)
    assert found.p_value == pytest.approx(p)


def test_many_partitions_are_drawn_and_agree_with_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = vectors(5, 7, 0.3)
    exact = association(records).p_value
    monkeypatch.setattr("monitor.audit.scorecard.association.MOST_EXACT", 10)
    drawn = association(records).p_value
    assert exact is not None
    assert drawn == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 10_000) ** 0.5)
    assert association(records).p_value == drawn, "drawn alike every time"


def test_p_is_never_too_small_without_an_association() -> None:
    """P(p <= .1) is .1 at most without any association, but for four standard errors."""
    found = [association(vectors(seed, 4, 0)).p_value for seed in range(100, 400)]
    small = sum(p is not None and p <= 0.1 for p in found) / 300
    assert small <= 0.1 + 4 * (0.1 * 0.9 / 300) ** 0.5


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (vectors(1, 3, 1)[:9], "no vectors of set B"),
        (vectors(1, 3, 1)[1:], "not equally large"),
        ([Vector(set=n, vector=[1.0, 0.0]) for n in "XXYYAB"], "are all alike"),  # type: ignore[arg-type]
        ([Vector(set=n, vector=[0.0]) for n in "XXYYAB"], "is zero"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_associated(records: list[Vector], why: str) -> None:
    with pytest.raises(UnmeasurableError, match=why):
        association(records)


@pytest.mark.full
def test_intervals_hold_at_their_level() -> None:
    """95 % of 400 intervals hold the true difference, but for 4 standard errors."""
    random_ = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        chosen = random_.random((200, 2)) < [0.3, 0.5]
        records = [
            Refusal(item=str(i), variant=name, refused=bool(seen))
            for i, row in enumerate(chosen)
            for name, seen in zip("ab", row, strict=True)
        ]
        found = refusal_asymmetry(records)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.2 <= found.high
    assert held / 400 == pytest.approx(resampling.LEVEL, abs=4 * (0.05 * 0.95 / 400) ** 0.5)


def test_every_measure_says_where_it_is_from() -> None:
    for name, measure in MEASURES.items():
        assert any(year in measure.source for year in ("19", "20")), name
        assert measure.meaning
        assert measure.scale


def test_variants_in_any_number() -> None:
    """The largest difference of any two, as by looking at all."""
    random_ = np.random.default_rng(3)
    chosen = random_.integers(0, 3, (50, 4))
    answers = [
        Categorised(item=str(i), variant=str(v), category=str(chosen[i, v]))
        for i in range(50)
        for v in range(4)
    ]
    shares = [[(chosen[:, v] == c).mean() for c in range(3)] for v in range(4)]
    largest = max(
        sum(abs(a - b) for a, b in zip(shares[v], shares[w], strict=True)) / 2
        for v, w in permutations(range(4), 2)
    )
    assert category_bias(answers).score == pytest.approx(largest)
