"""The rest of a closed week: labels that no release block can take, for its Release alone.

Labels are held back where a block would show few of them: late ones, and those of a value that the
merge map of then took as not labelled. In a closed week they are shown after all, as one sum: they
leave what is held back for good, and are in no block and no window, neither before nor after. So
all that a subtraction finds of them is this sum, by the rows of the families that have it. Such a
family has none or at least k of these labels in each row and route, and so has every family that it
refines. One that has not never gets any of them: with a part, parts could be subtracted. Of
intersections that cross each other, those have it that form no ring (
:func:`monitor.core.privacy.families.without_rings`).

A week gets its rest once, at the first stop after its last hour is closed to labels at which it is
of use to a group-by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from monitor.core.counts.cells import Counter, Counts, Int64s
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.families import SliceFamily, attributes_in, without_rings
from monitor.core.privacy.release_blocks import BlockTally, Span, none_or_enough, span_ending_in
from monitor.core.publish.snapshot import Period
from monitor.core.time import HOUR, Grain, IsoWeek, pane_of
from monitor.evaluate.blocks.family_state import FamilyState, Rows
from monitor.evaluate.blocks.late_counts import LABELS, LateCounts
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.windows import split_panes
from monitor.ports import PaneCounts


@dataclass(frozen=True, slots=True)
class WeekRest:
    """Labels that the Release of a week has besides its blocks.

    Attributes:
        counts: by cell.
        families: names of those that may have them.
        span: hours of their decisions; None where there is no rest.
    """

    counts: Counts = field(default_factory=Counts.empty)
    families: frozenset[str] = frozenset()
    span: Span | None = None

    @classmethod
    def of(
        cls,
        release: ReleaseBlocks,
        index: CellIndex,
        counts: Counts,
        week: IsoWeek,
        shown: Iterable[str] = (),
    ) -> Self:
        """What a closed pane holds, and the families that have enough of it under present maps."""
        found = families_with(release, index, counts, shown)
        return cls(counts, found, common_span(release, week))

    def fits(self, family: str, labelled: Period | None) -> bool:
        """Return True when the table of a family has it: all of its decisions are there, too."""
        whole = labelled is not None and not labelled.excluded
        return whole and family in self.families and self.inside(labelled)

    def inside(self, blocks: Span | Period | None) -> bool:
        """Return True when a run of blocks has all of its decisions."""
        if self.span is None or blocks is None:
            return False
        return blocks.start <= self.span.start and self.span.end <= blocks.end


def rest_pane(week: IsoWeek) -> int:
    """Number of the closed pane of a week that its rest is kept in; such panes hold no more.

    By its middle: the same in all time zones.
    """
    return pane_of((week.start + week.end) // 2, Grain.WEEK)


def families_with(
    release: ReleaseBlocks, index: CellIndex, counts: Counts, shown: Iterable[str] = ()
) -> frozenset[str]:
    """Names of the families that have none or at least k of these labels, each and in each row.

    Rows are the parts that present and former rows have in common: a rest may have been shown by
    the rows of then. What a family has, all that it refines have. Intersections have it as long as
    they form no ring: then any combination of values that has some of these labels could have k.

    Args:
        release: the blocks that are published.
        index: what all cells mean.
        counts: the labels.
        shown: names of families that have had them before; some may be gone from the settings.
    """
    families = release.families
    may = without_rings(_by_age(release, frozenset(shown)))
    found: set[str] = set()
    for name, state in families.items():  # those that are refined first
        rings = state.family.published and name not in may
        if not state.rows or rings or not {*state.family.parents} <= found:
            continue
        parents = [families[parent] for parent in state.family.parents]
        if len(state.family.compared) > 1 and not _coarser(state, parents):
            continue
        if _enough(state, index, counts):
            found.add(name)
    return frozenset(found)


def _by_age(release: ReleaseBlocks, shown: frozenset[str]) -> Iterator[SliceFamily]:
    """The families that are published; first those that have had the labels before."""
    here = [state.family for state in release.families.values() if state.family.published]
    names = {family.name for family in here}
    yield from (SliceFamily("", attributes_in(name)) for name in sorted(shown - names))
    yield from (family for family in here if family.name in shown)
    yield from (family for family in here if family.name not in shown)


def _coarser(state: FamilyState, parents: Sequence[FamilyState]) -> bool:
    """Return True when it names no value, and never did, that one which it refines does not.

    Nor may the use case have been another one: then what is outside of either is in no table.
    """
    if any(old.where != one.family.where for one in (state, *parents) for old in one.former):
        return False
    mine = _ever_named(state)
    return all(
        mine[attribute] <= names
        for parent in parents
        for attribute, names in _ever_named(parent).items()
        if attribute in mine
    )


def _ever_named(state: FamilyState) -> Mapping[str, set[str]]:
    """By attribute, the values that have a name now or had one in what was published before."""
    now = state.map_of(labels=True).kept
    return {
        name: {*values, *(value for one in state.former for value in one.labelled.get(name, ()))}
        for name, values in now.items()
    }


def _enough(state: FamilyState, index: CellIndex, counts: Counts) -> bool:
    former = [(one.labelled, one.where) for one in state.former]
    rows = Rows(state.family, state.map_of(labels=True), former)
    at = np.searchsorted(index.cells, counts.keys)
    place, strata = rows.of(index)[at], index.strata[at]
    # Labels, and the fewest decisions that can be behind all changes, corrections too.
    for numbers in (counts.values[:, Counter.LABELLED], np.abs(counts.values).max(axis=1)):
        counted = np.zeros_like(counts.values)
        counted[:, Counter.LABELLED] = numbers
        labels = BlockTally.of(rows.size, place, strata, counted).labels.sum(axis=2)
        if not none_or_enough(labels, state.family.k):
            return False
    return True


def release_rests(
    release: ReleaseBlocks, index: CellIndex, held: LateCounts, weeks: Iterable[IsoWeek]
) -> tuple[list[PaneCounts], list[PaneCounts]]:
    """The rests that can be taken now; often none.

    Args:
        release: the blocks that are published.
        index: what all cells mean.
        held: counts that are held back.
        weeks: those that are over and have no rest yet.

    Returns:
        The rests, in panes of a week, and by hour what they take (negative) of what is held back.
    """
    rests: list[PaneCounts] = []
    away: list[PaneCounts] = []
    labels = _labels(release, index, held)
    for week in weeks:
        span = common_span(release, week)
        part = _within(labels, span)
        rest = Counts.of(part.cells, part.values)
        if span and len(part.hours) and _of_use(release, index, WeekRest(rest, span=span), week):
            rests.append(PaneCounts(int(Grain.WEEK), rest_pane(week), rest))
            away += split_panes(Grain.HOUR, part.hours, part.cells, -part.values)
    return rests, away


def _labels(release: ReleaseBlocks, index: CellIndex, held: LateCounts) -> LateCounts:
    """What is held back of labels, without those of decisions that are in no table."""
    left_out = release.kept_out(index)[0][np.searchsorted(index.cells, held.cells)]
    values = np.where(LABELS & ~left_out[:, None], held.values, 0)
    return LateCounts(held.hours, held.cells, values).take(np.asarray(values.any(axis=1), bool))


def common_span(release: ReleaseBlocks, week: IsoWeek) -> Span | None:
    """What tables of labels of totals and of single attributes have in common; None for nothing.

    A label is counted where its decision is: a table has no part of a rest.
    """
    if release.labels is None or release.labels < week.end:
        return None
    states = (s for s in release.families.values() if s.rows and len(s.family.attributes) < 2)  # noqa: PLR2004 - of two attributes
    spans = [span for state in states if (span := _labelled(state, week))]
    if not spans:
        return None
    start, end = max(span.start for span in spans), min(span.end for span in spans)
    return Span(start, end) if start < end else None


def _labelled(state: FamilyState, week: IsoWeek) -> Span | None:
    """The blocks of labels that end in a week."""
    return span_ending_in(state.shown_edges(labels=True), week.start, week.end)


def _within(labels: LateCounts, span: Span | None) -> LateCounts:
    hours: Int64s = labels.hours * HOUR
    inside = np.zeros(len(hours), bool)
    if span is not None:
        inside = (hours >= span.start) & (hours < span.end)
    return labels.take(np.asarray(inside, bool))


def _of_use(release: ReleaseBlocks, index: CellIndex, rest: WeekRest, week: IsoWeek) -> bool:
    """Return True when a group-by that is published has enough of it, and blocks to add it to."""
    found = families_with(release, index, rest.counts)
    states = (release.families[name] for name in found)
    return any(
        state.family.published and state.family.attributes and rest.inside(_labelled(state, week))
        for state in states
    )
