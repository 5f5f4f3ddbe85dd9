"""Which tables may have the rest of a week."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from monitor.core.counts.cells import COUNTERS, OTHER, Counter, Counts, Route, Stratum, atom_text
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.families import SliceFamily, ordered
from monitor.core.privacy.pooling import MergeMap
from monitor.evaluate.blocks.family_state import FamilyState, Former
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.week_rests import families_with

K = 11
VALUES = ("a0", "a1", "a2", "a3")
ATOMS = [atom_text({"a": a, "b": b}) for a in VALUES for b in ("b0", "b1")]
ROUTES = (Route.AUTO_SERVE, Route.HUMAN_REVIEW)
CELLS = [(atom, route) for atom in range(len(ATOMS)) for route in ROUTES]
INDEX = CellIndex(
    np.arange(len(CELLS)),
    np.array([atom for atom, _ in CELLS]),
    np.array([Stratum(route, 0, 0).code for _, route in CELLS]),
    dict(enumerate(ATOMS)),
)


def release(*former: Former, **names: tuple[str, ...]) -> ReleaseBlocks:
    """The total and one group-by for each attribute that keeps these names."""
    families = ordered([SliceFamily("c"), *(SliceFamily("c", (name,)) for name in names)])
    states = {family.name: FamilyState(family) for family in families}
    for state in states.values():
        kept = {name: (*names[name], OTHER) for name in state.family.attributes}
        state.use(MergeMap(kept))
        if "a" in kept:
            state.former = [*former]
    return ReleaseBlocks(states, kept=0)


def labels(of: Mapping[str, int], route: Route = Route.HUMAN_REVIEW, **more: int) -> Counts:
    """So many labels of each value of ``a``, half of them of each value of ``b``."""
    values = np.zeros((len(CELLS), COUNTERS), np.int64)
    for name, n in of.items():
        for b, half in enumerate((n // 2, n - n // 2)):
            at = CELLS.index((2 * VALUES.index(name) + b, route))
            values[at, Counter.LABELLED] = half
            for counter, value in more.items():
                values[at, Counter[counter]] = value
    return Counts(INDEX.cells, values)


def test_none_or_k_in_every_row() -> None:
    both = release(a=("a0",), b=("b0", "b1"))
    assert families_with(both, INDEX, labels({"a0": 30})) == {"c/", "c/a", "c/b"}
    assert families_with(both, INDEX, labels({"a0": 30, "a1": 10})) == {"c/", "c/b"}
    assert families_with(both, INDEX, labels({"a0": 12})) == {"c/", "c/a"}
    assert families_with(both, INDEX, labels({"a0": 10})) == frozenset()


def test_in_each_route() -> None:
    served = labels({"a0": 30}, Route.AUTO_SERVE)
    few = Counts(INDEX.cells, served.values + labels({"a0": 4}).values)
    assert families_with(release(a=("a0",)), INDEX, few) == frozenset()


def test_what_a_family_has_all_that_it_refines_have() -> None:
    small_k = SliceFamily("c", ("a",), k=2)
    families = ordered([SliceFamily("c"), small_k])
    states = {family.name: FamilyState(family) for family in families}
    states["c/"].use(MergeMap({}))
    states["c/a"].use(MergeMap({"a": ("a0", OTHER)}))
    assert families_with(ReleaseBlocks(states, kept=0), INDEX, labels({"a0": 8})) == frozenset()


def test_corrections_are_changes_too() -> None:
    """Eleven labels and one correction of another row: that row has one change."""
    corrected = labels({"a0": 30})
    corrected.values[CELLS.index((2, Route.HUMAN_REVIEW)), Counter.READY] = -1
    assert families_with(release(a=("a0", "a1")), INDEX, corrected) == {"c/"}


def test_labels_that_are_taken_back_leave_few() -> None:
    """Twelve changes by two labels: what is seen is two."""
    values = labels({"a0": 8}).values - 2 * labels({"a1": 3}).values
    few = Counts(INDEX.cells, values)
    assert families_with(release(a=(), b=("b0", "b1")), INDEX, few) == frozenset()


def test_rows_of_former_maps_are_crossed_with_those_of_now() -> None:
    """Whoever knows a1 and the rest, and now a2 and the rest, knows what is neither."""
    rest = labels({"a1": 20, "a2": 16, "a3": 4})
    was = Former(9, 9, {"a": ("a1", OTHER)}, {"a": ("a1", OTHER)}, ())
    assert families_with(release(a=("a1",)), INDEX, rest) == {"c/", "c/a"}
    assert families_with(release(a=("a2",)), INDEX, rest) == {"c/", "c/a"}
    assert families_with(release(was, a=("a2",)), INDEX, rest) == {"c/"}
    more = Counts(INDEX.cells, rest.values + labels({"a3": 10}).values)
    assert families_with(release(was, a=("a2",)), INDEX, more) == {"c/", "c/a"}


def test_where_nothing_is_hidden_there_is_no_rest() -> None:
    families = ordered([SliceFamily("c", k=1), SliceFamily("c", ("a",), k=1)])
    states = {family.name: FamilyState(family) for family in families}
    for state in states.values():
        state.use(None)
    assert families_with(ReleaseBlocks(states, kept=0), INDEX, labels({"a0": 30})) == frozenset()
