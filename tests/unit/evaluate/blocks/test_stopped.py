"""Rows that have stopped coming: told from slow ones, and from times at which everybody rests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.counts.rollup import SliceCounts
from monitor.core.counts.strata import by_route
from monitor.core.privacy.pooling import decisions_of
from monitor.evaluate.blocks.stopped import EXPECTED, SHARE, stopped_slices, without_stopped

K = 11
STRATA = np.array(
    [
        Stratum(Route.AUTO_SERVE, 0, 2).code,
        Stratum(Route.AUTO_SERVE, 1, 2).code,
        Stratum(Route.HUMAN_REVIEW, 0, 0).code,
        Stratum(Route.AUTO_SERVE, 0, 0, probe=True).code,
    ],
    np.int64,
)
SLICES = ("a=u", "a=v", "a=w")


def counts(auto: list[int], review: list[int], slices: tuple[str, ...] = SLICES) -> SliceCounts:
    """As many labels as decisions; half of each in either band, and a thousand probes."""
    values = np.zeros((len(slices), len(STRATA), COUNTERS), np.int64)
    for counter in (Counter.N, Counter.LABELLED):
        values[:, 0, counter] = np.array(auto) // 2
        values[:, 1, counter] = np.array(auto) - np.array(auto) // 2
        values[:, 2, counter] = review
        values[:, 3, counter] = 1_000
    return SliceCounts(slices, STRATA, values)


USUAL = counts([2_800, 2_800, 280], [2_800, 2_800, 280])


@pytest.mark.parametrize(
    ("auto", "expected"),
    [
        ([200, 200, 20], set()),
        ([9, 200, 20], {"a=u"}),
        ([0, 200, 20], {"a=u"}),
        ([60, 200, 20], set()),  # a third of its share: slow, not gone
        ([200, 200, 0], set()),  # of 20 expected, none: too few to tell
        ([9, 9, 1], set()),  # everybody rests
        ([0, 0, 0], set()),
    ],
)
def test_what_has_stopped_is_told_by_its_share_of_what_comes(
    auto: list[int], expected: set[str]
) -> None:
    lately = counts(auto, [200, 200, 20])
    assert stopped_slices(USUAL, lately, K, labels=True) == expected


def test_one_route_is_enough_for_labels() -> None:
    lately = counts([200, 200, 20], [200, 2, 20])
    assert stopped_slices(USUAL, lately, K, labels=True) == {"a=v"}
    changed = without_stopped(USUAL, lately, K, labels=True)
    table = by_route(changed)
    assert table[:, :, Counter.LABELLED].tolist() == [[2_800, 2_800, 280], [2_800, 1, 280]]
    assert (table[:, :, Counter.N] == by_route(USUAL)[:, :, Counter.N]).all()


def test_a_slice_that_lately_has_no_row_at_all_has_stopped() -> None:
    lately = counts([200, 20], [200, 20], slices=("a=v", "a=w"))
    assert stopped_slices(USUAL, lately, K, labels=False) == {"a=u"}
    changed = without_stopped(USUAL, lately, K, labels=False)
    assert decisions_of(changed).tolist() == [1, 5_600, 560]
    assert (changed.values[:, 3] == USUAL.values[:, 3]).all(), "probes are in nothing"
    assert (changed.values[:, :, Counter.LABELLED] == USUAL.values[:, :, Counter.LABELLED]).all()


@given(
    st.lists(st.integers(0, 500), min_size=3, max_size=3),
    st.lists(st.integers(0, 500), min_size=3, max_size=3),
    st.booleans(),
)
def test_only_what_has_stopped_changes_and_something_is_left_of_it(
    auto: list[int], review: list[int], labels: bool
) -> None:
    """None would mean that it need not be waited for, though a few still come."""
    lately = counts(auto, review)
    gone = stopped_slices(USUAL, lately, K, labels=labels)
    changed = without_stopped(USUAL, lately, K, labels=labels)
    for row, text in enumerate(SLICES):
        same = (changed.values[row] == USUAL.values[row]).all()
        assert same == (text not in gone)
    totals = by_route(changed)[:, :, Counter.LABELLED] if labels else decisions_of(changed)[None]
    assert totals.min() >= 1


@given(st.lists(st.integers(0, 400), min_size=3, max_size=3))
def test_the_rule_by_brute_force(auto: list[int]) -> None:
    lately, usual = counts(auto, [0, 0, 0]), [2_800, 2_800, 280]
    expected = {
        text
        for text, n, now in zip(SLICES, usual, auto, strict=True)
        if n * sum(auto) >= EXPECTED * K * sum(usual) and SHARE * now * sum(usual) < n * sum(auto)
    }
    assert stopped_slices(USUAL, lately, K, labels=True) == expected
