"""Detection in the evaluator: cohorts in order, exactly once, through restarts and failures."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from adversary.service import settings_text
from adversary.worlds import DAY, HOUR, MINUTE, START, Shape, World, make_world
from releasing import MARGIN, Releasing, instants, prompt

from monitor.core.metric import Metric
from monitor.core.time import TimeSpan
from monitor.detection.advisory.advisors import Advisors
from monitor.detection.advisory.finding_log import FindingTimes, RateChange
from monitor.detection.advisory.river_detectors import ChangeDirection
from monitor.detection.pages.declared import DetectorSettings
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.errors import StoreError
from monitor.evaluate.dictionary import CellDictionary
from monitor.store.evaluator.cells import StoredCells
from monitor.store.evaluator.store import Cycle, EvaluatorStore
from monitor.store.exclusions import Declaration, add_exclusion

SHAPE = Shape(values=(3,), days=6, busy=200, audit=0, strays=0, late=0, skew=0.1, delay=0.3)
BREACH = START + 2 * DAY
AUTO, REVIEW = 0, 1


def breached() -> World:
    """All slices alike, until most of what was served of ``a0`` is sent to review."""
    world = prompt(make_world(3, SHAPE))
    world = replace(world, atom=np.random.default_rng(3).permutation(world.atom))
    served = (world.route == AUTO) & (world.at >= BREACH)
    named = np.array([atom[0] == "a0" for atom in world.atoms])[world.atom]
    moved = served & named & (np.arange(len(world.at)) % 5 != 0)
    return replace(world, route=np.where(moved, REVIEW, world.route))


WORLD = breached()
END = int(WORLD.at[-1]) // HOUR * HOUR + MARGIN
MOMENTS = instants(WORLD, 6 * HOUR, END)


@contextmanager
def site(folder: Path, clock: str = "live") -> Iterator[Releasing]:
    folder.mkdir()
    text = settings_text(WORLD, exact=False).replace('clock = "history"', f'clock = "{clock}"')
    with Releasing(WORLD, folder, text) as made:
        assert made.settings.stream.clock == clock
        yield made


def crossings(one: Releasing) -> list[tuple[Stream, sa.Row[tuple[object, ...]]]]:
    with one.engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT * FROM crossing ORDER BY id")).all()
    return [(Stream.parse(row.stream), row) for row in rows]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[object, ...]]]:
    """What one evaluator comes to that is never disturbed."""
    with site(tmp_path_factory.mktemp("alone") / "store") as one:
        for now in MOMENTS:
            one.until(now)
        return one.detection()


def test_the_breach_is_found_in_the_slice_and_metric_that_have_it(tmp_path: Path) -> None:
    with site(tmp_path / "store") as one:
        for now in MOMENTS:
            one.until(now)
        found = crossings(one)
        consumed = [row[:2] for row in one.detection()["cohort"]]
    assert found
    for stream, row in found:
        assert row.crossed_at > BREACH
        assert row.live
        assert stream.kind is StreamKind.GAP
        worse = (stream.slice == "a=a0") == (stream.direction is Direction.SLICE_WORSE)
        assert worse or stream.metric is Metric.FPR, stream
    first = int(WORLD.at[0]) // HOUR
    assert consumed == [(hour, "consumed") for hour in range(first, END // HOUR)]


@pytest.mark.parametrize("pace", [pytest.param(HOUR, marks=pytest.mark.full), 30 * HOUR])
def test_how_often_it_is_looked_at_changes_nothing(
    pace: int, tmp_path: Path, alone: dict[str, list[tuple[object, ...]]]
) -> None:
    with site(tmp_path / "store") as one:
        for now in [*instants(WORLD, pace, END), END]:
            one.until(now)
        assert one.detection() == alone


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_restarts_are_seen_in_nothing(
    seed: int, tmp_path: Path, alone: dict[str, list[tuple[object, ...]]]
) -> None:
    pick = random.Random(seed)
    with site(tmp_path / "store") as one:
        for now in sorted(pick.sample(range(START + HOUR, END, 10 * MINUTE), 30)):
            one.until(now)
            one.restart()
        one.until(END)
        assert one.detection() == alone


def test_a_process_that_ends_leaves_what_waits_to_the_next(
    tmp_path: Path, alone: dict[str, list[tuple[object, ...]]]
) -> None:
    with site(tmp_path / "store") as one:
        one.evaluator.hurried = lambda: True
        one.until(END)
        assert len(one.detection()["cohort"]) <= 24
        one.restart()
        one.until(END)
        assert one.detection() == alone


@pytest.mark.parametrize(
    "written", [pytest.param(False, marks=pytest.mark.full), True], ids=["before", "after"]
)
def test_a_commit_that_fails_moves_no_detector_twice(
    written: bool,
    tmp_path: Path,
    alone: dict[str, list[tuple[object, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A commit whose answer is lost was written, or was not: both are found out."""
    real, calls = EvaluatorStore.commit, 0

    def commit(store: EvaluatorStore, epoch: int, cycle: Cycle, stored_at: int) -> None:
        nonlocal calls
        calls += bool(cycle.detection.cohorts)
        fails = bool(cycle.detection.cohorts) and calls % 2 == 0
        if written or not fails:
            real(store, epoch, cycle, stored_at)
        if fails:
            raise StoreError("the connection was lost")

    monkeypatch.setattr(EvaluatorStore, "commit", commit)
    failed = 0
    with site(tmp_path / "store") as one:
        for now in MOMENTS:
            one.feed.until(now)
            for _ in range(20):
                try:
                    assert one.evaluator.cycle()
                    break
                except StoreError:
                    failed += 1
            else:
                pytest.fail("it never recovered")
        assert one.detection() == alone
    assert failed > 3


def test_what_is_loaded_in_bulk_moves_detectors_and_never_pages(
    tmp_path: Path, alone: dict[str, list[tuple[object, ...]]]
) -> None:
    with site(tmp_path / "store", "history") as one:
        for now in MOMENTS:
            one.until(now)
        found, state = crossings(one), one.detection()["detector"]
    assert found
    assert all(row.resolved_at == row.crossed_at and not row.live for _, row in found)
    assert state == alone["detector"], "the evidence is the same"


def test_what_advises_is_kept_in_the_same_table_and_finds_the_slice_too(
    alone: dict[str, list[tuple[object, ...]]],
) -> None:
    """So whatever is compared above holds for it too."""
    parts = {str(name): body for name, body in alone["detector"]}
    kinds = {name.partition("/")[0] for name in parts if name.startswith("~")}
    advice = {"~found", "~drift", "~delays", "~labels", "~requests", "~river"}
    assert kinds == {*advice, "~routes"}, "and the tests of limits that need no labels"
    found = parts["~found"]
    assert isinstance(found, bytes)
    tallies = FindingTimes.from_bytes(found).tallies
    changes = {one: tally for one, tally in tallies.items() if isinstance(one, RateChange)}
    assert {(one.slice, one.metric, one.change) for one in changes} == {
        ("a=a0", Metric.TPR, ChangeDirection.DOWN)
    }
    assert all(tally.last > BREACH for tally in changes.values())


def test_a_damaged_part_begins_anew_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with site(tmp_path / "store") as one:
        one.until(START + 2 * DAY)
        with one.engine.begin() as connection:
            damage = sa.text("UPDATE detector SET body = :body WHERE name = '~drift/replies/a'")
            assert connection.execute(damage, {"body": b"damaged"}).rowcount == 1
        caplog.clear()
        one.restart()
        one.until(START + 3 * DAY)
        (line,) = [record for record in caplog.records if "begin anew" in record.message]
        assert line.message.startswith("some advisory detectors begin anew")
        parts = {str(row[0]): row[1] for row in one.detection()["detector"]}
        again = Advisors.start(
            DetectorSettings(one.settings.contracts, one.settings.coding), parts=parts
        )
        assert not again.renewed


def test_every_cell_has_the_version_that_it_was_counted_under(tmp_path: Path) -> None:
    with site(tmp_path / "store") as one:
        one.until(START + DAY)
        index = CellDictionary(StoredCells(one.engine)).index
        with one.engine.connect() as connection:
            query = "SELECT atom, stratum, version FROM cell ORDER BY id"
            rows = connection.exec_driver_sql(query).all()
    assert index.versions is not None
    columns = (index.atoms, index.strata, index.versions)
    assert [tuple(row) for row in rows] == list(zip(*(x.tolist() for x in columns), strict=True))
    assert len(set(index.versions.tolist())) > 1


def test_excluded_hours_move_nothing(tmp_path: Path) -> None:
    """Declared before their turn: the breach lies in them alone."""
    with site(tmp_path / "store") as one:
        bad = Declaration(TimeSpan(BREACH, BREACH + 10 * DAY), None, "a test", "somebody")
        add_exclusion(one.engine, bad, START)
        for now in MOMENTS:
            one.until(now)
        states = {row[0]: row[1] for row in one.detection()["cohort"]}
        assert not crossings(one)
    assert {state for hour, state in states.items() if hour >= BREACH // HOUR} == {"excluded"}
    assert {state for hour, state in states.items() if hour < BREACH // HOUR} == {"consumed"}
