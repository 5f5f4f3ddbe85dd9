"""What a slice's traffic can decide: states of windows, and days until a page.

Run it by ``make bench FOR=traffic`` (some minutes). Windows are drawn at random and built by the
product's own :func:`build_rows`; pages come from the shipped rule in the worlds of
``bench_detection``. It measures "What traffic can decide" in deploy/docs/statistics.md.
"""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import common  # noqa: F401 - makes the other folders of the tests importable

# isort: split
import numpy as np
from cubes import LIMITS
from fleet_catalogue import Sizes, standing_gaps
from fleet_play import Score, play
from fleet_shipped import ShippedFleet
from fleet_worlds import HOURS, World

from monitor.core.contract import COMPLEMENT, Metric, State
from monitor.core.counts.cells import COUNTERS, Counter, Int64s, Route, Stratum
from monitor.core.counts.coding import Coding
from monitor.core.counts.rollup import SliceCounts
from monitor.core.privacy.bands import Precision
from monitor.core.privacy.guards import Opened
from monitor.core.publish.rows import Policy, Rolled, build_rows

SEED, SLICES, K = 5, 6, 11
TPR, FPR = 0.8, 0.1
SMALL = (150, 500)
"""Decisions a day of small slices."""
STRATA = (Stratum(Route.AUTO_SERVE, 0, 1).code, Stratum(Route.HUMAN_REVIEW, 0, 0).code)


@dataclass(frozen=True)
class Windows:
    """Windows of six slices, of which the first may be worse off."""

    daily: tuple[int, int]
    days: int
    audit: float
    ready: float = 0.5
    gap: float = 0.0
    times: int = 60

    def shares(self, metric: Metric) -> dict[State, float]:
        """States of the slice in question, or without a gap of all."""
        rng = np.random.default_rng([SEED, self.days, round(100 * self.audit), *self.daily])
        seen: Tally[State] = Tally()
        for _ in range(self.times):
            seen.update(self._states(rng, metric))
        return {state: count / seen.total() for state, count in seen.items()}

    def _states(self, rng: np.random.Generator, metric: Metric) -> list[State]:
        sizes = rng.uniform(*self.daily, SLICES) * self.days
        gaps = [self.gap] + [0.0] * (SLICES - 1)
        drawn = [self._draw(rng, size, gap) for size, gap in zip(sizes, gaps, strict=True)]
        counts = SliceCounts(tuple("abcdef"), np.array(STRATA), np.stack(drawn))
        policy = Policy(LIMITS, Coding((), (), (1.0, self.audit)), Precision(K))
        opened = Opened(np.ones(SLICES, bool), np.ones(SLICES, bool))
        rows = build_rows(policy, Rolled(counts, counts), opened, COMPLEMENT).rows
        return [row.states[metric] for row in (rows[:1] if self.gap else rows)]

    def _draw(self, rng: np.random.Generator, size: float, gap: float) -> Int64s:
        table = np.zeros((len(STRATA), COUNTERS), np.int64)
        for ready, share, served in ((1, self.ready, TPR - gap), (0, 1 - self.ready, FPR + gap)):
            for route, part, audit in ((0, served, self.audit), (1, 1 - served, 1.0)):
                decisions = rng.poisson(size * share * part)
                labelled = rng.binomial(decisions, audit)
                table[route, Counter.N] += decisions
                table[route, [Counter.Q, Counter.LABELLED]] += labelled
                table[route, Counter.READY] += labelled * ready
        return table


@dataclass(frozen=True)
class Delay:
    """A TPR gap over a limit of 0.10 in nine slices, 5 % of what is served audited."""

    gap: float
    daily: int
    seeds: int = 3

    def world(self, seed: int) -> World:
        """The world of the bench of detection, with other traffic."""
        made = next(w for w in standing_gaps(Sizes()) if w.name == f"gap {self.gap:.2f}")
        return replace(made, hourly=np.full(made.size, self.daily / HOURS), seed=(seed, *made.seed))

    def score(self) -> Score:
        """All seeds added up."""
        return reduce(add, (self._play(seed) for seed in range(self.seeds)))

    def _play(self, seed: int) -> Score:
        world = self.world(seed)
        return play(world, {"shipped": ShippedFleet(world)})["shipped"]


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table as the docs have it."""
    for row in (names, ["---"] * len(names), *rows):
        print(f"| {' | '.join(row)} |", flush=True)  # noqa: T201


def undecided() -> Iterable[Sequence[str]]:
    """States of small slices without a gap."""
    for days, audit in ((7, 0.05), (7, 0.15), (7, 0.20), (28, 0.05)):
        cells = []
        for ready in (0.5, 0.3):
            for metric in (Metric.TPR, Metric.FPR):
                found = Windows(SMALL, days, audit, ready).shares(metric)
                cells.append(f"{1 - found.get(State.WITHIN_CONTRACT, 0):.0%}")
        yield f"{days} d", f"{audit:.0%}", *cells


def found() -> Iterable[Sequence[str]]:
    """States of a slice with a gap of 0.15 over a limit of 0.10."""
    for daily in (250, 500, 1_000, 2_000):
        cells = []
        for days, audit in ((7, 0.05), (7, 0.20), (28, 0.05)):
            windows = Windows((daily, daily), days, audit, gap=0.15, times=120)
            for metric in (Metric.TPR, Metric.FPR):
                cells.append(f"{windows.shares(metric).get(State.SUSPECTED, 0):.0%}")
        yield f"{daily:,}", *cells


def delays() -> Iterable[Sequence[str]]:
    """Days until the page by traffic."""
    plays = [Delay(gap, daily) for daily in (240, 500, 1_000) for gap in (0.15, 0.20)]
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for one, score in zip(plays, pool.map(Delay.score, plays), strict=True):
            median, late = (score.quantile("days", q) for q in (0.5, 0.95))
            yield (
                f"{one.gap:.2f}",
                f"{one.daily:,}",
                f"{median:.0f}",
                f"{late:.0f}",
                f"{score.share_found:.0%}",
            )


def main() -> None:
    """Print all tables."""
    names = [f"{m} at {r} ready" for r in (0.5, 0.3) for m in ("TPR", "FPR")]
    table(("window", "audits", *names), undecided())
    kinds = [f"{m}, {w}" for w in ("7 d, 5 %", "7 d, 20 %", "28 d, 5 %") for m in ("TPR", "FPR")]
    table(("decisions a day", *kinds), found())
    table(("gap", "decisions a day", "median days", "p95", "found in 60 days"), delays())


if __name__ == "__main__":
    main()
