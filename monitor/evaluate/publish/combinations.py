"""All combinations of values that families tell apart: the unknowns of the LP audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np

from monitor.core.counts.cells import MISSING, OTHER, Int64s, parse_atom
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.linear_audit import PublishedSums
from monitor.evaluate.blocks.family_state import FamilyState


@dataclass(frozen=True, slots=True)
class Combinations:
    """Combinations of the values that any of some families gives a name; also those nobody has.

    Attributes:
        states: of the families, those that are refined first.
        values: by attribute; ``__other__`` is one of them.
        labels: of labels, which have maps of their own.
        place: number of the combination of each cell of the index; -1 is outside the use case.
    """

    states: Mapping[str, FamilyState]
    values: Mapping[str, Sequence[str]]
    labels: bool
    place: Int64s

    @classmethod
    def of(cls, states: Mapping[str, FamilyState], index: CellIndex, labels: bool) -> Self:
        """Those of families of one use case."""
        kept = [(state.family, state.map_of(labels).kept) for state in states.values()]
        names = sorted({name for family, _ in kept for name in family.compared})
        values = {
            name: sorted({OTHER, *(v for _, one in kept for v in one.get(name, ()))})
            for name in names
        }
        atoms, atom = np.unique(index.atoms, return_inverse=True)
        where = {*next(iter(states.values())).family.where}
        texts = (index.atom_texts[one] for one in atoms.tolist())
        places = [_place(parse_atom(text), values, where) for text in texts]
        return cls(states, values, labels, np.array(places, np.int64)[atom])

    @property
    def size(self) -> int:
        """How many there are."""
        return prod(map(len, self.values.values()))

    @property
    def halved(self) -> bool:
        """True where intersections cross each other."""
        return any(state.axes and any(state.axes.alike) for state in self.states.values())

    def sums(self, blocks: Mapping[str, Int64s]) -> list[PublishedSums]:
        """What the families publish, given the block of each part by the name of the family."""
        names = list(self.states)
        return [
            PublishedSums(
                self._rows(state),
                blocks[name],
                tuple(names.index(one) for one in state.family.parents if one in names),
                state.family.k,
            )
            for name, state in self.states.items()
        ]

    def _rows(self, state: FamilyState) -> Int64s:
        """Row of each combination in the table of a family."""
        kept, rows = state.map_of(self.labels).kept, np.zeros((1,) * len(self.values), np.int64)
        for axis, (name, values) in enumerate(self.values.items()):
            if name in state.family.compared:
                shown = [value if value in kept[name] else OTHER for value in values]
                number = np.unique(shown, return_inverse=True)[1]
                shape = [-1 if other == axis else 1 for other in range(len(self.values))]
                rows = rows * len(values) + number.reshape(shape)
        return np.asarray(
            np.broadcast_to(rows, tuple(map(len, self.values.values()))).ravel(), np.int64
        )


def _place(
    atom: Mapping[str, str], values: Mapping[str, Sequence[str]], where: set[tuple[str, str]]
) -> int:
    """Number of the combination of an atom; -1 outside the use case."""
    if not where <= atom.items():
        return -1
    place = 0
    for name, some in values.items():
        value = atom.get(name, MISSING)
        place = place * len(some) + some.index(value if value in some else OTHER)
    return place
