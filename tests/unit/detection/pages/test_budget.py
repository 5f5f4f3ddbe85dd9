from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.contract import COMPLEMENT
from monitor.core.metric import Metric
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
    stream, st.integers(0, 30), st.sampled_from(GAPS), st.just(StreamKind.GAP), st.integers(1, 4)
) | st.builds(stream, st.integers(0, 30), st.sampled_from(LEVELS), st.just(StreamKind.LEVEL))


def test_shares_of_the_classes() -> None:
    """40 / 20 / 20 / 20 %, inside each 70 / 25 / 5 % by depth."""
    assert [class_share(stream(0, metric)) for metric in GAPS] == pytest.approx([0.28, 0.14, 0.14])
    assert class_share(stream(0, Metric.FPR, StreamKind.LEVEL)) == pytest.approx(0.14)
    assert class_share(stream(0, Metric.SELECTION, StreamKind.RATIO)) == pytest.approx(0.14)
    one_each = [class_share(stream(0, metric)) for metric in (Metric.SELECTION, Metric.PRECISION)]
    assert one_each == pytest.approx([0.14, 0.14])
    by_depth = [class_share(stream(0, depth=depth)) for depth in (1, 2, 3, 4)]
    assert by_depth == pytest.approx([0.28, 0.10, 0.02, 0.02])


def test_classes_together_are_the_whole_budget() -> None:
    parts = [class_share(stream(0, metric, depth=d)) for metric in GAPS for d in (1, 2, 3)]
    parts += [class_share(stream(0, Metric.TPR, StreamKind.LEVEL, d)) for d in (1, 2, 3)]
    assert math.fsum(parts) == pytest.approx(1)


def test_shares_of_classes_that_nobody_declares_go_to_the_others_in_proportion() -> None:
    """A contract that limits the gaps of TPR and FPR, by one attribute and by two."""
    declared = [gaps(0, metric=m, depth=d)[0] for m in (Metric.TPR, Metric.FPR) for d in (1, 2)]
    parts = np.array([0.28, 0.10, 0.14, 0.05])
    assert Budget().declare(declared).weights_of(declared) == pytest.approx(
        0.8 * parts / parts.sum()
    )


def test_later_declarations_spend_a_half_a_sixth_and_so_on_of_the_reserve() -> None:
    budget = Budget().declare(gaps(0, 1))
    for numbers in ((2,), (0, 3, 4), (5,)):
        budget = budget.declare(gaps(*numbers))
    assert budget.weights_of(gaps(2, 3, 4, 5)) == pytest.approx([1 / 10, 1 / 60, 1 / 60, 1 / 60])
    assert budget.weights_of(gaps(0, 1)) == pytest.approx([0.4, 0.4])


def test_a_later_stream_gets_no_more_than_the_heaviest_before_and_the_rest_is_kept() -> None:
    first = gaps(*range(50))
    budget = Budget().declare(first).declare(gaps(50))
    assert budget.weights_of(gaps(50)).tolist() == [0.8 / 50]
    later = gaps(*range(51, 151))
    assert budget.declare(later).weights_of(later) == pytest.approx(
        [(0.2 - 0.8 / 50) / 3 / 100] * 100
    )


def test_the_later_weight_of_a_whole_new_contract_delays_its_pages_by_little() -> None:
    """Fifty streams after fifty: 2.1 nats of a threshold of 8.6."""
    first, second = gaps(*range(50)), gaps(*range(50, 100))
    budget = Budget().declare(first).declare(second)
    delay = np.log(budget.weights_of(first) / budget.weights_of(second))
    assert delay == pytest.approx(math.log(8))


def test_a_thousand_later_declarations_fit_and_each_counts() -> None:
    budget = Budget().declare(gaps(0))
    for number in range(1, 1000):
        budget = budget.declare(gaps(number))
    assert 0.9997 < math.fsum(budget.weights.values()) < 1
    assert min(budget.weights.values()) == pytest.approx(0.2 / 999 / 1000)


def test_starts_that_add_nothing_spend_nothing() -> None:
    budget = Budget().declare(gaps(0, 1)).declare([])
    for _ in range(10):
        budget = budget.declare(gaps(0, 1))
    assert budget == Budget().declare(gaps(0, 1))


def test_withdrawn_streams_keep_their_weight() -> None:
    budget = Budget().declare(gaps(0, 1)).declare(gaps(2))
    assert (
        budget.weights_of(gaps(0, 1)).tolist()
        == Budget().declare(gaps(0, 1)).weights_of(gaps(0, 1)).tolist()
    )


def test_metrics_without_a_share_are_refused() -> None:
    with pytest.raises(ValueError, match="ready has no share"):
        Budget().declare(gaps(0, metric=Metric.READY))


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
