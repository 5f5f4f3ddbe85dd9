"""Late counts attacked by exact sums: where group-bys cross, maps change, labels are taken back.

Worlds are laid out by hand, since random ones do not leak. Every one has a control: the same
attacker finds what is hidden where the rule that hides it is off.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adversary.service import settings_text
from adversary.week_sums import CORRECTED, DECISIONS, LABELS, Kind, Known
from adversary.worlds import AUTO, DAY, HOUR, REVIEW, START, World
from laid import Atom, Laid, laid_world
from releasing import MARGIN, K, Releasing, Row, released, small_cells

from monitor.core.counts.cells import Int64s
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy import release_blocks as rules
from monitor.core.privacy.release_blocks import Span
from monitor.core.publish.snapshot import decode
from monitor.core.time import WEEK
from monitor.evaluate.blocks import late_counts
from monitor.evaluate.blocks.crossing import CrossedBlock
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.blocks.late_counts import _all_enough
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.evaluator import Evaluator
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.exclusions import Declaration, add_exclusion, lift_exclusion

pytestmark = pytest.mark.full

Between = Callable[[Releasing, int], object]


def atoms_of(made: World) -> list[tuple[tuple[str, str], ...]]:
    return [tuple(sorted(zip(made.names, atom, strict=True))) for atom in made.atoms]


@contextmanager
def attacked(
    made: World, looks: Sequence[int], kind: Kind, before: Between = lambda site, look: None
) -> Iterator[tuple[Releasing, Known]]:
    """Who looks at these hours; labels are waited for longer than these worlds last.

    No gap is tested for meanwhile: that is most of the work, and no block depends on it.
    """
    text = settings_text(made, exact=False).replace('"7d"', '"30d"', 1)
    known = Known(atoms_of(made), kind)
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as name,
        Releasing(made, Path(name), text) as site,
    ):
        patch.setattr(Evaluator, "_detect", lambda *_: False)
        for look in looks:
            before(site, look)
            site.until(START + look * HOUR + 2 * MARGIN)
            known.look(site, {})
        yield site, known


# Group-bys that cross: what is late is known by the marginals of its parts, as a block is.

FOUR = (("x", "p"), ("x", "q"), ("y", "p"), ("y", "q"))
TWO_BY_TWO = {"a": ("x", "y"), "b": ("p", "q")}
Table = Sequence[Sequence[int]]

LEAKING: Table = ((1, 30, 30, 24), (10, 20, 30, 0))
"""Counts of four cells in two parts. The marginals are published for each part, the cells for both
together. Nobody of (y, q) in the second part: so (x, p) had one or none in the first."""


def table(counts: Table, hour: int, hours: int, **more: Any) -> list[Laid]:
    """Parts of so many hours, one after the other; ``more`` says how they come."""
    return [
        Laid(atom, n, hour + i * hours, hours, **more)
        for i, row in enumerate(counts)
        for atom, n in zip(FOUR, row, strict=True)
        if n
    ]


def late_decisions() -> World:
    """One cell has few in the first part, so the block of the intersection has two parts."""
    calm = [*table([[3] * 4] * 25, 0, 1), *table([[22] * 4], 25, 1)]
    whole = [*table([[5, 30, 30, 30], [30] * 4], 26, 1), *table([[22] * 4] * 4, 28, 1)]
    after = [*table([[3] * 4] * 16, 32, 1), *table([[30] * 4] * 3, 48, 1)]
    late = table(LEAKING, 26, 1, arrive=45)
    return laid_world(TWO_BY_TWO, 3, [*calm, *whole, *after, *late])


DECIDED = [*range(25, 34), 46, 49, 51]


def labels(counts: Table, hour: int, **more: Any) -> list[Laid]:
    """All are labelled, on both routes."""
    return [
        Laid(one.atom, one.n, one.hour, one.hours, route, labelled=one.n, **more)
        for route in (AUTO, REVIEW)
        for one in table(counts, hour, 6)
    ]


def around(counts: Table) -> list[Laid]:
    """A day, these counts in its two quarters after midnight, and two and a half days."""
    return labels([*[[60] * 4] * 4, *counts, *[[60] * 4] * 10], 0)


def late_labels() -> World:
    parts = around([[5, 60, 60, 60], [60] * 4])
    return laid_world(TWO_BY_TWO, 4, [*parts, *labels(LEAKING, 24, said=64)])


LABELLED = [*range(24, 60, 12), 72, 84]
LATE = {
    "decisions": (late_decisions, DECIDED, DECISIONS),
    "labels": (late_labels, LABELLED, LABELS),
}


@pytest.mark.parametrize("what", LATE)
def test_late_counts_of_group_bys_that_cross_wait_where_parts_tell(what: str) -> None:
    make, looks, kind = LATE[what]
    with attacked(make(), looks, kind) as (site, known):
        assert known.leaks(90) == []
        edges = site.kept().edges["replies/a+b", kind is LABELS]
        first = START + (24 if kind is LABELS else 26) * HOUR
        assert first in edges
        assert first + (6 if kind is LABELS else 1) * HOUR not in edges, "it has two parts"


@pytest.mark.parametrize("what", LATE)
def test_by_their_rows_alone_they_would_tell(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_counts, "_hides", lambda *_: True)
    make, looks, kind = LATE[what]
    with attacked(make(), looks, kind) as (_, known):
        found = known.leaks(90)
        assert len(found) == kind.columns
        assert all("1 is 0.00 to 1.00" in leak for leak in found)


# Labels that are taken back: what is left of a row, and of a part of it.


def few_left() -> World:
    """Of 18 labels of a value in a block 12 are taken back."""
    parts = [Laid(("x",), 120, 24 * day, 24, labelled=120) for day in range(4)]
    parts += [Laid(("y",), 40, 24 * day, 24, labelled=40) for day in (0, 2, 3)]
    parts += [Laid(("y",), 12, 24, 24, labelled=12), Laid(("y",), 12, 30, 6, labelled=12, taken=66)]
    return laid_world({"a": ("x", "y")}, 4, parts)


TAKEN: Table = ((4, 11, 11, 11), (11, 11, 11, 11))


def leaking_left() -> World:
    """What is left of a block of an intersection is what tells of its parts."""
    parts = around(LEAKING)
    return laid_world(TWO_BY_TWO, 4, [*parts, *labels(TAKEN, 24, taken=64)])


def left(made: World) -> tuple[list[str], list[str]]:
    """Small rows of blocks, and small cells of parts that who looks afterwards knows too well."""
    with attacked(made, LABELLED, CORRECTED) as (site, known):
        later = Known(known.atoms, LABELS)
        later.look(site, {})
        parts = [leak for atom in range(len(made.atoms)) for leak in later.leaks_of((atom,))]
        return small_cells(site.engine, site.kept(), K), parts


def test_labels_that_are_taken_back_leave_no_small_row() -> None:
    assert left(few_left()) == ([], [])


def test_labels_that_are_taken_back_leave_nothing_that_parts_tell() -> None:
    assert left(leaking_left()) == ([], [])


@pytest.mark.parametrize(("make", "found"), [(few_left, (1, 2)), (leaking_left, (0, 2))])
def test_counted_as_changes_alone_they_would(
    make: Callable[[], World], found: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_counts._Region, "taken_back", property(lambda _: False))
    rows, parts = left(make())
    assert (len(rows), len(parts)) == found


# Labels across merge maps. A value is named, pooled and named again; another one is pooled, named
# and pooled meanwhile; the labels of the first span come late in the second one.

RARE = [f"w{i}" for i in range(6)]
BEGINS, CHANGES, AGAIN = 4, 7, 14
"""Days: a Friday, and the Mondays of two weeks, on which maps are made."""

NAMED = {
    "v": dict.fromkeys(range(CHANGES, 16), 40),
    "u": {4: 3, 5: 20, 6: 20, **dict.fromkeys(range(CHANGES, 16), 1)},
}
LATE_OF = {"x": 22, "v": 3, **dict.fromkeys(RARE, 2)}
"""Besides those of each day. With those of the values that are always pooled ``v`` has enough."""

SPANS = [24 * day for day in (5, 6, 7, 8, 9, 11, 13, 14, 15)]


def swapping(how: str, route: int) -> World:
    """Late are first labels, corrections, or that labels are taken back."""
    days = range(BEGINS, 16)
    flows = {"x": dict.fromkeys(days, 240), **{value: dict.fromkeys(days, 8) for value in RARE}}
    parts = [
        Laid((value,), n, 24 * day, 24, route, labelled=n)
        for value, counts in {**flows, **NAMED}.items()
        for day, n in counts.items()
    ]
    for first, hours, n in ((0, 2, 2), (6, 18, 11)):
        parts.append(Laid(("v",), n, 24 * BEGINS + first, hours, route, labelled=n))
    parts += [
        Laid((value,), n, 24 * BEGINS + 6, 6, route, labelled=n, **{how: 200})
        for value, n in LATE_OF.items()
    ]
    return laid_world({"a": ("x", *NAMED, *RARE)}, 16, parts)


@contextmanager
def named_by_turns(
    how: str, route: int, before: Between = lambda site, look: None
) -> Iterator[tuple[Releasing, Known]]:
    """Who looks through the three spans; of corrections the labels that have any are counted."""
    kind = LABELS if how == "said" else CORRECTED
    with attacked(swapping(how, route), SPANS, kind, before) as found:
        yield found


WAYS = [("said", AUTO), ("said", REVIEW), ("corrected", REVIEW), ("taken", AUTO)]


@pytest.mark.parametrize(("how", "route"), WAYS)
def test_late_labels_of_a_value_that_is_named_by_turns_give_nothing_away(
    how: str, route: int
) -> None:
    maps: list[tuple[str, ...]] = []

    def note(site: Releasing, _: int) -> None:
        if now := site.kept().label_maps.get("replies/a"):
            maps.append(now["a"])

    with named_by_turns(how, route, note) as (site, known):
        turns = [(value in maps[0], value in maps[4], value in maps[-1]) for value in NAMED]
        assert turns[0] == (True, False, True)
        assert maps[4] == ("__other__", "u", "x")
        assert "u" not in maps[-1]
        assert known.leaks(60) == []
        assert small_cells(site.engine, site.kept(), K) == []


def forgetful(*arguments: Any, since: int) -> bool:
    """The rule as it would be by the rows of the day alone."""
    return _all_enough(*arguments, since=2**62)


@pytest.mark.parametrize(("how", "route"), [("said", REVIEW), ("taken", AUTO)])
def test_by_the_rows_of_the_day_their_labels_would(
    how: str, route: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_counts, "_all_enough", forgetful)
    with named_by_turns(how, route) as (_, known):
        assert len(known.leaks(60)) >= 3, "those of each hour"


# Group-bys that cross, and merge maps: nobody is late. The intersection names ``v`` first, ``u``
# afterwards, so their sums tell the rest, ``w``: of it nobody takes the place of ``u``.

MET = 8 * 24 + 12
"""The hour in which a block of all begins."""

PARTS: Mapping[Atom, tuple[int, int]] = {
    **{("u", "p"): (1, 10), ("u", "q"): (30, 20), ("x", "p"): (30, 30), ("x", "q"): (24, 0)},
    **{("v", "q"): (11, 11), ("w", "p"): (15, 12), ("w", "q"): (12, 0)},
}
"""By the map that names ``u``, some of ``v`` and of ``w`` in one row seem to exchange with it."""


def crossed_by_turns() -> World:
    parts: list[Laid] = []

    def daily(atom: Atom, n: int, day: int) -> None:
        for first, hours in ((0, 11), (16, 8)) if day == MET // 24 else ((0, 24),):
            parts.append(Laid(atom, n * hours // 24, 24 * day + first, hours))

    for day in range(BEGINS, AGAIN + 1):
        for row, rare in (("p", range(1, 6)), ("q", range(6, 10))):
            daily(("x", row), 96, day)
            for i in rare:
                daily((f"w{i}", row), 8, day)
            if day >= 10:
                daily(("u", row), 30, day)
        daily(("w", "q"), 5, day)
    parts.append(Laid(("v", "q"), 20, 24 * BEGINS + 12))
    for hour in (MET - 1, MET + 2):  # so many that everything ends a block
        for row, rare in (("p", range(1, 6)), ("q", range(6, 10))):
            parts += [Laid(("x", row), 22, hour), *(Laid((f"w{i}", row), 6, hour) for i in rare)]
    parts += [Laid(("u", row), 22, MET + 2) for row in "pq"]
    for atom, counts in PARTS.items():
        parts += [Laid(atom, n, MET + i) for i, n in enumerate(counts) if n]
    values = ("x", "v", "u", "w", *(f"w{i}" for i in range(1, 10)))
    return laid_world({"a": values, "b": ("p", "q")}, AGAIN + 1, parts)


TURNS = [24 * 5, 24 * 7, *range(MET, MET + 5), 24 * 11, 24 * AGAIN + 1]


@contextmanager
def crossing_by_turns() -> Iterator[tuple[Releasing, Known]]:
    with attacked(crossed_by_turns(), TURNS, DECISIONS) as (site, known):
        named = {values for rows in known.rows for name, values in rows.names if name == "a"}
        assert {("__other__", "v", "x"), ("__other__", "u", "x")} <= named
        yield site, known


def leaks_of_few(known: Known) -> list[str]:
    """What is known of those of ``u`` who are in the first part."""
    return known.leaks_of((known.atoms.index((("a", "u"), ("b", "p"))),))


def test_two_maps_of_an_intersection_do_not_tell_its_parts() -> None:
    with crossing_by_turns() as (site, known):
        assert leaks_of_few(known) == []
        edges = site.kept().edges["replies/a+b", False]
        hours = [at for at in range(MET, MET + 4) if START + at * HOUR in edges]
        assert hours == [MET, MET + 3], "the block that told waits for an hour"


def test_by_the_rows_of_the_present_map_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: parts that two maps have in common were asked how many they have, no more."""

    def cross(
        self: FamilyState,
        at: Int64s,
        cells: Int64s,
        values: Int64s,
        index: CellIndex,
        *,
        labels: bool,
    ) -> None:
        if self.crossings:
            where = np.searchsorted(index.cells, cells)
            rows = self.rows_of(labels).of(index)[where]
            self.crossings[labels].add(at, rows, where, values, index)

    def crossed(self: FamilyState, labels: bool) -> CrossedBlock:
        assert self.axes
        return CrossedBlock(self.axes, self.rows_of(labels).slices)

    monkeypatch.setattr(FamilyState, "cross", cross)
    monkeypatch.setattr(FamilyState, "_crossed", crossed)
    with crossing_by_turns() as (_, known):
        (leak,) = leaks_of_few(known)
        assert "1 is 0.00 to 1.00" in leak


# The same labels while their span is excluded, and is not any more; while its hours are deleted.

CUT = Span(START + BEGINS * DAY + 7 * HOUR, START + BEGINS * DAY + 9 * HOUR)
DECLARED = {
    24 * 8: lambda site: add_exclusion(site.engine, Declaration(CUT, None, "bad", "tests"), START),
    24 * 11: lambda site: lift_exclusion(site.engine, 1, START),
    24 * 14: lambda site: add_exclusion(site.engine, Declaration(CUT, None, "bad", "tests"), START),
    24 * 15: lambda site: lift_exclusion(site.engine, 2, START),
}


def declare(site: Releasing, look: int) -> None:
    """Exclude, or lift; every second look begins from the store."""
    if look in DECLARED:
        DECLARED[look](site)
    if SPANS.index(look) % 2:
        site.restart()


def test_nor_do_they_while_their_span_is_excluded_and_lifted() -> None:
    with named_by_turns("said", AUTO, declare) as (site, known):
        shown = [decode(body).contracts[0].windows for body in site.snapshots()]
        said = [any(window.excluded for window in windows) for windows in shown]
        assert said == [look in (24 * 8, 24 * 9, 24 * 14) for look in SPANS]
        assert known.leaks(60) == []


def test_while_it_is_excluded_the_rows_of_the_day_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_counts, "_all_enough", forgetful)
    with named_by_turns("said", AUTO, declare) as (_, known):
        assert len(known.leaks(60)) >= 3


def clean(site: Releasing, look: int) -> None:
    site.clean(START + look * HOUR)


@pytest.fixture
def soon_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hours of their block are deleted when the third maps are made."""
    monkeypatch.setattr(rules, "_WINDOWS_KEPT", (AGAIN - BEGINS - 30) * DAY - 6 * HOUR)
    monkeypatch.setattr(rules, "_LEAST_KEPT", 0)


@pytest.mark.usefixtures("soon_deleted")
def test_nor_do_they_while_its_hours_are_deleted() -> None:
    with named_by_turns("said", AUTO, clean) as (_, known):
        assert known.hidden()
        assert known.leaks(60) == []


@pytest.mark.usefixtures("soon_deleted")
def test_what_is_left_of_its_blocks_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleaseBlocks, "_abandon_remains", lambda *_, **__: None)
    with named_by_turns("said", AUTO, clean) as (_, known):
        assert known.leaks(60)


# The evaluator is killed before each commit of a stop, at which late labels join blocks and others
# become the rest of a week.

STOP = 24 * 9
"""The first midnight after they have come."""


def joining() -> World:
    """Enough for a block come late, and so few of two blocks that only their week can have them."""
    parts = [
        Laid((value,), 96, 24 * day, 24, labelled=96) for value in ("x", "y") for day in range(10)
    ]
    for day, n in ((1, 22), (3, 6), (5, 6)):
        parts.append(Laid(("x",), 22, 24 * day + 6, 6, labelled=22, said=STOP - 20))
        parts.append(Laid(("y",), n, 24 * day + 6, 6, labelled=n, said=STOP - 20))
    return laid_world({"a": ("x", "y")}, 10, parts)


class Killed(Exception):
    """The process ends before a commit."""


def finish(site: Releasing) -> int:
    """Begin from the store after every commit, until all is done; how often that was.

    At last after two, three and more: what is done at every beginning would be all that is done.
    """
    plain = EvaluatorStore.commit
    with pytest.MonkeyPatch.context() as patch:
        for number in range(20):
            left = [None] * max(1, number - 6)

            def commit(*arguments: Any, left: list[None] = left) -> int | None:
                if not left:
                    raise Killed
                left.pop()
                return plain(*arguments)

            patch.setattr(EvaluatorStore, "commit", commit)
            try:
                assert site.evaluator.cycle()
            except Killed:
                site.restart()
                continue
            return number
    raise AssertionError("it never ends")


Seen = list[tuple[bytes, list[Row], list[Row]]]


def through_the_stop(*, killed: bool) -> Seen:
    """The newest Snapshot and what is released by hour and week, at the stop and a day later."""
    made = joining()
    seen: Seen = []
    text = settings_text(made, exact=False).replace('"7d"', '"30d"', 1)
    with tempfile.TemporaryDirectory() as name, Releasing(made, Path(name), text) as site:
        for look in (24, 48, 24 * 7, 24 * 8, STOP, STOP + 24):
            site.feed.until(START + look * HOUR + 2 * MARGIN)
            if killed and look == STOP:
                assert finish(site) > 4
            assert site.evaluator.cycle()
            if look >= STOP:
                hours, weeks = (
                    sorted(released(site.engine, grain), key=repr) for grain in (HOUR, WEEK)
                )
                seen.append((site.snapshots()[-1], hours, weeks))
    return seen


@pytest.fixture(scope="module")
def uninterrupted() -> Seen:
    seen = through_the_stop(killed=False)
    assert sum(row.labels for row in seen[0][2]) == 2 * (22 + 6), "the rest of a week was taken"
    return seen


def test_killed_before_each_commit_it_publishes_the_same(uninterrupted: Seen) -> None:
    assert through_the_stop(killed=True) == uninterrupted


def test_without_the_day_of_the_last_look_it_would_be_a_day_late(
    uninterrupted: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ReleaseBlocks.restore

    def restore(*arguments: Any) -> ReleaseBlocks:
        made = plain(*arguments)
        made.looked = made.decisions
        return made

    monkeypatch.setattr(ReleaseBlocks, "restore", restore)
    seen = through_the_stop(killed=True)
    assert [one == other for one, other in zip(seen, uninterrupted, strict=True)] == [False, True]
