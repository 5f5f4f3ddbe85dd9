"""A reader: somebody who keeps all published tables, and knows how their counts are tied."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bands
from monitor.core.tables.layout import Layout
from monitor.core.tables.narrowing import ANY, Sums, narrowed
from monitor.core.tables.spans import Edition, Span


class Measure(enum.StrEnum):
    """The kind of thing that the rows of a table count.

    PAIRS are decisions that two reviewers labelled. Their tables are tied to one another alone: a
    band of pairs begins where the bands of the labels end, so it takes one value from a label count
    at most.
    """

    DECISIONS = "decisions"
    READY = "ready"
    NOT_READY = "not_ready"
    PAIRS = "pairs"


Key = tuple[Span, Measure, Edition]
LABEL_MEASURES = (Measure.READY, Measure.NOT_READY)


@dataclass(frozen=True, slots=True)
class Frame:
    """The span, rows and columns of a table.

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
    """A published table, immutable: one measure in one span.

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
        """Return the span that it covers."""
        return self.frame.span

    @property
    def layout(self) -> Layout:
        """Return its rows."""
        return self.frame.layout

    @property
    def key(self) -> Key:
        """Return the key that no two tables share."""
        return self.span, self.measure, self.edition


@dataclass(frozen=True)
class Reader:
    """The tables of one span, and all that ties their counts to one another.

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
        """Return the reader of all these tables; the order of ``past`` makes no difference."""
        ordered = sorted(past, key=lambda table: table.key)
        tables = (*ordered, *new)
        sums = Sums.join([*_Ties(tables).sums(), Sums.from_cells([], [])])
        return cls(tuple(ordered), tuple(_shape(table) for table in tables), sums)

    def intervals(self, new: Sequence[Table]) -> tuple[Int64s, Int64s]:
        """Return the least and the largest number of every cell, if the new tables are such."""
        tables = (*self.past, *new)
        low = [_with_unlabelled(table, table.bands.low, 0) for table in tables]
        high = [_with_unlabelled(table, table.bands.high, ANY) for table in tables]
        nothing = np.zeros(0, np.int64)
        return narrowed(
            np.concatenate([nothing, *low]), np.concatenate([nothing, *high]), self.sums
        )

    def by_table(self, cells: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Split an array of all cells into one of each table, shape (rows, columns)."""
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])
        parts = np.split(cells, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def rings(self, cell: int) -> Iterator[list[tuple[int, int]]]:
        """Yield rows of the new tables by their distance from a cell, counted in sums.

        Each ring is a list of new tables, by number, and rows. The first has the cell's own row,
        or none if an earlier table has it; the last is followed by nothing that is tied.
        """
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
        """Return new tables by number, and rows, that the cells are in."""
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
    def _bases(self) -> Int64s:
        """The first cell of each table."""
        sizes = [rows * columns for rows, columns in self.shapes]
        return np.cumsum([0, *sizes[:-1]])


class _Ties:
    """The sums that tie the cells of tables."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._numbers = {table.key: number for number, table in enumerate(tables)}
        self._bases = np.cumsum([0, *(np.prod(_shape(table)) for table in tables)])

    def sums(self) -> Iterator[Sums]:
        for number, table in enumerate(self._tables):
            columns = table.bands.low.shape[1]
            cells, unlabelled = np.split(self._cells(number), [columns], axis=1)
            yield Sums.from_cells(cells[:, 0], cells[:, 1:])
            yield from self._within(table.layout, cells)
            yield from self._over_time(table, cells)
            yield from self._editions(table, cells)
            if table.measure is Measure.READY:
                yield from self._labels(table, cells, unlabelled)

    def _cells(self, number: int) -> Int64s:
        """Cells of a table, shape (rows, columns)."""
        rows, columns = _shape(self._tables[number])
        return np.asarray(self._bases[number] + np.arange(rows * columns).reshape(rows, columns))

    def _like(self, key: Key, table: Table) -> Int64s | None:
        """Return the cells of a table in the rows and columns of ``table``; -1 where none are."""
        if (number := self._numbers.get(key)) is None:
            return None
        frame = self._tables[number].frame
        rows = frame.layout.places_of(table.layout.rows)[:, None]
        place = {part: 1 + i for i, part in enumerate(frame.parts)}
        columns = np.array([0, *(place.get(part, -1) for part in table.frame.parts)])[None, :]
        return np.where((rows >= 0) & (columns >= 0), self._cells(number)[rows, columns], -1)

    @staticmethod
    def _within(layout: Layout, cells: Int64s) -> Iterator[Sums]:
        """Rows are sums of other rows, in each column."""
        for wholes, parts in layout.sums_by_length:
            for column in cells.T:
                yield Sums.from_cells(column[wholes], column[parts])

    def _over_time(self, table: Table, cells: Int64s) -> Iterator[Sums]:
        """A span is the sum of its parts; late counts are in it alone, so nobody can be sure."""
        finer = [self._finer(table, span) for span in table.span.parts]
        if any(part is not None for part in finer):
            yield Sums.tied(cells, finer)

    def _finer(self, table: Table, span: Span) -> Int64s | None:
        """Return the same cells in a part of the span, of the same edition if there is one."""
        cells = self._like((span, table.measure, table.edition), table)
        first = (span, table.measure, Edition.FIRST)
        return self._like(first, table) if cells is None else cells

    def _editions(self, table: Table, cells: Int64s) -> Iterator[Sums]:
        """Labels of the first edition are, as far as a reader knows, in the final one."""
        if table.edition is Edition.FINAL:
            first = self._like((table.span, table.measure, Edition.FIRST), table)
            if first is not None:
                yield Sums.tied(cells, [first, None])

    def _labels(self, table: Table, ready: Int64s, unlabelled: Int64s) -> Iterator[Sums]:
        """The decisions of a part are those ready, not ready, and without a label."""
        decisions = self._like((table.span, Measure.DECISIONS, Edition.FIRST), table)
        not_ready = self._like((table.span, Measure.NOT_READY, table.edition), table)
        if decisions is not None and not_ready is not None:
            parts = [ready[:, 1:], not_ready[:, 1:], unlabelled]
            yield Sums.tied(decisions[:, 1:], parts)


def _shape(table: Table) -> tuple[int, int]:
    """Rows and columns of the cells of a table."""
    rows, columns = table.bands.low.shape
    return rows, columns + (len(table.frame.parts) if table.measure is Measure.READY else 0)


def _with_unlabelled(table: Table, ends: Int64s, unlabelled: int) -> Int64s:
    """Return ends of the intervals of all cells of a table, given the ends of its bands."""
    every = np.full(_shape(table), unlabelled, np.int64)
    every[:, : ends.shape[1]] = ends
    return every.ravel()
