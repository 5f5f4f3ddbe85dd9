"""Completeness of labels from published bands."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.intervals import Floats
from monitor.core.tables.bands import row_rule
from monitor.core.tables.completeness import completeness
from monitor.core.tables.counted import Counted
from monitor.core.tables.rates import LabelledCounts

K, LIMIT = 11, 0.95
SERVED = np.array([True, False])
AUDITS = np.array([0.05, 1.0])


def of_rows(
    decisions: object, ready: object, not_ready: object, k: int = K, rates: Floats = AUDITS
) -> Floats:
    tables = [
        Counted.from_bands(row_rule(np.array(counts, np.int64), k))
        for counts in (decisions, ready, not_ready)
    ]
    return completeness(LabelledCounts(tables[0], tables[1], tables[2], SERVED), rates)


def test_exact_counts_of_a_full_audit_give_the_share_of_the_route_that_lacks_most() -> None:
    shown = of_rows([[50, 50]], [[30, 20]], [[10, 30]], k=1, rates=np.array([1.0, 1.0]))
    assert shown[0] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("labels", "complete"),
    [
        ((300, 1000), True),
        ((270, 980), True),
        ((240, 980), False),
        ((300, 500), False),
        ((30, 30), False),
    ],
)
def test_rows_certainly_below_the_limit_are_incomplete(
    labels: tuple[int, int], complete: bool
) -> None:
    """6,000 served, 300 of them audited, and 1,000 reviewed; labels half ready, half not."""
    half = [[count // 2 for count in labels]]
    assert (of_rows([[6000, 1000]], half, half)[0] >= LIMIT) == complete


@pytest.mark.parametrize("table", range(3))
def test_a_row_that_a_table_does_not_show_may_be_complete(table: int) -> None:
    counts = [[[6000, 1000]], [[10, 50]], [[10, 50]]]
    counts[table] = [[2, 3]]
    shown = of_rows(counts[0], counts[1], counts[2])
    assert shown[0] == 1


def test_a_row_without_audits_is_complete() -> None:
    shown = of_rows([[600, 400]], [[20, 20]], [[20, 20]], rates=np.zeros(2))
    assert shown[0] == 1


def test_the_largest_share_is_at_least_the_true_one() -> None:
    """Audits are drawn; four fifths of their labels have come."""
    rng = np.random.default_rng(2)
    decisions = rng.integers(100, 20_000, (3000, 2))
    asked = rng.binomial(decisions, AUDITS)
    labels = rng.binomial(asked, 0.8)
    ready = rng.binomial(labels, 0.6)
    shown = of_rows(decisions, ready, labels - ready)
    share = (labels / np.maximum(asked, 1)).min(axis=1)
    assert (share <= shown).mean() >= 0.95
    assert (shown < LIMIT).mean() > 0.8
