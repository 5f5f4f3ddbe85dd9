"""Attacks on what changes with time, by an attacker who knows the exact sum of every row.

Late decisions and labels, corrections, retention, exclusions that are taken back, restarts: each
changes what is published of a time that was published before, so each could be subtracted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adversary.service import settings_text
from adversary.week_sums import CORRECTED, DECISIONS, LABELS, Kind, Known, Window
from adversary.worlds import AUTO, DAY, HOUR, MINUTE, START, Shape, World, make_world
from guarded import Given, world_of
from releasing import Releasing

from monitor.core.counts.cells import Counter
from monitor.core.counts.rollup import CellIndex
from monitor.core.privacy import release_blocks as rules
from monitor.core.privacy.release_blocks import Span
from monitor.core.time import Grain
from monitor.evaluate import evaluator
from monitor.evaluate.blocks import late_counts
from monitor.evaluate.blocks.family_state import FamilyState
from monitor.evaluate.blocks.late_counts import LateCounts, _all_enough
from monitor.evaluate.blocks.release_blocks import ReleaseBlocks
from monitor.evaluate.blocks.windows import split_panes
from monitor.evaluate.publish.publisher import Publisher, TableInputs
from monitor.ports import PaneCounts, PaneUnits
from monitor.store.exclusions import Declaration, add_exclusion, lift_exclusion

pytestmark = pytest.mark.full

KINDS = {"decisions": DECISIONS, "labels": LABELS, "corrections": CORRECTED}
EVERY = 12 * HOUR
SPAN = Span(START + DAY + 7 * HOUR, START + DAY + 9 * HOUR + 20 * MINUTE)
"""Cuts blocks at both ends."""

EXCLUSIONS: Mapping[int, Callable[[Releasing], object]] = {
    3: lambda site: add_exclusion(site.engine, Declaration(SPAN, None, "bad", "tests"), START),
    5: lambda site: lift_exclusion(site.engine, 1, START),
    6: lambda site: add_exclusion(site.engine, Declaration(SPAN, None, "bad", "tests"), START),
}
"""What is declared before a look, and taken back."""


@dataclass
class Followed:
    """What attackers learned of each kind, and every table that was made."""

    known: dict[str, Known]
    windows: list[tuple[Window, set[int]]] = field(default_factory=list)

    def leaks(self, kind: str, most: int = 10) -> list[str]:
        return self.known[kind].leaks(most)


def world(days: float = 6) -> World:
    """Two attributes; some of everything comes late, a tenth of the labels is corrected."""
    made = make_world(4, Shape((3, 2), days=days, busy=150, delay=14, late=0.02, audit=0))
    assert (made.labelled == 0).sum() > 20
    return made


DOWN, SLOW, CORRECTED_HOURS = (range(30, 42), range(48, 72), range(24))
"""Hours of which most decisions come late, most labels, and all labels are corrected."""


def backlog(stragglers: bool) -> World:
    """So many come late together that they are published: of every row some in nearly every hour.

    A producer is down, a team labels days later, what another one labelled is judged anew. With
    ``stragglers`` some labels come late besides, one here and one there.
    """
    shape = Shape((2, 2), days=6.5, busy=190, delay=3, late=0, audit=0, skew=0.2, strays=0)
    made, rng = make_world(36, shape), np.random.default_rng(9)
    says, said_at, labelled, ready = made.says, made.said_at, made.labelled, made.ready
    if not stragglers:
        first, soon = labelled == 1, np.minimum(said_at, made.at[says] + 2 * HOUR)
        says, said_at, labelled, ready = (c[first] for c in (says, soon, labelled, ready))
    hour = (made.at - START) // HOUR
    down = np.isin(hour, DOWN) & (rng.random(len(hour)) < 0.6)
    arrives = made.arrives + np.where(down, 20 * HOUR, 0)
    first, of = labelled == 1, hour[says]
    slow = first & np.isin(of, SLOW) & (rng.random(len(of)) < 0.9)
    days_later = START + 5 * DAY + 12 * HOUR + rng.integers(0, HOUR, len(of))
    said_at = np.maximum(np.where(slow, days_later, said_at), arrives[says])
    anew = first & np.isin(of, CORRECTED_HOURS)
    said_at = np.append(said_at, np.full(anew.sum(), START + 4 * DAY + 15 * HOUR))
    order = np.argsort(said_at, kind="stable")
    columns = (
        np.append(says, says[anew]),
        said_at,
        np.append(labelled, np.zeros(anew.sum(), np.int64)),
        np.append(ready, 1 - 2 * ready[anew]),
    )
    says, said_at, labelled, ready = (column[order] for column in columns)
    return replace(
        made, arrives=arrives, says=says, said_at=said_at, labelled=labelled, ready=ready
    )


def looks(end: int) -> list[int]:
    return [*range(START + DAY + 2 * MINUTE, end + DAY, EVERY)]


@contextmanager
def tables_seen(found: Followed) -> Iterator[None]:
    """Note of what every table is made, and the edges that its family has then."""
    plain = Publisher._inputs

    def inputs(
        self: Publisher, state: FamilyState, decided: Span | None, labelled: Span | None
    ) -> TableInputs:
        made = plain(self, state, decided, labelled)
        for labels, spans in ((False, made.decided_in), (True, made.labelled_in)):
            told = tuple((span.start, span.end) for span in spans)
            edges = {*state.shown_edges(labels=labels)}
            found.windows.append((Window(state.family.name, labels, told), edges))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Publisher, "_inputs", inputs)
        yield


@contextmanager
def followed(
    made: World, kinds: dict[str, Kind], *, clean: bool = False, horizon: str = "7d"
) -> Iterator[Followed]:
    """A store through days of restarts, exclusions and retention, and who looks each time."""
    text = settings_text(made, exact=False).replace('"7d"', f'"{horizon}"', 1)
    atoms = [tuple(sorted(zip(made.names, atom, strict=True))) for atom in made.atoms]
    found = Followed({name: Known(atoms, kind) for name, kind in kinds.items()})
    with (
        tempfile.TemporaryDirectory() as name,
        Releasing(made, Path(name), text, tested=False) as site,
        tables_seen(found),
    ):
        told = 0
        for number, now in enumerate(looks(made.end)):
            if number % 2:
                site.restart()
            if clean:
                site.clean(now)
            if number in EXCLUSIONS:
                EXCLUSIONS[number](site)
            site.until(now)
            new = {window for window, _ in found.windows[told:]}
            told = len(found.windows)
            for known in found.known.values():
                known.look(site, {}, new)
        yield found


@pytest.fixture(scope="module")
def guarded() -> Iterator[Followed]:
    with followed(backlog(stragglers=False), KINDS, horizon="2d") as found:
        yield found


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_late_gives_no_small_count_away(guarded: Followed, kind: str) -> None:
    """Through restarts, and while data are excluded and are not any more."""
    assert guarded.known[kind].hidden() > 30, "what came late was not published"
    assert guarded.leaks(kind, 40) == []


def test_a_late_label_among_many_corrections_waits() -> None:
    with followed(backlog(stragglers=True), {"labels": LABELS}, horizon="2d") as found:
        assert found.leaks("labels", 40) == []


def by_changes_alone(
    state: FamilyState,
    edges: Sequence[int],
    index: CellIndex,
    part: LateCounts,
    units: object,
    *,
    since: int,
) -> bool:
    """The rule as it would be if a first label were a change like any other."""
    changes = np.abs(part.values).max(axis=1)
    values = np.zeros_like(part.values)
    values[:, Counter.LABELLED] = changes
    return _all_enough(state, edges, index, replace(part, values=values), None, since=since)


def test_a_late_label_among_many_corrections_would_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(late_counts, "_all_enough", by_changes_alone)
    with followed(backlog(stragglers=True), {"labels": LABELS}, horizon="2d") as found:
        assert found.leaks("labels", 40)


def test_what_is_excluded_and_taken_back_is_whole_blocks(guarded: Followed) -> None:
    """Of each table by itself: so no sum appears that blocks did not give before."""
    cut = [window for window, _ in guarded.windows if len(window.spans) > 1]
    assert cut, "nothing was excluded"
    for window, edges in guarded.windows:
        assert {at for span in window.spans for at in span} <= edges, window


def released_at_once(
    release: ReleaseBlocks, index: CellIndex, held: LateCounts, units: PaneUnits, *_: object
) -> tuple[list[PaneCounts], PaneUnits]:
    """All that is held back, however little it is."""
    freed = np.ones(len(units.panes), bool)
    return split_panes(Grain.HOUR, held.hours, held.cells, held.values), units.take(freed)


def test_late_counts_that_join_at_once_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "release_late_counts", released_at_once)
    with followed(world(7), KINDS) as found:
        assert [kind for kind in KINDS if found.leaks(kind)] == [*KINDS]


# Retention deletes old hours: whatever is left of a block could be subtracted from all of it.


@pytest.fixture
def soon_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed panes are kept for three days."""
    monkeypatch.setattr(rules, "_WINDOWS_KEPT", -4 * DAY)
    monkeypatch.setattr(rules, "_LEAST_KEPT", 0)


@pytest.mark.usefixtures("soon_deleted")
def test_retention_gives_no_small_count_away() -> None:
    with followed(world(), {"decisions": DECISIONS, "labels": LABELS}, clean=True) as found:
        assert any(known.hidden() for known in found.known.values()), "it cut no block"
        assert [found.leaks(kind, 3) for kind in found.known] == [[], []]


@pytest.mark.usefixtures("soon_deleted")
def test_what_is_left_of_a_block_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleaseBlocks, "_abandon_remains", lambda *_, **__: None)
    with followed(world(), {"decisions": DECISIONS, "labels": LABELS}, clean=True) as found:
        assert any(found.leaks(kind, 3) for kind in found.known)


# Sizes and times of answers: whatever is hidden, the same bytes are made of the same Snapshots.

ATOMS = (("x", "p"), ("x", "q"), ("y", "p"), ("y", "q"))
CALM = [[3] * 4] * 25 + [[22] * 4]


def quiet_world(last: Sequence[int]) -> World:
    """A calm day, an hour that ends every block, and one that ends the total's alone."""
    rng = np.random.default_rng(5)
    counts = np.array([*CALM, last])
    hour, atom = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    at = START + hour * HOUR + np.sort(rng.integers(MINUTE, HOUR - MINUTE, len(hour)))
    order = np.argsort(at, kind="stable")
    none, nobody = np.zeros(len(at), np.int64), np.empty(0, np.int64)
    cells = (at[order], atom[order], np.full(len(at), AUTO), none, none)
    values = {"a": ("x", "y"), "b": ("p", "q")}
    return world_of(values, ATOMS, 2, cells, Given(nobody, nobody, nobody, nobody))


def published(last: Sequence[int], folder: Path) -> list[bytes]:
    """Every Snapshot, in order."""
    folder.mkdir()
    with Releasing(quiet_world(last), folder) as site:
        for hour in range(1, len(CALM) + 2):
            site.until(START + hour * HOUR + MINUTE)
        return site.snapshots()


def test_what_waits_changes_no_byte_of_any_answer(tmp_path: Path) -> None:
    """Metrics, pages, API and tables are made of Snapshots alone, so sizes tell nothing either."""
    found = published((4, 2, 3, 3), tmp_path / "one")
    assert published((2, 4, 4, 2), tmp_path / "other") == found
    assert published((10, 2, 3, 9), tmp_path / "more") != found, "what ends a block does"


# Late counts across changes of merge maps: a value loses its name, late counts come, it is back.

FEW_NAMED = 8
"""Decisions a day of values that are always pooled."""
RETURNS = {0: 12, **dict.fromkeys(range(1, 7), 1), **dict.fromkeys(range(7, 16), 40)}
"""Decisions of each day of the value that has a name in the first week, and from the third on."""
LATE_OF = {"v": 3, **{f"w{i}": 3 for i in range(6)}, "x": 12}


def returning_world() -> World:
    """Three of the returning value come a week late, among 18 of values that are always pooled."""
    rng = np.random.default_rng(7)
    rare = [f"w{i}" for i in range(6)]
    values = ("x", "v", *rare)
    days = [("x", day, 240) for day in range(16)] + [("v", *one) for one in RETURNS.items()]
    days += [(value, day, FEW_NAMED) for value in rare for day in range(16)]
    parts = [
        (np.full(n, values.index(value)), START + day * DAY + np.sort(rng.integers(0, DAY, n)))
        for value, day, n in days
    ]
    late = [(values.index(value), n) for value, n in LATE_OF.items()]
    parts += [(np.full(n, of), START + 6 * HOUR + rng.integers(0, HOUR, n)) for of, n in late]
    atom, at = (np.concatenate(column) for column in zip(*parts, strict=True))
    came_late = np.arange(len(at)) >= len(at) - sum(LATE_OF.values())
    order = np.argsort(at, kind="stable")
    none, nobody = np.zeros(len(at), np.int64), np.empty(0, np.int64)
    cells = (at[order], atom[order], np.full(len(at), AUTO), none, none)
    made = world_of(
        {"a": values}, tuple((v,) for v in values), 16, cells, Given(nobody, nobody, nobody, nobody)
    )
    arrives = np.where(came_late[order], START + 8 * DAY + 5 * HOUR, made.arrives)
    return replace(made, arrives=arrives)


@contextmanager
def returned() -> Iterator[tuple[Known, list[set[str]]]]:
    """Who looks twice a day, and which values had a name then."""
    made = returning_world()
    atoms = [tuple(zip(made.names, atom, strict=True)) for atom in made.atoms]
    known, named = Known(atoms, DECISIONS), []
    with (
        tempfile.TemporaryDirectory() as name,
        Releasing(made, Path(name), tested=False) as site,
    ):
        for now in looks(made.end - DAY):
            site.until(now)
            known.look(site, {})
            named.append({*site.kept().maps["replies/a"].get("a", ())})
        yield known, named


def test_late_counts_of_a_value_that_is_named_again_give_nothing_away() -> None:
    with returned() as (known, named):
        has_name = ["v" in one for one in named]
        assert has_name[0]
        assert has_name[-1]
        assert not all(has_name)
        assert known.leaks() == []


def test_by_the_rows_of_the_day_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: whoever remembers the first week subtracts it from the third."""

    def forgetful(*arguments: Any, since: int) -> bool:
        return _all_enough(*arguments, since=2**62)

    monkeypatch.setattr(late_counts, "_all_enough", forgetful)
    with returned() as (known, _):
        assert known.hidden() == 1
        assert len(known.leaks()) == 1
