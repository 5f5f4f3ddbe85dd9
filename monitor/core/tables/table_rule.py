"""The table rule: the tables of one span, made so that sums give no small count away.

Counts are tied by sums: parts to a row's size, rows to their total, intersections to their margins,
hours to days to weeks, labels to decisions. So the tables of a span are first made by the row rule.
Then :mod:`narrowing` computes what a reader could, from these and from earlier tables. While a
count that may be below k is left fewer than 8 values (k = 11), one row is coarsened by one step: to
the next grid, to its size alone, to nothing. It is the largest of the rows tied closest to it.

Of earlier tables the rule reads what was published, never counts; its own counts it sees only
through their bands. Otherwise its choice would tell what it hides.

Example:
    >>> from monitor.core.tables.spans import Span, SpanKind
    >>> from monitor.core.tables.layout import Layout
    >>> layout = Layout.for_group_bys({"tier": ("a", "b", "c")}, [("tier",)])
    >>> counts = np.array([[[21, 40]], [[21, 60]], [[10, 50]]])
    >>> rows = layout.count(["tier=a", "tier=b", "tier=c"], counts)
    >>> frame = Frame(Span(SpanKind.DAY, 0), layout, ("auto", "review"))
    >>> (table,) = publish([Draft(frame, Measure.DECISIONS, rows)], [], 11)
    >>> for row, low, high in zip(layout.rows, table.bands.low.tolist(), table.bands.high.tolist()):
    ...     print(str(row) or "total", low[1:], high[1:])
    total [33, 143] [54, 164]
    tier=a [11, 33] [21, 43]
    tier=b [11, 55] [21, 65]
    tier=c [0, 44] [10, 54]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts.cells import Int64s
from monitor.core.tables.bands import Bands, Bools, Coarseness, Detail, Steps, row_rule
from monitor.core.tables.crossing import cells_left_few
from monitor.core.tables.narrowing import ANY
from monitor.core.tables.reader import ALL_OR_NOTHING, LABEL_MEASURES, Frame, Measure, Reader, Table
from monitor.core.tables.spans import Edition


@dataclass(frozen=True, slots=True)
class Draft:
    """Exact counts of a table to be made, with the coarseness and bands that it must keep.

    Attributes:
        frame: as in :class:`Table`, like the measure.
        measure: what it counts.
        counts: exact ones, shape (rows, parts).
        edition: of labels.
        least: how coarse each row is at least, shape (rows,); as fine as can be if there is none.
        kept: bands that some rows must repeat, or None: the first edition's.
        repeats: which rows do, shape (rows,).
    """

    frame: Frame
    measure: Measure
    counts: Int64s
    edition: Edition = Edition.FIRST
    least: Steps | int = Coarseness.FINE
    kept: Bands | None = None
    repeats: Bools | bool = False

    def at(self, steps: Steps, k: int) -> Table:
        """Return the table at a coarseness per row; a complement is shown only where its slice is.

        A hidden row of labels says nothing, while a hidden row of decisions has fewer than k.
        """
        labels = self.measure in ALL_OR_NOTHING
        bands = row_rule(self.counts, k, steps, labels=labels)
        if self.kept is not None:
            bands = self.kept.where(np.asarray(self.repeats), bands)
        hidden = bands.detail == Detail.HIDDEN
        beside_hidden = hidden[self.frame.layout.slice_of] & ~hidden
        unshown = ~self.frame.layout.declared | beside_hidden | (hidden & labels)
        nothing = Bands(
            np.zeros_like(bands.low), np.full_like(bands.high, ANY), np.zeros_like(bands.detail)
        )
        bands = nothing.where(unshown, bands)
        return Table(self.frame, self.measure, bands, self.edition)


def values_left(k: int, *, own: bool = False) -> int:
    """Return how many values sums must leave to a count below k: 8 of 11, in new tables 10.

    Interval arithmetic gives outer bounds, so the rule asks for twice what is promised. Of the new
    tables' counts (``own``) it asks for 10 of 11: with 8, hill climbing where attributes cross left
    4 values to a reader who solves all equations at once, and 10 hides no more in any bench.

    Example:
        >>> [values_left(k) for k in (2, 5, 11, 20)], values_left(11, own=True)
        ([2, 4, 8, 15], 10)
    """
    return -(-(10 if own else 8) * k // 11)


def publish(drafts: Sequence[Draft], past: Sequence[Table], k: int) -> tuple[Table, ...]:
    """Return one table per draft, coarsened until sums give no count below k away.

    Args:
        drafts: what is to be published of it.
        past: all tables published so far that lie within the span, of every kind and measure; the
            span's own decision table where labels are made. Others are not tied to it. Hours may
            not be left out of a long span: where all days are near the ends of their bands, a week
            narrows each day, and the day an hour to 4 values.
        k: smallest cell that may be shown; 1 shows exact numbers.

    Returns:
        One table of each draft, in their order. It depends on the drafts and on what the past
        shows, on no other count, and not on the order of ``past``.
    """
    steps = np.array([np.broadcast_to(draft.least, len(draft.counts)) for draft in drafts], np.int8)
    tables = _made(drafts, steps, k)
    if k == 1:
        return tables
    guard = _Guard(drafts, Reader(past, tables), k)
    while (rows := guard.rows_to_coarsen(steps, tables)).any():
        alone = np.array([table.bands.detail for table in tables]) == Detail.SIZE
        steps = np.where(rows, np.where(alone, Coarseness.WITHHELD, steps + 1), steps)
        tables = _made(drafts, steps, k)
    return tables


def _made(drafts: Sequence[Draft], steps: Steps, k: int) -> tuple[Table, ...]:
    return tuple(draft.at(step, k) for draft, step in zip(drafts, steps, strict=True))


class _Guard:
    """Chooser of the rows to coarsen, until the reader is left enough."""

    def __init__(self, drafts: Sequence[Draft], reader: Reader, k: int) -> None:
        self._drafts, self._reader, self._k = drafts, reader, k
        self._labels = drafts[0].measure in ALL_OR_NOTHING
        self._small = np.all([(draft.counts < k).all(axis=1) for draft in drafts], axis=0)

    def rows_to_coarsen(self, steps: Steps, tables: Sequence[Table]) -> Bools:
        """Return a mask of the rows to coarsen by one step, shape (drafts, rows).

        Of those tied to a narrow cell: rows with counts before sizes alone, then the largest.
        """
        detail = np.array([table.bands.detail for table in tables], np.int64)
        size = np.array([table.bands.high[:, 0] for table in tables])
        last = (detail == Detail.SIZE) | (self._labels & (steps >= Coarseness.COARSER))
        fixed = [~draft.frame.layout.declared | draft.repeats for draft in self._drafts]
        stays = (detail == Detail.HIDDEN) | fixed
        rank = np.where(stays, -1, 4 * ANY * detail + 2 * size + last).ravel()
        coarser = np.zeros(steps.size, np.bool_)
        for cell in self._narrow_cells(tables):
            for ring in _rings_in_turn(self._reader.rings(cell), last.ravel(), labels=self._labels):
                if rank[ring].max(initial=-1) >= 0:
                    coarser[ring[rank[ring].argmax()]] = True
                    break
        return coarser.reshape(steps.shape)

    def _narrow_cells(self, tables: Sequence[Table]) -> list[int]:
        """Return the cells that may be below k and have too few values left after the new tables.

        Where the past alone leaves as few, coarsening would not help.
        """
        k, (low, high) = self._k, self._reader.intervals(tables)
        old_low, old_high = self._reader.before
        old = slice(len(old_low))
        enough = np.full(len(low), values_left(k, own=True))
        enough[old] = values_left(k)
        narrow = (low < k) & (high - low + 1 < enough)
        narrow[old] &= high[old] - low[old] < old_high - old_low
        cells: list[int] = np.flatnonzero(narrow).tolist()
        if cells or tables[0].measure not in LABEL_MEASURES:
            return cells
        return cells_left_few(self._reader, tables, self._small, (k, values_left(k)))


def _rings_in_turn(rings: Iterator[Int64s], last: Bools, *, labels: bool) -> Iterator[Int64s]:
    """Yield rings of rows around a cell; the first with a row to coarsen decides.

    The closest ring is not that of the cell's own row: there a band below k stays what it is. Rows
    of labels are coarsened before any is withheld (by its ``last`` step): those tied closest, the
    own one, those tied to them. In a week of two slices that are all labelled, a total minus one
    slice gives the other as finely as ever, so coarsening this one alone would end with withholding
    it. Then the own row is withheld before any other: a hidden row of labels says nothing, and
    where earlier tables leave the cell too little, nothing else helps.
    """
    nobody = np.zeros(0, np.int64)
    own, closest = next(rings, nobody), next(rings, nobody)
    if labels:
        yield closest[~last[closest]]
        yield own[~last[own]]
        next_closest = next(rings, nobody)
        yield next_closest[~last[next_closest]]
        yield from (own, closest, next_closest)
    else:
        yield from (closest, own)
    yield from rings
