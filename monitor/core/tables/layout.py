"""The rows of a table, and which rows are sums of others.

Rows are slices: every combination of the declared values of every group-by, and the total. A row is
never left out for its traffic: that would tell of it. Their complements and score bands are rows
like any other. Some rows are no slice that anybody declared, but the sum of two group-bys that
cross in them: nothing shows these, and yet a reader can count with them.

Example:
    >>> values = {"city": ("oslo", "rome"), "tier": ("a", "b")}
    >>> layout = Layout.for_group_bys(values, [("city",), ("tier",)])
    >>> [str(row) for row in layout.rows]
    ['', 'city=oslo', 'city=rome', 'tier=a', 'tier=b']
    >>> layout.sums[0]
    (0, (1, 2))
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s, atom_text, parse_atom
from monitor.core.tables.narrowing import Sums

GroupBy = tuple[str, ...]


class Row(NamedTuple):
    """Name of a table's row: a slice or its complement, in one score band or in all.

    Attributes:
        slice_name: canonical text of its attribute values; the empty one is the total.
        complement: True for everything but this slice.
        band: its score band; None for all scores.
    """

    slice_name: str
    complement: bool = False
    band: int | None = None

    def __str__(self) -> str:
        name = f"all but {self.slice_name}" if self.complement else self.slice_name
        return name if self.band is None else f"{name} in band {self.band}"


TOTAL = Row("")


@dataclass(frozen=True)
class Layout:
    """Rows of a span's tables, the same for all measures, and which rows are sums of others.

    Attributes:
        rows: their names, each once.
        sums: a row by its place, and the rows that it is the sum of.
        undeclared: places of the rows that no table shows.
    """

    rows: tuple[Row, ...]
    sums: tuple[tuple[int, tuple[int, ...]], ...]
    undeclared: frozenset[int] = frozenset()

    @classmethod
    def for_group_bys(
        cls,
        values: Mapping[str, Sequence[str]],
        group_bys: Collection[GroupBy],
        *,
        complements: bool = False,
        bands: int = 0,
    ) -> Layout:
        """Return the layout for a use case's group-bys, their crossings and the total.

        Args:
            values: declared values of each attribute, ``__other__`` and ``__missing__`` among them.
            group_bys: attributes of each; the total is always there.
            complements: whether each slice has a row for everything but it.
            bands: score bands that each slice has a row for; 0 for none.

        Example:
            >>> values = {"tier": ("a", "b")}
            >>> small = Layout.for_group_bys(values, [("tier",)], complements=True, bands=2)
            >>> [str(small.rows[i]) for whole, parts in small.sums[-1:] for i in (whole, *parts)]
            ['tier=b', 'tier=b in band 0', 'tier=b in band 1']
        """
        declared = {(), *(tuple(sorted(attributes)) for attributes in group_bys)}
        every = _with_crossings(declared)
        sums = [
            (Row(whole), tuple(Row(part) for part in parts))
            for finer in every
            for coarser in _next_coarser(finer, every)
            for whole, parts in _finer_slices(coarser, finer, values).items()
        ]
        slices = [Row(text) for attributes in every for text in _texts(attributes, values)]
        shown = [
            Row(text) for attributes in sorted(declared) for text in _texts(attributes, values)
        ]
        if complements:
            sums += [(TOTAL, (row, Row(row.slice_name, True))) for row in shown if row != TOTAL]
        sums += [(row, _in_bands(row, bands)) for row in shown if bands]
        rows = tuple(dict.fromkeys([*slices, *(row for w, parts in sums for row in (w, *parts))]))
        place = {row: i for i, row in enumerate(rows)}
        return cls(
            rows,
            tuple((place[whole], tuple(place[part] for part in parts)) for whole, parts in sums),
            frozenset(place[row] for row in slices if row not in set(shown)),
        )

    @cached_property
    def place(self) -> Mapping[Row, int]:
        """Return a mapping from each row to its place in ``rows``."""
        return {row: i for i, row in enumerate(self.rows)}

    def slices_of(self, attributes: GroupBy) -> tuple[str, ...]:
        """Return the sorted slices that tables show of a group-by; empty if there are none."""
        return self._slices.get(attributes, ())

    @cached_property
    def _slices(self) -> Mapping[GroupBy, tuple[str, ...]]:
        """Return the declared slices of each group-by, sorted; other rows are sums of parts."""
        slices: dict[GroupBy, list[str]] = {}
        for place, row in enumerate(self.rows):
            if row == Row(row.slice_name) and place not in self.undeclared:
                attributes = tuple(sorted(parse_atom(row.slice_name)))
                slices.setdefault(attributes, []).append(row.slice_name)
        return {attributes: tuple(sorted(texts)) for attributes, texts in slices.items()}

    def places_of(self, rows: Sequence[Row]) -> Int64s:
        """Return the place of each given row, shape (rows,); -1 if the layout has no such row."""
        if rows is self.rows:
            return np.arange(len(rows))
        return np.array([self.place.get(row, -1) for row in rows], np.int64)

    def cell_sums(self, columns: int, width: int) -> Sums:
        """Return the sums within a table: the size of each row, and of each column the row sums.

        Args:
            columns: size and parts. They are the first cells of a row.
            width: cells of each row.
        """
        if (columns, width) not in self._cell_sums:
            cells = np.arange(len(self.rows) * width).reshape(-1, width)[:, :columns]
            groups = [Sums.from_cells(cells[:, 0], cells[:, 1:])]
            for length in {len(parts) for _, parts in self.sums}:
                alike = [(whole, parts) for whole, parts in self.sums if len(parts) == length]
                wholes, parts = (np.array(places) for places in zip(*alike, strict=True))
                groups.append(Sums.from_cells(cells[wholes].ravel(), cells[parts].swapaxes(1, 2)))
            self._cell_sums[columns, width] = Sums.join(groups)
        return self._cell_sums[columns, width]

    @cached_property
    def _cell_sums(self) -> dict[tuple[int, int], Sums]:
        return {}

    @cached_property
    def crossings(self) -> Int64s:
        """Return the rows in which two others cross, these two, and one that holds both.

        Shape (6, crossings), each two rows in either order; the last two columns are the places in
        ``sums`` of the sums in which the one that holds both has the first and the second row.
        """
        sums_of_part: dict[int, list[tuple[int, int]]] = {}
        for number, (whole, parts) in enumerate(self.sums):
            if all(self.rows[part] == Row(self.rows[part].slice_name) for part in parts):
                for part in parts:
                    sums_of_part.setdefault(part, []).append((whole, number))
        crossings = [
            (both, i, j, over, sum_of_i, sum_of_j)
            for both, wholes in sums_of_part.items()
            for (i, _), (j, _) in permutations(wholes, 2)
            for over, sum_of_i in sums_of_part.get(i, ())
            for over_j, sum_of_j in sums_of_part.get(j, ())
            if over == over_j
        ]
        return np.array(crossings, np.int64).reshape(-1, 6).T

    def sums_of_parts(self, counts: Int64s) -> Int64s:
        """Return for each sum the total of its parts, shape (..., sums); counts (..., rows)."""
        return np.stack([counts[..., list(parts)].sum(axis=-1) for _, parts in self.sums], axis=-1)

    @cached_property
    def slice_of(self) -> Int64s:
        """Return each row's place, or for a complement its slice's place, shape (rows,)."""
        return np.array(
            [self.place[row._replace(complement=False)] if row.complement else i
             for i, row in enumerate(self.rows)],
            np.int64,
        )  # fmt: skip

    @cached_property
    def declared(self) -> npt.NDArray[np.bool_]:
        """Return True for each row that a table may show, shape (rows,)."""
        return np.array([i not in self.undeclared for i in range(len(self.rows))], bool)

    def count(self, atoms: Sequence[str], counts: Int64s) -> Int64s:
        """Return the counts of the rows, shape (rows, ...), from those of the atoms.

        Args:
            atoms: canonical texts; each has a declared value for every attribute.
            counts: shape (atoms, score bands, ...); rows without a band add up all of them. Of
                counts with one band, each score band of a slice has them all.

        Example:
            >>> layout = Layout.for_group_bys({"tier": ("a", "b")}, [("tier",)], complements=True)
            >>> layout.count(["tier=a", "tier=b"], np.array([[[5, 1]], [[7, 2]]])).tolist()
            [[12, 3], [5, 1], [7, 2], [7, 2], [5, 1]]
        """
        whole = np.concatenate([counts, counts.sum(axis=1, keepdims=True)], axis=1)
        sums = np.zeros((len(self._numbers), *whole.shape[1:]), np.int64)
        # An atom is in one slice of each group-by: no need to compare it with all rows.
        for numbers in np.array([self._slices_with(atom) for atom in atoms], np.int64).T:
            np.add.at(sums, numbers, whole)
        row_slices, bands, complement = self._coordinates
        rows = sums[row_slices, np.minimum(bands, counts.shape[1] - 1)]
        rows[complement > 0] = whole[:, -1].sum(axis=0) - rows[complement > 0]
        return np.asarray(rows)

    def _slices_with(self, atom: str) -> tuple[int, ...]:
        """Return the number of the slice with this atom in each group-by."""
        if atom not in self._slices_by_atom:
            values = parse_atom(atom)
            texts = (atom_text({name: values[name] for name in names}) for names in self._group_bys)
            self._slices_by_atom[atom] = tuple(self._numbers[text] for text in texts)
        return self._slices_by_atom[atom]

    @cached_property
    def _slices_by_atom(self) -> dict[str, tuple[int, ...]]:
        return {}

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        names = dict.fromkeys(row.slice_name for row in self.rows)
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def _group_bys(self) -> Sequence[GroupBy]:
        return [*dict.fromkeys(tuple(parse_atom(name)) for name in self._numbers)]

    @cached_property
    def _coordinates(self) -> Int64s:
        """Slice number, band (-1: all) and whether it is a complement, of each row; (3, rows)."""
        bands = (-1 if row.band is None else row.band for row in self.rows)
        rows = zip(self.rows, bands, strict=True)
        places = [(self._numbers[row.slice_name], band, row.complement) for row, band in rows]
        return np.array(places, np.int64).T


def _with_crossings(declared: Collection[GroupBy]) -> list[GroupBy]:
    """Return the group-bys and all repeated intersections of them, coarsest first."""
    every = set(declared)
    while True:
        common = {tuple(sorted({*a} & {*b})) for a in every for b in every}
        if common <= every:
            return sorted(every, key=lambda attributes: (len(attributes), attributes))
        every |= common


def _next_coarser(finer: GroupBy, every: Sequence[GroupBy]) -> Iterator[GroupBy]:
    """Return an iterator of the group-bys that ``finer`` refines with no other one between."""
    coarser = [group_by for group_by in every if {*group_by} < {*finer}]
    return (
        group_by for group_by in coarser if not any({*group_by} < {*between} for between in coarser)
    )


def _texts(attributes: GroupBy, values: Mapping[str, Sequence[str]]) -> list[str]:
    rows = product(*(values[name] for name in attributes))
    return [atom_text(dict(zip(attributes, row, strict=True))) for row in rows]


def _finer_slices(
    coarser: GroupBy, finer: GroupBy, values: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Map each slice of ``coarser`` to the slices of ``finer`` that lie in it."""
    refined: dict[str, list[str]] = {}
    for text in _texts(finer, values):
        pairs = parse_atom(text)
        refined.setdefault(atom_text({name: pairs[name] for name in coarser}), []).append(text)
    return refined


def _in_bands(row: Row, bands: int) -> tuple[Row, ...]:
    return tuple(row._replace(band=band) for band in range(bands))
