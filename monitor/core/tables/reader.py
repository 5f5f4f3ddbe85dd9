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
from monitor.core.tables.narrowing import ANY, GIVEN_UP, Sums, narrow, narrowed
from monitor.core.tables.spans import Edition, Span


class Measure(enum.StrEnum):
    """Kind of thing that a table's rows count: decisions, labels of one kind, or label pairs.

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
        effect: of decisions, the design effect of units in the whole use case, rounded up.
    """

    frame: Frame
    measure: Measure
    bands: Bands
    edition: Edition = Edition.FIRST
    effect: float = 1.0

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
        before: lowest and highest number of each cell of the past alone, shape (2, cells).
        sums: all that ties the cells.
    """

    def __init__(self, past: Sequence[Table], new: Sequence[Table] = ()) -> None:
        """Create a reader of past and new tables, with what the past alone leaves."""
        # Two evaluators may make the same tables: what one stored must not tie those of the other.
        keys = {table.key for table in new}
        past = [table for table in past if table.key not in keys]
        self._tables, self._past = (*past, *new), len(past)
        self._numbers = {table.key: number for number, table in enumerate(self._tables)}
        ends = [_ends(table) for table in self._tables]
        self.bases = np.cumsum([0, *(each.shape[1] for each in ends)])
        ties = [Sums.join([*self._ties(number)]) for number in range(len(self._tables))]
        self.sums = Sums.join([Sums.from_cells([], []), *ties])
        self._new_sums = np.arange(
            sum(len(sums.wholes) for sums in ties[: self._past]), len(self.sums.wholes)
        )
        self._published, believed = _joined(ends[: self._past]), self.sums.belief.copy()
        believed[self._new_sums] = GIVEN_UP
        low, high = _joined(ends)
        self.before = np.array(narrowed(low, high, self.sums, believed))[:, : self.bases[len(past)]]
        believed[self._new_sums] = self.sums.belief[self._new_sums]
        self._agrees = np.array_equal(believed, self.sums.belief)

    def intervals(self, new: Sequence[Table]) -> tuple[Int64s, Int64s]:
        """Return the lowest and highest number of every cell, given the bands of the new tables.

        They narrow what the past alone leaves, and nothing is computed again. But where any table
        contradicts a sum, all begins anew: which sums are given up depends on all tables.
        """
        ends = [_ends(table) for table in new]
        if self._agrees:
            low, high = _joined([self.before, *ends])
            if not len(narrow(low, high, self.sums, self.sums.belief, self._new_sums)):
                return low, high
        low, high = _joined([self._published, *ends])
        return narrowed(low, high, self.sums)

    def beside(self, table: Table) -> list[tuple[Table, Int64s]]:
        """Return a new table's decision table and all tables of its edition, with their cells."""
        editions = dict.fromkeys(ALL_OR_NOTHING, table.edition)
        keys = [(table.span, m, editions.get(m, Edition.FIRST)) for m in Measure]
        numbers = [self._numbers[key] for key in keys if key in self._numbers]
        return [(self._tables[number], self._cells(number)) for number in numbers]

    def rings(self, cell: int) -> Iterator[Int64s]:
        """Yield arrays of rows by their distance from a cell, counted in sums.

        Rows of new tables are numbered through. The first array has the cell's own row, or none if
        an earlier table has it; the last is followed by nothing that is tied.
        """
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
        new = self._tables[self._past :]
        widths = np.repeat([_width(table) for table in new], [len(table.bands) for table in new])
        return np.repeat(np.arange(len(widths)), widths)

    def _ties(self, number: int) -> Iterator[Sums]:
        """Yield the sums that a table, by its number, adds: rows, spans, editions and labels."""
        table, first = self._tables[number], Edition.FIRST
        cells, columns = self._cells(number), table.bands.low.shape[1]
        yield table.layout.cell_sums(columns, cells.shape[1]).shifted(self.bases[number])
        cells, unlabelled = np.split(cells, [columns], axis=1)
        finer = [self._cells_of_part(table, span) for span in table.span.parts]
        if any(part is not None for part in finer):
            yield Sums.tied(cells, finer)
        earlier = self._matching(table, (table.span, table.measure, first))
        if table.edition is Edition.FINAL and earlier is not None:  # labels may only have come
            fewer = table.measure is Measure.UNANSWERED
            yield Sums.tied(*((earlier, [cells, None]) if fewer else (cells, [earlier, None])))
        if table.measure is Measure.READY:
            decisions = self._matching(table, (table.span, Measure.DECISIONS, first))
            not_ready = self._matching(table, (table.span, Measure.NOT_READY, table.edition))
            if decisions is not None and not_ready is not None:
                parts = [cells[:, 1:], not_ready[:, 1:], unlabelled]
                yield Sums.tied(decisions[:, 1:], parts)
        if table.measure is Measure.UNANSWERED:
            yield from self._unlabelled_sums(table, cells)

    def _unlabelled_sums(self, table: Table, missing: Int64s) -> Iterator[Sums]:
        """Yield the guess that each label was requested: then a decision without one lacks it."""
        number = self._numbers.get((table.span, Measure.READY, table.edition))
        if number is not None:
            ready = self._tables[number]
            rows = ready.layout.places_of(table.layout.rows)
            unlabelled = self._cells(number)[rows, ready.bands.low.shape[1] :]
            yield Sums.tied(unlabelled, [missing[:, 1:]])

    def _cells(self, number: int) -> Int64s:
        """Return the cells of a table, given its number, shape (rows, columns)."""
        cells = np.arange(self.bases[number], self.bases[number + 1])
        return cells.reshape(len(self._tables[number].bands), -1)

    def _cells_of_part(self, table: Table, span: Span) -> Int64s | None:
        """Return the table's cells in a part of the span, by edition or else first; or None."""
        cells = self._matching(table, (span, table.measure, table.edition))
        first = (span, table.measure, Edition.FIRST)
        return self._matching(table, first) if cells is None else cells

    def _matching(self, table: Table, key: Key) -> Int64s | None:
        """Return table ``key``'s cells in the rows and columns of ``table``; -1 where missing."""
        if (number := self._numbers.get(key)) is None:
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


def _ends(table: Table) -> Int64s:
    """Return the published lowest and highest number of each cell of a table, shape (2, cells)."""
    ends = np.zeros((2, len(table.bands), _width(table)), np.int64)
    ends[1] = ANY
    ends[:, :, : table.bands.low.shape[1]] = table.bands.low, table.bands.high
    return ends.reshape(2, -1)


def _joined(ends: Sequence[Int64s]) -> Int64s:
    return np.concatenate([np.zeros((2, 0), np.int64), *ends], axis=1)
