"""Two evaluators on one store, taking over from each other, publish what one alone does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from adversary.service import StillClock
from adversary.worlds import HOUR, SECOND, Shape, make_world
from releasing import MARGIN, Releasing, instants

from monitor.evaluate.evaluator import Evaluator
from monitor.store.evaluator import lease as fencing

pytestmark = pytest.mark.full

WORLD = make_world(4, Shape(values=(3, 2), days=1.7, busy=120, audit=1, strays=3, late=0.01))
MOMENTS = instants(WORLD, 2 * HOUR, int(WORLD.at[-1]) // HOUR * HOUR + MARGIN)


class Clock:
    """The database's, moved by hand: leases end by it."""

    def __init__(self) -> None:
        self.at = 0

    def now(self, _: object = None) -> int:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(fencing, "database_now", clock.now)
    return clock


@contextmanager
def site(folder: Path) -> Iterator[Releasing]:
    folder.mkdir()
    with Releasing(WORLD, folder) as made:
        yield made


def replica(one: Releasing, owner: str) -> Evaluator:
    """An evaluator of a process of its own."""
    evaluator = one.fresh()
    return Evaluator(evaluator.store, replace(evaluator.policy, owner=owner), StillClock())


Rows = list[tuple[object, ...]]
Found = tuple[list[bytes], Rows, dict[str, Rows]]


def found_in(one: Releasing) -> Found:
    query = "SELECT * FROM calendar_table ORDER BY kind, starts_at, measure, edition"
    with one.engine.connect() as connection:
        tables = [tuple(row) for row in connection.exec_driver_sql(query)]
    return one.snapshots(), tables, one.detection()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return what one evaluator publishes that is never disturbed."""
    with site(tmp_path_factory.mktemp("alone") / "one") as one:
        for now in MOMENTS:
            one.until(now)
        found = found_in(one)
    assert len(found[1]) > 2 * 24, "hours of decisions and of labels"
    assert len(found[2]["cohort"]) > 24, "nothing was consumed"
    return found


@pytest.mark.parametrize("seed", range(2))
def test_whoever_holds_the_lease_goes_on_where_the_other_was(
    seed: int, tmp_path: Path, clock: Clock, alone: Found
) -> None:
    """Each keeps what it knew in memory, which is old when its turn comes again."""
    pick = random.Random(seed)
    with site(tmp_path / "two") as two:
        both = [replica(two, "a"), replica(two, "b")]
        for now in MOMENTS:
            clock.at += int(two.settings.evaluate.lease) + SECOND
            two.feed.until(now)
            pick.shuffle(both)
            assert both[0].cycle()
            assert not both[1].cycle(), "the lease is held"
        found = found_in(two)
    assert found == alone


@pytest.mark.parametrize("moment", ["_make_tables", "_fold", "_detect"])
def test_a_takeover_in_the_middle_of_a_cycle(
    moment: str, tmp_path: Path, clock: Clock, alone: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that was too slow finds the fence, and what it had made is in nothing."""
    taken: list[int] = []
    with site(tmp_path / "two") as two:
        slow, other = replica(two, "slow"), replica(two, "other")
        lease = int(two.settings.evaluate.lease)
        real = getattr(slow, moment)

        def overtaken(*arguments: Any) -> Any:
            clock.at += lease + SECOND
            if moment == "_fold":
                assert other.cycle()
                taken.append(clock.at)
                return real(*arguments)
            done = real(*arguments)
            assert other.cycle()
            taken.append(clock.at)
            return done

        monkeypatch.setattr(slow, moment, overtaken)
        for number, now in enumerate(MOMENTS):
            clock.at += lease + SECOND
            two.feed.until(now)
            if number % 3:
                assert other.cycle()
            elif slow.cycle():
                assert not taken, "it must have been fenced out"
            taken.clear()
        found = found_in(two)
    assert found == alone
