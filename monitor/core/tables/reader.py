"""A reader: somebody who keeps all published tables, and knows how their counts are tied."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import tee

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bands
from monitor.core.tables.layout import Layout
from monitor.core.tables.narrowing import ANY, GIVEN_UP, Sums, narrow, narrowed
from monitor.core.tables.spans import Edition, Span


class Measure(enum.StrEnum):
    """Kind of thing that a table's rows count: decisions, labels of one kind, or label pairs.

    PAIRS are decisions that two reviewers labelled. Their tables are tied to one another alone: a
    band of pairs begins where the bands of the labels end, so it takes one value from a label count
    at most.
    """

    DECISIONS = "decisions"
    READY = "ready"
    NOT_READY = "not_ready"
    PAIRS = "pairs"


Key = tuple[Span, Measure, Edition]
Ends = tuple[Int64s, Int64s]
"""Lowest and highest number of cells."""
LABEL_MEASURES = (Measure.READY, Measure.NOT_READY)


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


class Reader:
    """Model of a reader who combines all tables within one span to narrow their counts.

    Cells are numbered through, by table, row and column, earlier tables first. A table of ready
    labels has a further column for each part, which no table shows: decisions without a label.

    Attributes:
        bases: first cell of each table, and last the number of all cells.
        sums: all that ties the cells.
    """

    def __init__(self, past: Sequence[Table], new: Sequence[Table] = ()) -> None:
        """Create a reader of past and new tables, with what the past alone leaves."""
        self._tables, self._past = (*past, *new), len(past)
        self._numbers = {table.key: number for number, table in enumerate(self._tables)}
        self._widths = np.array([_width(table) for table in self._tables], np.int64)
        rows = np.array([len(table.bands) for table in self._tables], np.int64)
        self.bases = np.append(0, np.cumsum(rows * self._widths))
        ties = [Sums.join([*self._ties(number)]) for number in range(len(self._tables))]
        self.sums = Sums.join([Sums.from_cells([], []), *ties])
        self._new_sums = np.arange(
            sum(len(sums.wholes) for sums in ties[: self._past]), len(self.sums.wholes)
        )
        self._published, believed = _ends(past), self.sums.belief.copy()
        believed[self._new_sums] = GIVEN_UP
        low, high = narrowed(*_ends(self._tables), self.sums, believed)
        self.before = low[: self.bases[self._past]], high[: self.bases[self._past]]
        believed[self._new_sums] = self.sums.belief[self._new_sums]
        self._agrees = np.array_equal(believed, self.sums.belief)
        self._rings: dict[int, Iterator[Int64s]] = {}

    def intervals(self, new: Sequence[Table]) -> Ends:
        """Return the lowest and highest number of every cell, given the bands of the new tables.

        They narrow what the past alone leaves, and nothing is computed again. But where any table
        contradicts a sum, all begins anew: which sums are given up depends on all tables.
        """
        ends = _ends(new)
        if self._agrees:
            low, high = _joined(self.before, ends)
            if not len(narrow(low, high, self.sums, self.sums.belief, self._new_sums)):
                return low, high
        return narrowed(*_joined(self._published, ends), self.sums)

    def rings(self, cell: int) -> Iterator[Int64s]:
        """Yield arrays of rows by their distance from a cell, counted in sums.

        Rows of new tables are numbered through. The first array has the cell's own row, or none if
        an earlier table has it; the last is followed by nothing that is tied.
        """
        self._rings[cell], rings = tee(self._rings.get(cell) or self._compute_rings(cell))
        return rings

    def _compute_rings(self, cell: int) -> Iterator[Int64s]:
        """Yield the rows that hold a cell, then those that each wider ring of cells adds."""
        first_new, shape = self.bases[self._past], self.bases[-1]
        cells, rows = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        ring = np.array([cell])
        while len(ring):
            cells[ring] = True
            wider = np.zeros(shape, np.bool_)
            wider[self._new_rows[ring[ring >= first_new] - first_new]] = True
            yield np.flatnonzero(wider & ~rows)
            rows |= wider
            wider = np.zeros(shape, np.bool_)
            wider[self.sums.beside(ring)] = True
            ring = np.flatnonzero(wider & ~cells)

    @cached_property
    def _new_rows(self) -> Int64s:
        """Return the row of each cell of the new tables, numbered through all of them."""
        rows = [len(table.bands) for table in self._tables[self._past :]]
        return np.repeat(np.arange(sum(rows)), np.repeat(self._widths[self._past :], rows))

    def _ties(self, number: int) -> Iterator[Sums]:
        """Yield the sums that a table, by its number, adds: rows, spans, editions and labels."""
        table = self._tables[number]
        cells, columns = self._cells(number), table.bands.low.shape[1]
        yield table.layout.cell_sums(columns, cells.shape[1]).shifted(self.bases[number])
        cells, unlabelled = np.split(cells, [columns], axis=1)
        finer = [self._cells_of_part(table, span) for span in table.span.parts]
        if any(part is not None for part in finer):
            yield Sums.tied(cells, finer)
        if table.edition is Edition.FINAL:  # which may include the labels of the first one
            yield Sums.tied(cells, [self._matching(table, table.span), None])
        if table.measure is Measure.READY:
            decisions = self._matching(table, table.span, Measure.DECISIONS)
            not_ready = self._matching(table, table.span, Measure.NOT_READY, table.edition)
            if decisions is not None and not_ready is not None:
                parts = [cells[:, 1:], not_ready[:, 1:], unlabelled]
                yield Sums.tied(decisions[:, 1:], parts)

    def _cells(self, number: int) -> Int64s:
        """Return the cells of a table, given its number, shape (rows, columns)."""
        cells = np.arange(self.bases[number], self.bases[number + 1])
        return cells.reshape(len(self._tables[number].bands), -1)

    def _cells_of_part(self, table: Table, span: Span) -> Int64s | None:
        """Return the table's cells in a part of the span, by edition or else first; or None."""
        cells = self._matching(table, span, table.measure, table.edition)
        return self._matching(table, span) if cells is None else cells

    def _matching(
        self,
        table: Table,
        span: Span,
        measure: Measure | None = None,
        edition: Edition = Edition.FIRST,
    ) -> Int64s | None:
        """Return another table's cells in the rows and columns of ``table``; -1 where missing.

        The other table has the measure of ``table`` unless another is given. None if there is none.
        """
        number = self._numbers.get((span, measure or table.measure, edition))
        if number is None:
            return None
        frame, cells = self._tables[number].frame, self._cells(number)
        if frame.layout is table.layout and frame.parts == table.frame.parts:
            return cells[:, : table.bands.low.shape[1]]
        rows = frame.layout.places_of(table.layout.rows)[:, None]
        place = {part: 1 + i for i, part in enumerate(frame.parts)}
        columns = np.array([0, *(place.get(part, -1) for part in table.frame.parts)])[None, :]
        return np.where((rows >= 0) & (columns >= 0), cells[rows, columns], -1)


def _width(table: Table) -> int:
    """Return the columns of a table's cells; READY has columns of unlabelled decisions too."""
    unlabelled = len(table.frame.parts) if table.measure is Measure.READY else 0
    return int(table.bands.low.shape[1]) + unlabelled


def _ends(tables: Sequence[Table]) -> Ends:
    """Return the published ends of all cells of some tables, one after the other."""
    low = [_filled(table, table.bands.low, 0) for table in tables]
    high = [_filled(table, table.bands.high, ANY) for table in tables]
    nothing = np.zeros(0, np.int64)
    return np.concatenate([nothing, *low]), np.concatenate([nothing, *high])


def _joined(past: Ends, new: Ends) -> Ends:
    """Return the ends of past and new cells, one after the other."""
    return np.concatenate([past[0], new[0]]), np.concatenate([past[1], new[1]])


def _filled(table: Table, ends: Int64s, unlabelled: int) -> Int64s:
    """Return one end of a table's cells, flat; ``unlabelled`` fills those without a band."""
    every = np.full((len(ends), _width(table)), unlabelled, np.int64)
    every[:, : ends.shape[1]] = ends
    return every.ravel()
