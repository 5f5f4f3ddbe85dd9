"""Sums of closed panes over runs of blocks, kept from one publication to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor.core.counts.cells import Counts, Int64s, merge
from monitor.core.privacy.release_blocks import Span
from monitor.core.time import HOUR, Grain, pane_of
from monitor.ports import PaneCounts
from monitor.store.evaluator.release_blocks import ClosedPanes

STEP = 12 * HOUR
"""A window that moves further at once is summed anew: that costs no more by then."""


@dataclass(slots=True)
class Sums:
    """The counts of every run of blocks that is shown; what is no longer asked for is forgotten."""

    _held: dict[tuple[Grain, tuple[Span, ...]], Counts] = field(default_factory=dict)
    _asked: dict[tuple[Grain, tuple[Span, ...]], Counts] = field(default_factory=dict)

    def of(self, closed: ClosedPanes, grain: Grain, spans: tuple[Span, ...]) -> Counts:
        """The counts of these spans, from those of the nearest spans that are known."""
        key = (grain, spans)
        if key not in self._asked:
            found = self._held.get(key)
            self._asked[key] = self._summed(closed, grain, spans) if found is None else found
        return self._asked[key]

    def drop_unused(self) -> None:
        """A publication is complete."""
        self._held, self._asked = self._asked, {}

    def forget(self) -> None:
        """Closed panes have changed."""
        self._held, self._asked = {}, {}

    def _summed(self, closed: ClosedPanes, grain: Grain, spans: tuple[Span, ...]) -> Counts:
        near, change = None, sum(span.end - span.start for span in spans)
        for other_grain, other in (*self._held, *self._asked):
            if other_grain is grain and (d := _distance(spans, other)) < min(change, STEP + 1):
                near, change = other, d
        if near is None:
            return merge([_sum(closed, grain, span) for span in spans])
        known = (self._asked | self._held)[grain, near]
        entered = [_sum(closed, grain, span) for span in less(spans, near)]
        left = [-_sum(closed, grain, span) for span in less(near, spans)]
        return merge([known, *entered, *left])


def less(spans: Iterable[Span], others: Sequence[Span]) -> Iterator[Span]:
    """Parts of the first spans that are in none of the others.

    Example:
        >>> list(less([Span(0, 9)], [Span(2, 3), Span(5, 12)]))
        [Span(start=0, end=2), Span(start=3, end=5)]
    """
    for span in spans:
        start = span.start
        for other in sorted(others, key=lambda other: other.start):
            if other.end <= start or other.start >= span.end:
                continue
            if start < other.start:
                yield Span(start, other.start)
            start = max(start, other.end)
        if start < span.end:
            yield Span(start, span.end)


def _distance(one: Sequence[Span], other: Sequence[Span]) -> int:
    return sum(s.end - s.start for s in (*less(one, other), *less(other, one)))


def _sum(closed: ClosedPanes, grain: Grain, span: Span) -> Counts:
    return closed.sums(grain, pane_of(span.start, grain), pane_of(span.end, grain))


def split_panes(grain: Grain, panes: Int64s, cells: Int64s, values: Int64s) -> list[PaneCounts]:
    """Rows of (pane, cell, counters) as one table a pane; equal cells are added up."""
    if len(panes) and (panes == panes[0]).all():  # as in nearly every cycle
        return [PaneCounts(int(grain), int(panes[0]), Counts.of(cells, values))]
    order = np.argsort(panes, kind="stable")
    panes, cells, values = panes[order], cells[order], values[order]
    edges = np.flatnonzero(np.diff(panes)) + 1
    return [
        PaneCounts(int(grain), int(panes[rows[0]]), Counts.of(cells[rows], values[rows]))
        for rows in np.split(np.arange(len(panes)), edges)
        if len(rows)
    ]
