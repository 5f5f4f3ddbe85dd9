"""A control of the attack: rolling windows of plain rates, hidden below k and no more."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from adversary.table_attack import Facts, Target, solved
from adversary.table_worlds import Ints, K

LENGTHS = (6, 24)
STEP = 0.01


def rolling_world(seed: int, hours: int = 48) -> Ints:
    """Decisions by hour and route: a slice with quiet nights."""
    rng = np.random.default_rng(seed)
    busy = np.where(np.arange(hours) % 24 < 8, 0.3, 6.0)
    return rng.binomial(rng.poisson(busy * 2)[:, None], [[0.55, 0.4]])


def facts_of(world: Ints) -> Facts:
    """What windows of every hour show: the exact size and the rate to a hundredth, from k on."""
    facts = Facts()
    index = np.arange(world.size).reshape(world.shape)
    for length in LENGTHS:
        for begin in range(len(world) - length + 1):
            counts = world[begin : begin + length].sum(axis=0)
            cells = index[begin : begin + length]
            size = int(counts.sum())
            if min(size, *counts) < K:
                continue
            rate = round(counts[0] / size / STEP) * STEP
            facts.add(cells.ravel(), size, size)
            low, high = (rate - STEP / 2) * size, (rate + STEP / 2) * size
            facts.add(cells[:, 0], np.ceil(low - 1e-9), np.floor(high + 1e-9))
    return facts


def pinned_by_windows(world: Ints) -> int:
    """How many hours with a small count have one possible number of decisions."""
    facts = facts_of(world)
    most: npt.NDArray[np.float64] = np.full(world.size, np.inf)
    index = np.arange(world.size).reshape(world.shape)
    targets = [
        Target(f"hour {hour}", index[hour], int(world[hour].sum()), 0)
        for hour in range(len(world))
        if 0 < world[hour].sum() < K
    ]
    matrix = facts.matrix(world.size)
    found = [solved(target, facts, matrix, most) for target in targets]
    return sum(left is not None and left.values == 1 for left in found)
