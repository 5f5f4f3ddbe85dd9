"""A world in which one slice is served far less for two days, and its evaluator.

All decisions are labelled at once, so everything found of it is found in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from adversary.service import settings_text
from adversary.worlds import AUDIT_RATES, DAY, HOUR, START, Shape, World
from releasing import MARGIN, Releasing, instants, prompt

from monitor.core.metric import Metric
from monitor.core.publish.snapshot import GroupTable, decode

DAYS, A_DAY = 10, 800
BREACH, REPAIR = START + 2 * DAY, START + 4 * DAY
RELEASE = START + 6 * DAY
FULLY = AUDIT_RATES.index(1.0)
WORSE = "a=a0"
TPR = Metric.TPR


def repaired(
    breach: int = BREACH, repair: int = REPAIR, days: int = DAYS, a_day: int = A_DAY
) -> World:
    """Two slices alike, but that one is served far less from one day to another; all labelled.

    Later other versions answer that one.
    """
    rng, size = np.random.default_rng(5), days * a_day
    at = START + np.arange(size) * (DAY // a_day) + 1
    atom = rng.permutation(np.arange(size) % 2)
    low = (atom == 0) & (at >= breach) & (at < repair)
    route = (rng.random(size) >= np.where(low, 0.3, 0.7)).astype(np.int64)
    ready = (rng.random(size) < 0.6).astype(np.int64)
    one, all_of_them = np.ones(size, np.int64), np.arange(size)
    world = World(
        seed=5, shape=Shape((2,), days), attributes={"a": ("a0", "a1")}, atoms=(("a0",), ("a1",)),
        at=at, arrives=at, atom=atom, route=route, band=rng.integers(0, 3, size),
        rate=np.full(size, FULLY), asked=one, version=1 * ((atom == 0) & (at >= RELEASE)),
        says=all_of_them, said_at=at, labelled=one, ready=ready,
    )  # fmt: skip
    return prompt(world)


WORLD = repaired()
END = START + DAYS * DAY - HOUR + MARGIN
MOMENTS = instants(WORLD, 3 * HOUR, END)


@contextmanager
def site(folder: Path, world: World = WORLD) -> Iterator[Releasing]:
    folder.mkdir()
    text = settings_text(world, exact=False).replace('clock = "history"', 'clock = "live"')
    with Releasing(world, folder, text) as made:
        yield made


def tables(bodies: list[bytes]) -> list[GroupTable]:
    """The group-by in the window that decides, of every Snapshot that has one."""
    return [
        group
        for body in bodies
        for contract in decode(body).contracts
        for window in contract.windows
        if window.window == contract.window
        for group in window.groups
    ]


def alone_crossing(one: Releasing) -> tuple[int, int]:
    """When the gap of the worse slice crossed first, and when it was resolved last."""
    query = "SELECT crossed_at, resolved_at FROM crossing WHERE stream LIKE :stream ORDER BY id"
    with one.engine.connect() as connection:
        like = f"%|tpr|gap|{WORSE}|%"
        rows = connection.exec_driver_sql(query, {"stream": like}).all()
    assert rows
    return rows[0].crossed_at, rows[-1].resolved_at
