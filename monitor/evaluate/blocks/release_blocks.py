"""The release of all families: closes panes, makes blocks, and makes merge maps once a week.

Everything here is a function of closed panes, in the order of event time, and is kept in the store;
restarts, takeovers and replicas therefore publish the same blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import (
    COUNTERS,
    OTHER,
    Counter,
    Counts,
    Int64s,
    atom_text,
    decode_strata,
    merge,
    parse_atom,
)
from monitor.core.counts.rollup import CellIndex, SliceCounts, roll_up
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.dominance import shared_rows
from monitor.core.privacy.families import SliceFamily
from monitor.core.privacy.pooling import Flow, MergeMap, decisions_of, merge_map, unlabelled_rows
from monitor.core.privacy.release_blocks import BlockTally
from monitor.core.time import DAY, HOUR, Grain, pane_of, pane_start
from monitor.evaluate.blocks.family_state import FamilyState, PaneRun
from monitor.evaluate.blocks.windows import split_panes
from monitor.ports import PaneCounts
from monitor.store.evaluator.release_blocks import ReleaseChange, StoredEdge
from monitor.store.evaluator.store import EvaluatorStore

FINE = DAY
"""Time back to which blocks are made on 5-minute edges: the one-hour window needs no more."""

LABEL_GRID = 6 * HOUR
"""Blocks of labels end at four instants a day only, so that families that are refined together
end theirs together: their intersection can advance at no other instant."""

MAP_SPAN = 28 * DAY
"""Span of counts that a merge map is made from."""

OTHER_PERIOD, POOL_PERIOD, CELL_PERIOD = 8 * HOUR, DAY, 2 * DAY
"""Longest that a group-by may have to wait for k decisions of one row, on average.

What comes slower is pooled: a value of one attribute, a cell of several. Where even ``__other__``
comes slower than k in eight hours (few decisions), nobody waits for it and it is left out."""

OTHER_LABEL_PERIOD, LABEL_PERIOD = 2 * DAY, 10 * DAY
"""The same for labels of one route: what comes slower is taken as not given."""

POOLING_HYSTERESIS = 2
"""What is in stays in until it comes this much slower: a row near the limit would be in one week
and out the next, and its open block would be abandoned each time."""

_DECISIONS, _LABELS, _BEGINS = "decisions", "labels", "begins"
_STAGE, _WEEK = "maps_stage", "maps_week"
_LABEL_COLUMNS = np.flatnonzero(np.arange(COUNTERS) != Counter.N)
_LAST_PANE = 1 << 40

Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class ReleaseBlocks:
    """All families, and how far panes are closed.

    Attributes:
        families: by name, those that are refined first.
        decisions: event time up to which panes are closed; None before the first.
        labels: the same for labels, on the hour.
        begins: where the oldest block begins.
        kept: microseconds that closed panes are kept.
        new_day: a UTC day has begun that late counts have not been looked at on.
    """

    families: Mapping[str, FamilyState]
    kept: int
    decisions: int | None = None
    labels: int | None = None
    begins: int | None = None
    new_day: bool = False
    _stage: int = 0
    _week: int = 0
    _stale: bool = True
    _made: list[StoredEdge] = field(default_factory=list)
    _anew: set[str] = field(default_factory=set)
    _purged: list[PaneCounts] = field(default_factory=list)
    _masks: tuple[CellIndex, Bools, Bools] | None = None

    @classmethod
    def load(
        cls, store: EvaluatorStore, families: Sequence[SliceFamily], index: CellIndex, kept: int
    ) -> ReleaseBlocks:
        """As it was committed last; families of other settings are made anew."""
        stored = store.release_state()
        release = cls({family.name: FamilyState(family) for family in families}, kept)
        marks = stored.marks
        release.decisions, release.labels = marks.get(_DECISIONS), marks.get(_LABELS)
        release.begins = marks.get(_BEGINS)
        release._stage, release._week = marks.get(_STAGE, 0), marks.get(_WEEK, 0)
        release._anew = {*stored.maps, *(edge.family for edge in stored.edges)} - {
            *release.families
        }
        for edge in stored.edges:
            if state := release.families.get(edge.family):
                edges, burned = state.of(edge.labels)
                edges.append(edge.at)
                if edge.burned:
                    burned.add(edge.at)
        release._stale = False
        for name, state in release.families.items():
            restored = state.restore(stored.maps.get(name))
            release._stale |= not restored and (state.family.k > 1 or not state.edges)
        if not release._stale:
            for state in release.families.values():
                if state.rows is not None and state.edges:
                    release._count_tail(store, state, index, labels=False)
                    release._count_tail(store, state, index, labels=True)
        return release

    def close(self, store: EvaluatorStore, index: CellIndex, until: int, labels_until: int) -> bool:
        """Close the panes up to these instants; returns whether anything was closed or made.

        Args:
            store: holds the panes that were folded.
            index: what all cells mean.
            until: the watermark.
            labels_until: the label frontier.
        """
        until = pane_start(pane_of(until, Grain.MINUTES5), Grain.MINUTES5)
        until = max(until, self.decisions or until)
        labels_until = min(pane_start(pane_of(labels_until, Grain.HOUR), Grain.HOUR), until)
        labels_until = max(labels_until, self.labels or labels_until)
        if (until, labels_until) == (self.decisions, self.labels) and not self._stale:
            return False
        if self.begins is None and not self._begin(store):
            return False
        first, first_labels = self.decisions, self.labels
        self.decisions, self.labels = until, labels_until
        self.new_day |= first is not None and pane_of(first, Grain.DAY) < pane_of(until, Grain.DAY)
        self._forget_old()
        if self._maps_due() or self._stale:
            self._make_anew(store, index, first or 0, first_labels or 0)
            return True
        assert self.begins is not None, "set by _begin"  # noqa: S101
        start = self.begins if first is None else first
        for run in _runs(store, index, start, until, until - FINE):
            self._take(run, labels=False)
        start = self.begins if first_labels is None else first_labels
        for run in _runs(store, index, start, labels_until, labels_until):
            self._take(run, labels=True)
        self._burn(store, index, labels_until)
        return True

    @property
    def hides(self) -> bool:
        """True when anything is hidden at all; where nothing is, late counts join at once."""
        return any(state.family.k > 1 for state in self.families.values())

    def reopen(self, first: int) -> None:
        """Let blocks begin earlier, where older decisions came and nothing is hidden."""
        if self.begins is not None and first < self.begins:
            self.begins, self._stale = pane_start(pane_of(first, Grain.HOUR), Grain.HOUR), True

    def taken(self) -> ReleaseChange:
        """Take the changes since the last call, to be committed."""
        marks = {
            _DECISIONS: self.decisions,
            _LABELS: self.labels,
            _BEGINS: self.begins,
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
            left_out = np.zeros(len(index.cells), bool)
            unlabelled = left_out.copy()
            routes = decode_strata(index.strata).route
            for state in self.families.values():
                if state.rows is None:
                    continue
                rows, at = state.rows.of(index), state.rows.slices.index
                for text in state.left_out:
                    left_out |= rows == at(text)
                for text, route in state.unlabelled:
                    unlabelled |= (rows == at(text)) & (routes == route)
            self._masks = (index, left_out, unlabelled)
        return self._masks[1:]

    # Blocks.

    def _begin(self, store: EvaluatorStore) -> bool:
        first = store.first_released()
        if first is None:
            return False
        self.begins, self._stale = pane_start(first, Grain.HOUR), True
        return True

    def _forget_old(self) -> None:
        assert self.decisions is not None and self.begins is not None  # noqa: S101, PT018
        oldest = pane_start(pane_of(self.decisions - self.kept, Grain.HOUR), Grain.HOUR)
        if oldest <= self.begins:
            return
        self.begins = oldest
        for state in self.families.values():
            state.forget(oldest)
            self._stale |= bool(state.edges) and state.edges[-1] < oldest

    def _take(
        self,
        run: PaneRun,
        *,
        labels: bool,
        only: Mapping[str, Collection[int]] | None = None,
        since: int = 0,
    ) -> None:
        """Let every family take in these panes; ``only`` has its edges up to ``since``."""
        for name, state in self.families.items():
            if not state.open:
                continue
            allowed = set(run.ends)
            if labels and state.family.k > 1:
                allowed = {at for at in allowed if at % LABEL_GRID == 0}
            for parent in state.family.parents:
                there = self.families[parent]
                allowed &= set(there.label_edges if labels else there.edges)
            if only is not None and name in only:
                allowed = {at for at in allowed if at in only[name] or at > since}
            made = state.take(run, allowed, labels=labels)
            self._made += [StoredEdge(name, labels, edge.at, edge.burned) for edge in made]

    def _count_tail(
        self, store: EvaluatorStore, state: FamilyState, index: CellIndex, *, labels: bool
    ) -> None:
        """Count anew what an open block holds, from the store."""
        start = state.of(labels)[0][-1]
        end = (self.labels if labels else self.decisions) or start
        pieces = [(Grain.HOUR, start, end)] if labels else _pieces(start, end)
        state.leave_open(BlockTally.empty(len(state.tail.decisions)), labels)
        for piece in pieces:
            tail = state.label_tail if labels else state.tail
            state.leave_open(tail + _tally(store, state, index, piece), labels)

    # Merge maps.

    def _maps_due(self) -> bool:
        """Return True when a full day has come in for the first time, or an ISO week has begun."""
        assert self.decisions is not None and self.begins is not None  # noqa: S101, PT018
        labels = self.begins if self.labels is None else self.labels
        stage = 0
        if self.decisions - self.begins >= DAY:
            stage = 2 if labels - self.begins >= DAY else 1
        week = pane_of(self.decisions, Grain.WEEK)
        due = stage > self._stage or (stage > 0 and week > self._week)
        if due:
            self._stage, self._week = stage, week
        return due

    def _make_anew(
        self, store: EvaluatorStore, index: CellIndex, since: int, labels_since: int
    ) -> None:
        """Maps from the last weeks, and all blocks that still hold under them.

        A block that was published is divided no further: up to ``since`` the new blocks are
        unions of old ones.
        """
        assert self.decisions is not None and self.begins is not None  # noqa: S101, PT018
        kept, kept_labels = (self._published(labels) for labels in (False, True))
        if self._stage > 0:
            self._make_maps(store, index)
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
        for run in _runs(store, index, self.begins, self.decisions, self.decisions - FINE):
            self._take(run, labels=False, only=kept, since=since)
        labels = self.begins if self.labels is None else self.labels
        for run in _runs(store, index, self.begins, labels, labels):
            self._take(run, labels=True, only=kept_labels, since=labels_since)
        self._masks = None
        self._hold_back(store, index, labels)
        self._burn(store, index, labels)
        self._stale = False

    def _published(self, labels: bool) -> dict[str, set[int]]:
        """Edges by family, where blocks were made and something is hidden."""
        return {
            name: set(edges)
            for name, state in self.families.items()
            if len(edges := state.of(labels)[0]) > 1 and state.family.k > 1
        }

    def _make_maps(self, store: EvaluatorStore, index: CellIndex) -> None:
        assert self.decisions is not None and self.begins is not None  # noqa: S101, PT018
        recent = self._recent(store, self.decisions)
        labelled = self._recent(store, self.labels or self.begins)
        for state in self.families.values():
            family = state.family
            if family.k == 1 or not family.attributes:
                continue
            parents = (self.families[name].pooling for name in family.parents)
            within = [pooling for pooling in parents if pooling is not None]
            rolled = _scoped_roll_up(recent[0], index, family)
            alone = len(family.attributes) == 1
            period = POOL_PERIOD if alone else CELL_PERIOD
            need = _need(family.k, recent[1], period)
            state.pooling = merge_map(
                rolled, family.attributes, family.k, need=need, within=within, before=state.pooling
            )
            if alone:
                self._pool_dominated(store, state, index)
                _leave_out(state, rolled, recent[1])
                if labelled[1] >= DAY:
                    answered = _scoped_roll_up(labelled[0], index, family)
                    state.unlabelled = _unlabelled(state, answered, labelled[1])

    def _pool_dominated(self, store: EvaluatorStore, state: FamilyState, index: CellIndex) -> None:
        """Wait no longer for values of which one unit has most decisions, or two have."""
        assert self.decisions is not None and self.begins is not None  # noqa: S101, PT018
        start = self.decisions - POOL_PERIOD
        if start < self.begins:
            return
        (name,) = state.family.attributes
        state.use(state.pooling)
        assert state.rows is not None, "called for families that hide something"  # noqa: S101
        tally = _tally(store, state, index, (Grain.HOUR, start, self.decisions))
        rest = state.rows.slices.index(atom_text({name: OTHER}))
        rows = shared_rows(tally.units, tally.decisions.sum(axis=1), rest)
        values = (parse_atom(state.rows.slices[row])[name] for row in rows)
        state.pooling = MergeMap({name: tuple(sorted({*values, OTHER}))})

    def _recent(self, store: EvaluatorStore, until: int) -> tuple[Counts, int]:
        """All counts of the closed panes of the last weeks, and how long that is.

        With what is held back: a value that is left out could never come back otherwise.
        """
        assert self.begins is not None, "called after the first pane"  # noqa: S101
        start = max(self.begins, until - MAP_SPAN)
        first, end = pane_of(start, Grain.HOUR), pane_of(until, Grain.HOUR)
        counts = [store.sum_released(Grain.HOUR, first, end), store.sum_held_back(first, end)]
        return merge(counts), until - start

    def _hold_back(self, store: EvaluatorStore, index: CellIndex, since: int) -> None:
        """Take labels that are not shown any more out of the hours not published with them yet."""
        left_out, unlabelled = self.kept_out(index)
        if not (left_out | unlabelled).any():
            return
        panes, cells, values = store.released_panes(
            Grain.HOUR, pane_of(since, Grain.HOUR), _LAST_PANE
        )
        at = np.searchsorted(index.cells, cells)
        away = np.zeros_like(values)
        quiet = (left_out | unlabelled)[at]
        away[np.ix_(quiet, _LABEL_COLUMNS)] = -values[np.ix_(quiet, _LABEL_COLUMNS)]
        rows = away.any(axis=1)
        self._purged = split_panes(Grain.HOUR, panes[rows], cells[rows], away[rows])

    def _burn(self, store: EvaluatorStore, index: CellIndex, labels_until: int) -> None:
        """Abandon open blocks that wait for rows which are left out or taken as unlabelled now."""
        left_out, unlabelled = self.kept_out(index)
        routes = decode_strata(index.strata).route
        for state in self.families.values():
            if state.rows is None:
                continue
            rows = state.rows.of(index)
            quiet = _only_in(rows, left_out)
            if state.tail.decisions[quiet].any():
                self._burn_one(store, index, state, self.decisions or 0, labels=False)
            if state.label_tail.decisions[quiet].any():
                self._burn_one(store, index, state, labels_until, labels=True)
            for route in REVIEWED_ROUTES:
                quiet = _only_in(np.where(routes == route, rows, -1), left_out | unlabelled)
                if state.label_tail.labels[quiet, route].any():
                    self._burn_one(store, index, state, labels_until, labels=True)

    def _burn_one(
        self,
        store: EvaluatorStore,
        index: CellIndex,
        state: FamilyState,
        until: int,
        *,
        labels: bool,
    ) -> None:
        """End the open block at the newest hour at which all that is refined has an edge."""
        there = [self.families[parent].of(labels)[0] for parent in state.family.parents]
        grid = LABEL_GRID if labels else HOUR
        hours = [{at for at in edges if at % grid == 0} for edges in there]
        hours = hours or [{until - until % grid}]
        at = max((at for at in set.intersection(*hours) if at <= until), default=0)
        if at > state.of(labels)[0][-1]:
            state.burn(at, labels=labels)
            self._made.append(StoredEdge(state.family.name, labels, at, burned=True))
            self._count_tail(store, state, index, labels=labels)


def _only_in(rows: Int64s, mask: Bools) -> Int64s:
    """The rows that have cells, all of them in the mask."""
    return np.setdiff1d(rows[mask & (rows >= 0)], rows[~mask])


def _need(k: int, span: int, period: int) -> int:
    return ceil(k * max(1, span / period))


def _leave_out(state: FamilyState, rolled: SliceCounts, span: int) -> None:
    """Leave ``__other__`` out where it comes too slowly to be waited for."""
    assert state.pooling is not None, "called with a map"  # noqa: S101
    pooled = state.pooling.apply(rolled)
    flow = dict(zip(pooled.slices, decisions_of(pooled).tolist(), strict=True))
    (name,) = state.family.attributes
    other = atom_text({name: OTHER})
    need = _need(state.family.k, span, OTHER_PERIOD)
    stays = span >= 2 * DAY and other not in state.left_out  # not the first map
    state.left_out, state.left_out_share = frozenset(), None
    if flow[other] < (need / POOLING_HYSTERESIS if stays else need):
        state.left_out = frozenset({other})
        state.left_out_share = Precision(state.family.k).at_most(flow[other], sum(flow.values()))


def _unlabelled(state: FamilyState, rolled: SliceCounts, span: int) -> frozenset[tuple[str, int]]:
    """Rows and routes whose labels come too slowly to be waited for."""
    assert state.pooling is not None, "called with a map"  # noqa: S101
    pooled = state.pooling.apply(rolled)
    (name,) = state.family.attributes
    other = pooled.slices.index(atom_text({name: OTHER}))
    needs = np.full(len(pooled.slices), ceil(state.family.k * span / LABEL_PERIOD))
    needs[other] = ceil(state.family.k * span / OTHER_LABEL_PERIOD)
    wanted = np.stack([needs, needs], axis=1)
    if span >= 2 * DAY:  # not the first map
        rows = {text: row for row, text in enumerate(pooled.slices)}
        stays = np.ones(wanted.shape, bool)
        for text, route in state.unlabelled:
            stays[rows.get(text, other), route] = False
        wanted[stays] = -(-wanted[stays] // POOLING_HYSTERESIS)
    slow = unlabelled_rows(Flow.of(pooled), wanted)
    return frozenset((pooled.slices[row], route) for row, route in np.argwhere(slow).tolist())


def _tally(
    store: EvaluatorStore, state: FamilyState, index: CellIndex, piece: tuple[Grain, int, int]
) -> BlockTally:
    """Counts of a family in an interval of closed panes."""
    grain, start, end = piece
    panes = (grain, pane_of(start, grain), pane_of(end, grain))
    return state.tally(store.sum_released(*panes), store.units(*panes), index)


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


def _runs(
    store: EvaluatorStore, index: CellIndex, start: int, end: int, fine: int
) -> Iterator[PaneRun]:
    """Closed panes from ``start`` to ``end``: of hours up to ``fine``, then of 5 minutes."""
    fine = max(start, fine // HOUR * HOUR)
    for grain, a, b in _pieces(start, fine):
        yield from _portions(store, index, grain, a, b)
    yield from _portions(store, index, Grain.MINUTES5, fine, end)


def _portions(
    store: EvaluatorStore, index: CellIndex, grain: Grain, start: int, end: int
) -> Iterator[PaneRun]:
    """A day at a time, so that a back-fill stays bounded in memory."""
    for at in range(start, end, DAY):
        first, last = pane_of(at, grain), pane_of(min(at + DAY, end), grain)
        panes, cells, values = store.released_panes(grain, first, last)
        ends = [pane_start(pane + 1, grain) for pane in range(first, last)]
        units = store.units(grain, first, last)
        yield PaneRun(ends, panes - first, cells, values, index, units, first)


def _scoped_roll_up(counts: Counts, index: CellIndex, family: SliceFamily) -> SliceCounts:
    """The slices of a family, of its use case only."""
    names = tuple(dict.fromkeys((*family.attributes, *(name for name, _ in family.where))))
    rolled = roll_up(counts, index, names)
    if not family.where:
        return rolled
    wanted = {f"{name}={value}" for name, value in family.where}
    inside = [wanted <= set(text.split(",")) for text in rolled.slices]
    chosen = np.flatnonzero(inside)
    part = SliceCounts(
        tuple(rolled.slices[i] for i in chosen.tolist()), rolled.strata, rolled.values[chosen]
    )
    return part.pooled([_only(text, family.attributes) for text in part.slices])


def _only(text: str, attributes: Collection[str]) -> str:
    pairs = (pair for pair in text.split(",") if pair.split("=", 1)[0] in attributes)
    return ",".join(pairs)
