from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.contract import COMPLEMENT, Metric
from monitor.detection.pages.budget import Budget, class_share, crossed, evidence, scores
from monitor.detection.pages.streams import BUDGET_DAYS, Direction, Stream, StreamKind

LN90 = math.log(BUDGET_DAYS)
LEVELS = (Metric.TPR, Metric.FPR)
GAPS = (Metric.TPR, Metric.FPR, Metric.BLOCKED)
UNHURRIED = settings(deadline=None)


def stream(
    number: int, metric: Metric = Metric.TPR, kind: StreamKind = StreamKind.GAP, depth: int = 1
) -> Stream:
    group_by = "+".join("abcd"[:depth])
    reference = COMPLEMENT if kind is StreamKind.GAP else ""
    return Stream(
        "contract", group_by, metric, kind, f"a={number}", reference,
        Direction.SLICE_WORSE, Fraction(1, 10),
    )  # fmt: skip


def gaps(*numbers: int, metric: Metric = Metric.TPR, depth: int = 1) -> list[Stream]:
    return [stream(number, metric, StreamKind.GAP, depth) for number in numbers]


streams = st.builds(
    stream,
    st.integers(0, 30),
    st.sampled_from(GAPS),
    st.just(StreamKind.GAP),
    st.integers(1, 4),
) | st.builds(stream, st.integers(0, 30), st.sampled_from(LEVELS), st.just(StreamKind.LEVEL))
declarations = st.lists(st.lists(streams, max_size=25), max_size=8)


@UNHURRIED
@given(declarations)
def test_weights_sum_to_at_most_one_whatever_is_declared_and_when(
    sequence: list[list[Stream]],
) -> None:
    budget = Budget()
    for declared in sequence:
        before = dict(budget.weights)
        budget = budget.declare(declared)
        assert before.items() <= budget.weights.items()
        assert budget.declare(declared) == budget
        assert (budget.of(declared) > 0).all()
        assert math.fsum(budget.weights.values()) <= 1


@UNHURRIED
@given(declarations)
def test_no_class_spends_more_than_its_share(sequence: list[list[Stream]]) -> None:
    budget = Budget()
    for declared in sequence:
        budget = budget.declare(declared)
    everything = {each.key: each for each in itertools.chain(*sequence)}.values()
    spent: dict[tuple[StreamKind, Metric | None, int], list[float]] = {}
    share: dict[tuple[StreamKind, Metric | None, int], float] = {}
    for each in everything:
        name = (each.kind, each.metric if each.kind is StreamKind.GAP else None, min(each.depth, 3))
        spent.setdefault(name, []).append(budget.weights[each.key])
        share[name] = class_share(each)
    for name, weights in spent.items():
        assert math.fsum(weights) <= share[name] * (1 + 1e-12)


def test_shares_of_the_classes() -> None:
    """40 / 20 / 20 / 20 %, inside each 70 / 25 / 5 % by depth."""
    assert [class_share(stream(0, metric)) for metric in GAPS] == pytest.approx([0.28, 0.14, 0.14])
    assert [class_share(stream(0, Metric.FPR, StreamKind.LEVEL))] == pytest.approx([0.14])
    by_depth = [class_share(stream(0, depth=depth)) for depth in (1, 2, 3, 4)]
    assert by_depth == pytest.approx([0.28, 0.10, 0.02, 0.02])


def test_classes_together_are_the_whole_budget() -> None:
    parts = [class_share(stream(0, metric, depth=d)) for metric in GAPS for d in (1, 2, 3)]
    parts += [class_share(stream(0, Metric.TPR, StreamKind.LEVEL, d)) for d in (1, 2, 3)]
    assert math.fsum(parts) == pytest.approx(1)


def test_levels_of_both_rates_share_one_class() -> None:
    declared = [stream(0, metric, StreamKind.LEVEL) for metric in LEVELS]
    assert Budget().declare(declared).of(declared) == pytest.approx([0.035, 0.035])


def test_first_streams_share_half_equally() -> None:
    first = gaps(0, 1, 2, 3)
    budget = Budget().declare(first)
    assert budget.of(first) == pytest.approx([0.14 / 4] * 4)


def test_later_streams_share_the_other_half_by_their_position() -> None:
    budget = Budget().declare(gaps(0, 1)).declare(gaps(2)).declare(gaps(0, 3, 4))
    falling = [0.14 * 6 / math.pi**2 / i**2 for i in (1, 2, 3)]
    assert budget.of(gaps(2, 3, 4)) == pytest.approx(falling)
    assert budget.of(gaps(0, 1)) == pytest.approx([0.07, 0.07])


def test_a_class_without_streams_so_far_has_first_ones_too() -> None:
    pairs = gaps(*range(5), depth=2)
    budget = Budget().declare(gaps(0)).declare(pairs)
    assert budget.of(pairs) == pytest.approx([0.05 / 5] * 5)


def test_a_thousand_later_streams_fit() -> None:
    budget = Budget().declare(gaps(0))
    for number in range(1, 1000):
        budget = budget.declare(gaps(number))
    assert 0.2799 < math.fsum(budget.weights.values()) < 0.28


def test_withdrawn_streams_keep_their_weight() -> None:
    budget = Budget().declare(gaps(0, 1)).declare(gaps(2))
    assert budget.of(gaps(0, 1)).tolist() == Budget().declare(gaps(0, 1)).of(gaps(0, 1)).tolist()


def test_declaring_a_stream_twice_at_once_is_declaring_it() -> None:
    assert Budget().declare(gaps(0, 1, 0)) == Budget().declare(gaps(0, 1))


def test_metrics_without_a_share_are_refused() -> None:
    with pytest.raises(ValueError, match="gaps of selection have no share"):
        Budget().declare(gaps(0, metric=Metric.SELECTION))


def test_page_rule() -> None:
    weights = np.array([1.0, 0.01, 0.01, 1.0])
    statistic = np.array([LN90, LN90, LN90 - math.log(0.01) + 1e-9, -np.inf])
    assert crossed(statistic, weights).tolist() == [True, False, True, False]
    assert scores(statistic, weights)[0] == LN90


def test_evidence_in_five_steps() -> None:
    parts = np.array([-np.inf, -3, 0, 0.2499, 0.25, 0.4999, 0.5, 0.7499, 0.75, 0.9999, 1, 50])
    found = evidence(parts * LN90, np.ones(len(parts)))
    assert found.tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


@UNHURRIED
@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(1e-9, 1)), min_size=1, max_size=20))
def test_the_last_step_is_a_crossing(pairs: list[tuple[float, float]]) -> None:
    statistic, weights = (np.array(column) for column in zip(*pairs, strict=True))
    last = evidence(statistic, weights) == 4
    assert last.tolist() == crossed(statistic, weights).tolist()
