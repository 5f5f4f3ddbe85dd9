"""The rest of a week by several intersections: what whole numbers any combination could have.

The attacker knows the exact sums of the rest in every table that has it, and asks for every
combination of values, also those that no group-by compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product

import numpy as np
import pytest
from adversary.worlds import Ints
from exchange_oracle import Known, Solver

from monitor.core.counts.cells import COUNTERS, OTHER, Counter, Counts, Route, Stratum, atom_text
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.families import SliceFamily, attributes_in, ordered, without_rings
from monitor.core.privacy.pooling import MergeMap
from monitor.evaluate.blocks import week_rests
from monitor.evaluate.blocks.family_state import FamilyState, Former
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.week_rests import families_with

pytestmark = pytest.mark.full

K = 11
NAMES = ("a", "b", "c")
ATOMS = list(product((0, 1), repeat=3))
INDEX = CellIndex(
    np.arange(8),
    np.arange(8),
    np.full(8, Stratum(Route.HUMAN_REVIEW, 0, 0).code),
    {i: atom_text(dict(zip(NAMES, map(str, atom), strict=True))) for i, atom in enumerate(ATOMS)},
)
PAIRS = [*combinations(NAMES, 2)]


def release(group_bys: Iterable[tuple[str, ...]], *former: Former) -> ReleaseBlocks:
    """The total and some group-bys of attributes with the values 0 and 1."""
    families = ordered([SliceFamily("c"), *(SliceFamily("c", names) for names in group_bys)])
    states = {family.name: FamilyState(family) for family in families}
    for state in states.values():
        state.use(MergeMap(dict.fromkeys(state.family.attributes, ("0", OTHER))))
    for state in states.values() if former else ():
        state.former = [*former]
    return ReleaseBlocks(states, kept=0)


EVERY = [(name,) for name in NAMES] + PAIRS


def rest(counts: Ints) -> Counts:
    values = np.zeros((8, COUNTERS), np.int64)
    values[:, Counter.LABELLED] = counts
    return Counts(INDEX.cells, values)


def known(names: Iterable[str]) -> Known:
    """The sums of one table: by some attributes, at one time."""
    at = [NAMES.index(name) for name in names]
    rows = [sum(atom[i] << n for n, i in enumerate(at)) for atom in ATOMS]
    return Known(rows, [0])


def tables(seed: int) -> Iterator[Ints]:
    """Labels by combination, few of some."""
    rng = np.random.default_rng(seed)
    yield from rng.choice([0, 0, 1, 4, 10, 11, 15, 30], (300, 8)).astype(np.int64)


def given_away(counts: Ints, shown: Iterable[str]) -> list[tuple[int, int, int]]:
    """Of every combination of values of any attributes: small counts that are known too well."""
    solver = Solver(counts[:, None], [known(attributes_in(name)) for name in shown])
    asked = chain.from_iterable(combinations(NAMES, n) for n in (1, 2, 3))
    return [leak for names in asked for leak in solver.given_away(known(names).rows, K, [0])]


def crossed(seed: int) -> Iterator[tuple[Ints, frozenset[str]]]:
    """Tables that two intersections have at least."""
    families = release(EVERY)
    for counts in tables(seed):
        found = families_with(families, INDEX, rest(counts))
        if sum("+" in name for name in found) > 1:
            yield counts, found


@pytest.mark.parametrize("seed", range(2))
def test_no_combination_is_known_by_intersections_without_a_ring(seed: int) -> None:
    some = list(crossed(seed))
    assert len(some) >= 3
    assert any(np.any((counts > 0) & (counts < K)) for counts, _ in some)
    for counts, found in some:
        assert "c/b+c" not in found, "it would close the ring"
        assert given_away(counts, found) == []


def test_in_a_ring_some_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    every = frozenset(f"c/{'+'.join(names)}" for names in [(), *EVERY])
    monkeypatch.setattr(week_rests, "without_rings", lambda _: every)
    rings = [(counts, found) for counts, found in crossed(0) if found == every]
    assert any(given_away(counts, found) for counts, found in rings)


ENOUGH = np.full(8, K)


def test_who_had_the_rest_first_keeps_it() -> None:
    """Else all three would be known, of two settings."""
    now = release(EVERY)
    assert families_with(now, INDEX, rest(ENOUGH)) >= {"c/a+b", "c/a+c"}
    found = families_with(now, INDEX, rest(ENOUGH), {"c/b+c"})
    assert {name for name in found if "+" in name} == {"c/b+c", "c/a+b"}


def test_nor_is_one_forgotten_that_the_settings_have_no_more() -> None:
    now = release([*EVERY[:3], ("a", "b"), ("a", "c")])
    found = families_with(now, INDEX, rest(ENOUGH), {"c/b+c"})
    assert {name for name in found if "+" in name} == {"c/a+b"}


def test_intersections_of_another_use_case_have_none() -> None:
    """What was outside of the use case of then is in no table, and could be subtracted."""
    was = Former(9, 9, {}, {}, (("a", "0"),))
    found = families_with(release(EVERY, was), INDEX, rest(ENOUGH))
    assert not any("+" in name for name in found)


def test_intersections_that_share_two_attributes_form_a_ring() -> None:
    nested = [SliceFamily("c", names) for names in (("a",), ("a", "b"), ("a", "b", "c"))]
    assert without_rings(nested) == {"c/a", "c/a+b"}


def test_use_cases_without_a_decision_in_common_do_not_form_one() -> None:
    both = [
        SliceFamily(name, pair, (("d", name),)) for name in ("one", "two") for pair in PAIRS[:2]
    ]
    assert len(without_rings(both)) == 4


def test_an_attribute_that_has_one_value_in_a_use_case_links_nothing() -> None:
    where = (("c", "0"),)
    pairs = [SliceFamily("m", pair, where) for pair in PAIRS]
    assert len(without_rings(pairs)) == 3
