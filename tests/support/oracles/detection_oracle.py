"""What the sequential tests must compute: slow, scalar, from the formulas alone.

Nothing is shared with :mod:`monitor.detection` but the type of a stream. Every function works on
floats, and those that only multiply work on Fractions too, so that expectations can be exact.
Rates are always those of "the event y": ready for a TPR, not ready for an FPR.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from scipy.optimize import brentq, minimize_scalar

from monitor.core.metric import Metric
from monitor.detection.pages.streams import Stream, StreamKind

Number = Fraction | float

BELOW, ABOVE = -1, 1
"""The direction of the evidence: the rate is below, or above, the boundary."""

FRACTIONS = (0.02, 0.05, 0.12, 0.25, 0.5, 0.9)
"""Bets of a level, as fractions of the largest one that cannot lose everything."""

GAPS_BEYOND = (0.03, 0.06, 0.12, 0.25, 0.45)
"""Alternatives of a gap, beyond the limit."""

UNLABELLED, HIT, MISS = "unlabelled", "y", "not y"


# --- One sample: the augmented bet --------------------------------------------------------------


@dataclass(frozen=True)
class Stratum:
    """Decisions that are alike: ``guess`` is f, what is believed of P(y); ``audit`` is pi."""

    auto: bool
    guess: Number
    audit: Number

    @property
    def outcomes(self) -> tuple[str, ...]:
        return (HIT, MISS) if self.audit == 1 else (UNLABELLED, HIT, MISS)

    def estimate(self, outcome: str) -> Number:
        """g: unbiased for P(y), if the guess or the audit rate is right."""
        f, pi = self.guess, self.audit
        return {UNLABELLED: f, HIT: f + (1 - f) / pi, MISS: f - f / pi}[outcome]

    def z(self, outcome: str, boundary: Number) -> Number:
        return (int(self.auto) - boundary) * self.estimate(outcome)


@dataclass(frozen=True)
class Counted:
    """Decisions of a stratum, the labelled ones, and those of them with y."""

    decisions: int
    labelled: int
    hits: int

    def by_outcome(self) -> dict[str, int]:
        return {
            UNLABELLED: self.decisions - self.labelled,
            HIT: self.hits,
            MISS: self.labelled - self.hits,
        }


Cohort = Sequence[tuple[Stratum, Counted]]


def largest_lam(strata: Iterable[Stratum], boundary: Number, side: int) -> Number:
    """The bet that loses everything in the worst possible outcome; 0 where nothing can be lost."""
    worst = max(-side * s.z(o, boundary) for s in strata for o in s.outcomes)
    return 1 / worst if worst > 0 else 0


def level_log_e(cohort: Cohort, boundary: Number, lam: Number, side: int) -> float:
    total = 0.0
    for stratum, counted in cohort:
        for outcome, count in counted.by_outcome().items():
            if count:
                factor = float(1 + side * lam * stratum.z(outcome, boundary))
                total += count * safe_log(factor)
    return total


def safe_log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


Labels = dict[tuple[int, ...], tuple[float, float]]
"""Labelled and ready, by slice, route, audit rate and band."""


def remembered(labels: Labels, days: float) -> Labels:
    kept = 0.5 ** (days / 14)
    return {at: (kept * labelled, kept * ready) for at, (labelled, ready) in labels.items()}


def forecast_ready(labels: Labels, at: tuple[int, ...]) -> float:
    """P(ready) of a stratum of a slice, shrunk to all slices, to the route, and to one half."""
    _, route, rate, band = at
    of_route = [counts for (_, r, _, _), counts in labels.items() if r == route]
    of_all = [counts for key, counts in labels.items() if key[1:] == (route, rate, band)]
    guess = 0.5
    for counts, strength in ((of_route, 2), (of_all, 20), ([labels.get(at, (0, 0))], 20)):
        labelled, ready = (sum(column) for column in zip((0, 0), *counts, strict=True))
        guess = (ready + strength * guess) / (labelled + strength)
    return guess


# --- One sample without sampling: likelihood ratios ---------------------------------------------


def alternatives(boundary: float, side: int) -> list[float]:
    low, high = min(0.01, boundary / 2), max(0.99, (1 + boundary) / 2)
    return [
        min(max(boundary + side * step, low), high)
        for step in (0.02, 0.035, 0.06, 0.10, 0.17, 0.30)
    ]


def log_likelihood_ratio(trials: int, hits: int, null: float, alternative: float) -> float:
    total = 0.0
    if hits:
        total += hits * math.log(alternative / null)
    if trials - hits:
        total += (trials - hits) * math.log((1 - alternative) / (1 - null))
    return total


# --- Two samples: the augmented bet -------------------------------------------------------------


@dataclass(frozen=True)
class Rung:
    """One interval of the grid: evidence that a is above one level and b below another."""

    above: Number
    lam_above: Number
    below: Number
    lam_below: Number


def gap_log_es(a: Cohort, b: Cohort, rungs: Sequence[Rung]) -> list[float]:
    return [
        level_log_e(a, rung.above, rung.lam_above, ABOVE)
        + level_log_e(b, rung.below, rung.lam_below, BELOW)
        for rung in rungs
    ]


def gap_log_e(a: Cohort, b: Cohort, rungs: Sequence[Rung]) -> float:
    """Evidence that a exceeds b by more than the limit: that of the least convinced rung."""
    return min(gap_log_es(a, b, rungs))


def covered(rungs: Sequence[Rung], a: float, b: float) -> bool:
    """Whether some rung has both of its nulls true for this pair of rates."""
    return any(
        (rung.lam_above == 0 or a <= rung.above + 1e-12)
        and (rung.lam_below == 0 or b >= rung.below - 1e-12)
        for rung in rungs
    )


def uncovered(rungs: Sequence[Rung], limit: float, steps: int = 200) -> list[tuple[float, float]]:
    """Pairs within the limit that no rung is valid for: must be none for E[e] <= 1.

    Looked for on an even grid and close to where a rung stops being valid.
    """
    edges = {float(rung.below) for rung in rungs} | {float(rung.above) - limit for rung in rungs}
    near = {edge + shift for edge in edges for shift in (-1e-9, 0.0, 1e-9)}
    lower = {i / steps for i in range(steps + 1)} | {b for b in near if 0 <= b <= 1}
    return [
        (a, b)
        for b in sorted(lower)
        for a in (min(1.0, b + limit), b, 0.0)
        if not covered(rungs, a, b)
    ]


def cell_shares(rate: float, base: float, other: float) -> dict[bool, tuple[float, float]]:
    """By auto or not: share of decisions and P(y | route), for an arm with this rate.

    Args:
        rate: P(auto | y).
        base: P(y).
        other: P(auto | not y).
    """
    auto = base * rate + (1 - base) * other
    return {True: (auto, base * rate / auto), False: (1 - auto, base * (1 - rate) / (1 - auto))}


Cells = list[tuple[Number, Stratum, str]]
"""The distribution of one decision: probability, stratum, outcome."""


def truth(
    strata: Sequence[Stratum],
    shares: Sequence[Number],
    hit_rates: Sequence[Number],
    audits: Sequence[Number] | None = None,
) -> Cells:
    """The distribution of one decision, when the strata have these shares and these P(y).

    Args:
        strata: with what is believed.
        shares: P(stratum).
        hit_rates: P(y | stratum) as it is.
        audits: rates of labels as they are; those of the strata where None.
    """
    cells: Cells = []
    real = [stratum.audit for stratum in strata] if audits is None else audits
    for stratum, share, rate, audit in zip(strata, shares, hit_rates, real, strict=True):
        for outcome in stratum.outcomes:
            chance = {UNLABELLED: 1 - audit, HIT: audit * rate, MISS: audit * (1 - rate)}[outcome]
            cells.append((share * chance, stratum, outcome))
    return cells


def growth(cells: Cells, boundary: float, lam: float, side: int) -> float:
    """E[log e] of one decision."""
    return sum(
        float(p) * safe_log(1 + side * lam * float(stratum.z(outcome, boundary)))
        for p, stratum, outcome in cells
        if p > 0
    )


def growth_optimal_lam(cells: Cells, boundary: float, side: int) -> float:
    """The bet with the largest E[log e]; 0 where the distribution is on the null's side."""
    drift = sum(float(p) * side * float(stratum.z(o, boundary)) for p, stratum, o in cells)
    if drift <= 0:
        return 0.0
    most = float(largest_lam([stratum for _, stratum, _ in cells], boundary, side))
    found = minimize_scalar(
        lambda lam: -growth(cells, boundary, lam, side),
        bounds=(0.0, most * (1 - 1e-9)),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return float(found.x)


# --- Two samples without sampling: the projection -----------------------------------------------


def gap_alternative(level: float, n_a: float, n_b: float, gap: float) -> tuple[float, float]:
    a1 = min(level + gap * n_b / (n_a + n_b), 0.995)
    b1 = max(a1 - gap, 0.005)
    return min(b1 + gap, 0.995), b1


def projection(a1: float, b1: float, n_a: float, n_b: float, limit: float) -> tuple[float, float]:
    """The point of the null's boundary nearest to the alternative; the alternative if inside."""
    if a1 - b1 <= limit:
        return a1, b1

    def slope(b0: float) -> float:
        a0 = b0 + limit
        return n_a * (a1 - a0) / (a0 * (1 - a0)) - n_b * (b0 - b1) / (b0 * (1 - b0))

    b0 = float(brentq(slope, b1, a1 - limit, xtol=1e-15, rtol=1e-14))
    return b0 + limit, b0


def divergence(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


@dataclass(frozen=True)
class Pair:
    """Trials and hits of the two arms of a gap."""

    n_a: int
    k_a: int
    n_b: int
    k_b: int


def projection_log_e(pair: Pair, a1: float, b1: float, limit: float) -> float:
    a0, b0 = projection(a1, b1, pair.n_a, pair.n_b, limit)
    first = log_likelihood_ratio(pair.n_a, pair.k_a, a0, a1)
    return first + log_likelihood_ratio(pair.n_b, pair.k_b, b0, b1)


def projection_log_es(pair: Pair, level: float, limit: float) -> list[float]:
    """One for each of the gaps beyond the limit."""
    return [
        projection_log_e(pair, *gap_alternative(level, pair.n_a, pair.n_b, limit + beyond), limit)
        for beyond in GAPS_BEYOND
    ]


@dataclass
class Level:
    """The pooled rate that alternatives are built around: half its weight gone after 1,000."""

    trials: float = 20.0
    hits: float = 20.0 * 0.85

    @property
    def rate(self) -> float:
        return self.hits / self.trials

    def learn(self, pair: Pair) -> None:
        kept = 2 ** (-(pair.n_a + pair.n_b) / 1000)
        self.trials = kept * self.trials + pair.n_a + pair.n_b
        self.hits = kept * self.hits + pair.k_a + pair.k_b


# --- The mixture over starting times and alternatives -------------------------------------------


@dataclass
class Mixture:
    """Shiryaev-Roberts by its definition: the sum over all starting times since the last reset."""

    weights: Sequence[float]
    pending: float = 0.0
    bets: list[tuple[float, Sequence[float]]] = field(default_factory=list)

    def advance(self, clock: float) -> None:
        self.pending += clock

    def bet(self, log_es: Sequence[float], cluster_size: float = 1.0) -> None:
        self.bets.append((self.pending, [log_e / cluster_size for log_e in log_es]))
        self.pending = 0.0

    def reset(self) -> None:
        self.bets, self.pending = [], 0.0

    @property
    def statistic(self) -> float:
        """log of sum over starts s and alternatives m of mass_s w_m prod over t >= s of e_mt."""
        terms = [
            math.log(mass * weight) + sum(later[m] for _, later in self.bets[start:])
            for start, (mass, _) in enumerate(self.bets)
            for m, weight in enumerate(self.weights)
            if mass * weight > 0
        ]
        return log_sum_exp(terms)


def log_sum_exp(terms: Sequence[float]) -> float:
    most = max(terms, default=-math.inf)
    if most == -math.inf:
        return most
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))


# --- The budget, pages, tickets -----------------------------------------------------------------


def share_of_kind(stream: Stream) -> Fraction:
    if stream.kind == StreamKind.LEVEL:
        return Fraction(20, 100)
    return Fraction(40 if stream.metric is Metric.TPR else 20, 100)


def share_of_depth(stream: Stream) -> Fraction:
    return Fraction({1: 70, 2: 25}.get(stream.group_by.count("+") + 1, 5), 100)


def budget_class(stream: Stream) -> tuple[str, int]:
    kind = "level" if stream.kind == StreamKind.LEVEL else stream.metric.value
    return kind, min(3, stream.group_by.count("+") + 1)


def budget(declarations: Sequence[Sequence[Stream]]) -> dict[Stream, Fraction]:
    """Weights of all streams after these declarations, the first ones first; in fractions.

    The first leave a fifth; the d-th later one that adds something spends 1 / (d + 1) of what is
    left, and no stream gets more than the heaviest before it.
    """
    weights: dict[Stream, Fraction] = {}
    later = 0
    for declared in declarations:
        new = set(declared) - weights.keys()
        if not new:
            continue
        left = 1 - sum(weights.values(), Fraction(0))
        later += bool(weights)
        spent = left / (later + 1) if weights else left * Fraction(4, 5)
        most = max(weights.values(), default=Fraction(1))
        present = {budget_class(one): share_of_kind(one) * share_of_depth(one) for one in new}
        for one in new:
            alike = sum(budget_class(other) == budget_class(one) for other in new)
            part = present[budget_class(one)] / sum(present.values()) / alike
            weights[one] = min(spent * part, most)
    return weights


def pages(statistic: float, weight: float, budget_days: float = 90.0) -> bool:
    return weight > 0 and statistic + math.log(weight) >= math.log(budget_days)


def pages_of(
    cohorts: Iterable[tuple[float, Mapping[str, Sequence[float]]]],
    weights: Mapping[str, float],
    mixture: Sequence[float],
    budget_days: float = 90.0,
) -> list[tuple[int, str]]:
    """Which stream pages at which cohort; a stream that has paged starts again from nothing.

    Args:
        cohorts: days since the one before, and the log e-values of the streams that bet.
        weights: of the streams.
        mixture: weights of the alternatives.
        budget_days: event days per expected false page.
    """
    running = {name: Mixture(mixture) for name in weights}
    found = []
    for at, (days, bets) in enumerate(cohorts):
        for name, stream in running.items():
            stream.advance(days)
            if name in bets:
                stream.bet(bets[name])
            if pages(stream.statistic, weights[name], budget_days):
                found.append((at, name))
                stream.reset()
    return found


def iso_week(hour: int) -> tuple[int, int]:
    """ISO year and week of an hour since 1970."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
    return at.isocalendar()[:2]


def weekly_log_es(
    panes: Iterable[tuple[int, Sequence[float] | None]], mixture: Sequence[float]
) -> dict[tuple[int, int], float]:
    """The e-value of every ISO week: a mixture started empty, with clock increments in weeks.

    Args:
        panes: hours since 1970, increasing, each an hour long; log e-values, None without a bet.
        mixture: weights of the alternatives.
    """
    weeks: dict[tuple[int, int], Mixture] = {}
    for hour, log_es in panes:
        week = weeks.setdefault(iso_week(hour), Mixture(mixture))
        week.advance(1 / (7 * 24))
        if log_es is not None:
            week.bet(log_es)
    return {name: week.statistic for name, week in weeks.items()}


def e_bh(log_es: Sequence[float], log_weights: Sequence[float], alpha: float) -> list[bool]:
    """Weighted e-BH: the k best, for the largest k whose k-th is at least 1 / (alpha k)."""
    scores = [e + w for e, w in zip(log_es, log_weights, strict=True)]
    best = 0
    for k in range(1, len(scores) + 1):
        if sorted(scores, reverse=True)[k - 1] >= -math.log(alpha) - math.log(k):
            best = k
    if best == 0:
        return [False] * len(scores)
    return [score >= -math.log(alpha) - math.log(best) for score in scores]


def e_bh_by_subsets(
    log_es: Sequence[float], log_weights: Sequence[float], alpha: float
) -> list[bool]:
    """The largest self-consistent set: every member's weighted e-value is >= 1 / (alpha size)."""
    scores = [e + w for e, w in zip(log_es, log_weights, strict=True)]
    everything = range(len(scores))
    for size in reversed(everything):
        bar = -math.log(alpha) - math.log(size + 1)
        for members in itertools.combinations(everything, size + 1):
            if all(scores[i] >= bar for i in members):
                return [i in members for i in everything]
    return [False] * len(scores)


# --- Expectations by enumeration ----------------------------------------------------------------


def expected_e(cells: Cells, decisions: int, e: Callable[[Cohort], Number]) -> Number:
    """E[e] over everything that can happen to a few decisions; exact for Fractions."""
    return sum(
        (chance * e(cohort) for chance, cohort in possible_cohorts(cells, decisions)), Fraction(0)
    )


def possible_cohorts(cells: Cells, decisions: int) -> Iterator[tuple[Number, Cohort]]:
    """All counts that so many decisions can have, each with its multinomial probability."""
    strata = list(dict.fromkeys(stratum for _, stratum, _ in cells))
    for counts in compositions(decisions, len(cells)):
        chance: Number = math.factorial(decisions)
        seen = {stratum: Counted(0, 0, 0) for stratum in strata}
        for (p, stratum, outcome), count in zip(cells, counts, strict=True):
            chance = chance * p**count / math.factorial(count)
            seen[stratum] = add(seen[stratum], outcome, count)
        if chance:
            yield chance, list(seen.items())


def add(counted: Counted, outcome: str, count: int) -> Counted:
    return replace(
        counted,
        decisions=counted.decisions + count,
        labelled=counted.labelled + count * (outcome != UNLABELLED),
        hits=counted.hits + count * (outcome == HIT),
    )


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def binomial(hits: int, trials: int, rate: float) -> float:
    return math.comb(trials, hits) * rate**hits * (1 - rate) ** (trials - hits)


# --- Simulation at the boundary -----------------------------------------------------------------
