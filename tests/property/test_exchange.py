"""What may be closed gives no small count of its parts away, by integer programming."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from exchange_oracle import Ints, Known, Solver
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from monitor.core.privacy.exchange import given_away

K = 5
"""As good as any other, and quickly solved."""

LEAKS = np.array([[[1, 10], [30, 20]], [[30, 30], [24, 0]]])
"""Every margin of every part and every cell's sum is at least 11: and yet (0, 0) had one or none in
the first part, because (1, 1) had nobody in the second."""


def may_close(counts: Ints, together: tuple[Ints, Ints], k: int) -> bool:
    return not given_away([counts[None]] * 2, k, together)


def solver(counts: Ints, together: tuple[Ints, Ints]) -> tuple[Solver, list[int]]:
    rows, columns, parts = counts.shape
    cells = [(i, j) for i in range(rows) for j in range(columns)]
    known = [
        Known([i for i, _ in cells], together[0].tolist()),
        Known([j for _, j in cells], together[1].tolist()),
        Known([0] * len(cells), list(range(parts))),  # of the total
        Known(list(range(len(cells))), [0] * parts),
    ]
    return Solver(counts.reshape(len(cells), parts), known), list(range(len(cells)))


def none_or_enough(sums: Ints) -> bool:
    return not np.any((sums > 0) & (sums < K))


def published(counts: Ints, together: tuple[Ints, Ints]) -> bool:
    """Whether every sum that is published is 0 or at least k, as all other guards see to."""
    margins = [
        np.add.reduceat(counts.sum(axis=1 - axis), np.unique(groups, return_index=True)[1], axis=1)
        for axis, groups in enumerate(together)
    ]
    every = [*margins, counts.sum(axis=(0, 1)), counts.sum(axis=2)]
    return all(none_or_enough(sums) for sums in every)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Ints, tuple[Ints, Ints]]:
    """Tables in which zeros and numbers near k are frequent; parts are joined at random."""
    shape = draw(st.sampled_from([(2, 2, 2), (2, 2, 3), (2, 3, 2), (2, 2, 4), (3, 3, 2)]))
    sizes = st.sampled_from([0, 0, 1, 2, 3, 4, 5, 6, 8, 20])
    counts = draw(st.lists(sizes, min_size=prod(shape), max_size=prod(shape)))
    joins = st.lists(st.integers(0, 1), min_size=shape[2] - 1, max_size=shape[2] - 1)
    one, other = (np.append(0, np.cumsum(draw(joins))).astype(np.int64) for _ in range(2))
    return np.array(counts, np.int64).reshape(shape), (one, other)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(blocks())
def test_no_small_count_of_a_closed_block_is_found(
    block: tuple[Ints, tuple[Ints, Ints]],
) -> None:
    assume(published(*block))
    assume(may_close(*block, K))
    attacker, rows = solver(*block)
    for parts in block[1]:
        assert attacker.given_away(rows, K, parts.tolist()) == []


def test_a_table_that_was_built_to_leak_waits() -> None:
    parts = np.arange(2)
    attacker, rows = solver(LEAKS, (parts, parts))
    assert (1, 0, 1) in attacker.given_away(rows, 11, [0, 1])
    assert not may_close(LEAKS, (parts, parts), 11)


def test_it_does_not_wait_where_the_marginals_end_together() -> None:
    """Then there is one part."""
    one = np.zeros(2, np.int64)
    assert may_close(LEAKS, (one, one), 11)


@pytest.mark.parametrize("seed", range(3))
def test_little_is_held_back_that_could_be_published(seed: int) -> None:
    """Of blocks of usual traffic: the rule is sufficient, and seldom more than necessary."""
    rng = np.random.default_rng(seed)
    closed = safe = 0
    for _ in range(60):
        shares = np.outer(rng.dirichlet([2, 2, 2]), rng.dirichlet([2, 2]))
        counts = rng.poisson(shares[:, :, None] * 60, (3, 2, 3)).astype(np.int64)
        block = counts, (np.array([0, 0, 1]), np.array([0, 1, 1]))
        if published(*block):
            attacker, rows = solver(*block)
            if not any(attacker.given_away(rows, K, parts.tolist()) for parts in block[1]):
                safe += 1
                closed += may_close(*block, K)
    assert safe > 10
    assert closed >= 0.95 * safe
