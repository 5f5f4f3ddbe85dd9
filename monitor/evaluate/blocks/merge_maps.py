"""Merge maps of all families, made once a week from the counts of the last weeks.

What comes too slowly is pooled, left out, or taken as not given: blocks do not wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from monitor.core.counts.cells import OTHER, Counts, atom_text, parse_atom
from monitor.core.counts.rollup import CellIndex, SliceCounts, roll_up
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.dominance import shared_rows
from monitor.core.privacy.families import SliceFamily
from monitor.core.privacy.pooling import Flow, MergeMap, decisions_of, merge_map, unlabelled_rows
from monitor.core.time import DAY, HOUR
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.ports import PaneUnits

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


@dataclass(frozen=True, slots=True)
class Recent:
    """All counts of the closed panes of the last weeks, and how long that is (microseconds).

    With what is held back: a value that is left out could never come back otherwise.
    """

    counts: Counts
    span: int


@dataclass(frozen=True, slots=True)
class MapCounts:
    """Counts that merge maps are made from.

    Attributes:
        decided: of panes that are closed to decisions.
        labelled: of those that are closed to labels.
        last_period: counts and decisions by unit of the last ``POOL_PERIOD``; None before it is
            full.
    """

    decided: Recent
    labelled: Recent
    last_period: tuple[Counts, PaneUnits] | None = None


def make_maps(families: Mapping[str, FamilyState], counts: MapCounts, index: CellIndex) -> None:
    """Give every family that hides something a new merge map.

    Args:
        families: by name, those that are refined first.
        counts: of the last weeks.
        index: what all cells mean.
    """
    for state in families.values():
        family = state.family
        if family.k == 1 or not family.attributes:
            continue
        parents = (families[name].pooling for name in family.parents)
        within = [pooling for pooling in parents if pooling is not None]
        rolled = _scoped_roll_up(counts.decided.counts, index, family)
        alone = len(family.attributes) == 1
        need = _need(family.k, counts.decided.span, POOL_PERIOD if alone else CELL_PERIOD)
        state.pooling = merge_map(
            rolled, family.attributes, family.k, need=need, within=within, before=state.pooling
        )
        if alone:
            _pool_dominated(state, counts, index)
            _leave_out(state, rolled, counts.decided.span)
            _take_as_unlabelled(state, counts.labelled, index)


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


def _take_as_unlabelled(state: FamilyState, recent: Recent, index: CellIndex) -> None:
    """Take labels of a row and route as not given where they come too slowly to be waited for."""
    if recent.span < DAY:
        return
    assert state.pooling is not None, "called with a map"  # noqa: S101
    pooled = state.pooling.apply(_scoped_roll_up(recent.counts, index, state.family))
    (name,) = state.family.attributes
    other = pooled.slices.index(atom_text({name: OTHER}))
    needs = np.full(len(pooled.slices), ceil(state.family.k * recent.span / LABEL_PERIOD))
    needs[other] = ceil(state.family.k * recent.span / OTHER_LABEL_PERIOD)
    wanted = np.stack([needs, needs], axis=1)
    if recent.span >= 2 * DAY:  # not the first map
        rows = {text: row for row, text in enumerate(pooled.slices)}
        stays = np.ones(wanted.shape, bool)
        for text, route in state.unlabelled:
            stays[rows.get(text, other), route] = False
        wanted[stays] = -(-wanted[stays] // POOLING_HYSTERESIS)
    slow = unlabelled_rows(Flow.of(pooled), wanted)
    state.unlabelled = frozenset(
        (pooled.slices[row], route) for row, route in np.argwhere(slow).tolist()
    )


def _need(k: int, span: int, period: int) -> int:
    return ceil(k * max(1, span / period))


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
