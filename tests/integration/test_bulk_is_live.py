"""One file, daily files, hourly files and a live feed of the same events publish the same bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from adversary.worlds import OTHER, START, World
from guarded import Guarded, new_store, settings_for, slices_world

from monitor.core.contract import Metric
from monitor.core.publish.snapshot import Snapshot, encode
from monitor.core.time import DAY, HOUR, MINUTE

pytestmark = pytest.mark.full

DAYS = 9
END = START + DAYS * DAY
USUAL: dict[tuple[str, ...], float] = {
    ("chat", "north"): 400.0,
    ("chat", "south"): 150.0,
    ("voice", "north"): 60.0,
    ("voice", "south"): 9.0,
}
STRAYS: dict[tuple[str, ...], float] = {(OTHER, "north"): 0.8, ("rare", "south"): 0.8}


SHARES = {
    "a": {"chat": 0.6, "email": 0.3, "voice": 0.1},
    "b": {"north": 0.7, "south": 0.3},
    "c": {"new": 0.8, "known": 0.2},
}
CROSSED = {
    values: 1_500 * prod(share for _, share in cell)
    for cell in product(*(shares.items() for shares in SHARES.values()))
    for values in [tuple(value for value, _ in cell)]
}
"""All pairs of three attributes: their blocks are asked about together."""

FLOWS = {"strays": USUAL | STRAYS, "crossed": CROSSED}
GROUP_BYS = {"strays": ("a", "b", "a+b"), "crossed": ("a", "b", "c", "a+b", "a+c", "b+c")}


@cache
def world(which: str) -> World:
    """Few strays a day, or many slices; labels come at once.

    A label that comes later than its hour is closed is late live, and not in one file: how far
    labels run behind is no part of what is compared here.
    """
    made = slices_world(FLOWS[which], DAYS, seed=11)
    order = np.argsort(made.at[made.says], kind="stable")
    says, labelled, ready = (c[order] for c in (made.says, made.labelled, made.ready))
    said_at = made.at[says]
    return replace(made, says=says, said_at=said_at, labelled=labelled, ready=ready)


@cache
def published(which: str, *looks: int) -> dict[int, Snapshot]:
    """What is published at these watermarks, if the evaluator works at them and at no other."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        listed = world(which).attributes
        settings = settings_for(new_store(folder), folder, listed, *GROUP_BYS[which])
        site = Guarded(world(which), settings)
        found = {}
        for now in looks:
            site.feed(now)
            found[now] = site.publish()
        site.close()
    return found


def at_once(which: str) -> Snapshot:
    return published(which, END)[END]


def random_looks(seed: int) -> list[int]:
    """Watermarks of a live feed: on 5 minutes and off them, close together and far apart."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([2 * MINUTE, 35 * MINUTE, 5 * HOUR, 40 * HOUR], 400, p=[0.3, 0.4, 0.2, 0.1])
    looks = START + np.cumsum(steps)
    return [*looks[looks < END].tolist(), END]


CUTS = {
    "daily": list(range(START + DAY, END + 1, DAY)),
    "hourly": list(range(START + HOUR, END + 1, HOUR)),
    "live": random_looks(1),
    "live again": random_looks(2),
}


@pytest.mark.parametrize(
    ("which", "cut"),
    [*(("strays", cut) for cut in CUTS), ("crossed", "daily"), ("crossed", "live")],
)
def test_whatever_was_read_at_once_the_same_bytes_are_published(which: str, cut: str) -> None:
    assert encode(published(which, *CUTS[cut])[END]) == encode(at_once(which))


def test_on_every_day_the_same_is_shown_as_with_hourly_files() -> None:
    hourly, daily = (published("strays", *CUTS[cut]) for cut in ("hourly", "daily"))

    assert [encode(daily[day]) for day in CUTS["daily"]] == [
        encode(hourly[day]) for day in CUTS["daily"]
    ]


def test_numbers_are_shown_at_all() -> None:
    """Else the tests above could not fail: slices have numbers, labelled ones too, up to date."""
    windows = {window.window: window for window in at_once("strays").contracts[0].windows}
    groups = {group.group_by: group for group in windows["7d"].groups}

    assert {row.slice for row in groups["a"].rows if row.rates} == {"a=chat", "a=voice"}
    for group in groups.values():
        assert group.decisions is not None
        assert group.decisions.end >= END - 2 * DAY
    assert any(row.rates.keys() & {Metric.TPR, Metric.FPR} for row in groups["b"].rows)


def rates(which: str) -> dict[str, set[Metric]]:
    """Of each slice, the rates that are shown in the longest window."""
    (window,) = (w for w in at_once(which).contracts[0].windows if w.window == "28d")
    return {row.slice: {*row.rates} for group in window.groups for row in group.rows}


def test_all_pairs_of_three_attributes_show_labelled_rates() -> None:
    crossed = rates("crossed")
    for pair in (("a=chat", "b=north"), ("a=chat", "c=new"), ("b=north", "c=new")):
        assert {Metric.TPR, Metric.FPR} <= crossed[",".join(pair)]
