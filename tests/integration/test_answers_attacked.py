"""Answers attacked by what they say of waits, by their sizes and by the work they take.

Two services publish the same to the byte, and differ in labels that wait. Whatever differs in an
answer, in its length or in the time that it takes, tells of these. Times are those of a machine
that does nothing else: calls of the program and instructions of its database, which are counted.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
import sqlalchemy as sa
from adversary.worlds import AUTO, DAY, START, World
from guarded import Guarded, new_store, settings_for, slices_world
from releasing import released
from served_site import TOPICS, SetClock
from slipcover import probe
from starlette.requests import Request

from monitor.core.publish import waiting
from monitor.core.publish.snapshot import ContractTable, GroupTable, SliceRow, Snapshot, encode
from monitor.core.publish.waiting import LabelWait, group_waits
from monitor.core.time import HOUR
from monitor.store.upkeep.published_reader import PublishedReader
from monitor.web import Site, SiteFacts

pytestmark = pytest.mark.full

LOOK = START + 4 * DAY + DAY // 2
"""No labels are shown yet, and those of a day and a half wait."""

ROWS = [
    urlencode({"group_by": "a", "slice": f"a={value}", "window": "28d"}) for value in ("v0", "v1")
]
PATHS = (
    *("/?window=28d", "/overview.csv?window=28d", "/api/v1/snapshot?window=28d"),
    *(f"{path}?{row}" for path in ("/slice", "/slice.csv", "/history.csv") for row in ROWS),
    *(f"/api/v1/{what}?{row}" for what in ("slice", "history") for row in ROWS),
)


@dataclass(frozen=True)
class Answer:
    """What a reader has of an answer: its bytes, and how much was done for it."""

    body: bytes
    calls: int
    instructions: int


@dataclass
class Calls:
    """Calls of a thread, without those by which coverage is measured.

    A probe is called until all that were hit are taken out of the code, at any moment of a run.
    """

    counted: int = 0
    _in_probe: bool = False

    def __call__(self, _: object, event: str, called: Any) -> None:
        if called is probe.signal:
            self._in_probe = event == "c_call"
        elif not self._in_probe:
            self.counted += event in ("call", "c_call")


@dataclass
class Asked:
    """A site over a store, asked in one thread."""

    engine: sa.Engine
    snapshot: Snapshot
    instructions: int = 0

    def __post_init__(self) -> None:
        clock = SetClock(LOOK)
        reader = PublishedReader(self.engine, TOPICS)
        self._views = Site(reader, SiteFacts("1"), blind=list, now=clock.now).views()
        sa.event.listen(self.engine, "checkout", self._count)

    def _count(self, connection: Any, *_: object) -> None:
        connection.set_progress_handler(self._counted, 1)

    def _counted(self) -> int:
        self.instructions += 1
        return 0

    def answers(self) -> list[Answer]:
        """Of every path; the first round fills what is kept."""
        for path in PATHS:
            self._answer(path)
        return [self._answer(path) for path in PATHS]

    def _answer(self, path: str) -> Answer:
        route, _, query = path.partition("?")
        scope = {
            **{"type": "http", "method": "GET", "path": route, "headers": []},
            **{"query_string": query.encode(), "path_params": {}},
        }
        begun, calls = self.instructions, Calls()
        gc.collect()
        gc.disable()
        sys.setprofile(calls)
        try:
            answer = self._views[route](Request(scope))
        finally:
            sys.setprofile(None)
            gc.enable()
        return Answer(bytes(answer.body), calls.counted, self.instructions - begun)


def world() -> World:
    """Two values, of which one has so few labels that they are held back."""
    return slices_world({("v0",): 400, ("v1",): 80}, 14, 3)


def with_fewer(made: World) -> World:
    """The same, but half of the labels that are held back were never asked for."""
    few = np.isin(made.atom, [index for index, atom in enumerate(made.atoms) if atom == ("v1",)])
    away = np.flatnonzero(few & (made.route == AUTO) & (made.asked == 1))[::2]
    kept, asked = ~np.isin(made.says, away), made.asked.copy()
    asked[away] = 0
    columns = (made.says, made.said_at, made.labelled, made.ready)
    says, said_at, labelled, ready = (column[kept] for column in columns)
    return replace(made, asked=asked, says=says, said_at=said_at, labelled=labelled, ready=ready)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asked, Asked]]:
    """Two services that publish the same, and differ in what waits."""
    made = world()
    sites = [_site(one, tmp_path_factory.mktemp("store")) for one in (made, with_fewer(made))]
    asked = [Asked(site.engine, snapshot) for site, snapshot in sites]
    yield asked[0], asked[1]
    for site, _ in sites:
        site.close()


def _site(made: World, folder: Path) -> tuple[Guarded, Snapshot]:
    site = Guarded(made, settings_for(new_store(folder), folder, made.attributes, "a"))
    for look in range(START + DAY // 2, LOOK + 1, DAY // 2):
        site.feed(look)
        snapshot = site.publish()
    return site, snapshot


def labels_of(engine: sa.Engine, text: str) -> int:
    """Labels of what was auto-served, which nobody is shown."""
    found = released(engine, HOUR)
    return sum(row.labels for row in found if row.atom == {"a": text} and row.route == AUTO)


def test_the_attacked_services_differ_in_what_waits_alone(both: tuple[Asked, Asked]) -> None:
    one, other = both
    assert encode(one.snapshot) == encode(other.snapshot)
    assert labels_of(one.engine, "v1") > labels_of(other.engine, "v1")
    (table,) = one.snapshot.contracts
    (window,) = (window for window in table.windows if window.window == "28d")
    (wait,) = group_waits(one.snapshot, table, window)
    assert wait.slowest is not None, "and it is said how long it takes"


def test_neither_words_nor_sizes_nor_work_tell_what_waits(both: tuple[Asked, Asked]) -> None:
    one, other = both
    found = one.answers()
    assert all(answer.calls > 50 for answer in found)
    assert any(answer.instructions > 50 for answer in found)
    assert found == other.answers()


def test_a_wait_by_what_waits_would(
    both: tuple[Asked, Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control: the time that is left, by the labels that came."""
    plain, asked = waiting.shown_wait, both[0]

    def exact(contract: ContractTable, table: GroupTable, row: SliceRow) -> LabelWait | None:
        found = plain(contract, table, row)
        came = labels_of(asked.engine, row.slice.removeprefix("a="))
        return found and replace(found, days=7.0 * came)

    monkeypatch.setattr(waiting, "shown_wait", exact)
    said = []
    for asked in both:
        (table,) = asked.snapshot.contracts
        (window,) = (window for window in table.windows if window.window == "28d")
        said.append(list(group_waits(asked.snapshot, table, window)))
    assert said[0] != said[1]


def test_a_page_that_looks_at_what_waits_would(
    both: tuple[Asked, Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control: the same bytes, after a look at each label that waits."""
    plain = PublishedReader.newest

    def looking(self: PublishedReader) -> tuple[int, Snapshot] | None:
        for _ in range(labels_of(self._engine, "v1")):
            len(())
        return plain(self)

    monkeypatch.setattr(PublishedReader, "newest", looking)
    one, other = (asked.answers() for asked in both)
    assert [answer.body for answer in one] == [answer.body for answer in other]
    assert [answer.calls for answer in one] != [answer.calls for answer in other]
