"""One family as it is released: what of its state is kept."""

from __future__ import annotations

import json
from dataclasses import replace

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


def test_what_was_published_under_another_map_is_known_as_far_as_it_goes() -> None:
    """Of decisions and of labels apart: they end elsewhere, and have maps of their own."""
    state = state_of()
    state.use(MergeMap({"channel": ("chat", "email")}), MergeMap({"channel": ("chat",)}))
    state.edges, state.label_edges = [0, 3 * HOUR], [0, 6 * HOUR]
    state.remember()
    again = FamilyState(state.family)
    assert again.restore(state.stored())
    (former,) = again.former

    assert former == state.former[0]
    assert former.known(2 * HOUR, labels=False) == {"channel": ("chat", "email")}
    assert former.known(3 * HOUR, labels=False) == {"channel": ("chat",)}, "labels were shown"
    assert former.known(5 * HOUR, labels=True) == {"channel": ("chat",)}
    assert former.known(6 * HOUR, labels=False) is None


def test_a_map_that_was_used_twice_is_known_as_far_as_it_ever_went() -> None:
    state = state_of()
    state.edges = [0, 9 * HOUR]
    state.remember()
    state.begin(0)
    state.edges = [0, 4 * HOUR]
    state.remember()
    assert [one.until for one in state.former] == [9 * HOUR]


def test_former_maps_of_older_releases_were_of_decisions_and_labels() -> None:
    state = state_of()
    stored = state.stored()
    assert stored is not None
    body = json.loads(stored.body)
    del body["labelled"]
    body["former"] = [[5 * HOUR, {"channel": ["email"]}, []]]
    again = FamilyState(state.family)
    assert again.restore(replace(stored, body=json.dumps(body)))
    (former,) = again.former
    assert (former.until, former.label_until) == (5 * HOUR, 5 * HOUR)
    assert former.kept == former.labelled == {"channel": ("email",)}
    assert again.label_pooling == again.pooling
