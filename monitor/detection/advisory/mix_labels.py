"""Label tables of one cohort by slice and mix, with the versions that decided: the input of drift.

A *mix* is a joint value of the attributes that a group-by does not have, except those that name a
version: they say who answers, not what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import (
    MISSING,
    Counter,
    Counts,
    Int64s,
    Route,
    decode_strata,
    parse_atom,
)
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import CellIndex, SliceCounts, slice_text
from monitor.core.counts.strata import reviewed
from monitor.core.metric import Metric
from monitor.detection.pages.declared import declared_slices

_NOWHERE = (-1, -1)

RATES = (Metric.TPR, Metric.FPR)
"""The labelled rates; the first axis of the arrays below."""


@dataclass(frozen=True, slots=True)
class CellLabels:
    """Reviewed cells of one cohort, with labels thinned to one probability.

    Attributes:
        atoms: texts of the distinct atoms.
        atom: position of each cell's atom among them, shape (R,).
        versions: ids of the distinct version tuples, increasing.
        version: position of each cell's version among them, shape (R,).
        decisions: decisions, shape (R,).
        n: labels of each rate's class (ready for the TPR, not ready for the FPR), shape (2, R).
        k: auto-served labels among them.
    """

    atoms: tuple[str, ...]
    atom: Int64s
    versions: Int64s
    version: Int64s
    decisions: Int64s
    n: Int64s
    k: Int64s

    @classmethod
    def from_counts(cls, thinned: Counts, index: CellIndex) -> CellLabels:
        """Return the reviewed cells of thinned counts; the index must have every cell."""
        cells = np.searchsorted(index.cells, thinned.keys)
        strata = index.strata[cells]
        inside = reviewed(SliceCounts((), strata, np.zeros((0, len(cells), 1), np.int64)))
        cells, values = cells[inside], thinned.values[inside]
        ready = values[:, Counter.READY]
        n = np.stack([ready, values[:, Counter.LABELLED] - ready])
        served = decode_strata(strata[inside]).route == Route.AUTO_SERVE
        atoms, atom = np.unique(index.atoms[cells], return_inverse=True)
        version_ids = index.versions
        ids = np.zeros(len(cells), np.int64) if version_ids is None else version_ids[cells]
        versions, version = np.unique(ids, return_inverse=True)
        texts = tuple(index.atom_texts[number] for number in atoms.tolist())
        decisions = np.maximum(values[:, Counter.N], 0)
        return cls(texts, atom, versions, version, decisions, n, n * served)


@dataclass(frozen=True, slots=True)
class GroupLabels:
    """Labels of one cohort in one group-by, by slice and mix, and decisions by version.

    Attributes:
        n: labels by rate, slice and mix, shape (2, S, C).
        k: auto-served labels among them.
        versions: ids of the version tuples that decided, shape (V,).
        decided: decisions by slice and version, shape (S, V).
    """

    n: Int64s
    k: Int64s
    versions: Int64s
    decided: Int64s

    def of_slices(self, rate: Metric) -> tuple[Int64s, Int64s]:
        """Return a rate's labels and auto-served labels of each slice, both of shape (S,)."""
        row = RATES.index(rate)
        return self.n[row].sum(axis=1), self.k[row].sum(axis=1)


@dataclass(slots=True)
class Places:
    """Row and column of each atom in the slice and mix tables of one group-by; grows with mixes.

    Attributes:
        attributes: attributes of the group-by.
        mix_attributes: attributes that make up a mix.
        slices: the rows; atoms that lack an attribute have none.
    """

    attributes: tuple[str, ...]
    mix_attributes: tuple[str, ...]
    slices: tuple[str, ...]
    _columns: dict[str, int]
    _rows: Mapping[str, int] = field(init=False)
    _places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {text: row for row, text in enumerate(self.slices)}

    @classmethod
    def for_group(cls, group: GroupBy, coding: Coding, mixes: Sequence[str] = ()) -> Places:
        """Return the places of a group-by, with ``mixes`` as the first columns."""
        mix_attributes = tuple(
            attribute.name
            for attribute in coding.attributes
            if attribute.version_of is None and attribute.name not in group.attributes
        )
        columns = {mix: column for column, mix in enumerate(mixes)}
        return cls(group.attributes, mix_attributes, named_slices(group, coding), columns)

    @property
    def mixes(self) -> tuple[str, ...]:
        """Return the mixes (the columns) in the order in which they were first seen."""
        return tuple(self._columns)

    def table(self, cells: CellLabels) -> GroupLabels:
        """Return the cells' labels and decisions by slice and mix; a new mix adds a column."""
        positions = np.array([self._place(text) for text in cells.atoms], np.int64).reshape(-1, 2)
        row, column = positions[cells.atom].T
        inside = row >= 0
        row, column = row[inside], column[inside]
        n, k = np.zeros((2, len(RATES), len(self.slices), len(self._columns)), np.int64)
        for rate in range(len(RATES)):
            np.add.at(n[rate], (row, column), cells.n[rate, inside])
            np.add.at(k[rate], (row, column), cells.k[rate, inside])
        decided = np.zeros((len(self.slices), len(cells.versions)), np.int64)
        np.add.at(decided, (row, cells.version[inside]), cells.decisions[inside])
        return GroupLabels(n, k, cells.versions, decided)

    def _place(self, atom: str) -> tuple[int, int]:
        """Return row and column of an atom, a new column if needed; _NOWHERE without a slice."""
        if atom not in self._places:
            row = self._rows.get(slice_text(atom, self.attributes))
            self._places[atom] = _NOWHERE if row is None else (row, self._column(atom))
        return self._places[atom]

    def _column(self, atom: str) -> int:
        return self._columns.setdefault(slice_text(atom, self.mix_attributes), len(self._columns))


def named_slices(group: GroupBy, coding: Coding) -> tuple[str, ...]:
    """Return the declared slices of a group-by with a value of every attribute."""
    slices: Sequence[str] = declared_slices(group, coding)
    return tuple(text for text in slices if MISSING not in parse_atom(text).values())
