"""The release computes on whatever closed panes it is handed: no database is needed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from monitor.core.counts.cells import COUNTERS, Counter, Counts, Int64s, Route, Stratum
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy.dominance import UNIT_COUNTS
from monitor.core.privacy.families import SliceFamily
from monitor.core.time import DAY, HOUR, Grain, pane_of
from monitor.evaluate.blocks.closing import begin_release, close_panes, load_release, sift
from monitor.evaluate.blocks.merge_maps import MAP_SPAN
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.ports import PaneUnits
from monitor.store.evaluator.release_blocks import StoredRelease

K = 11
START = 20_000 * DAY
KEPT = 70 * DAY
EMPTY = np.empty(0, np.int64)
TOTAL = SliceFamily("replies", k=K)
CHANNEL = SliceFamily("replies", ("channel",), k=K, parents=("replies/",))
CHAT, PHONE = 0, 1
CODE = Stratum(Route.AUTO_SERVE, 0, 0).code
INDEX = CellIndex(
    np.array([CHAT, PHONE]),
    np.array([0, 1]),
    np.array([CODE, CODE]),
    {0: "channel=chat", 1: "channel=phone"},
)


@dataclass
class Panes:
    """Closed counts in memory: ``n`` decisions of a cell at an instant.

    Attributes:
        reads: the panes that were asked for.
    """

    decisions: list[tuple[int, int, int]] = field(default_factory=list)
    reads: list[tuple[Grain, int, int]] = field(default_factory=list)

    def first_hour(self) -> int | None:
        return min((pane_of(at, Grain.HOUR) for at, _, _ in self.decisions), default=None)

    def rows(self, grain: Grain, first: int, end: int) -> tuple[Int64s, Int64s, Int64s]:
        self.reads.append((grain, first, end))
        found = sorted(
            (pane, cell, n)
            for at, cell, n in self.decisions
            if first <= (pane := pane_of(at, grain)) < end
        )
        values = np.zeros((len(found), COUNTERS), np.int64)
        values[:, Counter.N] = [n for _, _, n in found]
        panes, cells = (np.array([row[i] for row in found], np.int64) for i in (0, 1))
        return panes, cells, values

    counted = rows

    def counted_sums(self, grain: Grain, first: int, end: int) -> Counts:
        _, cells, values = self.rows(grain, first, end)
        return Counts.of(cells, values)

    def held_back_sums(self, first: int, end: int) -> Counts:
        return Counts.empty()

    def units(self, grain: Grain, first: int, end: int) -> PaneUnits:
        return PaneUnits(int(grain), EMPTY, EMPTY, np.empty((0, UNIT_COUNTS), np.int64))


def steady(hours: int, chat: int = 2 * K, phone: int = 2 * K) -> Panes:
    """So many decisions of each value at the start of every hour."""
    at = [START + hour * HOUR for hour in range(hours)]
    return Panes([(a, cell, n) for a in at for cell, n in ((CHAT, chat), (PHONE, phone)) if n])


def new(*families: SliceFamily) -> ReleaseBlocks:
    return ReleaseBlocks.restore(StoredRelease(), families or (TOTAL, CHANNEL), KEPT)


def close(release: ReleaseBlocks, panes: Panes, hours: int, late: int = 0) -> bool:
    """So many hours to decisions, ``late`` ones fewer to labels."""
    if not begin_release(release, panes):
        return False
    until, closed = START + hours * HOUR, False
    while (stop := release.next_stop(until)) is not None:
        closed |= close_panes(release, panes, INDEX, stop, stop - late * HOUR, stop=True)
        sift(release, panes, INDEX, stop)
    return closed | close_panes(release, panes, INDEX, until, until - late * HOUR)


def edges(release: ReleaseBlocks, name: str) -> list[int]:
    """Hours since the start at which blocks of decisions end, those on the hour."""
    found = release.families[name].edges
    return [(at - START) // HOUR for at in found if at % HOUR == 0]


def stored(release: ReleaseBlocks, before: StoredRelease | None = None) -> StoredRelease:
    """What a store would hold after the changes are committed."""
    change, before = release.taken(), before or StoredRelease()
    kept = [edge for edge in before.edges if edge.family not in change.anew]
    maps = {name: one for name, one in before.maps.items() if name not in change.anew}
    order = sorted([*kept, *change.edges], key=lambda edge: edge.at)
    return StoredRelease({**before.marks, **change.marks}, order, {**maps, **change.maps})


def test_nothing_is_closed_before_the_first_decision() -> None:
    release = new()
    assert not close(release, Panes(), 5)
    assert (release.begins, release.decisions) == (None, None)
    change = release.taken()
    assert (change.edges, change.maps, change.marks.get("begins")) == ((), {}, None)


def test_every_hour_with_enough_decisions_is_a_block() -> None:
    release, panes = new(), steady(30)
    assert close(release, panes, 30)
    assert edges(release, "replies/") == list(range(31))
    assert edges(release, "replies/channel") == list(range(31))
    assert (release.begins, release.decisions) == (START, START + 30 * HOUR)


def test_a_block_stays_open_until_every_row_has_enough() -> None:
    release = new(TOTAL)
    close(release, steady(4, chat=K // 2 + 1, phone=0), 4)
    assert edges(release, "replies/")[:3] == [0, 2, 4]
    assert release.families["replies/"].tail.decisions.sum() == 0


def test_nothing_new_is_nothing_to_do_and_reads_nothing() -> None:
    release, panes = new(), steady(30)
    close(release, panes, 30)
    panes.reads.clear()
    assert not close(release, panes, 30)
    assert panes.reads == []
    assert close(release, panes, 31)
    assert all(end - first <= 12 for _, first, end in panes.reads), "only what is new is read"


def test_changes_are_taken_once() -> None:
    release = new()
    close(release, steady(30), 30)
    change = release.taken()
    assert change.anew == {"replies/", "replies/channel"}
    assert set(change.maps) == change.anew
    again = release.taken()
    assert (again.anew, again.edges, again.maps) == (frozenset(), (), {})
    assert again.marks == change.marks


def test_a_restart_midway_is_seen_in_nothing() -> None:
    panes = steady(40, chat=K - 4, phone=K - 4)
    whole, one = new(), new()
    kept = StoredRelease()
    for hours in range(26, 41, 3):
        close(whole, panes, hours)
        close(one, panes, hours)
        kept = stored(one, kept)
        one = load_release(kept, panes, (TOTAL, CHANNEL), INDEX, KEPT, live=True)
    for name, state in whole.families.items():
        assert one.families[name].edges == state.edges
        assert one.families[name].pooling == state.pooling
        same = one.families[name].tail.decisions == state.tail.decisions
        assert same.all()
    assert stored(whole).marks == kept.marks


def test_before_a_full_day_a_group_by_has_no_map_and_no_block() -> None:
    release, panes = new(), steady(30)
    close(release, panes, 23)
    assert release.families["replies/channel"].pooling is None
    assert edges(release, "replies/channel") == [0]
    close(release, panes, 24)
    assert release.families["replies/channel"].pooling is not None


@pytest.mark.parametrize(("late", "reads"), [(0, 1), (24, 2)], ids=["at once", "labels later"])
@pytest.mark.full
def test_maps_are_made_of_the_last_weeks_alone(late: int, reads: int) -> None:
    """What is older is not even read for them; they are made first, then come all blocks."""
    release, panes = new(), steady(32 * 24)
    close(release, panes, 30 * 24, late)
    panes.reads.clear()
    close(release, panes, 32 * 24, late)  # a Monday lies between
    spans = [(end - first) * HOUR for grain, first, end in panes.reads if grain is Grain.HOUR]
    assert spans[:reads] == [MAP_SPAN] * reads, "of decisions, and of labels"
    assert spans[reads] < MAP_SPAN


def test_an_open_block_that_waits_for_a_row_left_out_is_abandoned() -> None:
    release, panes = new(), steady(30)
    close(release, panes, 30)
    state = release.families["replies/channel"]
    assert state.rows is not None
    panes.decisions += [(START + 30 * HOUR, PHONE, 1), (START + 31 * HOUR, CHAT, 2 * K)]
    close(release, panes, 31)
    assert edges(release, "replies/channel")[-1] == 30, "one decision is too few"
    release.families["replies/"].edges.append(START + 31 * HOUR)
    state.left_out, release._masks = frozenset({"channel=phone"}), None
    (opened,) = release.abandon(INDEX)
    assert (opened.state, opened.start, opened.end) == (state, START + 31 * HOUR, release.decisions)
    assert START + 31 * HOUR in state.abandoned
    assert [edge.at for edge in release.taken().edges if edge.abandoned] == [START + 31 * HOUR]
