"""Cohorts mature although some labels never come: simulated with delays as reviewers have them.

Audits come after a day (median, log-normal), reviews after an hour; 2 % of all labels never come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from monitor.core.counts.cells import Int64s, Route, Stratum
from monitor.core.counts.completeness import MATURE, CohortState, mature
from monitor.core.intervals import Floats
from monitor.core.time import DAY, HOUR
from monitor.evaluate.cohorts import CohortColumns, Cohorts

pytestmark = pytest.mark.full

DAYS, HORIZON_DAYS, STEP = 61, 30, 3
HOURS = DAYS * 24
JUDGED = range(24, HOURS - (HORIZON_DAYS + 1) * 24)
"""Hours that have had a day before them and a horizon after them."""
STRATA = 30
AUDITS = np.arange(STRATA) % 2 == 0
SPREAD = 0.8  # of the logarithm of a delay: 1 of 40 audits takes five days
NEVER = 1e9


@dataclass
class World:
    """Requests by hour and stratum, and when each was answered (hours; NEVER)."""

    requests: Int64s
    hours: Int64s
    strata: Int64s
    answered: Floats

    @classmethod
    def of(cls, seed: int, rates: Floats, lost: Floats) -> World:
        rng = np.random.default_rng(seed)
        requests = rng.poisson(rates, (HOURS, len(rates)))
        rows = np.argwhere(requests)
        hours, strata = np.repeat(rows, requests[rows[:, 0], rows[:, 1]], axis=0).T
        delays = np.where(AUDITS, 24.0, 1.0)[strata] * np.exp(rng.normal(0, SPREAD, len(strata)))
        answered = hours + rng.random(len(hours)) + delays
        answered[rng.random(len(hours)) < lost[strata]] = NEVER
        order = np.argsort(answered)
        return cls(requests, hours[order], strata[order], answered[order])

    def came(self, since: float, until: float) -> Int64s:
        """Labels by hour and stratum that came in this time."""
        begin, end = np.searchsorted(self.answered, (since, until))
        cells = self.hours[begin:end] * self.requests.shape[1] + self.strata[begin:end]
        return np.bincount(cells, minlength=self.requests.size).reshape(self.requests.shape)


@dataclass
class Run:
    """What became of the hours that are judged."""

    world: World
    consumed: list[int] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    received: list[Int64s] = field(default_factory=list)

    @property
    def share(self) -> float:
        return len(self.consumed) / len(JUDGED)

    def delay(self, quantile: float) -> float:
        """Days from the end of an hour until its cohort is consumed."""
        return float(np.quantile(self.delays, quantile)) / 24

    @property
    def by_stratum_and_day(self) -> Floats:
        """Completeness of what was consumed, as it was then; days with few requests left out."""
        asked = self._days(self.world.requests[self.consumed])
        got = self._days(np.array(self.received))
        many = asked >= 200
        shares: Floats = got[many] / asked[many]
        return shares

    def _days(self, hourly: Int64s) -> Int64s:
        whole = len(hourly) // 24 * 24
        days: Int64s = hourly[:whole].reshape(-1, 24, STRATA).sum(axis=1)
        return days

    def __str__(self) -> str:
        got, asked = np.sum(self.received), self.world.requests[self.consumed].sum()
        return (
            f"consumed {self.share:.1%}, after {self.delay(0.5):.1f} days (median),"
            f" {self.delay(0.95):.1f} days (95 %), complete to {got / asked:.3f}"
        )


def play(world: World) -> Run:
    """The evaluator's look at it, every three hours."""
    run, cohorts = Run(world), Cohorts()
    codes = [Stratum(Route.AUTO_SERVE if audit else Route.HUMAN_REVIEW, 0, row // 2).code
             for row, audit in enumerate(AUDITS.tolist())]  # fmt: skip
    hours, strata = (axis.ravel() for axis in np.indices(world.requests.shape))
    received, after = np.zeros_like(world.requests), None
    for now in range(STEP, HOURS + 1, STEP):
        labelled = world.came(now - STEP, now)
        came, received = labelled.ravel(), received + labelled
        asked = np.where((hours >= now - STEP) & (hours < now), world.requests.ravel(), 0)
        rows = np.flatnonzero(asked + came)
        labels = CohortColumns(asked[rows], came[rows], np.zeros((len(rows), 8), np.int64))
        cohorts.add(hours[rows], np.array(codes)[strata[rows]], labels)
        for hour, state in turns(cohorts, after, now):
            after = hour
            if state is CohortState.CONSUMED and hour in JUDGED:
                run.consumed.append(hour)
                run.delays.append(now - hour - 1)
                run.received.append(received[hour])
    return run


def turns(cohorts: Cohorts, after: int | None, now: int) -> Iterator[tuple[int, CohortState]]:
    while turn := cohorts.next_cohort(after, now * HOUR, HORIZON_DAYS * DAY, MATURE):
        yield turn
        after = turn[0]


SIZES = {
    "30 strata of 50 requests an hour": np.full(STRATA, 50.0),
    "30 strata of 5 requests an hour": np.full(STRATA, 5.0),
    "30 strata of 0.5 to 200 requests an hour": np.repeat(np.geomspace(0.5, 200, 15), 2),
}


@pytest.mark.parametrize("name", SIZES)
def test_cohorts_are_consumed_long_before_their_horizon(name: str) -> None:
    world = World.of(1, SIZES[name], np.full(STRATA, 0.02))
    run = play(world)
    print(f"{name}: {run}")  # noqa: T201 - shown with -s and on failure
    final = world.came(0, NEVER / 2)
    alone = mature(final, world.requests)[list(JUDGED)].mean()
    assert alone < 0.2, "judged by themselves, most would wait for their horizon"
    assert run.share == 1
    assert run.delay(0.5) < 8
    assert run.delay(0.95) < 12


@pytest.mark.parametrize("name", SIZES)
def test_none_is_consumed_early(name: str) -> None:
    """Of the labels of a stratum no more than 5 % are missing in what is consumed."""
    run = play(World.of(2, SIZES[name], np.full(STRATA, 0.02)))
    received, asked = np.array(run.received), run.world.requests[run.consumed]
    assert (received.sum(axis=0) / asked.sum(axis=0)).min() >= 0.95
    shares = run.by_stratum_and_day
    if len(shares):
        assert (shares >= 0.94).mean() >= 0.99
        assert shares.min() >= 0.92


def test_a_stratum_that_loses_a_tenth_of_its_labels_holds_all_back_to_the_horizon() -> None:
    """Its delays are not told here; then every hour is consumed as it is, none is skipped."""
    lost = np.full(STRATA, 0.02)
    lost[0] = 0.1
    rates = np.full(STRATA, 20.0)
    rates[0] = 200.0
    run = play(World.of(3, rates, lost))
    assert run.share == 1
    assert run.delay(0.01) >= HORIZON_DAYS
