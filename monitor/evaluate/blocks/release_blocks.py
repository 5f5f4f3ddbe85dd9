"""The release of all families: closes panes, makes blocks, and makes merge maps once a week.

Everything here is a function of closed panes, in the order of event time, and is kept in the store;
restarts, takeovers and replicas therefore publish the same blocks. Nothing here reads the store:
:mod:`monitor.evaluate.blocks.closing` hands over the counts.

A file that is read at once gives the blocks that the same events give live, since merge maps are
made, and late counts looked at, only at *stops*: fixed instants of event time (UTC midnights, and
hours at first) that are visited one by one, however much was folded. Hours after the next stop are
not sifted yet: whether their rows are left out is for the maps of that stop to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import LABEL_COUNTERS, Int64s, decode_strata
from monitor.core.counts.rollup import CellIndex
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.privacy.exchange import Axes
from monitor.core.privacy.families import SliceFamily, attributes_in
from monitor.core.privacy.pooling import MergeMap
from monitor.core.time import DAY, HOUR, Grain, pane_of, pane_start
from monitor.evaluate.blocks.family_state import LABEL_GRID, FamilyState, PaneRun, kept_out
from monitor.evaluate.blocks.merge_maps import MapCounts, make_maps
from monitor.evaluate.blocks.stopped import LONGEST_WAIT, WaitingBlock, waiting_blocks
from monitor.evaluate.blocks.windows import split_panes
from monitor.ports import PaneCounts
from monitor.store.evaluator.release_blocks import ReleaseChange, StoredEdge, StoredRelease

FINE = DAY
"""Time back to which blocks are made on 5-minute edges: the one-hour window needs no more."""

_DECISIONS, _LABELS, _BEGINS, _SIFTED = "decisions", "labels", "begins", "sifted"
_STAGE, _WEEK, _LOOKED = "maps_stage", "maps_week", "looked"
_LONGEST_LOOK = 10 * DAY
_LAST_STAGE = 4  # from then on maps are made once a week

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Panes from ``start`` to ``end`` (event time) that all families take in next.

    Attributes:
        start: where the first of them begins.
        end: where the last of them ends.
        labels: whether they are closed to labels, not to decisions.
        fine: instant after which their edges may lie off the hour.
        published: by family, the edges of blocks that were published before; its new blocks are
            unions of these, as far as they go.
        anew: whether all blocks are made anew.
    """

    start: int
    end: int
    labels: bool
    fine: int
    published: Mapping[str, Sequence[Collection[int]]] = field(default_factory=dict)
    anew: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseStep:
    """Panes to be taken in."""

    decisions: Stretch
    labels: Stretch

    @property
    def anew(self) -> bool:
        """True when all blocks are made anew, under new maps."""
        return self.decisions.anew


@dataclass(frozen=True, slots=True)
class OpenBlock:
    """A family's open block, whose counts (from ``start`` to ``end``) are to be made anew."""

    state: FamilyState
    labels: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A family that the settings have no more; what it published is still known.

    Attributes:
        name: of the family.
        edges: of its blocks of decisions, and of labels.
    """

    name: str
    edges: tuple[set[int], set[int]]

    @classmethod
    def of(cls, name: str, edges: Iterable[StoredEdge]) -> Gone:
        """The edges of one name."""
        mine = [edge for edge in edges if edge.family == name]
        decisions, labels = ({e.at for e in mine if e.labels is which} for which in (False, True))
        return cls(name, (decisions, labels))

    @property
    def attributes(self) -> tuple[str, ...]:
        """What its slices were made of."""
        return attributes_in(self.name)

    @property
    def end(self) -> int:
        """Where its last block ended; 0 without."""
        return max((*self.edges[0], *self.edges[1]), default=0)


@dataclass(slots=True)
class ReleaseBlocks:
    """All families, and how far panes are closed.

    Attributes:
        families: by name, those that are refined first.
        decisions: event time up to which panes are closed; None before the first.
        labels: the same for labels, on the hour.
        begins: where the oldest block begins.
        sifted: the next stop: earlier hours are without what is left out; None before the first.
        kept: microseconds that closed panes are kept.
        looked: where panes were closed to decisions when late counts were looked at last.
        patient: nothing is published before the first day has ended, so that its rare values can
            be left out of everything. A live service does not wait: its total is shown at once.
    """

    families: Mapping[str, FamilyState]
    kept: int
    decisions: int | None = None
    labels: int | None = None
    begins: int | None = None
    sifted: int | None = None
    looked: int | None = None
    patient: bool = False
    _stage: int = 0
    _week: int = 0
    _stale: bool = True
    _made: list[StoredEdge] = field(default_factory=list)
    _anew: set[str] = field(default_factory=set)
    _purged: list[PaneCounts] = field(default_factory=list)
    _gone: list[Gone] = field(default_factory=list)
    _masks: tuple[CellIndex, Bools, Bools] | None = None

    @classmethod
    def restore(
        cls, stored: StoredRelease, families: Sequence[SliceFamily], kept: int
    ) -> ReleaseBlocks:
        """As it was committed last, but for the counts of open blocks.

        Families of other settings are made anew.
        """
        marks = stored.marks
        guarded = [family for family in families if family.k > 1]
        states = {
            one.name: FamilyState(
                one,
                refined=any(one.name in other.parents for other in families),
                axes=Axes.of(one, guarded) if one.k > 1 else None,
            )
            for one in families
        }
        release = cls(states, kept)
        release.decisions, release.labels = marks.get(_DECISIONS), marks.get(_LABELS)
        release.begins, release.sifted = marks.get(_BEGINS), marks.get(_SIFTED)
        if release.sifted is None and release.decisions is not None:  # stored before stops were
            release.sifted = release.decisions - release.decisions % HOUR + HOUR
        release.looked = marks.get(_LOOKED, release.decisions)
        release._stage, release._week = marks.get(_STAGE, 0), marks.get(_WEEK, 0)
        names = {*stored.maps, *(edge.family for edge in stored.edges)} - {*release.families}
        release._gone = [Gone.of(name, stored.edges) for name in sorted(names)]
        for edge in stored.edges:
            if state := release.families.get(edge.family):
                edges, abandoned = state.of(edge.labels)
                edges.append(edge.at)
                if edge.abandoned:
                    abandoned.add(edge.at)
        release._stale = False
        for name, state in release.families.items():
            restored = state.restore(stored.maps.get(name))
            release._stale |= not restored and (state.family.k > 1 or not state.edges)
        return release

    def open_blocks(self) -> list[OpenBlock]:
        """All open blocks; none where blocks are made anew with the next step."""
        states = [state for state in self.families.values() if state.rows and state.edges]
        if self._stale:
            return []
        return [self._open(state, labels) for state in states for labels in (False, True)]

    def _open(self, state: FamilyState, labels: bool) -> OpenBlock:
        start = state.of(labels)[0][-1]
        end = (self.labels if labels else self.decisions) or start
        return OpenBlock(state, labels, start, end)

    # A step: begin (once), advance, make_maps and begin_anew where all is made anew, take (every
    # run of panes), hold_back, abandon; at a stop then sift.

    def next_stop(self, until: int) -> int | None:
        """The stop that comes next, if it is not after ``until``."""
        assert self.begins is not None, "called after the first pane"  # noqa: S101
        stop = self._first_stop if self.sifted is None else self.sifted
        # What is older is not shown any more when the last stop is reached.
        stop = max(stop, pane_start(pane_of(until - self.kept, Grain.DAY), Grain.DAY))
        return stop if stop <= until else None

    @property
    def _first_stop(self) -> int:
        assert self.begins is not None, "called after the first pane"  # noqa: S101
        if not self.patient:
            return self.begins
        return pane_start(pane_of(self.begins, Grain.DAY) + 1, Grain.DAY)

    @property
    def late_due(self) -> bool:
        """True when a UTC day has begun that late counts have not been looked at on."""
        if self.looked is None or self.decisions is None or self._stale:
            return False
        return pane_of(self.looked, Grain.DAY) < pane_of(self.decisions, Grain.DAY)

    @property
    def waits_for_first_day(self) -> bool:
        """True while nothing is to be published, since the first day has not ended."""
        return self.patient and self.sifted is None

    def stop_after(self, stop: int, index: CellIndex) -> int:
        """The stop after a stop that has been reached: midnight, or the next hour at first.

        Also by the hour while an open block waits for rows that are left out, so that it is
        abandoned at the first instant that will do.
        """
        hourly = self._stage < _LAST_STAGE or any(
            self._waits_in_vain(state, index, labels)
            for state in self.families.values()
            for labels in (False, True)
        )
        return stop - stop % HOUR + HOUR if hourly else stop - stop % DAY + DAY

    def begin(self, at: int) -> None:
        """Let the first block begin at the oldest closed hour."""
        self.begins, self._stale = at, True

    def waiting(self) -> list[WaitingBlock]:
        """Open blocks that have waited for long; none before there are maps of labels."""
        if self._stage < _LAST_STAGE or self._stale:
            return []
        until = (self.decisions or 0, self.labels or 0)
        return list(waiting_blocks(self.families, until))

    def latest_days(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Spans of panes closed to decisions, and to labels, that tell what comes at present.

        They reach back over the open blocks, a week and a half at most: what has stopped since the
        last edge is seen by what came since.
        """
        assert self.begins is not None, "called after the first pane"  # noqa: S101
        spans = []
        for labels in (False, True):
            end = (self.labels if labels else self.decisions) or self.begins
            edges = [state.of(labels)[0] for state in self.families.values() if state.rows]
            oldest = min((one[-1] for one in edges if one), default=end)
            start = max(min(oldest, end - LONGEST_WAIT[labels]), end - _LONGEST_LOOK, self.begins)
            spans.append((start, end))
        return spans[0], spans[1]

    def advance(
        self, until: int, labels_until: int, *, stop: bool, early: bool = False
    ) -> ReleaseStep | None:
        """Move to these instants; None where nothing is to be closed or made.

        Args:
            until: a stop, or the watermark before the next stop.
            labels_until: the label frontier.
            stop: whether it is a stop, at which merge maps may be made.
            early: whether they are to be made before their week is over.

        Returns:
            The panes to be taken in.
        """
        assert self.begins is not None, "called after the first pane"  # noqa: S101
        until = pane_start(pane_of(until, Grain.MINUTES5), Grain.MINUTES5)
        until = max(until, self.decisions or until)
        labels_until = min(pane_start(pane_of(labels_until, Grain.HOUR), Grain.HOUR), until)
        labels_until = max(labels_until, self.labels or labels_until)
        if (until, labels_until) == (self.decisions, self.labels) and not self._stale:
            return None
        first, first_labels = self.decisions, self.labels
        self.decisions, self.labels = until, labels_until
        if self.looked is None:
            self.looked = until
        self._forget_old(until)
        if (stop and self._maps_due(until, labels_until)) or early or self._stale:
            return self._all_anew()
        start = self.begins if first is None else first
        labels_start = self.begins if first_labels is None else first_labels
        return ReleaseStep(
            Stretch(start, until, labels=False, fine=until - FINE),
            Stretch(labels_start, labels_until, labels=True, fine=labels_until),
        )

    def _forget_old(self, until: int) -> None:
        assert self.begins is not None, "called after the first pane"  # noqa: S101
        oldest = pane_start(pane_of(until - self.kept, Grain.HOUR), Grain.HOUR)
        if oldest <= self.begins:
            return
        self.begins = oldest
        self._anew |= {one.name for one in self._gone if one.end < oldest}
        self._gone = [one for one in self._gone if one.end >= oldest]
        for state in self.families.values():
            state.forget(oldest)
            self._stale |= bool(state.edges) and state.edges[-1] < oldest

    def _maps_due(self, until: int, labels_until: int) -> bool:
        """Return True when an ISO week has begun, or a day is complete for the first time.

        That is so when the day of the first event has ended, and again when 24 hours have come in:
        by then more is known. Both for decisions, and for labels.
        """
        assert self.begins is not None, "called after the first pane"  # noqa: S101
        first_day = pane_of(self.begins, Grain.DAY)
        stage = sum(
            (pane_of(at, Grain.DAY) > first_day) + (at - self.begins >= DAY)
            for at in (until, labels_until)
        )
        week = pane_of(until, Grain.WEEK)
        due = stage > self._stage or (stage > 0 and week > self._week)
        if due:
            self._stage, self._week = stage, week
        return due

    def _all_anew(self) -> ReleaseStep:
        """All kept panes, once more."""
        begins, until, labels_until = self.begins, self.decisions, self.labels
        assert begins is not None and until is not None and labels_until is not None  # noqa: S101, PT018
        published, published_labels = (self._published(labels) for labels in (False, True))
        for state in self.families.values():
            state.remember()
        self._abandon_remains(published)
        return ReleaseStep(
            Stretch(begins, until, False, until - FINE, published, anew=True),
            Stretch(begins, labels_until, True, labels_until, published_labels, anew=True),
        )

    def _abandon_remains(self, published: Mapping[str, Sequence[Collection[int]]]) -> None:
        """Never publish what is left of a block whose first counts were deleted.

        Its sum is known: what is left would tell what was deleted, which nobody has looked at. Nor
        of decisions beside labels, which end their blocks where blocks of decisions do.
        """
        begins = self.begins or 0
        for name, known in published.items():
            firsts = {min((at for at in edges if at >= begins), default=begins) for edges in known}
            for labels in (False, True):
                self.families[name].of(labels)[1].update(firsts - {begins})

    def _published(self, labels: bool) -> dict[str, list[set[int]]]:
        """For each family that hides something, edges that its new blocks may not go between.

        Its own; those of families that are no more, if one refines the other; and, if it was not
        published before, those of what refines it.
        """
        hidden = [state.family for state in self.families.values() if state.family.k > 1]
        now = {f.name: set(self.families[f.name].of(labels)[0]) for f in hidden}
        was = {name: edges for name, edges in now.items() if len(edges) > 1}
        gone = [({*g.attributes}, g.edges[labels]) for g in self._gone if len(g.edges[labels]) > 1]
        found: dict[str, list[set[int]]] = {}
        for family in hidden:
            names = set(family.attributes)
            finer = [other.name for other in hidden if names < {*other.attributes}]
            mine = [family.name] if family.name in was else finer
            found[family.name] = [
                *(was[name] for name in mine if name in was),
                *(edges for others, edges in gone if names <= others or others <= names),
            ]
        return found

    @property
    def maps_begun(self) -> bool:
        """True once a day has ended: before that nothing is known of how much comes."""
        return self._stage > 0

    def make_maps(self, counts: MapCounts, index: CellIndex) -> None:
        """Make the merge maps of all families anew; :meth:`begin_anew` comes next."""
        make_maps(self.families, counts, index)

    def begin_anew(self) -> None:
        """Forget all blocks: those that still hold under the present maps are made again."""
        assert self.begins is not None, "called after the first pane"  # noqa: S101
        for name, state in self.families.items():
            if not state.family.attributes and state.pooling is None:
                state.pooling = MergeMap({})
            state.begin(self.begins)
            self._anew.add(name)
        self._made = [
            StoredEdge(name, labels, self.begins)
            for name in self.families
            for labels in (False, True)
        ]
        self._masks, self._stale = None, False

    def take(self, run: PaneRun, stretch: Stretch) -> None:
        """Let every family take in some panes of a stretch."""
        labels = stretch.labels
        for name, state in self.families.items():
            if state.open:
                allowed = self._allowed(state, run, stretch)
                vain = {
                    *self._given_up(state, run, stretch, allowed),
                    *self._refined(state, labels),
                }
                inner, beside = self._inner(state, stretch), self._beside(state, labels)
                made = state.take(
                    run, allowed, labels=labels, given_up=vain, inner=inner, beside=beside
                )
                self._made += [StoredEdge(name, labels, edge.at, edge.burned) for edge in made]

    def _refined(self, state: FamilyState, labels: bool) -> set[int]:
        """Where blocks end that a family refines and that were abandoned: its own are then, too.

        Else its sums would be the only ones of rows that nobody waited for.
        """
        parents = (self.families[name] for name in state.family.parents)
        return set().union(*(parent.of(labels)[1] for parent in parents))

    def _given_up(
        self, state: FamilyState, run: PaneRun, stretch: Stretch, allowed: Collection[int]
    ) -> Collection[int]:
        """The instant at which the open block is abandoned, of blocks that are made anew.

        It is the first that will do, if the block holds rows that are left out now and no more of
        them come in this run: else all that follows would wait for them too.
        """
        labels = stretch.labels
        if not stretch.anew or not self._waits_in_vain(state, run.index, labels):
            return ()
        masks, at = self.kept_out(run.index), np.searchsorted(run.index.cells, run.cells)
        away = (masks[0] | masks[1] if labels else masks[0])[at]
        if run.values[away].any():
            return ()
        grid = LABEL_GRID if labels else HOUR
        return [min(hours)] if (hours := [at for at in allowed if at % grid == 0]) else ()

    def _allowed(self, state: FamilyState, run: PaneRun, stretch: Stretch) -> set[int]:
        """Instants at which a block of a family may end."""
        labels, allowed = stretch.labels, set(run.ends)
        if labels and state.family.k > 1:
            allowed = {at for at in allowed if at % LABEL_GRID == 0}
        for parent in state.family.parents:
            allowed &= set(self.families[parent].of(labels)[0])
        for edges in stretch.published.get(state.family.name, ()):
            last = max(edges)
            allowed = {at for at in allowed if at in edges or at > last}
        return allowed

    def _inner(self, state: FamilyState, stretch: Stretch) -> list[set[int]]:
        """For each attribute that a family crosses: the edges, also former ones, of what has it.

        Where counts are by the hour, edges are too.
        """
        if state.axes is None:
            return []
        refined = [self.families[name].family for name in state.family.parents]
        return [
            {
                at
                for family in refined
                if name in family.names
                for edges in (
                    self.families[family.name].of(stretch.labels)[0],
                    *stretch.published.get(family.name, ()),
                )
                for at in edges
                if at % HOUR == 0 or at > stretch.fine or not stretch.anew
            }
            for name in state.axes.crossed
        ]

    def _beside(self, state: FamilyState, labels: bool) -> list[set[int]]:
        """For each attribute that a family crosses: the edges of what has it beside others."""
        if state.axes is None:
            return []
        mine = state.family.names
        beside = [
            other
            for other in self.families.values()
            if other.rows and not (mine <= other.family.names or other.family.names <= mine)
        ]
        return [
            {at for other in beside if name in other.family.names for at in other.of(labels)[0]}
            for name in state.axes.crossed
        ]

    def parts_shown(
        self, state: FamilyState, *, labels: bool
    ) -> tuple[list[set[int]], list[set[int]]]:
        """For each attribute that a family crosses: edges of what it refines, and of the rest.

        See ``inner`` and ``beside`` of :meth:`FamilyState.take`.
        """
        whole = Stretch(0, 0, labels, fine=0)
        return self._inner(state, whole), self._beside(state, labels)

    def hides_rows(self, index: CellIndex) -> bool:
        """Return True when any cell is left out, or its labels are taken as not given."""
        return bool(np.any(self.kept_out(index)))

    def hold_back(self, panes: Int64s, cells: Int64s, values: Int64s, index: CellIndex) -> None:
        """Take labels that are not shown any more out of the hours not published with them yet.

        Args:
            panes: hour of every row of closed counts since the label frontier.
            cells: cell of every row.
            values: counters of every row.
            index: what all cells mean.
        """
        left_out, unlabelled = self.kept_out(index)
        at = np.searchsorted(index.cells, cells)
        away = np.zeros_like(values)
        quiet = (left_out | unlabelled)[at]
        away[np.ix_(quiet, LABEL_COUNTERS)] = -values[np.ix_(quiet, LABEL_COUNTERS)]
        rows = away.any(axis=1)
        self._purged = split_panes(Grain.HOUR, panes[rows], cells[rows], away[rows])

    def abandon(self, index: CellIndex) -> list[OpenBlock]:
        """Abandon open blocks that wait for rows which are left out or taken as unlabelled now.

        Returns:
            What is open after them.
        """
        opened = []
        for state in self.families.values():
            for labels in (False, True):
                if self._waits_in_vain(state, index, labels) and self._abandon(state, labels):
                    opened.append(self._open(state, labels))
        return opened

    def _waits_in_vain(self, state: FamilyState, index: CellIndex, labels: bool) -> bool:
        """Return True when an open block holds something of a row that nobody waits for."""
        if state.rows is None:
            return False
        left_out, unlabelled = self.kept_out(index)
        rows = state.counted(labels).of(index)
        tail = state.label_tail if labels else state.tail
        if tail.decisions[_only_in(rows, left_out)].any():
            return True
        routes = decode_strata(index.strata).route
        return labels and any(
            tail.labels[
                _only_in(np.where(routes == route, rows, -1), left_out | unlabelled), route
            ].any()
            for route in REVIEWED_ROUTES
        )

    def _abandon(self, state: FamilyState, labels: bool) -> bool:
        """End the open block at the newest hour at which all that is refined has an edge.

        Not inside of what was published before under other maps or settings: that block and the
        next one could be subtracted. Returns False where there is no such hour since it began.
        """
        until = (self.labels if labels else self.decisions) or 0
        there = [self.families[parent].of(labels)[0] for parent in state.family.parents]
        grid = LABEL_GRID if labels else HOUR
        hours = [{at for at in edges if at % grid == 0} for edges in there]
        hours = hours or [{until - until % grid}]
        at = max((at for at in set.intersection(*hours) if at <= until), default=0)
        published = max((max(one.ends(labels)) for one in state.former), default=0)
        if at <= state.of(labels)[0][-1] or at < published:
            return False
        state.abandon(at, labels=labels)
        self._made.append(StoredEdge(state.family.name, labels, at, abandoned=True))
        return True

    @property
    def hides(self) -> bool:
        """True when anything is hidden at all; where nothing is, late counts join at once."""
        return any(state.family.k > 1 for state in self.families.values())

    def reopen(self, first: int) -> None:
        """Let blocks begin earlier, where older decisions came and nothing is hidden."""
        if self.begins is not None and first < self.begins:
            self.begin(pane_start(pane_of(first, Grain.HOUR), Grain.HOUR))

    def taken(self) -> ReleaseChange:
        """Take the changes since the last call, to be committed."""
        marks = {
            _DECISIONS: self.decisions,
            _LABELS: self.labels,
            _BEGINS: self.begins,
            _SIFTED: self.sifted,
            _LOOKED: self.looked,
            _STAGE: self._stage,
            _WEEK: self._week,
        }
        maps = {name: self.families[name].stored() for name in self._anew & {*self.families}}
        change = ReleaseChange(
            marks={name: at for name, at in marks.items() if at is not None},
            anew=frozenset(self._anew),
            edges=tuple(self._made),
            maps={name: stored for name, stored in maps.items() if stored is not None},
            released=tuple(self._purged),
            held_back=tuple(PaneCounts(p.grain, p.pane, -p.counts) for p in self._purged),
        )
        self._made, self._anew, self._purged = [], set(), []
        return change

    def kept_out(self, index: CellIndex) -> tuple[Bools, Bools]:
        """Cells that are left out, and cells whose labels are taken as not given.

        One flag a cell of the index.
        """
        if self._masks is None or self._masks[0] is not index:
            states = [state for state in self.families.values() if state.rows]
            self._masks = (index, *kept_out(states, index))
        return self._masks[1:]


def _only_in(rows: Int64s, mask: Bools) -> Int64s:
    """The rows that have cells, all of them in the mask."""
    return np.setdiff1d(rows[mask & (rows >= 0)], rows[~mask])
