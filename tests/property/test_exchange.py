"""What may be closed gives no small count of its parts away, by integer programming."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from example_counts import examples
from exchange_oracle import Ints, Known, Solver
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from monitor.core.privacy.exchange import SmallRuns, _BlockQuestion, given_away
from monitor.core.privacy.exchange_partners import Diagonals
from monitor.core.privacy.exchange_program import Program
from monitor.core.privacy.exchange_tables import ExchangeTable
from monitor.core.privacy.exchanges import Exchanges

pytestmark = pytest.mark.full

K = 5
"""As good as any other, and quickly solved."""

LEAKS = np.array([[[1, 10], [30, 20]], [[30, 30], [24, 0]]])
"""Every margin of every part and every cell's sum is at least 11: and yet (0, 0) had one or none in
the first part, because (1, 1) had nobody in the second."""


def may_close(counts: Ints, together: tuple[Ints, Ints], k: int) -> bool:
    return given_away([counts[None]] * 2, k, together) is None


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
    max_examples=examples(150),
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


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(blocks(), st.sampled_from([K, (K + 1) // 2]))
def test_the_program_answers_as_the_smallest_and_the_largest_number_do(
    block: tuple[Ints, tuple[Ints, Ints]], numbers: int
) -> None:
    """Whatever fractions rule out, and worlds that were found for other questions show."""
    counts, together = block
    attacker, rows = solver(*block)
    program = Program.of(counts[None], together)
    for cell in rows:
        place = np.unravel_index(cell, counts.shape[:2])
        for part in range(counts.shape[2]):
            target = np.zeros((len(rows), counts.shape[2]), bool)
            target[cell, part] = True
            low, high = attacker.interval(target)
            hidden = high >= K or high - low + 1 >= numbers
            assert program.hides((int(place[0]), int(place[1])), (part, part + 1), K, numbers) == (
                hidden
            )


def test_worlds_that_the_program_knows_have_the_sums_that_are_published() -> None:
    rng = np.random.default_rng(1)
    counts = rng.poisson(2, (1, 4, 5, 4)).astype(np.int64)
    parts = np.arange(4)
    program = Program.of(counts, (parts, parts))
    for place in np.ndindex(4, 5):
        program.hides((place[0], place[1]), (1, 2), 11, 6)
    assert len(program.worlds) > 2
    for world in program.worlds:
        assert world.min() >= 0
        assert np.array_equal(program.known.A @ world, program.known.lb)


def test_a_program_that_takes_any_counts_for_a_world_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A control: the attacker finds what such a rule would let through."""
    monkeypatch.setattr(Program, "_ruled_out", lambda *_: False)
    monkeypatch.setattr(
        Program, "_find", lambda self, _: self.worlds.append(np.full(self.counts.size, 11))
    )
    parts = np.arange(2)
    attacker, rows = solver(LEAKS, (parts, parts))
    assert may_close(LEAKS, (parts, parts), 11)
    assert (1, 0, 1) in attacker.given_away(rows, 11, [0, 1])


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


Asked = tuple[list[Ints], int, list[Ints], list[Ints] | None, int | None]
"""Arguments of a question."""


def questions(seed: int, count: int) -> list[Asked]:
    """Tables of two and of three crossed attributes, by one kind and by several."""
    rng, found = np.random.default_rng(seed), list[Asked]()
    while len(found) < count:
        sizes = [(3, 4), (2, 6), (4, 4), (2, 3, 3)][int(rng.integers(4))]
        parts, kinds = int(rng.integers(2, 6)), int(rng.choice([1, 1, 3]))
        shape = (kinds, *sizes, parts)
        counts = rng.poisson(rng.choice([0.5, 1, 3]) * rng.gamma(1, 1, (kinds, *sizes, 1)), shape)
        counts = counts.astype(np.int64)
        runs = [np.cumsum(np.append(0, rng.random(parts - 1) < 0.7)) for _ in sizes]
        local = [counts.sum(axis=0, keepdims=True)] * len(sizes)
        found.append((local, K, runs, None, None))
        if kinds > 1:
            beside = [one // 2 for one in runs]
            found.append(([counts] * len(sizes), K, runs, beside, (K + 1) // 2))
    return found


def answer(asked: Asked) -> tuple[int, ...] | None:
    tables, k, together, beside, numbers = asked
    return given_away(tables, k, together, beside, numbers=numbers)


def test_what_is_asked_first_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run by itself, and all cells to exchange with: the same cells are given away."""
    asked = questions(3, 60)
    quick = [answer(one) for one in asked]

    def each(self: _BlockQuestion, small: SmallRuns) -> SmallRuns:
        for axis, table in enumerate(self.tables):
            small = small.take(self._too_few(small, axis, table))
        return small

    monkeypatch.setattr(_BlockQuestion, "_doubtful", each)
    assert [answer(one) for one in asked] == quick
    assert 5 < sum(one is None for one in quick) < len(quick) - 5


def runs_of(asked: Asked) -> list[tuple[ExchangeTable, SmallRuns]]:
    """Small runs of a question as each marginal publishes them."""
    counts, k, together, beside, _ = asked
    beside = together if beside is None else beside
    tables = [ExchangeTable.of(*one) for one in zip(counts, together, beside, strict=True)]
    cells = np.arange(len(tables[0].full))
    return [(table, SmallRuns.of(table, cells, table.groups, k)) for table in tables]


def test_no_more_come_than_there_is_room_for() -> None:
    for asked in questions(5, 40):
        for axis, (table, small) in enumerate(runs_of(asked)):
            room = table.room(axis, small.cells, small.least)
            every = np.full(len(room), 10**9)
            for quick in (True, False):
                exchanges = Exchanges(table, axis, False)
                come = exchanges.up_to(every, small.cells, small.least, quick=quick)
                assert (come <= room).all()


def test_cells_that_promise_most_are_others_and_come_once() -> None:
    for asked in questions(7, 40):
        for table, small in runs_of(asked):
            partners, still = (
                Diagonals(table, small.cells, small.least),
                np.arange(len(small.total)),
            )
            turns = np.array([partners.of(turn, still) for turn in range(partners.count)])
            assert (turns != table.values[:, small.cells]).all()
            for run in range(len(still)):
                assert len(np.unique(turns[:, :, run], axis=0)) == partners.count


def test_a_run_without_one_that_could_hold_k_is_still_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A control: if all were left out with the shortest ones, the attacker would find a count."""
    monkeypatch.setattr(
        SmallRuns, "without", lambda self, _: self.take(np.zeros(len(self.total), bool))
    )
    parts = np.arange(2)
    attacker, rows = solver(LEAKS, (parts, parts))
    assert may_close(LEAKS, (parts, parts), 11)
    assert (1, 0, 1) in attacker.given_away(rows, 11, [0, 1])


Joint = tuple[Ints, dict[str, Ints]]
"""Counts by (a, b, c, part), and for each group-by the number of the block of every part."""


def joint_block(rng: np.random.Generator) -> Joint:
    """A block of a+b, inside of which a+c and b+c end blocks of theirs."""
    parts = int(rng.integers(2, 4))
    counts = rng.choice([0, 0, 1, 1, 2, 3, 6], size=(2, 2, 2, parts))
    edges = {name: np.append(True, rng.random(parts - 1) < 0.7) for name in "abc"}
    for one, other in ("ac", "bc"):
        also = np.append(True, rng.random(parts - 1) < 0.7)
        edges[one + other] = edges[one] & edges[other] & also
    numbers = {name: np.cumsum(some).astype(np.int64) for name, some in edges.items()}
    return counts.astype(np.int64), numbers | {"ab": np.zeros(parts, np.int64)}


def joint_solver(counts: Ints, together: dict[str, Ints]) -> Solver:
    """All six group-bys and the total."""
    cells = list(np.ndindex(2, 2, 2))
    rows = {
        name: [sum(cell["abc".index(one)] << i for i, one in enumerate(name)) for cell in cells]
        for name in together
    }
    known = [Known(rows[name], blocks.tolist()) for name, blocks in together.items()]
    known.append(Known([0] * len(cells), list(range(counts.shape[-1]))))
    return Solver(counts.reshape(len(cells), -1), known)


def joint_published(counts: Ints, together: dict[str, Ints]) -> bool:
    axes = {name: tuple(i for i, one in enumerate("abc") if one not in name) for name in together}
    return all(
        none_or_enough(
            np.add.reduceat(
                counts.sum(axis=axes[name]), np.unique(blocks, return_index=True)[1], axis=-1
            )
        )
        for name, blocks in together.items()
    )


@pytest.mark.parametrize("seed", range(4))
def test_intersections_that_cross_each_other_leave_half_as_many_numbers(seed: int) -> None:
    """Everything that all pairs of three attributes publish is known at once."""
    rng, numbers = np.random.default_rng(seed), (K + 1) // 2
    closed = 0
    while closed < 40:
        counts, together = joint_block(rng)
        if not joint_published(counts, together):
            continue
        runs, beside = [together["a"], together["b"]], [together["ac"], together["bc"]]
        local, kinds = [counts.sum(axis=2)[None]] * 2, [np.moveaxis(counts, 2, 0)] * 2
        if given_away(local, K, runs) or given_away(kinds, K, runs, beside, numbers=numbers):
            continue
        closed += 1
        attacker = joint_solver(counts, together)
        rows = [a + 2 * b for a, b, _ in np.ndindex(2, 2, 2)]
        found = [one for parts in runs for one in attacker.given_away(rows, K, parts.tolist())]
        assert [one for one in found if one[2] - one[1] + 1 < numbers] == []


def test_a_third_attribute_that_tells_which_value_it_was_makes_the_block_wait() -> None:
    """Found by search: a+b alone leaves it open, a+c and b+c leave one number."""
    counts = np.zeros((2, 2, 2, 3), np.int64)
    counts[0, 0, 0], counts[0, 1, 0] = [2, 12, 4], [12, 2, 12]
    counts[1, 0, 0], counts[1, 1, 1] = [6, 3, 18], [2, 12, 0]
    each, ends = np.arange(3), np.array([0, 0, 1])
    crossed = {"c": ends, "ac": ends, "bc": ends}
    together = {"a": each, "b": each, "ab": np.zeros(3, np.int64)} | crossed
    assert joint_published(counts, together)
    rows = [a + 2 * b for a, b, _ in np.ndindex(2, 2, 2)]
    assert joint_solver(counts, together).given_away(rows, K, [0, 1, 2])[0] == (4, 4, 4)
    kinds = np.moveaxis(counts, 2, 0)
    assert given_away([counts.sum(axis=2)[None]] * 2, K, [each, each]) is None
    assert given_away([kinds] * 2, K, [each, each], [ends, ends], numbers=3) is not None
