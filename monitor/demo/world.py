"""Router and reviewers together, step by step in event time; pure and seeded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from monitor.core.time import DAY, HOUR, to_micros
from monitor.demo.reviewers import Labels, Reviewers
from monitor.demo.router import STEP, Decisions, SyntheticRouter, World
from monitor.demo.truth import Truth

BEGINS = to_micros(datetime(2026, 1, 5, tzinfo=UTC))
HISTORY = 3 * DAY
"""Produced as fast as possible before time begins to run, so that windows are full at once."""
REGRESSION_AFTER = 36 * HOUR
"""Simulated time without a regression, once time runs."""


@dataclass(frozen=True, slots=True)
class WorldStep:
    """Events of one step of event time."""

    start: int
    end: int
    decisions: Decisions
    labels: Labels


class Synthetic:
    """The demo's world; equal seeds give equal histories."""

    def __init__(self, seed: int, world: World | None = None) -> None:
        regression_at = BEGINS + HISTORY + REGRESSION_AFTER
        self.world = world or World(BEGINS, regression_at)
        self.truth = Truth()
        self.now = self.world.begins
        rng = np.random.default_rng(seed)
        self._router = SyntheticRouter(self.world, rng)
        self._reviewers = Reviewers(rng)

    def step(self) -> WorldStep:
        """Live through the next step."""
        start, self.now = self.now, self.now + STEP
        decisions = self._router.decide(start)
        self.truth.add(decisions)
        self._reviewers.assign(decisions)
        return WorldStep(start, self.now, decisions, self._reviewers.due(self.now))
