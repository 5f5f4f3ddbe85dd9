"""Sums of cells as slices: every slice and intersection is a roll-up at read time.

Slices of one group-by partition the decisions, so they sum to the total. A decision without the
attribute, or coded before the attribute was listed, is in the slice ``name=__missing__``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import COUNTERS, MISSING, Counts, Int64s, atom_text, parse_atom


@dataclass(frozen=True, slots=True)
class SliceCounts:
    """Counts of all slices of one group-by in one window, by stratum.

    Attributes:
        slices: slice texts, sorted (``channel=chat``; names sorted inside an intersection).
            The group-by of no attributes has the one slice ``""``, the total.
        strata: distinct stratum codes, increasing, shape (K,).
        values: int64, shape (S, K, COUNTERS).
    """

    slices: tuple[str, ...]
    strata: Int64s
    values: Int64s

    @property
    def total(self) -> SliceCounts:
        """Sum of all slices, as the one slice ``""``."""
        return SliceCounts(("",), self.strata, self.values.sum(axis=0, keepdims=True))

    @property
    def complements(self) -> SliceCounts:
        """Complements: row i is everything in the group-by except slice i."""
        return SliceCounts(
            self.slices, self.strata, self.values.sum(axis=0, keepdims=True) - self.values
        )

    def above(self, lower_table: SliceCounts) -> SliceCounts:
        """Return these slices, followed by those of a table with the same strata."""
        values = np.concatenate([self.values, lower_table.values])
        return SliceCounts(self.slices + lower_table.slices, self.strata, values)


@dataclass(frozen=True, slots=True)
class HourlySlices:
    """Counts of all slices of one group-by in several hours, by stratum.

    Attributes:
        slices: slice texts of all the hours, sorted.
        strata: distinct stratum codes of all the hours, increasing, shape (K,).
        values: int64, shape (H, S, K, COUNTERS); zeros if an hour lacks the slice or stratum.
    """

    slices: tuple[str, ...]
    strata: Int64s
    values: Int64s

    def at(self, hour: int) -> SliceCounts:
        """Return the counts of one hour, by its position."""
        return SliceCounts(self.slices, self.strata, self.values[hour])


@dataclass(frozen=True, slots=True)
class HourlyCounts:
    """Counts of several hours, row by row, hour after hour.

    Attributes:
        hours: number of hours H.
        hour: position of each row's hour, shape (R,), never decreasing.
        cells: cell id of each row.
        values: counters of each row, shape (R, COUNTERS).
    """

    hours: int
    hour: Int64s
    cells: Int64s
    values: Int64s

    @classmethod
    def from_tables(cls, tables: Sequence[Counts]) -> HourlyCounts:
        """Return one table for several hours, given one table per hour in order."""
        sizes = np.array([len(table.keys) for table in tables], np.int64)
        all_tables = [Counts.empty(), *tables]
        return cls(
            len(tables),
            np.repeat(np.arange(len(tables)), sizes),
            np.concatenate([table.keys for table in all_tables]),
            np.concatenate([table.values for table in all_tables]),
        )

    def at(self, hour: int) -> Counts:
        """Return the counts of one hour, by its position."""
        rows = slice(*np.searchsorted(self.hour, (hour, hour + 1)).tolist())
        return Counts(self.cells[rows], self.values[rows])

    def among(self, cells: Int64s) -> HourlyCounts:
        """Return only the rows whose cell id is in ``cells``."""
        return self.only(np.isin(self.cells, cells))

    def only(self, rows: npt.NDArray[np.bool_]) -> HourlyCounts:
        """Return the rows for which a mask of shape (R,) is True."""
        return HourlyCounts(self.hours, self.hour[rows], self.cells[rows], self.values[rows])

    def roll_up(self, index: CellIndex, attributes: Sequence[str]) -> HourlySlices:
        """Return the sums of cells by hour, slice of one group-by, and stratum.

        Args:
            index: index of the cell ids; every id must be in it.
            attributes: the group-by; empty for the total.
        """
        rows = np.searchsorted(index.cells, self.cells)
        strata, stratum_of = np.unique(index.strata[rows], return_inverse=True)
        slices, slice_of = _slices_of_rows(index, rows, attributes)
        values = np.zeros((self.hours, len(slices), len(strata), COUNTERS), np.int64)
        np.add.at(values, (self.hour, slice_of, stratum_of), self.values)
        return HourlySlices(slices, strata, values)


@dataclass(frozen=True, slots=True)
class CellIndex:
    """Atom, stratum and versions of each cell id, as parallel arrays sorted by id.

    Attributes:
        cells: cell ids, increasing.
        atoms: atom id of each cell.
        strata: stratum code of each cell.
        atom_texts: canonical text of every atom id.
        versions: id of the version tuple of each cell; None if versions are not distinguished.
        version_texts: texts of version tuples, such as ``judge=j1,policy=p1``; may be incomplete.
    """

    cells: Int64s
    atoms: Int64s
    strata: Int64s
    atom_texts: Mapping[int, str]
    versions: Int64s | None = None
    version_texts: Mapping[int, str] = field(default_factory=dict)


@lru_cache(maxsize=65_536)
def slice_text(atom: str, attributes: tuple[str, ...]) -> str:
    """Return the text of the slice, for a group-by's attributes, to which an atom's text belongs.

    Example:
        >>> slice_text("channel=chat,language_variety=formal", ("channel",))
        'channel=chat'
        >>> slice_text("channel=chat", ("language_variety",))
        'language_variety=__missing__'
    """
    values = parse_atom(atom)
    return atom_text({name: values.get(name, MISSING) for name in attributes})


def cells_within(index: CellIndex, where: Collection[tuple[str, str]]) -> Int64s:
    """Return ids of cells whose atoms have all of these (name, value) pairs, increasing."""
    values = set(where)
    atoms = [atom for atom, text in index.atom_texts.items() if values <= parse_atom(text).items()]
    return index.cells[np.isin(index.atoms, np.array(atoms, np.int64))]


def among(counts: Counts, cells: Int64s) -> Counts:
    """Return only the counts whose cell id is in ``cells``."""
    rows = np.isin(counts.keys, cells)
    return Counts(counts.keys[rows], counts.values[rows])


def roll_up(counts: Counts, index: CellIndex, attributes: Sequence[str]) -> SliceCounts:
    """Return the sums of a window's cells by slice of one group-by, and stratum.

    Args:
        counts: a window's counts by cell id; every id must be in ``index``.
        index: index of the cell ids.
        attributes: the group-by; empty for the total.
    """
    return HourlyCounts.from_tables([counts]).roll_up(index, attributes).at(0)


def _slices_of_rows(
    index: CellIndex, rows: Int64s, attributes: Sequence[str]
) -> tuple[tuple[str, ...], Int64s]:
    """Return the sorted slice texts of rows of an index, and each row's position among them."""
    atoms, atom_of = np.unique(index.atoms[rows], return_inverse=True)
    texts = [slice_text(index.atom_texts[int(atom)], tuple(attributes)) for atom in atoms]
    slices = tuple(sorted(set(texts)))
    position = {text: i for i, text in enumerate(slices)}
    return slices, np.array([position[text] for text in texts], np.int64)[atom_of]
