"""Release blocks: runs of panes that are published as a whole, so that subtraction finds nothing.

Whoever keeps all publications can subtract one window from another. What is left is always a union
of blocks, because every published window is one; and in every block each slice has no decisions,
or at least k (labels: none, or at least k in each route), shared by several units where these are
sent. A family advances as a whole: panes are added to the open block until the condition holds,
and until then the last publication remains, with its age.

The edges of a family are instants at which all the families it refines have one too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Counter, Int64s, decode_strata
from monitor.core.counts.strata import REVIEWED_ROUTES, is_reviewed
from monitor.core.privacy.dominance import UnitTally
from monitor.core.time import DAY, HOUR

ROUTES = 3
_WINDOWS_KEPT = 35 * DAY
_LEAST_KEPT = 63 * DAY
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BlockTally:
    """Counts of a run of panes, by row of a family.

    Attributes:
        decisions: production decisions, shape (S, 3) by route.
        labels: labels of reviewed decisions, shape (S, 2, 2) by route and value (not ready, ready).
        units: of whom the decisions are; empty where none names its unit.
    """

    decisions: Int64s
    labels: Int64s
    units: UnitTally = field(default_factory=UnitTally)

    @classmethod
    def empty(cls, rows: int) -> BlockTally:
        """Nothing, for this many rows."""
        return cls(
            np.zeros((rows, ROUTES), np.int64),
            np.zeros((rows, len(REVIEWED_ROUTES), 2), np.int64),
        )

    @classmethod
    def of(cls, rows: int, row_of: Int64s, strata: Int64s, values: Int64s) -> BlockTally:
        """Count cells by row.

        Args:
            rows: number of rows.
            row_of: row of each cell; negative is outside the family.
            strata: stratum code of each cell.
            values: counters of each cell, shape (C, COUNTERS).
        """
        tally, parts = cls.empty(rows), decode_strata(strata)
        inside = (row_of >= 0) & ~parts.probe
        at = (row_of[inside], parts.route[inside])
        np.add.at(tally.decisions, at, values[inside, Counter.N])
        reviewed = inside & is_reviewed(parts)
        at = (row_of[reviewed], parts.route[reviewed])
        labelled, ready = values[reviewed, Counter.LABELLED], values[reviewed, Counter.READY]
        np.add.at(tally.labels[:, :, 0], at, labelled - ready)
        np.add.at(tally.labels[:, :, 1], at, ready)
        return tally

    def __add__(self, other: BlockTally) -> BlockTally:
        return BlockTally(
            self.decisions + other.decisions, self.labels + other.labels, self.units + other.units
        )

    def decided(self, k: int) -> bool:
        """Return True when every row has no decisions or at least k.

        Nor may one unit, or two, have most of a row's decisions.
        """
        return none_or_enough(self.decisions.sum(axis=1), k) and self._shared()

    def labelled(self, k: int) -> bool:
        """Return True when every row has no labels or at least k, in each route.

        Its decisions must be shared among units as in :meth:`decided`.
        """
        return none_or_enough(self.labels.sum(axis=2), k) and self._shared()

    def _shared(self) -> bool:
        return not self.units.dominated(self.decisions.sum(axis=1)).any()


def none_or_enough(counts: Int64s, k: int) -> bool:
    """Return True when no count is from 1 to k - 1, or negative."""
    return not np.any((counts != 0) & (counts < k))


@dataclass(frozen=True, slots=True)
class Pane:
    """A run of panes that a block can take in as a whole."""

    end: int
    tally: BlockTally


@dataclass(frozen=True, slots=True)
class Edge:
    """End of a block (microseconds); an abandoned (``burned``) one is never published."""

    at: int
    burned: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition under which a family may close its open block.

    Every cell needs no decisions or at least k, and labels likewise in each route: the weakest
    rule that leaves the attacker of the tests nothing.

    Attributes:
        k: smallest cell that may be shown.
        labels: whether labels are counted, or decisions.
        allowed: instants at which every family that is refined has an edge.
        burned: ends of abandoned blocks, which are never published; a block that comes to hold
            such an instant is not either, since what was published alongside could be subtracted.
            Where one is allowed, it ends a block whatever that holds.
        stride: instants that others need are multiples of this (microseconds): of an hour, because
            longer windows are made of hours.
        hides: whether what a block from one instant to another tells of its parts, which others
            publish by themselves, is never fewer than k (:mod:`monitor.core.privacy.exchange`).
    """

    k: int
    labels: bool
    allowed: Collection[int]
    burned: Collection[int] = ()
    stride: int = HOUR
    hides: Callable[[int, int], bool] = lambda start, end: True

    def holds(self, tail: BlockTally) -> bool:
        """Return True when every cell has none or enough."""
        return tail.decided(self.k) and (not self.labels or tail.labelled(self.k))


def advance(
    last: int,
    tail: BlockTally,
    panes: Iterable[Pane],
    condition: Condition,
    until: int | None = None,
) -> tuple[list[Edge], BlockTally]:
    """The edges that a family makes over successive panes, and what its open block then holds.

    Between the multiples of a stride an edge is made only where what is left until the next of them
    will do by itself: else that one, which others need, would be missed.

    Args:
        last: where the open block begins.
        tail: what it holds.
        panes: successive, each beginning where the one before ends.
        condition: when a block may be closed.
        until: no further than to the first edge at this instant or after it.
    """
    found: list[Edge] = []
    for pane in panes:
        tail = tail + pane.tally
        if pane.end not in condition.allowed:
            continue
        holds = condition.holds(tail)
        late = pane.end % condition.stride == 0 or _leaves_enough(last, tail, pane.end, condition)
        abandoned = pane.end in condition.burned
        if abandoned or (holds and late and condition.hides(last, pane.end)):
            found.append(Edge(pane.end, any(last < at <= pane.end for at in condition.burned)))
            last, tail = pane.end, BlockTally.empty(len(tail.decisions))
            if until is not None and pane.end >= until:
                break
    return found, tail


def _leaves_enough(last: int, tail: BlockTally, end: int, condition: Condition) -> bool:
    """Return True when the rest of the stride, at this pace, brings every row twice its need."""
    k, stride = condition.k, condition.stride
    begun = end - end % stride
    counts = tail.labels.sum(axis=2) if condition.labels else tail.decisions.sum(axis=1)
    fewest = int(counts[counts > 0].min(initial=2 * k * stride))
    return last >= begun and fewest * (begun + stride - end) >= 2 * k * (end - last)


def blocks_kept(horizon: int) -> int:
    """Retention of closed panes (microseconds).

    The longest window, and a week more, since it may have to begin with a long block; labelled
    windows end up to the horizon ago.
    """
    return max(_LEAST_KEPT, horizon + _WINDOWS_KEPT)


@dataclass(frozen=True, slots=True)
class Span:
    """A published run of blocks: event time (microseconds), ``start`` to ``end`` (exclusive)."""

    start: int
    end: int


def newest_span(edges: Sequence[int], length: int) -> Span | None:
    """The shortest run of newest blocks that covers ``length``; all of them where none does.

    Args:
        edges: increasing; the first is where the first block begins.
        length: microseconds.

    Example:
        >>> newest_span([0, 3, 7, 9], 4)
        Span(start=3, end=9)
        >>> newest_span([0, 3, 7, 9], 40)
        Span(start=0, end=9)
        >>> newest_span([0], 40) is None
        True
    """
    if len(edges) < 2:  # noqa: PLR2004 - a block has two
        return None
    start = max(bisect_right(edges, edges[-1] - length) - 1, 0)
    return Span(edges[start], edges[-1])


def span_ending_in(edges: Sequence[int], start: int, end: int) -> Span | None:
    """The blocks that end after ``start`` and not after ``end``; None where none does.

    The first of them may begin before ``start``: blocks are taken whole.

    Example:
        >>> span_ending_in([0, 3, 7, 9], 4, 8)
        Span(start=3, end=7)
        >>> span_ending_in([0, 3, 7, 9], 7, 8) is None
        True
    """
    first = max(bisect_right(edges, start), 1)  # the first edge is the end of no block
    after = bisect_right(edges, end)
    return Span(edges[first - 1], edges[after - 1]) if after > first else None


def on_the_hour(edges: Sequence[int]) -> list[int]:
    """The edges that blocks of hours have; the others divide a block for the shortest window."""
    return [edge for edge in edges if edge % HOUR == 0]


def without(span: Span, edges: Sequence[int], excluded: Sequence[Span]) -> tuple[Span, ...]:
    """A span less all blocks that have an instant in common with what is excluded.

    Example:
        >>> without(Span(0, 9), [0, 3, 7, 9], [Span(4, 5)])
        (Span(start=0, end=3), Span(start=7, end=9))
    """
    return tuple(_joined(_kept(span, edges, excluded)))


def _kept(span: Span, edges: Sequence[int], excluded: Sequence[Span]) -> Iterator[Span]:
    first, last = bisect_left(edges, span.start), bisect_left(edges, span.end)
    for start, end in zip(edges[first:last], edges[first + 1 : last + 1], strict=True):
        if not any(bad.start < end and start < bad.end for bad in excluded):
            yield Span(start, end)


def _joined(spans: Iterator[Span]) -> Iterator[Span]:
    open_span: Span | None = None
    for span in spans:
        if open_span is not None and open_span.end == span.start:
            open_span = Span(open_span.start, span.end)
            continue
        if open_span is not None:
            yield open_span
        open_span = span
    if open_span is not None:
        yield open_span
