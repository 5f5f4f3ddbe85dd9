"""One family as it is released: what of its state is kept."""

from __future__ import annotations

import numpy as np

from monitor.core.counts.cells import COUNTERS
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.dominance import UNIT_COUNTS
from monitor.core.privacy.families import SliceFamily
from monitor.core.privacy.pooling import MergeMap
from monitor.core.privacy.release_blocks import Edge, Span
from monitor.core.time import HOUR, Grain
from monitor.evaluate.blocks.family_state import FamilyState, PaneRun
from monitor.ports import PaneUnits

K = 11
EMPTY = np.empty(0, np.int64)


def state_of(k: int = K) -> FamilyState:
    state = FamilyState(SliceFamily("replies", ("channel",), k=k))
    state.use(MergeMap({"channel": ("chat",)}))
    state.begin(0)
    return state


def nothing(hours: int) -> PaneRun:
    """Hours without a decision: every one of them may be an edge."""
    ends = [hour * HOUR for hour in range(1, hours + 1)]
    cells = CellIndex(EMPTY, EMPTY, EMPTY, {})
    units = PaneUnits(int(Grain.HOUR), EMPTY, EMPTY, np.empty((0, UNIT_COUNTS), np.int64))
    return PaneRun(ends, EMPTY, EMPTY, np.empty((0, COUNTERS), np.int64), cells, units, 0)


def test_what_was_burned_stays_so_where_it_is_no_edge_any_more() -> None:
    """Other settings took the edge away, and the service was started again."""
    state = state_of()
    state.abandon(2 * HOUR, labels=False)
    assert state.abandoned_spans(labels=False) == [Span(0, 2 * HOUR)]
    state.begin(0)
    again = state_of()
    assert again.restore(state.stored())
    made = again.take(nothing(5), {HOUR, 4 * HOUR, 5 * HOUR}, labels=False)
    assert made == [Edge(HOUR), Edge(4 * HOUR, burned=True), Edge(5 * HOUR)]
    assert again.abandoned_spans(labels=False) == [Span(HOUR, 4 * HOUR)]
    assert not again.abandoned_spans(labels=True)


def test_it_stays_so_under_other_settings_too() -> None:
    state = state_of()
    state.abandon(2 * HOUR, labels=True)
    state.begin(0)
    again = state_of(k=20)
    assert not again.restore(state.stored())
    made = again.take(nothing(3), {3 * HOUR}, labels=True)
    assert made == [Edge(3 * HOUR, burned=True)]
