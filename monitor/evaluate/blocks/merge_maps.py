"""Merge maps of all families, made once a week from the counts of the last weeks.

What comes too slowly is pooled, left out, or taken as not given: blocks do not wait for it. Labels
have maps of their own: where they come slowly, the selection rate is still shown by value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from monitor.core.counts.cells import LABEL_COUNTERS, OTHER, Counts, atom_text, parse_atom
from monitor.core.counts.rollup import CellIndex, SliceCounts, roll_up
from monitor.core.counts.strata import REVIEWED_ROUTES
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.dominance import shared_rows
from monitor.core.privacy.families import SliceFamily
from monitor.core.privacy.periods import (
    CELL_LABEL_PERIOD,
    CELL_PERIOD,
    LABEL_PERIOD,
    OTHER_LABEL_PERIOD,
    OTHER_PERIOD,
    POOL_PERIOD,
)
from monitor.core.privacy.pooling import Flow, MergeMap, decisions_of, label_map, merge_map
from monitor.core.time import DAY
from monitor.evaluate.blocks.family_state import Bools, FamilyState, kept_out
from monitor.evaluate.blocks.stopped import stopped_slices, without_stopped
from monitor.ports import PaneUnits

MAP_SPAN = 28 * DAY
"""Span of counts that a merge map is made from."""

POOLING_HYSTERESIS = 2
"""What is in stays in until it comes this much slower: a row near the limit would be in one week
and out the next, and its open block would be abandoned each time."""


@dataclass(frozen=True, slots=True)
class Recent:
    """All counts of the closed panes of the last weeks, and how long that is (microseconds).

    With what is held back: a value that is left out could never come back otherwise. ``day_ended``
    is False while no UTC midnight has been reached: too little is known to go by.
    """

    counts: Counts
    span: int
    day_ended: bool = True


@dataclass(frozen=True, slots=True)
class MapCounts:
    """Counts that merge maps are made from.

    Attributes:
        decided: of panes that are closed to decisions.
        labelled: of those that are closed to labels.
        last_period: counts and decisions by unit of the last ``POOL_PERIOD``; None before it is
            full.
        lately: counts of the last days, closed to decisions and to labels.
    """

    decided: Recent
    labelled: Recent
    last_period: tuple[Counts, PaneUnits] | None = None
    lately: tuple[Counts, Counts] = field(default_factory=lambda: (Counts.empty(), Counts.empty()))

    def of(self, index: CellIndex, family: SliceFamily, *, labels: bool) -> SliceCounts:
        """The slices of a family, without what has stopped coming."""
        return without_stopped(*self._both(index, family, labels), family.k, labels=labels)

    def stopped(self, index: CellIndex, family: SliceFamily, *, labels: bool) -> set[str]:
        """The slices of a family that have stopped coming."""
        return stopped_slices(*self._both(index, family, labels), family.k, labels=labels)

    def _both(
        self, index: CellIndex, family: SliceFamily, labels: bool
    ) -> tuple[SliceCounts, SliceCounts]:
        """Counts of the weeks and of the last days."""
        recent = self.labelled if labels else self.decided
        return (
            _scoped_roll_up(recent.counts, index, family),
            _scoped_roll_up(self.lately[labels], index, family),
        )


def make_maps(families: Mapping[str, FamilyState], counts: MapCounts, index: CellIndex) -> None:
    """Give every family that hides something new merge maps.

    Args:
        families: by name, those that are refined first.
        counts: of the last weeks.
        index: what all cells mean.
    """
    made: list[FamilyState] = []
    for state in families.values():
        if state.family.k == 1 or not state.family.attributes:
            continue
        parents = [families[name] for name in state.family.parents if families[name].rows]
        if len(state.family.attributes) == 1:
            _make_alone(state, parents, counts, index)
        else:
            _make_crossed(state, parents, _shown(counts, kept_out(made, index), index), index)
        made.append(state)


def _make_alone(
    state: FamilyState, parents: Sequence[FamilyState], counts: MapCounts, index: CellIndex
) -> None:
    """The maps of one attribute, and what is left out of all families because of it."""
    family, before = state.family, state.label_pooling
    rolled = counts.of(index, family, labels=False)
    need = _need(family.k, counts.decided.span, POOL_PERIOD)
    within = [one.map_of(labels=False) for one in parents]
    state.pooling = merge_map(
        rolled, family.attributes, family.k, need=need, within=within, before=state.pooling
    )
    _pool_dominated(state, counts, index)
    _leave_out(state, rolled, counts.decided.span)
    _pool_labels(state, parents, counts, index, before)


def _make_crossed(
    state: FamilyState, parents: Sequence[FamilyState], counts: MapCounts, index: CellIndex
) -> None:
    """The maps of several attributes."""
    family = state.family
    rolled = counts.of(index, family, labels=False)
    need = _need(family.k, counts.decided.span, CELL_PERIOD)
    within = [one.map_of(labels=False) for one in parents]
    pooling = merge_map(
        rolled, family.attributes, family.k, need=need, within=within, before=state.pooling
    )
    labelled = pooling
    if counts.labelled.day_ended:
        rolled = counts.of(index, family, labels=True)
        need = _slow(state, counts.labelled, CELL_LABEL_PERIOD)
        within = [one.map_of(labels=True) for one in parents]
        labelled = label_map(rolled, pooling, need, within=within)
    state.use(pooling, labelled)


def _shown(counts: MapCounts, away: tuple[Bools, Bools], index: CellIndex) -> MapCounts:
    """Counts without what is in no table, and without labels that are taken as not given."""
    decided, labelled = counts.decided, counts.labelled
    return replace(
        counts,
        decided=replace(decided, counts=_less(decided.counts, *away, index)),
        labelled=replace(labelled, counts=_less(labelled.counts, *away, index)),
        lately=(_less(counts.lately[0], *away, index), _less(counts.lately[1], *away, index)),
    )


def _pool_dominated(state: FamilyState, counts: MapCounts, index: CellIndex) -> None:
    """Wait no longer for values of which one unit has most decisions, or two have."""
    if counts.last_period is None:
        return
    (name,) = state.family.attributes
    state.use(state.pooling)
    assert state.rows is not None, "called for families that hide something"  # noqa: S101
    tally = state.tally(*counts.last_period, index)
    rest = state.rows.slices.index(atom_text({name: OTHER}))
    rows = shared_rows(tally.units, tally.decisions.sum(axis=1), rest)
    values = (parse_atom(state.rows.slices[row])[name] for row in rows)
    state.pooling = MergeMap({name: tuple(sorted({*values, OTHER}))})


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


def _pool_labels(
    state: FamilyState,
    parents: Sequence[FamilyState],
    given: MapCounts,
    index: CellIndex,
    before: MergeMap | None,
) -> None:
    """Pool labels that come too slowly to be waited for; take them as not given if that is vain."""
    pooling, was_unlabelled, state.unlabelled = state.pooling, state.unlabelled, frozenset()
    assert pooling is not None, "called with a map"  # noqa: S101
    state.use(pooling)
    recent = given.labelled
    if not recent.day_ended:
        return
    counts = pooling.apply(given.of(index, state.family, labels=True))
    counts.values[[text in state.left_out for text in counts.slices]] = 0
    within, need = [one.map_of(labels=True) for one in parents], _slow(state, recent, LABEL_PERIOD)
    labelled = label_map(counts, pooling, need, within=within, before=before)
    state.use(pooling, labelled)
    if labelled == pooling:
        need = _slow(state, recent, OTHER_LABEL_PERIOD)
    flow = Flow.of(labelled.apply(counts))
    (name,) = state.family.attributes
    other = labelled.slices.index(rest := atom_text({name: OTHER}))
    for route in REVIEWED_ROUTES:
        stays = recent.span >= 2 * DAY and (rest, route) not in was_unlabelled
        least = -(-need // POOLING_HYSTERESIS) if stays else need  # not the first map
        if flow.routes[other, route] and flow.labels[other, route] < least:
            state.unlabelled |= {(rest, int(route))}


def _slow(state: FamilyState, recent: Recent, period: int) -> int:
    """Labels of the last weeks below which they come too slowly; fewer than k are shown nowhere."""
    return _need(state.family.k, recent.span, period)


def _less(counts: Counts, left_out: Bools, unlabelled: Bools, index: CellIndex) -> Counts:
    at = np.searchsorted(index.cells, counts.keys)
    values = counts.values.copy()
    values[left_out[at]] = 0
    values[np.ix_(unlabelled[at], LABEL_COUNTERS)] = 0
    return Counts(counts.keys, values)


def _need(k: int, span: int, period: int) -> int:
    return ceil(k * max(1, span / period))


def _scoped_roll_up(counts: Counts, index: CellIndex, family: SliceFamily) -> SliceCounts:
    """The slices of a family, of its use case only."""
    names = tuple(dict.fromkeys((*family.attributes, *(name for name, _ in family.where))))
    rolled = roll_up(counts, index, names)
    if not family.where:
        return rolled
    wanted = {*family.where}
    inside = [wanted <= parse_atom(text).items() for text in rolled.slices]
    chosen = np.flatnonzero(inside)
    part = SliceCounts(
        tuple(rolled.slices[i] for i in chosen.tolist()), rolled.strata, rolled.values[chosen]
    )
    return part.pooled([_only(text, family.attributes) for text in part.slices])


def _only(text: str, attributes: Collection[str]) -> str:
    return atom_text({n: value for n, value in parse_atom(text).items() if n in attributes})
