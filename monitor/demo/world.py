"""World of the demo, step by step in event time: router, reviewers, true rates, simulated time.

Everything here is invented: test conditions, not a finding about people. Requests have a latent
readiness, a judge's score and an evidence gate. Unlike a real router, the generator knows whether
each reply was ready, and so the true rates of every slice over any run of whole hours. Reviewers
answer hours later, sometimes cannot decide, sometimes correct themselves. Everything but the clock
is pure and seeded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt

from monitor.core.counts.cells import Int64s, Route
from monitor.core.counts.labels import NOT_READY, READY, UNDECIDABLE
from monitor.core.time import DAY, HOUR, MINUTE, to_micros

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ATTRIBUTES: dict[str, dict[str, float]] = {
    "language_variety": {"formal": 0.40, "conversational": 0.35, "code_switched": 0.25},
    "channel": {"chat": 0.50, "email": 0.30, "voice": 0.20},
    "device": {"phone": 0.55, "desktop": 0.25, "tablet": 0.20, "kiosk": 0.0},
}
"""Values and their shares; attributes are independent. :data:`RARE_EVERY` times the kiosk."""

RARE_VALUE = "kiosk"
RARE_EVERY = 4 * HOUR
"""Time between two rare decisions: six in a window of 24 hours, fewer than k = 11 but never
none, so that the kiosk is never shown."""

REGRESSED = "conversational"
THRESHOLD = 0.70
AUDIT_RATE = 0.05
STEP = 15 * MINUTE
"""Event time of one step of traffic; equal seeds give equal traffic at any pace."""

UNDECIDED = 0.01
CORRECTED = 0.015
REVIEW_HOURS, REVIEW_SIGMA, REVIEW_MOST = 2.0, 0.7, 12.0
AUDIT_HOURS, AUDIT_SIGMA, AUDIT_MOST = 8.0, 0.25, 30.0
"""Delays are log-normal: median and longest in hours. Audits wait longer than the review queue;
with corrections everything is said within two days, before the demo's horizon of three. Their
tail is short, so that slices do not fall back to maturing when the label frontier moves early."""
CORRECTION_HOURS = (0.5, 8.0)
REVIEWERS = 12
KEEP = 10 * 24
"""Hours that true rates are kept: more than any window of the demo and the delay of labels."""

_SLICES = {
    f"{name}={value}": (column, code)
    for column, (name, values) in enumerate(ATTRIBUTES.items())
    for code, value in enumerate(values)
}
BEGINS = to_micros(datetime(2026, 1, 5, tzinfo=UTC))
HISTORY = 3 * DAY
"""Time simulated as fast as possible, so that windows are full soon."""
REGRESSION_AFTER = 36 * HOUR
"""Simulated time without a regression, after the history."""


@dataclass(frozen=True, slots=True)
class World:
    """Parameters of the demo's world: traffic, true rates and the regression.

    Attributes:
        begins: first instant, microseconds; a whole number of hours.
        regression_at: instant from which ready requests of the regressed slice score lower.
        per_day: decisions per day.
        ready: P(ready).
        blocked: P(evidence gate says no), whatever the readiness.
        ready_score: mean score of ready requests.
        unready_score: mean score of requests that are not ready.
        spread: standard deviation of both.
        drop: fall of the mean score of ready requests of the regressed slice.
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


@dataclass(frozen=True)
class Decisions:
    """Simulated decisions as columns of equal length, in order of arrival.

    Attributes:
        number: unique, increasing with decided_at.
        at: decided_at, microseconds.
        values: index of the value of each attribute, shape (n, attributes).
        score: score of the judge, four decimals.
        route: route code.
        ready: true readiness.
        requested: a label is requested.
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
        """Return a mask that is True for decisions that passed the evidence gate."""
        return np.not_equal(self.route, Route.BLOCKED_BY_EVIDENCE)

    @cached_property
    def audit_p(self) -> Floats:
        """Return each decision's probability of a label request: 1 for human_review, else 0.05."""
        return np.where(self.route == Route.HUMAN_REVIEW, 1.0, AUDIT_RATE)

    def take(self, rows: Int64s | Bools) -> Decisions:
        """Return the rows that an index or mask selects."""
        return Decisions(*(getattr(self, field.name)[rows] for field in fields(self)))


class SyntheticRouter:
    """Simulated router that decides step by step; equal seeds give equal decisions."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self._world = world
        self._rng = rng
        self._made = 0

    def decide(self, start: int) -> Decisions:
        """Draw the decisions of the step that begins at ``start``, microseconds, as columns."""
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
        decisions = Decisions(number, at, values, score, route, ready, requested)
        # A minute of disorder, as between a router's replicas: far below stream.lateness.
        return decisions.take(np.argsort(at + rng.exponential(MINUTE / 2, n), kind="stable"))

    def _values(self, n: int, rare: bool) -> Int64s:
        """Draw the attribute values of ``n`` decisions, by number; the first has the rare value."""
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
        """Draw scores, 0 to 1; ready replies of one slice score lower after the regression."""
        world = self._world
        variety = list(ATTRIBUTES).index("language_variety")
        in_slice = values[:, variety] == list(ATTRIBUTES["language_variety"]).index(REGRESSED)
        regressed = in_slice & ready & (at >= world.regression_at)
        mean = np.where(ready, world.ready_score, world.unready_score) - world.drop * regressed
        raw = mean + world.spread * self._rng.standard_normal(len(at))
        return np.asarray(np.round(np.clip(raw, 0.0, 1.0), 4), np.float64)


@dataclass(frozen=True, slots=True)
class Labels:
    """Simulated labels as columns of equal length, in order of labelled_at.

    Attributes:
        number: number of the decision.
        at: decided_at of the decision.
        labelled_at: microseconds.
        ready: 0 not ready, 1 ready, 2 the reviewer could not tell.
        correction: a second label that overrules the first.
        audit: a random audit; else the decision was sent to review.
        reviewer: number of the reviewer.
    """

    number: Int64s
    at: Int64s
    labelled_at: Int64s
    ready: Int64s
    correction: Bools
    audit: Bools
    reviewer: Int64s

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: Int64s | Bools) -> Labels:
        """Return the rows that an index or mask selects."""
        return Labels(*(getattr(self, field.name)[rows] for field in fields(self)))

    def joined(self, more_labels: Labels) -> Labels:
        """Return new Labels with the rows of ``more_labels`` appended."""
        names = [field.name for field in fields(self)]
        return Labels(
            *(np.concatenate([getattr(self, name), getattr(more_labels, name)]) for name in names)
        )


class Reviewers:
    """Simulated reviewers who label requested decisions; equal seeds give equal labels."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._open: Labels | None = None

    def assign(self, decisions: Decisions) -> None:
        """Draw labels, and corrections, for decisions with a label request; keep them until due."""
        asked = decisions.take(decisions.requested)
        fresh = self._first_labels(asked)
        wrong = (self._rng.random(len(fresh)) < CORRECTED) & (fresh.ready != UNDECIDABLE)
        first = replace(fresh, ready=np.where(wrong, 1 - fresh.ready, fresh.ready))
        labels = first.joined(self._corrections(fresh.take(wrong)))
        self._open = labels if self._open is None else self._open.joined(labels)

    def due(self, until: int) -> Labels:
        """Remove and return the labels given before ``until``, microseconds, in time order."""
        if self._open is None:
            raise ValueError("nothing was assigned yet")
        is_due = self._open.labelled_at < until
        given, self._open = self._open.take(is_due), self._open.take(~is_due)
        return given.take(np.argsort(given.labelled_at, kind="stable"))

    def _first_labels(self, asked: Decisions) -> Labels:
        """Draw the first label of each decision, with its delay; few are undecidable."""
        n = len(asked)
        audit = np.not_equal(asked.route, Route.HUMAN_REVIEW)
        ready = np.where(asked.ready, READY, NOT_READY)
        ready = np.where(self._rng.random(n) < UNDECIDED, UNDECIDABLE, ready).astype(np.int64)
        labelled_at = asked.at + self._delays(audit)
        no_correction, reviewer = np.zeros(n, np.bool_), self._rng.integers(0, REVIEWERS, n)
        return Labels(asked.number, asked.at, labelled_at, ready, no_correction, audit, reviewer)

    def _delays(self, audit: Bools) -> Int64s:
        normal: Floats = self._rng.standard_normal(len(audit))
        review = np.minimum(REVIEW_HOURS * np.exp(REVIEW_SIGMA * normal), REVIEW_MOST)
        audits = np.minimum(AUDIT_HOURS * np.exp(AUDIT_SIGMA * normal), AUDIT_MOST)
        return MINUTE + (np.where(audit, audits, review) * HOUR).astype(np.int64)

    def _corrections(self, labels: Labels) -> Labels:
        """Return second labels for wrongly labelled decisions; ``labels`` holds the truth."""
        n = len(labels)
        delays = (self._rng.uniform(*CORRECTION_HOURS, n) * HOUR).astype(np.int64)
        correction = np.ones(n, np.bool_)
        return replace(labels, labelled_at=labels.labelled_at + delays, correction=correction)


@dataclass(frozen=True, slots=True)
class WorldStep:
    """Decisions and labels of one step of event time, ``start`` to ``end`` in microseconds."""

    start: int
    end: int
    decisions: Decisions
    labels: Labels


class Synthetic:
    """World of the demo with router, reviewers and truth; equal seeds give equal histories."""

    def __init__(self, seed: int, world: World | None = None) -> None:
        regression_at = BEGINS + HISTORY + REGRESSION_AFTER
        self.world = world or World(BEGINS, regression_at)
        self.truth = Truth()
        self.now = self.world.begins
        rng = np.random.default_rng(seed)
        self._router = SyntheticRouter(self.world, rng)
        self._reviewers = Reviewers(rng)

    def step(self) -> WorldStep:
        """Advance by STEP: decide, count the truth, assign labels; return the step's events."""
        start, self.now = self.now, self.now + STEP
        decisions = self._router.decide(start)
        self.truth.add(decisions)
        self._reviewers.assign(decisions)
        return WorldStep(start, self.now, decisions, self._reviewers.due(self.now))


class SimulatedClock:
    """Clock whose ``now`` changes only through ``move``; durations stay real.

    Args:
        begins: microseconds since 1970 UTC.
    """

    def __init__(self, begins: int) -> None:
        self._now = begins

    def move(self, to: int) -> None:
        """Set the simulated time to ``to``, microseconds since 1970 UTC."""
        self._now = to

    def now(self) -> int:
        """Return the simulated time, microseconds since 1970 UTC."""
        return self._now

    def monotonic(self) -> float:
        """Return real seconds since some fixed moment."""
        return time.monotonic()


class Truth:
    """Hourly counts of ready and auto-served ready requests in every slice.

    Only requests with evidence passed count, as in the TPR. One thread adds, others may read.
    """

    def __init__(self) -> None:
        self._hours: dict[int, dict[str, Int64s]] = {}

    def add(self, decisions: Decisions) -> None:
        """Add decisions to the hourly counts: ready ones that passed the evidence gate."""
        rows = decisions.take(decisions.passed & decisions.ready)
        hours = rows.at // HOUR
        for hour in np.unique(hours).tolist():
            self._add_hour(hour, rows.take(hours == hour))

    def _add_hour(self, hour: int, rows: Decisions) -> None:
        """Add decisions and served ones of an hour by slice, and forget the hour KEEP before."""
        served = rows.route == Route.AUTO_SERVE
        table = dict(self._hours.get(hour, {}))
        for text, (column, code) in _SLICES.items():
            inside = rows.values[:, column] == code
            fresh = np.array([inside.sum(), (inside & served).sum()], np.int64)
            table[text] = table.get(text, np.zeros(2, np.int64)) + fresh
        self._hours[hour] = table  # replaced as a whole, for the thread that reads
        self._hours.pop(hour - KEEP, None)

    def tpr(self, text: str, start: int, end: int) -> float | None:
        """Return the realised P(auto_serve | ready) of a slice in [start, end), microseconds.

        Args:
            text: slice text.
            start: whole hours.
            end: whole hours.

        Returns:
            None without ready requests.
        """
        hours = range(start // HOUR, end // HOUR)
        tables = [table for hour in hours if (table := self._hours.get(hour)) is not None]
        ready, served = sum((table[text] for table in tables), np.zeros(2, np.int64)).tolist()
        return served / ready if ready else None
