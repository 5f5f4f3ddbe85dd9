"""A reader: somebody who keeps all published tables, and knows how their counts are tied."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bands
from monitor.core.tables.layout import Layout
from monitor.core.tables.narrowing import ANY, Sums, narrowed
from monitor.core.tables.spans import Edition, Span

Bools = npt.NDArray[np.bool_]


class Measure(enum.StrEnum):
    """What the rows of a table count."""

    DECISIONS = "decisions"
    READY = "ready"
    NOT_READY = "not_ready"
    MISSING = "missing"


Key = tuple[Span, Measure, Edition]
LABEL_MEASURES = (Measure.READY, Measure.NOT_READY, Measure.MISSING)


@dataclass(frozen=True, slots=True)
class Frame:
    """What the counts of a table are of.

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
        """What it covers."""
        return self.frame.span

    @property
    def layout(self) -> Layout:
        """Its rows."""
        return self.frame.layout

    @property
    def key(self) -> Key:
        """What no two tables have in common."""
        return self.span, self.measure, self.edition


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Decisions without a label in rows that have few of them: it is assumed that a reader knows.

    Attributes:
        few: rows with fewer than k, and at most a tenth of their decisions, shape (rows,).
        counts: decisions without a label, shape (rows, parts).
    """

    few: Bools
    counts: Int64s


@dataclass(frozen=True, slots=True)
class Reader:
    """What can be known of the tables of one span and of those that they are tied to.

    Cells are numbered through: those of each table by row and column, earlier tables first, then
    the decisions without a label of the new label tables.

    Attributes:
        past: the earlier tables, in an order of their own.
        shapes: rows and columns of each table, the new ones last.
        sums: all that ties the cells.
        unlabelled: what is assumed to be known beside the tables.
    """

    past: tuple[Table, ...]
    shapes: tuple[tuple[int, int], ...]
    sums: Sums
    unlabelled: Unlabelled | None

    @classmethod
    def of(
        cls, past: Sequence[Table], new: Sequence[Table], unlabelled: Unlabelled | None = None
    ) -> Reader:
        """The reader of these tables; the order of the past makes no difference."""
        ordered = sorted(past, key=lambda table: table.key)
        tables = (*ordered, *new)
        sums = Sums.join([*_Ties(tables).sums(len(new), unlabelled), Sums.of([], [])])
        shapes = tuple((len(t.bands), t.bands.low.shape[1]) for t in tables)
        return cls(tuple(ordered), shapes, sums, unlabelled)

    @property
    def cells(self) -> int:
        """Number of cells of all tables."""
        return sum(rows * columns for rows, columns in self.shapes)

    def intervals(self, new: Sequence[Table]) -> tuple[Int64s, Int64s]:
        """What is left of every cell, where the new tables are such."""
        tables = (*self.past, *new)
        low = [np.zeros(0, np.int64), *(table.bands.low.ravel() for table in tables)]
        high = [np.zeros(0, np.int64), *(table.bands.high.ravel() for table in tables)]
        if self.unlabelled is not None:
            few = self.unlabelled.few[:, None]
            low.append(np.where(few, self.unlabelled.counts, 0).ravel())
            high.append(np.where(few, self.unlabelled.counts, ANY).ravel())
        return narrowed(np.concatenate(low), np.concatenate(high), self.sums)

    def rings(self, cell: int) -> Iterator[list[tuple[int, int]]]:
        """Rows of the new tables by their distance from a cell, counted in sums between them.

        Each ring is a list of new tables, by number, and rows. The first has the cell's own row,
        or none if an earlier table has it; the last is followed by nothing that is tied.
        """
        marks = np.zeros(self.cells + self._unlabelled_cells, bool)
        marks[cell] = True
        seen = self._new_rows(marks)
        yield sorted(seen)
        while True:
            wider = self.sums.beside(marks)
            if np.array_equal(wider, marks):
                return
            rows = self._new_rows(wider)
            yield sorted(rows - seen)
            marks, seen = wider, rows

    @property
    def _unlabelled_cells(self) -> int:
        return 0 if self.unlabelled is None else self.unlabelled.counts.size

    def _new_rows(self, marks: Bools) -> set[tuple[int, int]]:
        """New tables by number, and rows, in which a cell is marked."""
        found = set()
        end = self.cells
        for number, shape in reversed([*enumerate(self.shapes[len(self.past) :])]):
            begin = end - shape[0] * shape[1]
            rows = marks[begin:end].reshape(shape).any(axis=1)
            found |= {(number, row) for row in np.flatnonzero(rows).tolist()}
            end = begin
        return found


class _Ties:
    """How the cells of some tables are tied."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._numbers = {table.key: number for number, table in enumerate(tables)}
        self._bases = np.cumsum([0, *(table.bands.low.size for table in tables)])

    def sums(self, new: int, unlabelled: Unlabelled | None) -> Iterator[Sums]:
        for number, table in enumerate(self._tables):
            cells = self._cells(number)
            yield Sums.of(cells[:, 0], cells[:, 1:])
            yield from self._within(table.layout, cells)
            yield from self._over_time(table, cells)
            yield from self._editions(table, cells)
            is_new = number >= len(self._tables) - new
            yield from self._labels(table, unlabelled if is_new else None)

    def _cells(self, number: int) -> Int64s:
        """Cells of a table, shape (rows, columns)."""
        shape = self._tables[number].bands.low.shape
        return np.asarray(self._bases[number] + np.arange(shape[0] * shape[1]).reshape(shape))

    def _like(self, key: Key, table: Table) -> Int64s | None:
        """Cells of a table in the rows and columns of another; -1 where it has no such."""
        if (number := self._numbers.get(key)) is None:
            return None
        there = self._tables[number]
        rows = there.layout.places_of(table.layout.rows)[:, None]
        place = {part: 1 + i for i, part in enumerate(there.frame.parts)}
        columns = np.array([0, *(place.get(part, -1) for part in table.frame.parts)])[None, :]
        return np.where((rows >= 0) & (columns >= 0), self._cells(number)[rows, columns], -1)

    @staticmethod
    def _within(layout: Layout, cells: Int64s) -> Iterator[Sums]:
        """Rows are sums of other rows, in each column."""
        for wholes, parts in layout.sums_by_length:
            for column in cells.T:
                yield Sums.of(column[wholes], column[parts])

    def _over_time(self, table: Table, cells: Int64s) -> Iterator[Sums]:
        """A span is the sum of its parts; late counts are in it alone, so nobody can be sure."""
        finer = [self._finer(table, span) for span in table.span.parts]
        if any(part is not None for part in finer):
            yield Sums.tied(cells, finer)

    def _finer(self, table: Table, span: Span) -> Int64s | None:
        """The same cells in a part of the span, of the same edition if there is one.

        Of missing labels there is no other: those of the first edition are there by the final one.
        """
        same = self._like((span, table.measure, table.edition), table)
        if same is not None or table.measure is Measure.MISSING:
            return same
        return self._like((span, table.measure, Edition.FIRST), table)

    def _editions(self, table: Table, cells: Int64s) -> Iterator[Sums]:
        """What the first edition counts is, for all that is known, in the final one."""
        if table.edition is Edition.FINAL and table.measure is not Measure.MISSING:
            first = self._like((table.span, table.measure, Edition.FIRST), table)
            if first is not None:
                yield Sums.tied(cells, [first, None])

    def _labels(self, table: Table, unlabelled: Unlabelled | None) -> Iterator[Sums]:
        """The decisions of a part are those ready, not ready, and without a label."""
        decisions = self._like((table.span, Measure.DECISIONS, Edition.FIRST), table)
        if table.measure is not Measure.READY or decisions is None:
            return
        keys = [(table.span, measure, table.edition) for measure in LABEL_MEASURES]
        labels = [self._like(key, table) for key in keys]
        yield Sums.tied(decisions[:, 1:], [*(_parts(cells) for cells in labels), None])
        if unlabelled is not None:
            shape, few = unlabelled.counts.shape, unlabelled.few
            rest = self._bases[-1] + np.arange(shape[0] * shape[1]).reshape(shape)
            ready, not_ready = (_parts(cells) for cells in labels[:2])
            known = [None if c is None else c[few] for c in (ready, not_ready, rest)]
            yield Sums.tied(decisions[few, 1:], known)


def _parts(cells: Int64s | None) -> Int64s | None:
    return None if cells is None else cells[:, 1:]
