"""A few decisions with values that nobody knows, or one rare value, cost the others nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from adversary.service import StillClock
from adversary.worlds import OTHER, START
from guarded import Guarded, new_store, settings_for, slices_world
from releasing import untested

from monitor.core.publish.snapshot import GroupTable, Snapshot
from monitor.core.time import DAY, HOUR

pytestmark = pytest.mark.full

DAYS = 10
LOOKS = 13 * HOUR
OPEN = START + 2 * DAY
"""The first merge map is made after a day, and the first blocks after it."""
SETTLED = START + 8 * DAY
"""Blocks with strays in them from before the first merge map are given up; from the next map on
nothing is left of that."""

USUAL = {("chat",): 900.0, ("email",): 900.0, ("voice",): 900.0, ("rare",): 0.0}
STRAYS = {(OTHER,): 3.0}
RARE = {("rare",): 1.0}
CASES = {"strays": STRAYS, "rare": RARE, "both": STRAYS | RARE}


@dataclass(frozen=True)
class Look:
    """The group-by at one instant.

    Attributes:
        numbers: rows with a number, in each window.
        ended: where what is shown ends, by window and kind.
    """

    numbers: dict[str, frozenset[str]]
    ended: dict[tuple[str, str], int | None]


def look(snapshot: Snapshot) -> Look:
    tables = {window.window: window.groups[0] for window in snapshot.contracts[0].windows}
    ends = {(name, "decisions"): end(table.decisions) for name, table in tables.items()}
    ends |= {(name, "labels"): end(table.labelled) for name, table in tables.items()}
    return Look({name: numbers(table) for name, table in tables.items()}, ends)


def end(period: object) -> int | None:
    return getattr(period, "end", None)


def numbers(table: GroupTable) -> frozenset[str]:
    return frozenset(row.slice for row in table.rows if row.rates)


@cache
def looks(*more: tuple[tuple[str, ...], float]) -> dict[int, Look]:
    """What is published, look by look."""
    world = slices_world(USUAL | dict(more), DAYS, seed=1)
    with TemporaryDirectory() as name:
        folder = Path(name)
        site = Guarded(world, settings_for(new_store(folder), folder, world.attributes, "a"))
        site.evaluator = untested(site.evaluator, StillClock())
        found = {now: look(snapshot) for now, snapshot in site.snapshots(LOOKS)}
        site.close()
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_others_stay_published(case: str) -> None:
    shown = {"a=chat", "a=email", "a=voice"}
    found = [one for now, one in looks(*CASES[case].items()).items() if now >= OPEN]

    assert found
    for one in found:
        assert one.numbers == dict.fromkeys(("1h", "24h", "7d", "28d"), shown)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_shown_later_than_without_them(case: str) -> None:
    usual, disturbed = looks(), looks(*CASES[case].items())
    settled = [now for now in usual if now >= SETTLED]

    assert settled
    for now in settled:
        assert disturbed[now].ended == usual[now].ended
        assert None not in [e for of, e in usual[now].ended.items() if of != ("1h", "labels")]


def test_what_comes_more_than_k_times_a_day_is_waited_for() -> None:
    """Else the tests above could not fail."""
    usual, disturbed = looks(), looks(((OTHER,), 40.0))
    settled = [now for now in usual if now >= SETTLED]
    ends = [
        (usual[now].ended["7d", "decisions"], disturbed[now].ended["7d", "decisions"])
        for now in settled
    ]

    assert all(soon and later and later <= soon for soon, later in ends)
    assert sum(later < soon for soon, later in ends if soon and later) > len(ends) / 2
