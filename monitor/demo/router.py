"""A synthetic router: requests with a latent readiness, a judge's score and an evidence gate.

Everything here is invented: test conditions, not a finding about people. The generator knows of
every request whether its reply was ready, which no real router does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s, Route
from monitor.core.time import DAY, HOUR, MINUTE

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ATTRIBUTES: dict[str, dict[str, float]] = {
    "language_variety": {"formal": 0.40, "conversational": 0.35, "code_switched": 0.25},
    "channel": {"chat": 0.50, "email": 0.30, "voice": 0.20},
    "device": {"phone": 0.55, "desktop": 0.25, "tablet": 0.20, "kiosk": 0.0},
}
"""Values and their shares; attributes are independent. The kiosk comes by :data:`RARE_EVERY`."""

RARE_VALUE = "kiosk"
RARE_EVERY = 4 * HOUR
"""One decision in four hours: six in a window of 24 hours, fewer than k = 11 but never none, so
that what is pooled does not change from cycle to cycle."""

REGRESSED = "conversational"
THRESHOLD = 0.70
AUDIT_RATE = 0.05
STEP = 15 * MINUTE
"""Traffic comes in steps of so much event time; equal seeds give equal traffic at any pace."""


@dataclass(frozen=True, slots=True)
class World:
    """Parameters of the demo's world, true by construction.

    Attributes:
        begins: first instant, microseconds; a whole number of hours.
        regression_at: when ready requests of the regressed slice begin to score lower.
        per_day: decisions a day.
        ready: P(ready).
        blocked: P(evidence gate says no), whatever the readiness.
        ready_score: mean score of ready requests.
        unready_score: mean score of requests that are not ready.
        spread: standard deviation of both.
        drop: by how much the mean score of ready requests of the regressed slice falls.
    """

    begins: int
    regression_at: int
    per_day: int = 20_000
    ready: float = 0.60
    blocked: float = 0.08
    ready_score: float = 0.82
    unready_score: float = 0.54
    spread: float = 0.12
    drop: float = 0.10

    def tpr(self, regressed: bool) -> float:
        """The router's true P(auto_serve | ready), evidence passed."""
        mean = self.ready_score - (self.drop if regressed else 0.0)
        return 1 - NormalDist(mean, self.spread).cdf(THRESHOLD)

    @property
    def fpr(self) -> float:
        """The router's true P(auto_serve | not ready), evidence passed; the same everywhere."""
        return 1 - NormalDist(self.unready_score, self.spread).cdf(THRESHOLD)


@dataclass(frozen=True)
class Decisions:
    """Decisions as columns of equal length, in order of arrival.

    Attributes:
        number: unique, increasing with decided_at.
        at: decided_at, microseconds.
        values: index of the value of each attribute, shape (n, attributes).
        score: of the judge, four decimals.
        route: route code.
        ready: the truth.
        requested: a label is asked for.
    """

    number: Int64s
    at: Int64s
    values: Int64s
    score: Floats
    route: Int64s
    ready: Bools
    requested: Bools

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def passed(self) -> Bools:
        """The evidence gate let it through."""
        return np.not_equal(self.route, Route.BLOCKED_BY_EVIDENCE)

    @cached_property
    def audit_p(self) -> Floats:
        """Probability with which a label is asked for: all of human_review, 5 % of the rest."""
        return np.where(self.route == Route.HUMAN_REVIEW, 1.0, AUDIT_RATE)

    def take(self, rows: Int64s | Bools) -> Decisions:
        """The chosen rows, in the order given."""
        return Decisions(*(getattr(self, f.name)[rows] for f in fields(self)))


class SyntheticRouter:
    """Makes decisions step by step; equal seeds make equal decisions."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self._world = world
        self._rng = rng
        self._made = 0

    def decide(self, start: int) -> Decisions:
        """All decisions of the step that begins at ``start``."""
        world, rng = self._world, self._rng
        n = int(rng.poisson(world.per_day * STEP / DAY))
        at = start + np.sort(rng.integers(0, STEP, n))
        values = self._values(n, rare=start % RARE_EVERY == 0)
        ready = rng.random(n) < world.ready
        score = self._scores(at, values, ready)
        blocked = rng.random(n) < world.blocked
        served = np.where(score >= THRESHOLD, Route.AUTO_SERVE, Route.HUMAN_REVIEW)
        route = np.where(blocked, Route.BLOCKED_BY_EVIDENCE, served).astype(np.int64)
        requested = (route == Route.HUMAN_REVIEW) | (rng.random(n) < AUDIT_RATE)
        number = self._made + np.arange(n)
        self._made += n
        made = Decisions(number, at, values, score, route, ready, requested)
        # A minute of disorder, as between a router's replicas: far below stream.lateness.
        return made.take(np.argsort(at + rng.exponential(MINUTE / 2, n), kind="stable"))

    def _values(self, n: int, rare: bool) -> Int64s:
        columns = [
            self._rng.choice(len(shares), n, p=list(shares.values()))
            for shares in ATTRIBUTES.values()
        ]
        values = np.stack(columns, axis=1).astype(np.int64)
        if rare and n:
            device = list(ATTRIBUTES).index("device")
            values[0, device] = list(ATTRIBUTES["device"]).index(RARE_VALUE)
        return values

    def _scores(self, at: Int64s, values: Int64s, ready: Bools) -> Floats:
        world = self._world
        variety = list(ATTRIBUTES).index("language_variety")
        hit = values[:, variety] == list(ATTRIBUTES["language_variety"]).index(REGRESSED)
        regressed = hit & ready & (at >= world.regression_at)
        mean = np.where(ready, world.ready_score, world.unready_score) - world.drop * regressed
        raw = mean + world.spread * self._rng.standard_normal(len(at))
        return np.asarray(np.round(np.clip(raw, 0.0, 1.0), 4), np.float64)
