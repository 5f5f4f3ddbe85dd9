"""What a slice's traffic can decide: states of windows, and days until a page.

Run it by ``make bench FOR=traffic`` (some minutes). Windows are drawn at random and built by the
product's own calendar tables; pages come from the shipped bets, in forty fleets of each kind. It
measures "What traffic can decide" in deploy/docs/statistics.md.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import common  # noqa: F401 - makes the other folders of the tests importable

# isort: split
import numpy as np
from cubes import Cell, auto, contract, in_tables, review, window
from daily_gaps import gap_delays, gap_tests
from fleet_catalogue import BEST, Sizes, changing, standing_gaps, steady
from fleet_worlds import GAP, HOURS, Audits, Path, World
from gap_optimum import Arm, gap_limit_days

from monitor.core.contract import GroupBy
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.state import State
from monitor.detection.pages.streams import BUDGET_DAYS

SEED, SLICES = 5, 6
CONTRACT = contract(GroupBy(("w",)))
TPR, FPR = 0.8, 0.1
IN_FLEET, FLEET = 30, 20_000
"""Slices of a fleet that is compared with its complements, and its decisions a day."""
SMALL = (150, 500)
"""Decisions a day of small slices."""


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
        slices = zip("abcdef", sizes, gaps, strict=True)
        cells = [cell for of_slice in slices for cell in self._draw(rng, *of_slice)]
        counted = window(cells, f"{self.days}d")
        seen = in_tables(CONTRACT, Coding((), (), (1.0, self.audit)), counted)
        rows = seen.group(seen.basis(CONTRACT.group_bys[0], counted.kind)).rows
        return [row.states[metric] for row in (rows[:1] if self.gap else rows)]

    def _draw(self, rng: np.random.Generator, name: str, size: float, gap: float) -> Iterator[Cell]:
        for ready, share, served in ((1, self.ready, TPR - gap), (0, 1 - self.ready, FPR + gap)):
            for made, part, audit in ((auto, served, self.audit), (review, 1 - served, 1.0)):
                decisions = int(rng.poisson(size * share * part))
                labelled = int(rng.binomial(decisions, audit))
                rate, labels = int(audit < 1), (labelled, labelled * ready)
                yield made({"w": name}, decisions, *labels, rate=rate)


@dataclass(frozen=True)
class Delay:
    """A TPR gap over a limit of 0.10, 5 % of what is served audited.

    Attributes:
        gap: of the slices in breach, from the tenth day on.
        daily: decisions a day of each of these.
        fleet: decisions a day of all 30 slices, of which one is compared with the others; 0 is nine
            slices that are compared with a tenth, which is as small as they are.
        seeds: fleets.
    """

    gap: float
    daily: int
    fleet: int = 0
    seeds: int = 40

    def world(self, seed: int) -> World:
        """The world of the bench of detection, with other traffic."""
        made = next(w for w in standing_gaps(Sizes()) if w.name == f"gap {self.gap:.2f}")
        sizes, path = np.full(made.size, self.daily), made.path
        if self.fleet:
            rest = (self.fleet - self.daily) / (IN_FLEET - 1)
            sizes = np.array([self.daily, *[rest] * (IN_FLEET - 1)])
            path = self._opened(made.change or 0)
        world = replace(made, path=path, hourly=sizes / HOURS, seed=(seed, *made.seed))
        if not self.fleet:
            return world
        audits = Audits.of(IN_FLEET, 0.05)
        return replace(world, reference=None, audits=audits)

    def delays(self) -> list[float]:
        """Of all seeds, increasing."""
        broken = {0} if self.fleet else set(range(1, Sizes().few))
        return sorted(d for s in range(self.seeds) for d in gap_delays(self.world(s), broken))

    @property
    def limit(self) -> float:
        """Days that no rule with the same false alarms can beat."""
        world = self.world(0)
        cells = world.path(np.array([float(world.days)])).cells(world.profile)[0]
        worse, better = (0, 1) if self.fleet else (1, 0)
        others = self.fleet - self.daily if self.fleet else self.daily
        arms = Arm(cells[better], others, 0.05), Arm(cells[worse], self.daily, 0.05)
        watch = gap_tests(world).gaps[Metric.TPR].watch
        return gap_limit_days(*arms, float(GAP), BUDGET_DAYS / float(watch.weights[0]))

    def _opened(self, change: int) -> Path:
        calm = [BEST] * IN_FLEET
        worse = replace(BEST, tpr=round(BEST.tpr - self.gap, 2))
        return changing(steady(calm), steady([worse, *calm[1:]]), change)


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
    """Days until the page by traffic, and what no rule can beat."""
    plays = [
        Delay(gap, daily, fleet)
        for fleet in (0, FLEET)
        for daily in (240, 600)
        for gap in (0.15, 0.20, 0.30)
    ]
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for one, found in zip(plays, pool.map(Delay.delays, plays), strict=True):
            middle, late = (found[math.ceil(q * len(found)) - 1] for q in (0.5, 0.95))
            share = sum(map(math.isfinite, found)) / len(found)
            against = f"{one.fleet - one.daily:,}" if one.fleet else f"{one.daily:,}"
            figures = f"{middle:.0f}", f"{late:.0f}", f"{share:.0%}", f"{one.limit:.1f}"
            yield f"{one.daily:,}", against, f"{one.gap:.2f}", *figures


def main() -> None:
    """Print all tables; ``--delays``: that of the pages alone."""
    if "--delays" not in sys.argv[1:]:
        windows()
    names = ["decisions a day", "of the reference", "gap", "median days", "p95", "found", "limit"]
    table(names, delays())


def windows() -> None:
    """Print the tables of windows."""
    names = [f"{m} at {r} ready" for r in (0.5, 0.3) for m in ("TPR", "FPR")]
    table(("window", "audits", *names), undecided())
    kinds = [f"{m}, {w}" for w in ("7 d, 5 %", "7 d, 20 %", "28 d, 5 %") for m in ("TPR", "FPR")]
    table(("decisions a day", *kinds), found())


if __name__ == "__main__":
    main()
