"""The release of all families, over simulated days, against its rule and against its promises."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from adversary.service import settings_text
from adversary.worlds import DAY, HOUR, MINUTE, START, Shape, World, make_world, random_shape
from releasing import (
    MARGIN,
    STEP,
    Brute,
    K,
    Kept,
    Releasing,
    divided,
    given_away,
    instants,
    moved,
    prompt,
    released,
    small_cells,
    unnested,
)

from monitor.core.publish.snapshot import decode

pytestmark = pytest.mark.full

CALM = Shape(values=(2, 2), days=1.6, busy=200, audit=0, strays=0, late=0, skew=0.3)
STRAYS = Shape(values=(3, 2), days=1.6, busy=200, audit=1, delay=2, strays=3, late=0.01)
FRIDAY = 4 * DAY  # after a Monday
COLUMNS = ("at", "arrives", "atom", "route", "band", "rate", "asked", "version")


@contextmanager
def releasing(
    world: World, text: str | None = None, *, tested: bool = False
) -> Iterator[Releasing]:
    """Without detectors, where nothing but blocks is looked at."""
    with (
        TemporaryDirectory(prefix="slicewatch-release-") as folder,
        Releasing(world, Path(folder), text, tested=tested) as site,
    ):
        yield site


def run(
    world: World, moments: Sequence[int], restart: Callable[[int], bool] = lambda _: False
) -> tuple[Kept, list[bytes]]:
    """Evaluate at these moments; returns what is kept in the end, and all that was published."""
    with releasing(world, tested=True) as site:
        for number, now in enumerate(moments):
            if restart(number):
                site.restart()
            site.until(now)
        return site.kept(), site.snapshots()


def end_of(world: World) -> int:
    return int(world.at[-1]) // HOUR * HOUR + MARGIN


# Against the rule


@pytest.mark.parametrize("seed", range(4))
def test_blocks_are_those_of_the_rule(seed: int) -> None:
    """Panes of five minutes, one after the other, whatever the evaluator's pace."""
    world = prompt(make_world(seed, CALM))
    with releasing(world) as site:
        for now in instants(world, HOUR, end_of(world)):
            site.until(now)
        kept = site.kept()
        panes = {grain: released(site.engine, grain) for grain in (STEP, HOUR)}
    assert len(kept.maps) == 4
    assert not any(burned for edges in kept.edges.values() for burned in edges.values())
    brute = Brute(K, kept.marks["begins"], kept.marks["decisions"], kept.marks["labels"], panes)
    brute.make(kept)
    assert {key: list(edges) for key, edges in kept.edges.items()} == brute.edges
    made = {key: len(edges) for key, edges in brute.edges.items()}
    assert min(made["replies/a", False], made["replies/b", False], made["replies/", True]) > 2


def test_five_minutes_or_an_hour_make_no_difference() -> None:
    world = prompt(make_world(1, CALM))
    by_hour = run(world, instants(world, HOUR, end_of(world)))
    often = instants(world, STEP, end_of(world))
    by_minutes = run(world, often, lambda number: number % 97 == 96)
    assert by_minutes[0] == by_hour[0]
    assert by_minutes[1][-1] == by_hour[1][-1]


PATTERNS = {
    "hourly": lambda world: instants(world, HOUR, end_of(world)),
    "one catch-up": lambda world: [end_of(world)],
    "uneven": lambda world: sorted(
        random.Random(world.seed).sample(range(START + MARGIN, end_of(world), MINUTE), 25)
    ),
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", range(2))
def test_restarts_are_seen_in_nothing(seed: int, pattern: str) -> None:
    """What is late, held back, left out or taken as not given is the same after each of them."""
    world = make_world(seed, STRAYS)
    moments = PATTERNS[pattern](world)
    alone = run(world, moments)
    assert run(world, moments, lambda _: True) == alone
    pick = random.Random(seed)
    assert run(world, moments, lambda _: pick.random() < 0.3) == alone
    assert alone[1]


@pytest.mark.parametrize("seed", range(2))
def test_no_block_or_sum_depends_on_detectors(seed: int) -> None:
    """Late, stray and corrected counts included: so tests of these may do without detectors."""
    world, found = make_world(seed, random_shape(seed, days=2.5)), []
    for tested in (True, False):
        with releasing(world, tested=tested) as site:
            for now in instants(world, 2 * HOUR, end_of(world) + 12 * HOUR):
                site.until(now)
            assert bool(site.detection()["route_cohort"]) is tested
            found.append(tables_of(site))
    assert found[0] == found[1]
    assert all(found[0][name] for name in ("released", "release_edge", "release_map"))


def tables_of(site: Releasing) -> dict[str, list[str]]:
    """All that is kept of blocks, row by row in some order."""
    names = ("released", "held_back", "release_edge", "release_map", "release_mark", "unit_share")
    with site.engine.connect() as connection:
        return {
            name: sorted(map(str, connection.exec_driver_sql(f"SELECT * FROM {name}")))
            for name in names
        }


# What is promised of all blocks


@pytest.mark.parametrize("seed", range(6))
def test_no_block_of_any_world_holds_a_small_cell(seed: int) -> None:
    """Late decisions and labels, corrections, strays, rare values; on any day."""
    world = make_world(seed, random_shape(seed, days=2.5))
    with releasing(world) as site:
        before: Kept | None = None
        for number, now in enumerate(instants(world, 2 * HOUR, end_of(world) + 12 * HOUR)):
            site.until(now)
            after = site.kept()
            assert unnested(after) == []
            if before is not None:
                assert divided(before, after) == []
                assert given_away(before, after) == []
            if number % 6 == 5:
                assert small_cells(site.engine, after, K) == []
            before = after
        assert before is not None
        assert len(before.families) == len(world.group_bys) + 1


def test_files_publish_nothing_before_the_first_day_has_ended() -> None:
    """Blocks of the total alone would keep the rare values of that day from being left out."""
    world = prompt(make_world(0, CALM))
    with releasing(world) as site:
        midnight = (int(world.at[0]) // DAY + 1) * DAY
        site.until(midnight - STEP + MARGIN)
        early = site.kept()
        site.until(midnight + MARGIN)
        then = site.kept()
    assert [f for f in early.families if len(early.edges[f, False]) > 1] == []
    assert not early.maps
    assert len(then.maps) == 4
    assert {f for f in then.families if len(then.edges[f, False]) > 1} == {*then.families}


def test_new_maps_every_week_make_unions_of_the_old_blocks() -> None:
    """A value that grew rare is pooled from Monday on, in all that is shown."""
    grown = make_world(3, Shape((3, 2), days=4.6, busy=120, strays=1, late=0.005, skew=1.2))
    world = moved(grown, FRIDAY)
    monday = START + 7 * DAY
    made: list[int] = []
    with releasing(world) as site:
        before: Kept | None = None
        for now in instants(world, 3 * HOUR, end_of(world)):
            site.until(now)
            after = site.kept()
            if before is not None:
                assert divided(before, after) == []
                assert given_away(before, after) == []
                if after.marks["maps_week"] != before.marks.get("maps_week"):
                    made.append(after.marks["decisions"])
            before = after
        assert before is not None
        assert small_cells(site.engine, before, K) == []
        assert unnested(before) == []
    assert monday in made


def test_closed_panes_that_retention_deletes_are_missed_by_nobody() -> None:
    """Blocks stay open for days where something is rare; a restart counts them again."""
    world = make_world(2, Shape((3, 3), days=3, busy=30, audit=2, delay=6, strays=3, skew=1.5))
    moments = instants(world, 3 * HOUR, end_of(world))
    kept, published = run(world, moments)
    with releasing(world, tested=True) as site:
        for now in moments:
            site.until(now)
            site.clean(now)
            site.restart()
        assert site.kept() == kept
        assert decode(site.snapshots()[-1]) == decode(published[-1])
    opened = max(kept.marks["decisions"] - max(edges) for edges in kept.edges.values())
    assert opened > 26 * HOUR, "some block was open for longer than fine panes are kept"


# Settings that change


def text_of(world: World, version: int, *, k: int = K, without: str = "") -> str:
    text = settings_text(world, exact=False).replace(f"k = {K}", f"k = {k}")
    if without:
        group = f"{{ attributes = {without.split('+')} }}"
        assert group in text
        text = text.replace(f"{group}, ", "").replace(f", {group}", "")
    return text.replace('version = "1"', f'version = "{version}"')


def change_midway(world: World, before: str, after: str) -> tuple[Kept, Kept, list[str]]:
    """What is kept before the change and in the end, and small cells of both."""
    moments = instants(world, 2 * HOUR, end_of(world))
    with releasing(world, before) as site:
        for now in moments[: 3 * len(moments) // 4]:
            site.until(now)
        old = site.kept()
        small = small_cells(site.engine, old, K)
        site.change(after)
        site.restart()
        site.until(now)
        at_once = site.kept()
        assert at_once.marks == old.marks
        assert divided(old, at_once) == []
        for now in moments[3 * len(moments) // 4 :]:
            site.until(now)
        new = site.kept()
        assert divided(at_once, new) == []
        assert given_away(old, at_once) == []
        assert given_away(at_once, new) == []
        assert unnested(new) == []
        k = site.settings.use_case[0].k
        assert k is not None
        return old, new, small + small_cells(site.engine, new, k)


CHANGED = Shape(values=(2, 3), days=2, busy=200, audit=0, delay=1, strays=3, skew=0.5)


def test_a_raised_k_joins_blocks() -> None:
    world = make_world(5, CHANGED)
    old, new, small = change_midway(world, text_of(world, 1), text_of(world, 2, k=40))
    assert small == []
    assert divided(old, new) == []


def test_a_group_by_that_is_added_takes_the_others_along() -> None:
    """What was published of the intersection before is divided no further by the new marginal."""
    world = make_world(5, CHANGED)
    less, more = text_of(world, 1, without="a+b"), text_of(world, 2)
    old, new, small = change_midway(world, less, more)
    assert small == []
    assert new.families - old.families == {"replies/a+b"}
    assert len(new.edges["replies/a+b", False]) > 1


def test_a_group_by_that_is_removed_makes_no_more_blocks_and_is_remembered() -> None:
    """What it published is still known: when it comes back its blocks are divided no further."""
    world = make_world(5, CHANGED)
    more, less = text_of(world, 1), text_of(world, 2, without="a+b")
    old, new, small = change_midway(world, more, less)
    assert small == []
    for labels in (False, True):
        assert new.edges["replies/a+b", labels] == old.edges["replies/a+b", labels]


def test_a_marginal_that_is_added_divides_no_block_of_its_intersection() -> None:
    world = make_world(5, CHANGED)
    less, more = text_of(world, 1, without="a"), text_of(world, 2)
    old, new, small = change_midway(world, less, more)
    assert small == []
    for labels in (False, True):
        of_both = old.edges["replies/a+b", labels]
        of_one = {at for at in new.edges["replies/a", labels] if at <= max(of_both)}
        assert of_one <= {*of_both}


def test_a_site_too_small_for_anything_goes_on_and_shows_nothing() -> None:
    """Fewer than k decisions a day, all of them left out: the total has nobody to wait for."""
    quiet = replace(prompt(make_world(1, CALM)), shape=CALM)
    few = np.arange(0, len(quiet.at), len(quiet.at) // 6)
    world = replace(
        quiet,
        **{name: getattr(quiet, name)[few] for name in COLUMNS},
        **{name: getattr(quiet, name)[:0] for name in ("says", "said_at", "labelled", "ready")},
    )
    with releasing(world, tested=True) as site:
        for now in instants(world, 6 * HOUR, START + 3 * DAY):
            site.until(now)
        (table,) = decode(site.snapshots()[-1]).contracts
        kept = site.kept()
        assert small_cells(site.engine, kept, K) == []
    assert kept.marks["maps_stage"] == 4
    for window in table.windows:
        assert not window.total.rates
        assert not any(row.rates for group in window.groups for row in group.rows)
