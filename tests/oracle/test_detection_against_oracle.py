"""The sequential tests against their oracle: everything generated, everything compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import detection_oracle as oracle
import numpy as np
import numpy.typing as npt
from answered import answered
from betting import level_alternatives
from example_counts import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chisquare

from monitor.core.intervals import Floats
from monitor.core.metric import Metric
from monitor.detection.pages.bet_sizes import _NU, MU, BetSizes
from monitor.detection.pages.budget import Budget, crossed
from monitor.detection.pages.cohort import Layout, SliceCohort
from monitor.detection.pages.gap_bets import GapBets, GapPlan, _Bets
from monitor.detection.pages.levels import LevelBets
from monitor.detection.pages.mixture import SrMixture
from monitor.detection.pages.outcomes import Outcomes
from monitor.detection.pages.projection import (
    PairCounts,
    PairLevel,
    gap_alternatives,
    gap_log_e,
    log_likelihood_ratio,
    project,
    thin,
    trials,
)
from monitor.detection.pages.ready import Forecast, ReadyRates
from monitor.detection.pages.streams import Direction, Stream, StreamKind
from monitor.detection.pages.weekly_evidence import WeekBets, ebh

SLOWLY = settings(deadline=None)

rates = st.floats(0.001, 0.999)
limits = st.sampled_from([0.0, 0.02, 0.05, 0.1, 0.15, 0.3])
log_es = st.one_of(st.floats(-60, 60), st.just(-math.inf), st.just(0.0))


@st.composite
def arms(draw: st.DrawFn) -> tuple[int, int]:
    """Trials and hits; none, one and very many among them."""
    trials = draw(st.one_of(st.integers(0, 30), st.integers(0, 100_000)))
    return trials, draw(st.one_of(st.sampled_from([0, trials]), st.integers(0, trials)))


def close(found: npt.ArrayLike, expected: npt.ArrayLike, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-9, atol=atol)


# --- Likelihood ratios ----------------------------------------------------------------------------


@given(rates, st.sampled_from([-1, 1]), arms())
def test_level_alternatives(boundary: float, side: int, arm: tuple[int, int]) -> None:
    expected = oracle.alternatives(boundary, side)
    found = level_alternatives(boundary, side)
    close(found, expected)
    ratios = [oracle.log_likelihood_ratio(*arm, boundary, other) for other in expected]
    close(log_likelihood_ratio(*arm, boundary, found), ratios, atol=1e-8)


# --- The projection -------------------------------------------------------------------------------


@SLOWLY
@given(rates, rates, st.integers(1, 10**6), st.integers(1, 10**6), limits)
def test_the_projected_point(a1: float, b1: float, n_a: int, n_b: int, limit: float) -> None:
    expected = oracle.projection(a1, b1, n_a, n_b, limit)
    close(project(a1, b1, n_a, n_b, limit), expected, atol=1e-12)


@SLOWLY
@given(st.lists(st.tuples(arms(), arms(), rates, limits), min_size=1, max_size=6))
@example([((0, 0), (5, 3), 0.8, 0.1), ((7, 7), (0, 0), 0.8, 0.1), ((0, 0), (0, 0), 0.8, 0.1)])
@example([((50, 50), (50, 0), 0.999, 0.1), ((50, 0), (50, 50), 0.001, 0.1)])
def test_projection_log_es(
    cases: list[tuple[tuple[int, int], tuple[int, int], float, float]],
) -> None:
    counts = pair_counts([case[:2] for case in cases])
    level = np.array([case[2] for case in cases])
    limit = np.array([case[3] for case in cases])
    found = gap_log_e(counts, level, limit)
    for row, (a, b, at, most) in enumerate(cases):
        if a[0] and b[0]:
            expected = oracle.projection_log_es(oracle.Pair(*a, *b), at, most)
            close(found[row], expected, atol=1e-7)
        else:
            assert found[row].tolist() == [0.0] * len(oracle.GAPS_BEYOND)


@given(rates, arms(), arms(), limits)
def test_gap_alternatives(
    level: float, a: tuple[int, int], b: tuple[int, int], limit: float
) -> None:
    if a[0] + b[0] == 0:
        return
    found = gap_alternatives(pair_counts([(a, b)]), np.array([level]), limit)
    for m, beyond in enumerate(oracle.GAPS_BEYOND):
        expected = oracle.gap_alternative(level, a[0], b[0], limit + beyond)
        close([found[0][0, m], found[1][0, m]], expected)


@given(st.lists(st.tuples(arms(), arms()), max_size=30))
def test_the_level_of_a_pair(history: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    found, expected = PairLevel.start(1, 0.85), oracle.Level()
    for a, b in history:
        close(found.rate, [expected.rate])
        found = found.learned(pair_counts([(a, b)]))
        expected.learn(oracle.Pair(*a, *b))
    close(found.trials, [expected.trials])
    close(found.rate, [expected.rate])


def pair_counts(cases: list[tuple[tuple[int, int], tuple[int, int]]]) -> PairCounts:
    columns = np.array([(*a, *b) for a, b in cases], np.int64).reshape(-1, 4).T
    return PairCounts(*columns)


# --- Mixtures, pages, tickets ------------------------------------------------------------------


ROWS, ALTERNATIVES = 3, 2

steps = st.one_of(
    st.tuples(st.just("clock"), st.sampled_from([0.0, 1 / 24, 1.0, 30.0])),
    st.tuples(
        st.just("bet"),
        st.tuples(
            st.lists(st.integers(0, ROWS - 1), unique=True),
            st.lists(log_es, min_size=ROWS * ALTERNATIVES, max_size=ROWS * ALTERNATIVES),
            st.sampled_from([1.0, 2.5, 20.0]),
        ),
    ),
    st.tuples(st.just("reset"), st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)),
    st.tuples(st.just("store"), st.none()),
)


@SLOWLY
@given(st.lists(steps, max_size=40))
def test_mixtures(history: list[tuple[str, object]]) -> None:
    weights = [0.3, 0.5]
    found = SrMixture.empty(ROWS, ALTERNATIVES)
    expected = [oracle.Mixture(weights) for _ in range(ROWS)]
    for what, how in history:
        found = advance(found, expected, what, how)
        with np.errstate(invalid="raise"):
            close(found.statistic(), [stream.statistic for stream in expected], atol=1e-8)


def advance(found: SrMixture, expected: list[oracle.Mixture], what: str, how: Any) -> SrMixture:
    if what == "clock":
        found.add_clock(how)
        for stream in expected:
            stream.advance(how)
    elif what == "bet":
        rows, values, cluster = how
        table = np.array(values).reshape(ROWS, ALTERNATIVES)[: len(rows)]
        found.bet(np.array(rows, np.int64), table, [0.3, 0.5], cluster)
        for row, log_e in zip(rows, table.tolist(), strict=True):
            expected[row].bet(log_e, cluster)
    elif what == "reset":
        found.reset(np.array(how))
        for stream, flag in zip(expected, how, strict=True):
            if flag:
                stream.reset()
    else:
        return SrMixture.from_arrays(found.to_arrays())
    return found


@SLOWLY
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1 / 24, 1.0, 7.0]),
            st.lists(st.none() | log_es, min_size=3, max_size=3),
        ),
        max_size=40,
    )
)
def test_pages_of_a_fleet(history: list[tuple[float, list[float | None]]]) -> None:
    """Which stream pages at which cohort, with resets."""
    weights = np.array([0.5, 0.2, 0.05])
    fleet, found = SrMixture.empty(3, 1), []
    for at, (days, bets) in enumerate(history):
        fleet.add_clock(days)
        rows = np.array([bet is not None for bet in bets])
        fleet.bet(rows, np.array([[bet] for bet in bets if bet is not None]).reshape(-1, 1), [1.0])
        paged = crossed(fleet.statistic(), weights)
        found += [(at, str(row)) for row in np.flatnonzero(paged)]
        fleet.reset(paged)
    cohorts = [
        (days, {str(row): [bet] for row, bet in enumerate(bets) if bet is not None})
        for days, bets in history
    ]
    names = {str(row): weight for row, weight in enumerate(weights.tolist())}
    assert found == oracle.pages_of(cohorts, names, [1.0])


@SLOWLY
@given(
    st.integers(450_000, 480_000),
    st.lists(st.tuples(st.integers(1, 60), st.none() | st.floats(-5, 5)), max_size=60),
)
def test_weekly_e_values(start: int, history: list[tuple[int, float | None]]) -> None:
    panes, hour = [], start
    for gap, log_e in history:
        panes.append((hour, None if log_e is None else [log_e]))
        hour += gap
    found, week = [], WeekBets.begin(start, 1, 1)
    for at, bet in panes:
        finished = week.enter(at)
        if finished is not None:
            found.append(finished[0])
        if bet is not None:
            week.mixture.bet(np.array([0]), np.array([bet]), [1.0])
    found += [week.mixture.statistic()[0]] if panes else []
    close(found, list(oracle.weekly_log_es(panes, [1.0]).values()))


@settings(max_examples=examples(500), deadline=None)
@example([(-math.log(0.05), 1.0)], 0.05)
@given(
    st.lists(st.tuples(st.one_of(st.floats(-5, 12), st.just(-math.inf)), rates), max_size=9),
    st.sampled_from([0.05, 0.1, 0.5]),
)
def test_the_ticket_list(streams: list[tuple[float, float]], alpha: float) -> None:
    log_e = [e for e, _ in streams]
    weights = [math.log(w / len(streams)) for _, w in streams]
    found = ebh(np.array(log_e), np.array(weights), alpha).tolist()
    assert found == oracle.e_bh(log_e, weights, alpha)
    assert found == oracle.e_bh_by_subsets(log_e, weights, alpha)


# --- The budget -----------------------------------------------------------------------------------


GROUPS = ("channel", "language", "channel+tier", "a+b+c", "a+b+c+d")
KINDS = [(m, StreamKind.GAP) for m in Metric if m is not Metric.READY]
KINDS += [(m, StreamKind.LEVEL) for m in (Metric.TPR, Metric.FPR)]
ALL_STREAMS = [
    Stream("c", group, metric, kind, f"x={i}", "complement", Direction.SLICE_WORSE, Fraction(1, 10))
    for i, group, (metric, kind) in itertools.product(range(3), GROUPS, KINDS)
]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.sampled_from(ALL_STREAMS), max_size=20), min_size=1, max_size=6))
def test_budgets(declarations: list[list[Stream]]) -> None:
    declared = Budget()
    for streams in declarations:
        declared = declared.declare(streams)
    expected = oracle.budget(declarations)
    assert declared.weights.keys() == {stream.key for stream in expected}
    close(declared.weights_of(list(expected)), [float(w) for w in expected.values()], atol=0)
    assert sum(expected.values()) < 1


def test_streams_that_come_one_by_one_leave_the_others_weights_alone() -> None:
    """Whatever it is given, weights sum to at most 1 and those given stay as they are."""
    declared = Budget()
    for stream in ALL_STREAMS * 2:
        before = dict(declared.weights)
        declared = declared.declare([stream])
        assert before.items() <= declared.weights.items()
    assert sum(declared.weights.values()) <= 1


@given(st.floats(-20, 20), rates)
def test_the_page_rule(statistic: float, weight: float) -> None:
    if abs(statistic + math.log(weight) - math.log(90)) < 1e-9:
        return
    found = crossed(np.array([statistic, -np.inf]), np.array([weight, weight]))
    assert found.tolist() == [oracle.pages(statistic, weight), False]


# --- Levels ---------------------------------------------------------------------------------------


GRID = (1.0, 0.5, 0.1, 0.02)
SLICES, BANDS = 3, 2


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Forecast, SliceCohort, Layout]:
    """A forecast of some audit rates, and a cohort with these and perhaps others."""
    known = draw(st.lists(st.integers(0, 3), unique=True, min_size=1).map(sorted))
    seen = draw(st.lists(st.integers(0, 3), unique=True, min_size=1).map(sorted))
    before, now = layout_of(known), layout_of(seen)
    ready = draw(arrays(float, (SLICES, *before.shape), elements=rates, fill=st.just(0.4)))
    # A real past is shrunk to that of all slices: none, or far above the smallest single float.
    past = st.one_of(st.sampled_from([0.0, 0.02, 1.0]), st.floats(1e-6, 1000))
    decisions = draw(arrays(float, (SLICES, *before.shape), elements=past, fill=st.just(50.0)))
    return Forecast(before, ready, decisions), draw(cohorts(now)), now


@st.composite
def cohorts(draw: st.DrawFn, layout: Layout) -> SliceCohort:
    shape = (SLICES, *layout.shape)
    few = st.one_of(st.integers(0, 3), st.integers(0, 400))
    ready, misses, unlabelled = (
        draw(arrays(np.int64, shape, elements=few, fill=st.just(0))) for _ in range(3)
    )
    labelled = ready + misses
    routed = np.zeros((SLICES, 3), np.int64)
    return answered(labelled + unlabelled, labelled, ready, routed)


def layout_of(known: Sequence[int]) -> Layout:
    return Layout(tuple(known), np.array([GRID[rate] for rate in known]), BANDS)


def scalar_cohort(
    world: tuple[Forecast, SliceCohort, Layout], row: int, metric: Metric, side: int
) -> list[tuple[oracle.Stratum, oracle.Counted]]:
    """One slice's cohort for the oracle, stratum by stratum, with the guesses that are bet on.

    Guesses are rounded to the middle of a twentieth. Decisions of a stratum that had less than
    a thousandth of its slice's traffic count at the worst of the scores 0 and 1.
    """
    forecast, cohort, now = world
    found = []
    for route, (position, rate), band in itertools.product(
        range(2), enumerate(now.rates), range(BANDS)
    ):
        decisions, labelled, ready = (
            int(x[row, route, position, band])
            for x in (cohort.decisions, cohort.labelled, cohort.ready)
        )
        hits = ready if metric is Metric.TPR else labelled - ready
        guess = guess_of(forecast, row, route, rate, band)
        if guess is None:
            worst = float((route == 0) == (side == oracle.BELOW))
            stratum = oracle.Stratum(route == 0, worst, 1.0)
            found.append((stratum, oracle.Counted(decisions, 0, 0)))
        else:
            y = guess if metric is Metric.TPR else 1 - guess
            stratum = oracle.Stratum(route == 0, y, GRID[rate])
            found.append((stratum, oracle.Counted(decisions, labelled, hits)))
    return found


def guess_of(forecast: Forecast, row: int, route: int, rate: int, band: int) -> float | None:
    if rate not in forecast.layout.rates:
        return None
    at = (row, route, forecast.layout.rates.index(rate), band)
    total = float(forecast.decisions[row].sum())
    if total == 0 or forecast.decisions[at] / total < 0.001:
        return None
    return (math.floor(float(forecast.ready[at]) * 20) + 0.5) / 20


def possible_strata(forecast: Forecast, row: int, metric: Metric) -> list[oracle.Stratum]:
    """Everything that this slice's decisions can be, the two worst scores included."""
    found = [oracle.Stratum(auto, guess, 1.0) for auto in (True, False) for guess in (0.0, 1.0)]
    for route, rate, band in itertools.product(range(2), forecast.layout.rates, range(BANDS)):
        guess = guess_of(forecast, row, route, rate, band)
        if guess is not None:
            y = guess if metric is Metric.TPR else 1 - guess
            found.append(oracle.Stratum(route == 0, y, GRID[rate]))
    return found


def stakes_of(logs: Floats, z: Floats, side: int) -> Floats:
    """The stake of every column of a table of log(1 + side lam z), read at the smallest losses."""
    gains = np.where(side * z > 1e-12, side * z, np.nan)
    return np.nanmedian(np.expm1(logs) / gains[:, None], axis=0)


@SLOWLY
@given(worlds(), st.sampled_from([Metric.TPR, Metric.FPR]), st.floats(0.01, 0.99))
def test_levels(world: tuple[Forecast, SliceCohort, Layout], metric: Metric, limit: float) -> None:
    forecast, cohort, now = world
    side = oracle.BELOW if metric is Metric.TPR else oracle.ABOVE
    outcomes = Outcomes.from_forecast(forecast)
    bets = LevelBets(metric, limit)
    plan = bets.plan(outcomes)
    stakes = stakes_of(plan.logs, outcomes.evidence_per_decision(metric, bets.side, limit), side)
    found = plan.log_e(outcomes.bin_counts(cohort, now))
    for row in range(SLICES):
        decisions = scalar_cohort(world, row, metric, side)
        largest = float(oracle.largest_lam(possible_strata(forecast, row, metric), limit, side))
        for column, part in enumerate(oracle.FRACTIONS):
            lam = stakes[plan.chosen[row, column]]
            assert lam <= part * largest * (1 + 1e-9)
            if forecast.decisions[row].any():
                assert lam >= part * largest / 1.07
            expected = oracle.level_log_e(decisions, limit, lam, side)
            close(found[row, column], expected, atol=1e-7)


# --- E[e] through the service ---------------------------------------------------------------------


LAYOUT = Layout((0, 1), np.array([1.0, 0.25]), 1)
"""Reviewed ones are all labelled, one in four of the others."""


def forecast_of(guess: tuple[float, float], slices: int = 2) -> Forecast:
    """Everybody's forecast: P(ready) of auto-served and of reviewed decisions."""
    ready = np.full((slices, 2, 2, 1), 0.5)
    ready[:, 0, 1], ready[:, 1, 0] = guess[0], guess[1]
    decisions = np.zeros((slices, 2, 2, 1))
    decisions[:, 0, 1], decisions[:, 1, 0] = 500.0, 500.0
    return Forecast(LAYOUT, ready, decisions)


def strata_of(guess: tuple[float, float], metric: Metric) -> list[oracle.Stratum]:
    f, r = guess if metric is Metric.TPR else (1 - guess[0], 1 - guess[1])
    return [oracle.Stratum(True, f, 0.25), oracle.Stratum(False, r, 1.0)]


# --- Gaps -----------------------------------------------------------------------------------------


def rungs_of(higher: BetSizes, lower: BetSizes, row: int, alternative: int) -> list[oracle.Rung]:
    """Levels and stakes of one pair and alternative, read from the stakes on both routes.

    About a level c a stake is lam (1 - c) on auto_serve and lam c on human_review.
    """
    above = [stake_of(higher, row, alternative, i) for i in range(higher.mu.shape[2])]
    below = [stake_of(lower, row, alternative, i) for i in range(lower.mu.shape[2])]
    uppers, lowers = [*above, (1.0, 0.0)], [(0.0, 0.0), *below]
    return [oracle.Rung(*up, *down) for up, down in zip(uppers, lowers, strict=True)]


def stake_of(stakes: BetSizes, row: int, alternative: int, edge: int) -> tuple[float, float]:
    mu, nu = MU[stakes.mu[row, alternative, edge]], _NU[stakes.nu[row, alternative, edge]]
    lam = float(mu + nu)
    return (float(nu) / lam, lam) if lam else (0.5, 0.0)


def directions(plan: GapPlan, metric: Metric) -> list[tuple[_Bets, bool]]:
    """Bets that the slice is worse off, and that the reference is; whether the slice is higher."""
    both = [(plan.slice_higher, True), (plan.reference_higher, False)]
    return both if metric is Metric.FPR else both[::-1]


@settings(max_examples=examples(25), deadline=None)
@given(
    worlds(),
    st.sampled_from([Metric.TPR, Metric.FPR]),
    st.sampled_from([0.0, 0.03, 0.1, 0.25, 0.6]),
    st.none() | st.integers(0, SLICES - 1),
)
def test_gaps(
    world: tuple[Forecast, SliceCohort, Layout], metric: Metric, limit: float, reference: int | None
) -> None:
    forecast, cohort, now = world
    outcomes = Outcomes.from_forecast(forecast)
    plan = GapBets(metric, limit).plan(outcomes, reference)
    counts = outcomes.bin_counts(cohort, now)
    rest = counts.sum(axis=0) - counts
    rows = np.arange(SLICES)
    others = rest if reference is None else counts[np.full(SLICES, reference)]
    found = plan.log_e(rows, counts, others)
    for row in rows.tolist():
        if row == reference:
            continue
        compared = [reference] if reference is not None else [r for r in rows.tolist() if r != row]
        for which, (bets, slice_higher) in enumerate(directions(plan, metric)):
            a, b = ([row], compared) if slice_higher else (compared, [row])
            for m in range(len(oracle.GAPS_BEYOND)):
                rungs = rungs_of(bets.higher, bets.lower, row, m)
                assert not oracle.uncovered(rungs, limit, steps=20)
                assert_safe(world, rungs, a, b, metric)
                expected = oracle.gap_log_e(
                    together(world, a, metric, oracle.ABOVE),
                    together(world, b, metric, oracle.BELOW),
                    rungs,
                )
                close(found[which, row, m], expected, atol=1e-6)


def together(
    world: tuple[Forecast, SliceCohort, Layout], rows: Sequence[int], metric: Metric, side: int
) -> list[tuple[oracle.Stratum, oracle.Counted]]:
    return [part for row in rows for part in scalar_cohort(world, row, metric, side)]


def assert_safe(
    world: tuple[Forecast, SliceCohort, Layout],
    rungs: Sequence[oracle.Rung],
    a: Sequence[int],
    b: Sequence[int],
    metric: Metric,
) -> None:
    """No outcome that may occur in an arm costs more than 95 % of what was won."""
    strata_a = [s for row in a for s in possible_strata(world[0], row, metric)]
    strata_b = [s for row in b for s in possible_strata(world[0], row, metric)]
    for rung in rungs:
        if rung.lam_above:
            most = float(oracle.largest_lam(strata_a, rung.above, oracle.ABOVE))
            assert rung.lam_above <= 0.95 * most * (1 + 1e-9)
        if rung.lam_below:
            most = float(oracle.largest_lam(strata_b, rung.below, oracle.BELOW))
            assert rung.lam_below <= 0.95 * most * (1 + 1e-9)


def test_the_stakes_of_a_gap_grow_almost_as_fast_as_can_be() -> None:
    """Evidence is that of the slowest level: against the best stakes for the same alternative.

    The arm that is better off stays as it was, the other one is worse by the gap.
    """
    guess = (0.925, 0.375)
    plan = GapBets(Metric.TPR, 0.1).plan(Outcomes.from_forecast(forecast_of(guess)), reference=1)
    rate, base, other = past_of(guess)
    for m, beyond in enumerate(oracle.GAPS_BEYOND):
        worse = max(rate - 0.1 - beyond, 0.005)
        cells_a, cells_b = (with_past(x, base, other, guess) for x in (rate, worse))
        bets, _ = directions(plan, Metric.TPR)[0]
        rungs = rungs_of(bets.higher, bets.lower, 0, m)
        best = [
            oracle.Rung(
                rung.above,
                oracle.growth_optimal_lam(cells_a, float(rung.above), oracle.ABOVE)
                * (rung.lam_above > 0),
                rung.below,
                oracle.growth_optimal_lam(cells_b, float(rung.below), oracle.BELOW)
                * (rung.lam_below > 0),
            )
            for rung in rungs
        ]
        assert slowest(cells_a, cells_b, rungs) >= 0.93 * slowest(cells_a, cells_b, best) > 0


def slowest(a: oracle.Cells, b: oracle.Cells, rungs: Sequence[oracle.Rung]) -> float:
    return min(
        oracle.growth(a, float(rung.above), float(rung.lam_above), oracle.ABOVE)
        + oracle.growth(b, float(rung.below), float(rung.lam_below), oracle.BELOW)
        for rung in rungs
    )


def past_of(guess: tuple[float, float]) -> tuple[float, float, float]:
    """TPR, P(ready) and FPR that a forecast of halves stands for."""
    base = (guess[0] + guess[1]) / 2
    return guess[0] / 2 / base, base, (1 - guess[0]) / 2 / (1 - base)


def with_past(rate: float, base: float, other: float, guess: tuple[float, float]) -> oracle.Cells:
    shares = oracle.cell_shares(rate, base, other)
    hits = [shares[True][1], shares[False][1]]
    strata = strata_of(guess, Metric.TPR)
    return oracle.truth(strata, [shares[True][0], shares[False][0]], hits)


# --- Forecasts of ready ---------------------------------------------------------------------------


@SLOWLY
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, 9.5]), cohorts(layout_of([0, 2]))), max_size=4)
)
def test_forecasts(history: list[tuple[float, SliceCohort]]) -> None:
    layout = layout_of([0, 2])
    found = ReadyRates.start(SLICES, layout, half_life_days=14.0)
    expected: oracle.Labels = {}
    for days, cohort in history:
        found.learn(cohort, days)
        expected = oracle.remembered(expected, days)
        for at in np.ndindex(SLICES, *layout.shape):
            labelled, ready = expected.get(at, (0.0, 0.0))
            expected[at] = (labelled + int(cohort.labelled[at]), ready + int(cohort.ready[at]))
    forecast = found.forecast()
    for at in np.ndindex(SLICES, *layout.shape):
        close(forecast.ready[at], oracle.forecast_ready(expected, at))
    assert np.all((forecast.ready > 0) & (forecast.ready < 1))


# --- Labels for the projection --------------------------------------------------------------------


@given(cohorts(layout_of([0, 1, 3])))
def test_trials_are_labels_of_one_kind(cohort: SliceCohort) -> None:
    for row in range(SLICES):
        cells = [
            (at[0] == 0, int(cohort.ready[row][at]), int(cohort.labelled[row][at]))
            for at in np.ndindex(*cohort.ready.shape[1:])
        ]
        ready = [(auto, m) for auto, m, _ in cells]
        others = [(auto, n - m) for auto, m, n in cells]
        for metric, kind in ((Metric.TPR, ready), (Metric.FPR, others)):
            total, hits = trials(cohort, metric)
            assert total[row] == sum(count for _, count in kind)
            assert hits[row] == sum(count for auto, count in kind if auto)


def test_thinned_labels_are_binomial() -> None:
    """Over many cells: mean, spread, independence of hours, cells and outcomes."""
    cells = np.arange(4_000, dtype=np.int64) * 7_919 - 11
    counts, keep = np.full(len(cells), 12), np.full(len(cells), 0.3)
    kept = {
        (hour, outcome): thin(hour, cells, outcome, counts, keep)
        for hour, outcome in itertools.product((0, 1, 480_000), (0, 1))
    }
    chances = [oracle.binomial(k, 12, 0.3) for k in range(13)]
    for drawn in kept.values():
        expected = np.array([sum(chances[:4]), chances[4], sum(chances[5:])])
        seen = [np.sum(drawn < 4), np.sum(drawn == 4), np.sum(drawn > 4)]
        assert chisquare(seen, expected * len(cells)).pvalue > 1e-4
    for first, second in itertools.combinations(kept.values(), 2):
        assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(len(cells))
    for drawn in kept.values():
        assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 4 / math.sqrt(len(cells))


@SLOWLY
@given(
    st.lists(
        st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 500), st.floats(0, 1)),
        min_size=1,
        max_size=20,
        unique_by=lambda cell: cell[0],
    ),
    st.integers(0, 500_000),
    st.randoms(use_true_random=False),
)
def test_thinning_looks_at_nothing_else(
    cells: list[tuple[int, int, float]], hour: int, shuffle: Random
) -> None:
    """A cell's draw does not depend on the other cells, or on their order."""
    together = dict(zip([cell[0] for cell in cells], thinned(hour, cells), strict=True))
    for cell in shuffle.sample(cells, len(cells)):
        kept = thinned(hour, [cell])[0]
        assert kept == together[cell[0]]
        assert 0 <= kept <= cell[1]
        assert kept == cell[1] or cell[2] < 1


def thinned(hour: int, cells: list[tuple[int, int, float]]) -> list[int]:
    ids, counts, keep = zip(*cells, strict=True)
    found: list[int] = thin(hour, np.array(ids), 1, np.array(counts), np.array(keep)).tolist()
    return found
