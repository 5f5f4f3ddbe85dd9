"""The LP audit of a closed week: its release blocks and its rest, all families together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from monitor.core.counts.cells import Counter, Int64s, decode_strata
from monitor.core.counts.rollup import CellIndex
from monitor.core.counts.strata import REVIEWED_ROUTES, is_reviewed
from monitor.core.privacy.linear_audit import ASKED, LpAudit, PublishedSums, audited
from monitor.core.privacy.release_blocks import on_the_hour, span_ending_in
from monitor.core.time import HOUR, Grain, IsoWeek, pane_of
from monitor.evaluate.blocks.family_state import FamilyState, Where
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.week_rests import WeekRest
from monitor.evaluate.publish.combinations import Combinations
from monitor.store.evaluator.release_blocks import ClosedPanes

_REST = np.zeros(1, np.int64)
_LARGEST = 100_000
"""Combinations of values and parts of time of one table at most: most of them are known to be 0."""


@dataclass(slots=True)
class WeekAudits:
    """Audits weeks; what was found of a stretch holds while neither its counts nor blocks change.

    Attributes:
        found: by what was asked, of the last audit of each week.
    """

    found: dict[str, dict[_Asked, LpAudit]] = field(default_factory=dict)

    def of(
        self,
        release: ReleaseBlocks,
        closed: ClosedPanes,
        index: CellIndex,
        rest: WeekRest,
        week: IsoWeek,
    ) -> LpAudit:
        """Audit decisions, and labels of each route, of the blocks that end in a week; its rest."""
        guarded = {name: state for name, state in release.families.items() if state.rows}
        before, now = self.found.get(week.name, {}), dict[_Asked, LpAudit]()
        for labels in (False, True):
            tables = [Combinations.of(some, index, labels) for some in _linked(guarded)]
            question = _CountsQuestion(guarded, tables, index, week, labels)
            for asked in (*question.of_blocks(closed), *question.of_rest(rest)):
                now[asked.key] = before.get(asked.key) or asked.answer()
        self.found[week.name] = now
        return LpAudit.of_all(now.values())

    def forget_but(self, weeks: Collection[str]) -> None:
        """Forget all other weeks."""
        self.found = {name: found for name, found in self.found.items() if name in weeks}


_Asked = tuple[object, ...]


def _linked(states: Mapping[str, FamilyState]) -> Iterator[dict[str, FamilyState]]:
    """Families that share attributes, directly or through others, with the total of their use case.

    Of different ones all that is known together is how many decisions each part has, which the
    total says: so each can be asked by itself.
    """
    linked: list[tuple[Where, set[str]]] = []
    for state in states.values():
        where, names = state.family.where, {*state.family.compared}
        if names:
            met = [some for some in linked if some[0] == where and some[1] & names]
            linked = [some for some in linked if some not in met]
            linked.append((where, names.union(*(others for _, others in met))))
    for where, names in linked:
        yield {
            name: state
            for name, state in states.items()
            if state.family.where == where and {*state.family.compared} <= names
        }


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What is asked of one stretch of time.

    Attributes:
        counts: of each combination of values in each part; None where these are too many.
        families: what they publish of it.
        halved: whether intersections cross each other.
        asked: counts that are asked at most.
    """

    counts: Int64s | None
    families: Sequence[PublishedSums]
    halved: bool
    asked: int

    @property
    def key(self) -> _Asked:
        """Equal ones have one answer."""
        if self.counts is None:
            return ()
        sums = ((f.rows.tobytes(), f.blocks.tobytes(), f.refines, f.k) for f in self.families)
        return self.counts.shape, self.counts.tobytes(), tuple(sums), self.halved, self.asked

    def answer(self) -> LpAudit:
        """What is found."""
        if self.counts is None:
            return LpAudit.NOT_ASKED
        return audited(self.counts, self.families, halved=self.halved, asked=self.asked)


@dataclass(frozen=True, slots=True)
class _CountsQuestion:
    """What is asked of one kind of counts.

    Attributes:
        states: of the families that hide something, those that are refined first.
        tables: those of them that are asked about together.
        index: what all cells mean.
        week: which.
        labels: labels, not decisions.
    """

    states: Mapping[str, FamilyState]
    tables: Sequence[Combinations]
    index: CellIndex
    week: IsoWeek
    labels: bool

    def of_blocks(self, closed: ClosedPanes) -> Iterator[_Stretch]:
        """Of every stretch between two instants at which all families end a block."""
        edges = {name: self._edges(state) for name, state in self.states.items()}
        spans = [span_ending_in(some, self.week.start, self.week.end) for some in edges.values()]
        start = min((span.start for span in spans if span), default=0)
        end = max((span.end for span in spans if span), default=0)
        if start == end:
            return
        panes, cells, values = closed.counted(
            Grain.HOUR, pane_of(start, Grain.HOUR), pane_of(end, Grain.HOUR)
        )
        common = set.intersection(*(set(some) for some in edges.values() if len(some) > 1))
        for first, last in pairwise(sorted({start, end, *(c for c in common if start < c < end)})):
            inside = (panes * HOUR >= first) & (panes * HOUR < last)
            parts = sorted(
                {first, *(e for some in edges.values() for e in some if first < e < last)}
            )
            part = np.searchsorted(parts, panes[inside] * HOUR, side="right") - 1
            blocks = {
                name: self._blocks(state, edges[name], parts, last)
                for name, state in self.states.items()
            }
            yield from self._asked(cells[inside], values[inside], part, blocks)

    def of_rest(self, rest: WeekRest) -> Iterator[_Stretch]:
        """Of the labels that the week shows besides its blocks."""
        if self.labels and rest.span is not None:
            blocks = {n: _REST if n in rest.families else _REST - 1 for n in self.states}
            part = np.zeros(len(rest.counts.keys), np.int64)
            yield from self._asked(rest.counts.keys, rest.counts.values, part, blocks)

    def _edges(self, state: FamilyState) -> list[int]:
        return on_the_hour(state.shown_edges(labels=self.labels))

    def _blocks(
        self, state: FamilyState, edges: Sequence[int], parts: Sequence[int], end: int
    ) -> Int64s:
        """The block of each part; -1 where it is abandoned, or not wholly in the stretch."""
        abandoned = state.of(self.labels)[1]
        found = np.full(len(parts), -1, np.int64)
        for number, (first, last) in enumerate(pairwise(edges)):
            if first >= parts[0] and last <= end and last not in abandoned:
                found[bisect_left(parts, first) : bisect_left(parts, last)] = number
        return found

    def _asked(
        self, cells: Int64s, values: Int64s, part: Int64s, blocks: Mapping[str, Int64s]
    ) -> Iterator[_Stretch]:
        at = np.searchsorted(self.index.cells, cells)
        strata = decode_strata(self.index.strata[at])
        counted = values[:, Counter.LABELLED if self.labels else Counter.N]
        chosen = [~strata.probe]
        if self.labels:
            chosen = [is_reviewed(strata) & (strata.route == route) for route in REVIEWED_ROUTES]
        for table in self.tables:
            parts = len(next(iter(blocks.values())))
            families = table.sums(blocks)
            place = table.place[at]
            for rows in chosen:
                counts = None
                if table.size * parts <= _LARGEST:
                    counts = np.zeros((table.size, parts), np.int64)
                    inside = rows & (place >= 0)
                    np.add.at(counts, (place[inside], part[inside]), counted[inside])
                yield _Stretch(counts, families, table.halved, -(-ASKED // len(self.tables)))
