"""The demo's world: simulated time, router and reviewers step by step, and the truth.

Event time runs thousands of times faster than the wall clock; all else is pure and seeded. True
rates per slice are known to the generator, over any run of whole hours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from monitor.core.counts.cells import OTHER, Int64s, Route, parse_atom
from monitor.core.time import DAY, HOUR, to_micros
from monitor.demo.reviewers import Labels, Reviewers
from monitor.demo.router import ATTRIBUTES, STEP, Decisions, SyntheticRouter, World

KEEP = 10 * 24
"""Hours that are remembered: more than any window of the demo and its labels' delay."""

_SLICES = {
    f"{name}={value}": (column, code)
    for column, (name, values) in enumerate(ATTRIBUTES.items())
    for code, value in enumerate(values)
}
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


class SimulatedClock:
    """A Clock whose ``now`` is simulated; durations stay real.

    Until :meth:`start` it stays at its beginning.

    Example:
        >>> seconds = iter([100.0, 102.5])
        >>> clock = SimulatedClock(1_000_000, speed=10, monotonic=lambda: next(seconds))
        >>> clock.start()
        >>> clock.now()
        26000000

    Args:
        begins: microseconds since 1970 UTC.
        speed: simulated seconds a second.
        monotonic: real seconds.
    """

    def __init__(
        self, begins: int, speed: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.speed = speed
        self._begins = begins
        self._monotonic = monotonic
        self._started: float | None = None

    def start(self) -> None:
        """Let simulated time run."""
        self._started = self._monotonic()

    def now(self) -> int:
        """Simulated microseconds since 1970 UTC."""
        if self._started is None:
            return self._begins
        return self._begins + round((self._monotonic() - self._started) * self.speed * 1e6)

    def monotonic(self) -> float:
        """Real seconds since some fixed moment."""
        return self._monotonic()


class Truth:
    """Counts of every slice by hour: ready requests, and those of them that were auto-served.

    Evidence passed only, as in the TPR. One thread adds, others may read.
    """

    def __init__(self) -> None:
        self._hours: dict[int, dict[str, Int64s]] = {}

    def add(self, decisions: Decisions) -> None:
        """Remember decisions."""
        rows = decisions.take(decisions.passed & decisions.ready)
        hours = rows.at // HOUR
        for hour in np.unique(hours).tolist():
            self._add_hour(hour, rows.take(hours == hour))

    def _add_hour(self, hour: int, rows: Decisions) -> None:
        served = rows.route == Route.AUTO_SERVE
        table = dict(self._hours.get(hour, {}))
        for text, (column, code) in _SLICES.items():
            inside = rows.values[:, column] == code
            fresh = np.array([inside.sum(), (inside & served).sum()], np.int64)
            table[text] = table.get(text, np.zeros(2, np.int64)) + fresh
        self._hours[hour] = table  # replaced as a whole, for the thread that reads
        self._hours.pop(hour - KEEP, None)

    def tpr(self, text: str, start: int, end: int, shown: Iterable[str] = ()) -> float | None:
        """The realised P(auto_serve | ready) of a slice in [start, end), microseconds.

        Args:
            text: slice text; ``name=__other__`` is every value that is not in ``shown``.
            start: whole hours.
            end: whole hours.
            shown: the slices that are listed next to ``__other__``.

        Returns:
            None without ready requests.
        """
        (name, value), *_ = parse_atom(text).items()
        texts = {text}
        if value == OTHER:
            texts = {one for one in _SLICES if one.startswith(f"{name}=")} - set(shown)
        ready, served = self._sum(texts, range(start // HOUR, end // HOUR))
        return served / ready if ready else None

    def _sum(self, texts: Iterable[str], hours: range) -> tuple[int, int]:
        tables = [table for hour in hours if (table := self._hours.get(hour)) is not None]
        total = sum((table[text] for table in tables for text in texts), np.zeros(2, np.int64))
        ready, served = total.tolist()
        return ready, served
