"""The LP audit finds what integer programs find, in tables built to leak and in others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adversary.worlds import Ints
from exchange_oracle import Known, Solver

from monitor.core.privacy import linear_audit
from monitor.core.privacy.linear_audit import LARGEST, LpAudit, PublishedSums, audited

pytestmark = pytest.mark.full

K = 11
BUILT = np.array([[[1, 10], [30, 20]], [[30, 30], [24, 0]]])
"""Cells by two attributes and hour: every margin of an hour and every cell's sum is at least 11,
and yet the first cell had one or none in the first, since the last had nobody in the second."""


def families(shape: tuple[int, ...], parts: int, *, whole: bool) -> list[PublishedSums]:
    """The total and both attributes part by part, and both together over all parts."""
    every, one = np.arange(parts), np.zeros(parts, np.int64)
    first, second = (place.ravel() for place in np.indices(shape))
    return [
        PublishedSums(np.zeros(first.size, np.int64), every, (), K),
        PublishedSums(first, every, (0,), K),
        PublishedSums(second, every, (0,), K),
        PublishedSums(first * shape[1] + second, one if whole else every, (0, 1, 2), K),
    ]


def test_what_was_built_to_leak_is_found() -> None:
    counts = BUILT.reshape(4, 2)
    assert audited(counts, families((2, 2), 2, whole=True)) is LpAudit.BROKEN


def test_where_the_last_cell_has_some_in_each_hour_nothing_is() -> None:
    counts = BUILT.reshape(4, 2) + np.array([[0, 0]] * 3 + [[0, 20]])
    assert audited(counts, families((2, 2), 2, whole=True)) is LpAudit.HELD


def test_a_small_count_that_is_published_is_found() -> None:
    assert audited(BUILT.reshape(4, 2), families((2, 2), 2, whole=False)) is LpAudit.BROKEN


def test_sums_that_nobody_publishes_are_no_fact() -> None:
    *parents, pair = families((2, 2), 2, whole=True)
    hidden = PublishedSums(pair.rows, pair.blocks - 1, pair.refines, K)
    assert audited(BUILT.reshape(4, 2), [*parents, hidden]) is LpAudit.HELD


def test_half_of_the_numbers_may_be_enough() -> None:
    """The first cell had 1 to 7: seven numbers, which is more than half of eleven."""
    counts = np.array([[1, 10], [30, 20], [30, 30], [24, 6]])
    both = families((2, 2), 2, whole=True)
    assert audited(counts, both) is LpAudit.BROKEN
    assert audited(counts, both, halved=True) is LpAudit.HELD


def test_what_is_too_large_is_said_to_be() -> None:
    counts = np.ones((4, LARGEST), np.int64)
    assert audited(counts, families((2, 2), LARGEST, whole=True)) is LpAudit.NOT_ASKED


def test_what_is_known_to_be_empty_makes_nothing_large() -> None:
    counts = np.zeros((4, LARGEST), np.int64)
    counts[:, :2] = BUILT.reshape(4, 2)
    assert audited(counts, families((2, 2), LARGEST, whole=True)) is LpAudit.BROKEN


def test_that_nobody_had_a_combination_is_no_fact() -> None:
    """Tables of two attributes: whoever knew that (1, 1) is empty would know (0, 0)."""
    counts = np.array([[10], [11], [12], [0]])
    whole = [*families((2, 2), 1, whole=True)[:3]]
    shown = [*whole, PublishedSums(np.arange(4), np.array([-1]), (0, 1, 2), K)]
    assert audited(counts, shown) is LpAudit.HELD
    told = [replace(one, rows=one.rows[:3]) for one in shown]
    assert audited(counts[:3], told) is LpAudit.BROKEN


def test_a_table_up_to_midnight_would_give_away_what_came_after() -> None:
    """Three rows: the first has too few up to midnight, so the block goes on. The others, shown all
    the same, have enough until then and few afterwards; what is shown of the whole block tells."""
    counts = np.array([[4, 30], [40, 3], [25, 20]])
    total, rows = np.zeros(3, np.int64), np.arange(3)
    both, block, midnight = np.arange(2), np.zeros(2, np.int64), np.array([0, -1])
    live = [PublishedSums(total, both, (), K), PublishedSums(rows, block, (0,), K)]
    assert audited(counts, live) is LpAudit.HELD
    some = PublishedSums(np.array([-1, 1, 2]), midnight, (0,), K)
    assert audited(counts, [*live, some]) is LpAudit.BROKEN
    one_more_hidden = replace(some, rows=np.array([-1, 1, -1]))
    assert audited(counts, [*live, one_more_hidden]) is LpAudit.BROKEN


def test_the_worst_of_several_is_what_counts() -> None:
    held, broken, large = LpAudit.HELD, LpAudit.BROKEN, LpAudit.NOT_ASKED
    assert LpAudit.of_all([held, large, broken]) is broken
    assert LpAudit.of_all([large, held]) is large
    assert LpAudit.of_all([]) is held


def tables(seed: int, tries: int = 300) -> list[Ints]:
    """Tables of two by two by two whose published sums are all 0 or at least k."""
    rng = np.random.default_rng(seed)
    found = []
    for counts in rng.choice([0, 0, 1, 4, 10, 11, 12, 20, 30], (tries, 2, 2, 2)):
        sums = [counts.sum(axis=0), counts.sum(axis=1), counts.sum(axis=(0, 1)), counts.sum(axis=2)]
        if not any(np.any((s > 0) & (s < K)) for s in sums) and np.any((counts > 0) & (counts < K)):
            found.append(np.asarray(counts.reshape(4, 2), np.int64))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_what_an_integer_program_finds(seed: int) -> None:
    """These equations have whole corners in most tables; an audit in reals is never stricter."""
    some = tables(seed)
    for counts in some:
        known = [Known(one.rows.tolist(), one.blocks.tolist()) for one in both()]
        leaks = Solver(counts, known).given_away(list(range(4)), K, [0, 1])
        found = audited(counts, both())
        assert (found is LpAudit.BROKEN) <= bool(leaks), counts
        if any(low == high for _, low, high in leaks):
            assert found is LpAudit.BROKEN, counts
    assert len(some) >= 5


def both() -> list[PublishedSums]:
    return families((2, 2), 2, whole=True)


@pytest.mark.parametrize("seed", range(4))
def test_worlds_of_other_questions_answer_as_programs_of_their_own_do(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.poisson(mean, (6, 3)).astype(np.int64) for mean in (3, 5, 7, 9) for _ in range(4)]
    shown = families((2, 3), 3, whole=True)
    found = [audited(one, shown) for one in tables]
    monkeypatch.setattr(linear_audit._Program, "_seen", lambda *_: False)
    assert found == [audited(one, shown) for one in tables]
    assert len({*found}) == 2


def test_an_audit_that_takes_any_counts_for_a_world_misses_what_was_built_to_leak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A control of the tests above."""
    monkeypatch.setattr(linear_audit._Program, "_seen", lambda *_: True)
    counts = BUILT.reshape(4, 2)
    assert audited(counts, families((2, 2), 2, whole=True)) is LpAudit.HELD
