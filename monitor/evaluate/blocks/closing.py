"""Closing of panes: the one place where closed panes are read for the release of all families.

:class:`~monitor.evaluate.blocks.release_blocks.ReleaseBlocks` says which counts it needs next and
computes; what has changed is committed by the evaluator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from monitor.core.counts.cells import Counts, Int64s, merge
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.families import SliceFamily
from monitor.core.privacy.periods import POOL_PERIOD
from monitor.core.time import DAY, HOUR, Grain, pane_of, pane_start
from monitor.evaluate.blocks.family_state import PaneRun
from monitor.evaluate.blocks.merge_maps import MAP_SPAN, MapCounts, Recent
from monitor.evaluate.blocks.release_blocks import OpenBlock, ReleaseBlocks, Stretch
from monitor.evaluate.blocks.units import Gate
from monitor.evaluate.blocks.windows import split_panes
from monitor.ports import PaneCounts, PaneUnits
from monitor.store.evaluator.release_blocks import ReleaseChange, StoredRelease


@dataclass(frozen=True, slots=True)
class Sifted:
    """Counts that leave the closed panes (negative), those held back instead, and their units."""

    away: Sequence[PaneCounts] = ()
    held: Sequence[PaneCounts] = ()
    units: Sequence[PaneUnits] = ()

    def added_to(self, change: ReleaseChange) -> ReleaseChange:
        """A change that has this too."""
        return replace(
            change,
            released=(*change.released, *self.away),
            held_back=(*change.held_back, *self.held),
            units=(*change.units, *self.units),
        )


class ClosedCounts(Protocol):
    """Counts of closed panes; all panes are numbered, ``first`` to ``end`` (exclusive)."""

    def first_hour(self) -> int | None:
        """The oldest closed hour that is kept."""
        ...

    def counted_sums(self, grain: Grain, first: int, end: int) -> Counts:
        """Counts added up by cell, with the counters that blocks are closed by."""
        ...

    def held_back_sums(self, first: int, end: int) -> Counts:
        """Held-back counts of hours, with the same counters."""
        ...

    def rows(self, grain: Grain, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Pane, cell and counters of every row, in the order of panes."""
        ...

    def counted(self, grain: Grain, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """The same of rows that hold anything, with the counters that blocks are closed by."""
        ...

    def units(self, grain: Grain, first: int, end: int) -> PaneUnits:
        """Decisions by unit, in the order of panes."""
        ...


def load_release(
    stored: StoredRelease,
    closed: ClosedCounts,
    families: Sequence[SliceFamily],
    index: CellIndex,
    kept: int,
    *,
    live: bool,
) -> ReleaseBlocks:
    """The release as it was committed last; its open blocks are counted anew.

    Where it is not ``live``, and something is hidden, nothing is published before the first day has
    ended.
    """
    release = ReleaseBlocks.restore(stored, families, kept)
    release.patient = release.hides and not live
    _count_open(release.open_blocks(), closed, index)
    return release


def begin_release(release: ReleaseBlocks, closed: ClosedCounts) -> bool:
    """Let the first block begin, if anything was folded; returns whether one has begun."""
    if release.begins is None:
        first = closed.first_hour()
        if first is None:
            return False
        release.begin(pane_start(first, Grain.HOUR))
    return True


def close_panes(
    release: ReleaseBlocks,
    closed: ClosedCounts,
    index: CellIndex,
    until: int,
    labels_until: int,
    *,
    stop: bool = False,
) -> bool:
    """Close the panes up to these instants; returns whether anything was closed or made.

    Args:
        release: of all families; it has begun.
        closed: the panes that were folded.
        index: what all cells mean.
        until: a stop, or the watermark before the next stop.
        labels_until: the label frontier.
        stop: whether it is a stop.
    """
    early = stop and _has_stopped(release, closed, index)
    step = release.advance(until, labels_until, stop=stop, early=early)
    if step is None:
        return False
    if step.anew:
        if release.maps_begun:
            release.make_maps(_map_counts(release, closed), index)
        release.begin_anew()
    for stretch in (step.decisions, step.labels):
        for run in _runs(closed, index, stretch):
            release.take(run, stretch)
    if step.anew and release.hides_rows(index):
        since = pane_of(step.labels.end, Grain.HOUR)
        end = pane_of(max(until, release.sifted or until), Grain.HOUR)
        release.hold_back(*closed.rows(Grain.HOUR, since, end), index)
    _count_open(release.abandon(index), closed, index)
    return True


def sift(release: ReleaseBlocks, closed: ClosedCounts, index: CellIndex, stop: int) -> Sifted:
    """Hold back what the present maps leave out of the hours from a stop to the next one."""
    release.sifted = release.stop_after(stop, index)
    return _sifted(release, closed, index, stop, release.sifted)


def sift_first_day(
    release: ReleaseBlocks, closed: ClosedCounts, index: CellIndex, stop: int, labels_until: int
) -> Sifted:
    """Hold back what the first maps will leave out of the first day.

    The maps are made twice, here and at the stop: by then what they leave out must be gone, and
    nothing of the release has changed if the work ends in between.
    """
    assert release.begins is not None, "called after the first pane"  # noqa: S101
    families = [state.family for state in release.families.values()]
    ahead = ReleaseBlocks.restore(StoredRelease(), families, release.kept)
    ahead.begin(release.begins)
    ahead.advance(stop, labels_until, stop=True)
    ahead.make_maps(_map_counts(ahead, closed), index)
    ahead.begin_anew()
    return _sifted(ahead, closed, index, release.begins, stop)


def _sifted(
    release: ReleaseBlocks, closed: ClosedCounts, index: CellIndex, first: int, end: int
) -> Sifted:
    if not release.hides_rows(index):
        return Sifted()
    gate = Gate(None, None, sifted=end)
    masks = release.kept_out(index)
    away: list[PaneCounts] = []
    held: list[PaneCounts] = []
    for grain in (Grain.HOUR, Grain.MINUTES5):
        panes, cells, values = closed.rows(grain, pane_of(first, grain), pane_of(end, grain))
        left_out, unlabelled = (mask[np.searchsorted(index.cells, cells)] for mask in masks)
        rest = gate.split(pane_start(panes, grain), values, left_out, unlabelled)[1]
        rows = rest.any(axis=1)
        away += split_panes(grain, panes[rows], cells[rows], -rest[rows])
        if grain is Grain.HOUR:
            held = split_panes(grain, panes[rows], cells[rows], rest[rows])
    return Sifted(away, held, _sifted_units(release, closed, index, first, end))


def _sifted_units(
    release: ReleaseBlocks, closed: ClosedCounts, index: CellIndex, first: int, end: int
) -> list[PaneUnits]:
    left_out = np.unique(index.atoms[release.kept_out(index)[0]])
    found: list[PaneUnits] = []
    for grain in (Grain.HOUR, Grain.MINUTES5):
        units = closed.units(grain, pane_of(first, grain), pane_of(end, grain))
        units = units.take(np.isin(units.atoms, left_out))
        found.append(replace(units, counts=-units.counts))
        if grain is Grain.HOUR:
            found.append(replace(units, late=True))
    return found


def _has_stopped(release: ReleaseBlocks, closed: ClosedCounts, index: CellIndex) -> bool:
    """Return True when an open block waits for a value that has stopped coming."""
    waiting = release.waiting()
    if not waiting:
        return False
    counts = _map_counts(release, closed)
    return any(
        one.slices & counts.stopped(index, one.state.family, labels=one.labels) for one in waiting
    )


def _map_counts(release: ReleaseBlocks, closed: ClosedCounts) -> MapCounts:
    assert release.decisions is not None and release.begins is not None  # noqa: S101, PT018
    start = release.decisions - POOL_PERIOD
    period = pane_of(start, Grain.HOUR), pane_of(release.decisions, Grain.HOUR)
    full = start >= release.begins
    labels = release.labels or release.begins
    decided = _recent(closed, release.begins, release.decisions)
    return MapCounts(
        decided=decided,
        labelled=(
            decided
            if labels == release.decisions  # as in a back-fill
            else _recent(closed, release.begins, labels)
        ),
        last_period=_both(closed, Grain.HOUR, *period) if full else None,
        lately=_lately(release, closed),
    )


def _lately(release: ReleaseBlocks, closed: ClosedCounts) -> tuple[Counts, Counts]:
    """Counts of the last days, closed to decisions and to labels."""
    spans = [tuple(pane_of(at, Grain.HOUR) for at in span) for span in release.latest_days()]
    sums = {span: _summed(closed, *span) for span in spans}  # those of both may be the same
    decided, labelled = (sums[span] for span in spans)
    return decided, labelled


def _recent(closed: ClosedCounts, begins: int, until: int) -> Recent:
    start = max(begins, until - MAP_SPAN)
    hours = pane_of(start, Grain.HOUR), pane_of(until, Grain.HOUR)
    day_ended = pane_of(until, Grain.DAY) > pane_of(begins, Grain.DAY)
    return Recent(_summed(closed, *hours), until - start, day_ended)


def _summed(closed: ClosedCounts, first: int, end: int) -> Counts:
    return merge([closed.counted_sums(Grain.HOUR, first, end), closed.held_back_sums(first, end)])


def _both(closed: ClosedCounts, grain: Grain, first: int, end: int) -> tuple[Counts, PaneUnits]:
    return closed.counted_sums(grain, first, end), closed.units(grain, first, end)


def _count_open(blocks: Iterable[OpenBlock], closed: ClosedCounts, index: CellIndex) -> None:
    """Count anew what open blocks hold."""
    for block in blocks:
        tally, rows = block.state.empty(block.labels), block.state.counted(block.labels)
        whole_hours = [(Grain.HOUR, block.start, block.end)]
        for grain, start, end in whole_hours if block.labels else _pieces(block.start, block.end):
            counts = _both(closed, grain, pane_of(start, grain), pane_of(end, grain))
            tally = tally + block.state.tally(*counts, index, rows)
        block.state.leave_open(tally, block.labels)
        if block.state.crossings:
            grain = Grain.HOUR if block.labels else Grain.MINUTES5
            panes = pane_of(block.start, grain), pane_of(block.end, grain)
            at, cells, values = closed.counted(grain, *panes)
            block.state.forget_crossing(block.labels)
            block.state.cross(pane_start(at, grain), cells, values, index, labels=block.labels)


def _pieces(start: int, end: int) -> Iterator[tuple[Grain, int, int]]:
    """An interval of event time as whole hours, and 5-minute panes before and after them."""
    first = min(-(-start // HOUR) * HOUR, end)
    last = max(end // HOUR * HOUR, first)
    for grain, a, b in (
        (Grain.MINUTES5, start, first),
        (Grain.HOUR, first, last),
        (Grain.MINUTES5, last, end),
    ):
        if a < b:
            yield grain, a, b


def _runs(closed: ClosedCounts, index: CellIndex, stretch: Stretch) -> Iterator[PaneRun]:
    """Panes of a stretch: of hours up to ``fine``, then of 5 minutes."""
    fine = max(stretch.start, stretch.fine // HOUR * HOUR)
    for grain, start, end in _pieces(stretch.start, fine):
        yield from _portions(closed, index, grain, start, end)
    yield from _portions(closed, index, Grain.MINUTES5, fine, stretch.end)


def _portions(
    closed: ClosedCounts, index: CellIndex, grain: Grain, start: int, end: int
) -> Iterator[PaneRun]:
    """A UTC day at a time, so that a back-fill stays bounded in memory."""
    for midnight in range(start - start % DAY, end, DAY):
        at = max(start, midnight)
        first, last = pane_of(at, grain), pane_of(min(midnight + DAY, end), grain)
        panes, cells, values = closed.counted(grain, first, last)
        ends = [pane_start(pane + 1, grain) for pane in range(first, last)]
        units = closed.units(grain, first, last)
        yield PaneRun(ends, panes - first, cells, values, index, units, first)
