"""A reader: somebody who keeps all published tables, and knows how their counts are tied."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bands
from monitor.core.tables.layout import Layout
from monitor.core.tables.narrowing import ANY, Sums, narrowed
from monitor.core.tables.spans import Edition, Span


class Measure(enum.StrEnum):
    """Kind of thing that a table's rows count: decisions, labels, missing labels or label pairs.

    UNANSWERED are requested labels that have not come. PAIRS are decisions that two reviewers
    labelled. Their tables are tied to one another alone: a band of pairs begins where the bands of
    the labels end, so it takes one value from a label count at most.
    """

    DECISIONS = "decisions"
    READY = "ready"
    NOT_READY = "not_ready"
    UNANSWERED = "unanswered"
    PAIRS = "pairs"


Key = tuple[Span, Measure, Edition]
LABEL_MEASURES = (Measure.READY, Measure.NOT_READY)
ALL_OR_NOTHING = (*LABEL_MEASURES, Measure.UNANSWERED)
"""Measures of which a row shows all its counts, however small, or nothing."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Span, rows and parts of a table, without its counts.

    Attributes:
        span: what it covers.
        layout: its rows.
        parts: what each row is divided into: routes or strata, named alike in all measures.
    """

    span: Span
    layout: Layout
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A published table: the bands of one measure in one span; immutable.

    Attributes:
        frame: its span, rows and parts.
        measure: what it counts.
        bands: what is shown.
        edition: of labels; decisions have the first one alone.
    """

    frame: Frame
    measure: Measure
    bands: Bands
    edition: Edition = Edition.FIRST

    @property
    def span(self) -> Span:
        """Return the span that the table covers."""
        return self.frame.span

    @property
    def layout(self) -> Layout:
        """Return the layout of the table's rows."""
        return self.frame.layout

    @property
    def key(self) -> Key:
        """Return span, measure and edition, which together identify a table."""
        return self.span, self.measure, self.edition


@dataclass(frozen=True)
class Reader:
    """Model of a reader who combines all tables within one span to narrow their counts.

    Cells are numbered through, by table, row and column, earlier tables first. A table of ready
    labels has a further column for each part, which no table shows: decisions without a label.

    Attributes:
        past: the earlier tables, in an order of their own.
        shapes: rows and columns of each table, the new ones last.
        sums: all that ties the cells.
    """

    past: tuple[Table, ...]
    shapes: tuple[tuple[int, int], ...]
    sums: Sums

    @classmethod
    def from_tables(cls, past: Sequence[Table], new: Sequence[Table]) -> Reader:
        """Return the reader of past and new tables; the order of ``past`` makes no difference."""
        ordered = sorted(past, key=lambda table: table.key)
        tables = (*ordered, *new)
        sums = Sums.join([*_Ties(tables).sums(), Sums.from_cells([], [])])
        return cls(tuple(ordered), tuple(_shape(table) for table in tables), sums)

    def intervals(self, new: Sequence[Table]) -> tuple[Int64s, Int64s]:
        """Return the lowest and highest number of every cell, given the bands of the new tables."""
        tables = (*self.past, *new)
        low = [_cell_ends(table, table.bands.low, 0) for table in tables]
        high = [_cell_ends(table, table.bands.high, ANY) for table in tables]
        nothing = np.zeros(0, np.int64)
        return narrowed(
            np.concatenate([nothing, *low]), np.concatenate([nothing, *high]), self.sums
        )

    def rings(self, cell: int) -> Iterator[list[tuple[int, int]]]:
        """Yield lists of (new table's number, row) by their distance from a cell, counted in sums.

        Each ring is a list of new tables, by number, and rows. The first has the cell's own row,
        or none if an earlier table has it; the last is followed by nothing that is tied.
        """
        return iter(self._rings.setdefault(cell, _Remembered(self._compute_rings(cell))))

    def _compute_rings(self, cell: int) -> Iterator[list[tuple[int, int]]]:
        """Yield the rows that hold a cell, then those that each wider ring of cells adds."""
        cells = np.array([cell])
        seen = self._new_rows(cells)
        yield sorted(seen)
        while True:
            wider = self.sums.beside(cells)
            if len(wider) == len(cells):
                return
            rows = self._new_rows(wider)
            yield sorted(rows - seen)
            cells, seen = wider, rows

    def _new_rows(self, cells: Int64s) -> set[tuple[int, int]]:
        """Return (new table's number, row) of the given cells, without those of past tables."""
        tables = np.searchsorted(self._bases, cells, side="right") - 1
        columns = np.array([columns for _, columns in self.shapes])
        rows = (cells - self._bases[tables]) // columns[tables]
        numbers = tables - len(self.past)
        return {
            (number, row)
            for number, row in zip(numbers.tolist(), rows.tolist(), strict=True)
            if number >= 0
        }

    @cached_property
    def _rings(self) -> dict[int, _Remembered]:
        """Return the rings that were asked for so far, by cell."""
        return {}

    @cached_property
    def _bases(self) -> Int64s:
        """Return the number of each table's first cell, shape (tables,)."""
        sizes = [rows * columns for rows, columns in self.shapes]
        return np.cumsum([0, *sizes[:-1]])


class _Remembered:
    """Rings of a cell, computed as far as somebody asked; the table rule asks again and again."""

    def __init__(self, rings: Iterator[list[tuple[int, int]]]) -> None:
        self._rings = rings
        self._known: list[list[tuple[int, int]]] = []

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        yield from self._known
        for ring in self._rings:
            self._known.append(ring)
            yield ring


class _Ties:
    """Builder of all sums that tie the cells of tables, for :class:`Reader`."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._numbers = {table.key: number for number, table in enumerate(tables)}
        self._bases = np.cumsum([0, *(np.prod(_shape(table)) for table in tables)])

    def sums(self) -> Iterator[Sums]:
        """Yield the published sums of each table: rows, spans, editions and labels."""
        for number, table in enumerate(self._tables):
            columns = table.bands.low.shape[1]
            cells, unlabelled = np.split(self._cells(number), [columns], axis=1)
            yield Sums.from_cells(cells[:, 0], cells[:, 1:])
            yield from self._row_sums(table.layout, cells)
            yield from self._span_sums(table, cells)
            yield from self._edition_sums(table, cells)
            if table.measure is Measure.READY:
                yield from self._label_sums(table, cells, unlabelled)

    def _cells(self, number: int) -> Int64s:
        """Return the cells of a table, given its number, shape (rows, columns)."""
        rows, columns = _shape(self._tables[number])
        return np.asarray(self._bases[number] + np.arange(rows * columns).reshape(rows, columns))

    def _matching_cells(self, key: Key, table: Table) -> Int64s | None:
        """Return table ``key``'s cells in the rows and columns of ``table``; -1 where missing."""
        if (number := self._numbers.get(key)) is None:
            return None
        frame = self._tables[number].frame
        rows = frame.layout.places_of(table.layout.rows)[:, None]
        place = {part: 1 + i for i, part in enumerate(frame.parts)}
        columns = np.array([0, *(place.get(part, -1) for part in table.frame.parts)])[None, :]
        return np.where((rows >= 0) & (columns >= 0), self._cells(number)[rows, columns], -1)

    @staticmethod
    def _row_sums(layout: Layout, cells: Int64s) -> Iterator[Sums]:
        """Yield the layout's sums of rows, for each column of cells."""
        for wholes, parts in layout.sums_by_length:
            for column in cells.T:
                yield Sums.from_cells(column[wholes], column[parts])

    def _span_sums(self, table: Table, cells: Int64s) -> Iterator[Sums]:
        """Yield the doubtful sums of each cell over the span's parts that have a table."""
        finer = [self._cells_of_part(table, span) for span in table.span.parts]
        if any(part is not None for part in finer):
            yield Sums.tied(cells, finer)

    def _cells_of_part(self, table: Table, span: Span) -> Int64s | None:
        """Return the table's cells in a part of the span, by edition or else first; or None."""
        cells = self._matching_cells((span, table.measure, table.edition), table)
        first = (span, table.measure, Edition.FIRST)
        return self._matching_cells(first, table) if cells is None else cells

    def _edition_sums(self, table: Table, cells: Int64s) -> Iterator[Sums]:
        """Yield, for a final edition, the guess that labels only came since the first one."""
        if table.edition is Edition.FINAL:
            first = self._matching_cells((table.span, table.measure, Edition.FIRST), table)
            if first is not None:
                fewer = table.measure is Measure.UNANSWERED
                yield Sums.tied(*((first, [cells, None]) if fewer else (cells, [first, None])))

    def _label_sums(self, table: Table, ready: Int64s, unlabelled: Int64s) -> Iterator[Sums]:
        """Yield the guess that each part's decisions are ready, not ready or unlabelled."""
        decisions = self._matching_cells((table.span, Measure.DECISIONS, Edition.FIRST), table)
        not_ready = self._matching_cells((table.span, Measure.NOT_READY, table.edition), table)
        if decisions is not None and not_ready is not None:
            parts = [ready[:, 1:], not_ready[:, 1:], unlabelled]
            yield Sums.tied(decisions[:, 1:], parts)
        missing = self._matching_cells((table.span, Measure.UNANSWERED, table.edition), table)
        if missing is not None:  # where every label is requested, nothing else has none
            yield Sums.tied(unlabelled, [missing[:, 1:]])


def _shape(table: Table) -> tuple[int, int]:
    """Return rows and columns of a table's cells; READY adds columns of unlabelled decisions."""
    rows, columns = table.bands.low.shape
    return rows, columns + (len(table.frame.parts) if table.measure is Measure.READY else 0)


def _cell_ends(table: Table, ends: Int64s, unlabelled: int) -> Int64s:
    """Return one end of all cells' intervals, flat; ``unlabelled`` fills those without a band."""
    every = np.full(_shape(table), unlabelled, np.int64)
    every[:, : ends.shape[1]] = ends
    return every.ravel()
