"""Release blocks: when a family may close one, and which of them a window is made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from adversary.rules import BlockRule
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts.cells import COUNTERS, Counter, Route, Stratum
from monitor.core.privacy.release_blocks import (
    BlockTally,
    Condition,
    Edge,
    Pane,
    Span,
    advance,
    blocks_kept,
    newest_span,
    on_the_hour,
    without,
)
from monitor.core.time import DAY, HOUR, MINUTE

K = 11
STEP = 5 * MINUTE
EDGES = st.lists(st.integers(0, 200), unique=True, min_size=2, max_size=20).map(sorted)


def decided(*rows: Sequence[int]) -> BlockTally:
    """Decisions of each row by route, or only auto_serve."""
    tally = BlockTally.empty(len(rows))
    for row, n in enumerate(rows):
        tally.decisions[row, : len(n)] = n
    return tally


def hours(counts: Sequence[Sequence[int]], start: int = 0) -> list[Pane]:
    """One pane an hour, by row."""
    return [
        Pane(start + (i + 1) * HOUR, decided(*([n] for n in rows))) for i, rows in enumerate(counts)
    ]


def minutes(counts: Sequence[Sequence[int]], start: int = 0) -> list[Pane]:
    """One pane every five minutes, by row."""
    return [
        Pane(start + (i + 1) * STEP, decided(*([n] for n in rows))) for i, rows in enumerate(counts)
    ]


def condition(panes: Sequence[Pane], k: int = K, **more: object) -> Condition:
    settings = {"labels": False, "allowed": {pane.end for pane in panes}, **more}
    return Condition(k, **settings)  # type: ignore[arg-type]


def edges(panes: Sequence[Pane], rows: int = 1, start: int = 0, **more: object) -> list[int]:
    made, _ = advance(start, BlockTally.empty(rows), panes, condition(panes, **more))  # type: ignore[arg-type]
    return [edge.at for edge in made]


class TestTally:
    def test_every_counter_goes_where_it_belongs(self) -> None:
        strata = [
            Stratum(Route.AUTO_SERVE, 1, 0).code,
            Stratum(Route.HUMAN_REVIEW, 0, 2).code,
            Stratum(Route.BLOCKED_BY_EVIDENCE, 0, 0, evidence_passed=False).code,
            Stratum(Route.AUTO_SERVE, 1, 0, probe=True).code,
            Stratum(Route.HUMAN_REVIEW, 0, 0, evidence_passed=False).code,
            Stratum(Route.AUTO_SERVE, 1, 0).code,
        ]
        values = np.zeros((6, COUNTERS), np.int64)
        values[:, Counter.N] = [9, 7, 5, 100, 3, 100]
        values[:, Counter.LABELLED] = [4, 6, 5, 100, 2, 100]
        values[:, Counter.READY] = [1, 6, 5, 100, 2, 100]
        found = BlockTally.of(2, np.array([0, 0, 1, 1, 1, -1]), np.array(strata), values)
        assert found.decisions.tolist() == [[9, 7, 0], [0, 3, 5]]
        assert found.labels.tolist() == [[[3, 1], [0, 6]], [[0, 0], [0, 0]]]

    def test_none_or_enough_of_every_row(self) -> None:
        assert BlockTally.empty(2).decided(K)
        assert decided([0], [K]).decided(K)
        assert decided([6, 0, 5], [K]).decided(K)
        assert not decided([K - 1], [100]).decided(K)
        assert not decided([1], [0]).decided(K)

    def test_labels_are_counted_in_each_route_by_itself(self) -> None:
        labels = np.array([[[5, 6], [0, 0]], [[0, 0], [K, 0]]])
        assert BlockTally(np.zeros((2, 3), np.int64), labels).labelled(K)
        labels[1, 0, 0] = 1
        assert not BlockTally(np.zeros((2, 3), np.int64), labels).labelled(K)

    def test_a_correction_may_leave_fewer_than_none(self) -> None:
        labels = np.array([[[-1, 2], [0, 0]]])
        assert not BlockTally(np.zeros((1, 3), np.int64), labels).labelled(K)

    def test_stronger_rules(self) -> None:
        decisions, both = Condition(K, False, ()), Condition(K, True, ())
        by_route = BlockRule(routes=True)
        assert not by_route.holds(decisions, decided([6, 5, 0]))
        assert by_route.holds(decisions, decided([K, 0, K]))
        labels = BlockTally(np.zeros((1, 3), np.int64), np.array([[[5, 6], [0, 0]]]))
        assert both.holds(labels)
        assert not BlockRule(values=True).holds(both, labels)

    def test_sums(self) -> None:
        both = decided([1, 2, 3]) + decided([10, 0, 1])
        assert both.decisions.tolist() == [[11, 2, 4]]


class TestAdvance:
    def test_an_edge_where_every_row_has_none_or_enough(self) -> None:
        panes = hours([(11, 0), (5, 0), (6, 3), (0, 8), (0, 0), (11, 11)])
        assert edges(panes, 2) == [1 * HOUR, 4 * HOUR, 5 * HOUR, 6 * HOUR]

    def test_what_is_left_is_the_open_block(self) -> None:
        panes = hours([(11,), (5,), (4,)])
        made, tail = advance(0, BlockTally.empty(1), panes, condition(panes))
        assert made == [Edge(HOUR)]
        assert tail.decisions.sum() == 9

    def test_the_open_block_goes_on_where_it_was(self) -> None:
        panes = hours([(5,), (3,), (3,), (9,), (2,)])
        at_once = advance(0, BlockTally.empty(1), panes, condition(panes))
        for cut in range(len(panes)):
            first, tail = advance(0, BlockTally.empty(1), panes[:cut], condition(panes))
            then, tail = advance(first[-1].at if first else 0, tail, panes[cut:], condition(panes))
            assert [*first, *then] == at_once[0]
            assert tail.decisions.tolist() == at_once[1].decisions.tolist()

    def test_only_where_it_is_allowed(self) -> None:
        panes = hours([(11,), (11,), (11,)])
        assert edges(panes, allowed={2 * HOUR}) == [2 * HOUR]
        assert edges(panes, allowed=()) == []

    def test_a_burned_instant_ends_a_block_whatever_it_holds(self) -> None:
        panes = hours([(3,), (11,), (11,), (2,)])
        made, tail = advance(0, BlockTally.empty(1), panes, condition(panes, burned={HOUR}))
        assert made == [Edge(HOUR, burned=True), Edge(2 * HOUR), Edge(3 * HOUR)]
        assert tail.decisions.sum() == 2

    def test_once_burned_a_block_is_burned_whatever_it_comes_to_hold(self) -> None:
        """The hour before was published; a sum of both could be subtracted from."""
        panes = hours([(11,), (3,), (11,), (11,)])
        rule = condition(panes, allowed={2 * HOUR, 4 * HOUR}, burned={2 * HOUR})
        made, _ = advance(0, BlockTally.empty(1), panes, rule)
        assert made == [Edge(2 * HOUR, burned=True), Edge(4 * HOUR)]

    def test_a_burned_instant_that_is_no_edge_any_more_burns_the_block_that_holds_it(self) -> None:
        panes = hours([(11,), (3,), (11,), (11,)])
        rule = condition(panes, allowed={HOUR, 3 * HOUR, 4 * HOUR}, burned={2 * HOUR})
        at_once, _ = advance(0, BlockTally.empty(1), panes, rule)
        assert at_once == [Edge(HOUR), Edge(3 * HOUR, burned=True), Edge(4 * HOUR)]
        first, tail = advance(0, BlockTally.empty(1), panes[:2], rule)
        then, _ = advance(first[-1].at, tail, panes[2:], rule)
        assert [*first, *then] == at_once, "also where the open block held it already"

    def test_labels_are_looked_at_for_blocks_of_labels(self) -> None:
        few, enough = BlockTally.empty(1), BlockTally.empty(1)
        few.labels[0, 0] = (3, 4)
        enough.labels[0, 0] = (3, 1)
        panes = [Pane(HOUR, few), Pane(2 * HOUR, enough)]
        assert edges(panes, labels=True) == [2 * HOUR]
        assert edges(panes, labels=False) == [HOUR, 2 * HOUR], "no decisions are enough"

    @given(st.lists(st.integers(0, 40), min_size=1, max_size=40), st.sampled_from([2, 5, 11]))
    def test_every_block_holds_none_or_k(self, counts: list[int], k: int) -> None:
        panes = minutes([(n,) for n in counts])
        made = [0, *edges(panes, k=k)]
        for start, end in pairwise(made):
            inside = sum(counts[start // STEP : end // STEP])
            assert inside == 0 or inside >= k

    @given(
        st.lists(st.tuples(*[st.integers(0, 15)] * 4), min_size=1, max_size=30),
        st.sampled_from([2, 5, 11]),
        st.sets(st.integers(1, 30)),
    )
    def test_time_is_laminar(self, counts: list[tuple[int, ...]], k: int, before: set[int]) -> None:
        """Blocks are unions of those that are refined, and of former ones; all rows have enough."""
        sums = [(a + b, c + d) for a, b, c, d in counts]
        former = {hour * HOUR for hour in before}
        parent = edges(hours(sums), 2, k=k, allowed=former)
        child = edges(hours(counts), 4, k=k, allowed={*parent})
        assert {*child} <= {*parent} <= former
        for made, rows in ((parent, sums), (child, counts)):
            for start, end in pairwise([0, *made]):
                inside = np.sum(rows[start // HOUR : end // HOUR], axis=0)
                assert not ((inside > 0) & (inside < k)).any()


class TestBetweenHours:
    """A 5-minute edge is made only if the hour's own edge will not be missed for it."""

    def test_where_the_rest_should_bring_twice_what_is_needed(self) -> None:
        panes = minutes([(4,)] * 12)
        # 11 are there after 15 minutes, and 36 are to come in the rest at this pace.
        assert edges(panes)[0] == 3 * STEP
        assert edges(panes)[-1] == HOUR

    def test_not_where_it_should_not(self) -> None:
        panes = minutes([(2,)] * 12)
        # 12 are there after half an hour, but no more than 12 are to come.
        assert edges(panes) == [HOUR]

    @pytest.mark.parametrize(("still", "made"), [(6, [6 * STEP, HOUR]), (7, [HOUR])])
    def test_at_exactly_twice(self, still: int, made: list[int]) -> None:
        panes = minutes([(1,), *[(0,)] * (still - 2), (21,), *[(1,)] * (11 - still), (11,)])
        assert edges(panes) == made

    def test_not_in_a_block_of_an_earlier_hour(self) -> None:
        """Else it would be a block of hours that ends between them."""
        panes = minutes([(1,)] * 12 + [(100,)] * 12)
        assert edges(panes[:12], k=13) == []
        assert edges(panes, k=13) == [2 * HOUR]

    def test_the_slowest_row_decides(self) -> None:
        panes = minutes([(40, 3)] * 12)
        assert edges(minutes([(40,)] * 12))[0] == STEP
        assert edges(panes, 2) == [4 * STEP, HOUR]

    def test_an_hour_without_anything_ends_like_any_other(self) -> None:
        panes = minutes([(0,)] * 24)
        assert edges(panes) == [i * STEP for i in range(1, 25)]

    def test_where_the_pace_breaks_down_the_hour_is_missed(self) -> None:
        panes = minutes([(11,), *[(0,)] * 10, (3,), *[(8,)] * 12])
        found = edges(panes)
        assert found[0] == STEP
        assert HOUR not in found
        assert 2 * HOUR in found

    @given(st.lists(st.integers(0, 12), min_size=24, max_size=48))
    def test_windows_of_hours_find_their_edges_among_the_fine_ones(self, counts: list[int]) -> None:
        """An edge between hours lies in a block that begins within its own hour."""
        found = [0, *edges(minutes([(n,) for n in counts]))]
        for start, end in pairwise(found):
            assert end % HOUR == 0 or start // HOUR == end // HOUR


class TestSpans:
    @given(EDGES, st.integers(1, 300))
    def test_the_shortest_run_of_newest_blocks(self, found: list[int], length: int) -> None:
        span = newest_span(found, length)
        assert span is not None
        assert span.end == found[-1]
        starts = [edge for edge in found[:-1] if found[-1] - edge >= length]
        assert span.start == (max(starts) if starts else found[0])

    def test_before_the_first_block(self) -> None:
        assert newest_span([], 5) is None
        assert newest_span([3], 5) is None

    @given(EDGES, st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=4))
    def test_excluded_blocks_go_as_a_whole(
        self, found: list[int], bad: list[tuple[int, int]]
    ) -> None:
        excluded = [Span(start, start + length) for start, length in bad]
        kept = without(Span(found[0], found[-1]), found, excluded)
        inside = {at for span in kept for at in range(span.start, span.end)}
        for start, end in pairwise(found):
            touched = any(b.start < end and start < b.end for b in excluded)
            assert inside.isdisjoint(range(start, end)) == touched
            assert touched or inside.issuperset(range(start, end))
        for before, after in pairwise(kept):
            assert before.end < after.start, "runs are joined"

    def test_what_lies_on_the_hour(self) -> None:
        assert on_the_hour([0, STEP, HOUR, HOUR + STEP, 3 * HOUR]) == [0, HOUR, 3 * HOUR]

    def test_closed_panes_outlast_every_window(self) -> None:
        assert blocks_kept(3 * DAY) == 63 * DAY
        assert blocks_kept(60 * DAY) == 95 * DAY
