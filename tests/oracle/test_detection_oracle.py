"""The oracle of the sequential tests: reference values, laws, and that E[e] is at most 1."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from detection_oracle import (
    ABOVE,
    BELOW,
    GAPS_BEYOND,
    HIT,
    MISS,
    UNLABELLED,
    Cells,
    Counted,
    Level,
    Mixture,
    Pair,
    Rung,
    RunningMixture,
    Stratum,
    alternatives,
    binomial,
    budget,
    cell_shares,
    e_bh,
    e_bh_by_subsets,
    expected_e,
    expected_gap_e,
    expected_pair_e,
    gap_alternative,
    gap_e,
    gap_log_e,
    gap_log_es,
    growth_optimal_lam,
    iso_week,
    largest_lam,
    level_e,
    level_lams,
    level_log_e,
    log_likelihood_ratio,
    most_pages,
    nearest_by_divergence,
    optimal_rungs,
    pages,
    pages_of,
    projection,
    projection_log_e,
    projection_log_es,
    simulated_pages,
    truth,
    uncovered,
    weekly_log_es,
)
from detection_oracle import draw_cohort as draw

from monitor.core.contract import Metric
from monitor.detection.pages.streams import Direction, Stream, StreamKind

AUTO, REVIEW = Stratum(True, 0.9, 0.05), Stratum(False, 0.3, 1.0)
SIXTH = [1 / 6] * 6
FIFTH = [1 / 5] * 5


# --- Reference values of a level ----------------------------------------------------------------


def test_reference_level_below() -> None:
    cohort = [(AUTO, Counted(500, 25, 20)), (REVIEW, Counted(480, 480, 160))]
    lams = level_lams([AUTO, REVIEW], 0.80, BELOW)
    expected = [0.034483, 0.086207, 0.206897, 0.431034, 0.862069, 1.551724]
    assert lams == pytest.approx(expected, abs=5e-7)
    log_es = [1.549891, 3.508167, 6.597670, 7.816705, -3.168422, -63.293522]
    assert [level_log_e(cohort, 0.80, x, BELOW) for x in lams] == pytest.approx(log_es, abs=5e-7)


def test_reference_level_above() -> None:
    cohort = [(AUTO, Counted(520, 26, 25)), (REVIEW, Counted(480, 480, 150))]
    log_es = [-0.119225, -0.306632, -0.784732, -1.830865, -4.484032, -11.347019]
    lams = level_lams([AUTO, REVIEW], 0.80, ABOVE)
    assert [level_log_e(cohort, 0.80, x, ABOVE) for x in lams] == pytest.approx(log_es, abs=5e-7)


def test_reference_fpr_ceiling() -> None:
    auto, review = Stratum(True, 0.1, 0.05), Stratum(False, 0.7, 1.0)
    cohort = [(auto, Counted(500, 25, 5)), (review, Counted(480, 480, 320))]
    lams = level_lams([auto, review], 0.10, ABOVE)
    expected = [0.011696, 0.029240, 0.070175, 0.146199, 0.292398, 0.526316]
    assert lams == pytest.approx(expected, abs=5e-7)
    log_es = [0.593172, 1.233197, 1.991770, 1.834413, -2.263406, -30.074765]
    assert [level_log_e(cohort, 0.10, x, ABOVE) for x in lams] == pytest.approx(log_es, abs=5e-7)


@pytest.mark.parametrize("side", [BELOW, ABOVE])
def test_logarithms_are_those_of_the_products(side: int) -> None:
    cohort = [(AUTO, Counted(12, 3, 2)), (REVIEW, Counted(9, 9, 4))]
    for lam in level_lams([AUTO, REVIEW], 0.8, side):
        product = float(level_e(cohort, 0.8, lam, side))
        assert level_log_e(cohort, 0.8, lam, side) == pytest.approx(math.log(product), abs=1e-12)


def test_what_cannot_be_lost_cannot_be_bet() -> None:
    assert largest_lam([Stratum(False, 0.3, 1.0)], 0.8, BELOW) == 0
    assert largest_lam([Stratum(True, 0.9, 1.0)], 0.8, ABOVE) == 0


# --- Reference values of a gap ------------------------------------------------------------------


def arm(rate: float, base: float = 0.6, other: float = 0.1, audit: float = 0.05) -> Cells:
    """The distribution of a decision, whose guesses are right for it."""
    shares = cell_shares(rate, base, other)
    strata = [Stratum(True, shares[True][1], audit), Stratum(False, shares[False][1], 1.0)]
    return truth(strata, [shares[True][0], shares[False][0]], [s.guess for s in strata])


def test_reference_gap() -> None:
    cells_a, cells_b = arm(0.9), arm(0.7)
    grid = [x / 100 for x in range(2, 89)]
    rungs = optimal_rungs(grid, 0.10, cells_a, cells_b, 0.01)
    a = list(zip(strata_of(cells_a), [Counted(580, 29, 27), Counted(420, 420, 60)], strict=True))
    b = list(zip(strata_of(cells_b), [Counted(460, 23, 21), Counted(540, 540, 180)], strict=True))
    log_es = gap_log_es(a, b, rungs)
    assert gap_log_e(a, b, rungs) == pytest.approx(6.324459, abs=5e-7)
    assert grid[int(np.argmin(log_es))] == 0.75


@pytest.mark.parametrize(
    ("level", "above", "below"), [(0.75, 0.261101, 0.211797), (0.80, 0, 0.526880)]
)
def test_reference_gap_lams(level: float, above: float, below: float) -> None:
    at = growth_optimal_lam(arm(0.9), level + 0.10, ABOVE)
    assert at == pytest.approx(above, abs=2e-6)
    assert growth_optimal_lam(arm(0.7), level, BELOW) == pytest.approx(below, abs=2e-6)


def strata_of(cells: Cells) -> list[Stratum]:
    return list(dict.fromkeys(stratum for _, stratum, _ in cells))


def full_grid(step: float, limit: float) -> list[float]:
    """Levels from 0 until a rate that much above the next one is impossible."""
    return [i * step for i in range(1 + math.ceil((1 - limit) / step - 1e-9))]


@pytest.mark.parametrize("step", [0.01, 0.03])
@pytest.mark.parametrize("limit", [0.05, 0.10, 0.2])
def test_a_full_grid_covers_all_pairs_within_the_limit(step: float, limit: float) -> None:
    rungs = [
        Rung(
            min(1, level + step + limit), 0.1 * (level + step + limit < 1), level, 0.1 * (level > 0)
        )
        for level in full_grid(step, limit)
    ]
    assert not uncovered(rungs, limit)


def test_a_grid_without_its_edges_does_not() -> None:
    inner = [Rung(0.02 + 0.10, 0.1, 0.02, 0.1), Rung(0.99, 0.1, 0.89, 0.1)]
    assert (0.0, 0.0) in uncovered(inner, 0.10)
    assert (1.0, 1.0) in uncovered(inner, 0.10)


# --- Reference values of the projection ---------------------------------------------------------


@pytest.mark.parametrize(
    ("a1", "b1", "n_a", "n_b", "expected"),
    [
        (0.9, 0.7, 1, 1, (0.8602570731, 0.7602570731)),
        (0.9, 0.7, 20, 2, (0.8945367404, 0.7945367404)),
        (0.95, 0.6, 5, 5, (0.8485675349, 0.7485675349)),
        (0.9, 0.85, 5, 5, (0.9, 0.85)),
    ],
)
def test_reference_projections(
    a1: float, b1: float, n_a: int, n_b: int, expected: tuple[float, float]
) -> None:
    assert projection(a1, b1, n_a, n_b, 0.1) == pytest.approx(expected, abs=1e-10)


def test_reference_projection_e() -> None:
    first = projection_log_e(Pair(20, 18, 6, 3), 0.9, 0.7, 0.1)
    assert first == pytest.approx(0.6762159063, abs=1e-10)
    second = projection_log_e(Pair(20, 19, 6, 6), 0.9, 0.7, 0.1)
    assert second == pytest.approx(-0.5011479888, abs=1e-10)


def test_reference_gap_alternative() -> None:
    expected = [0.9007692308, 0.6807692308]
    assert gap_alternative(0.85, 20, 6, 0.22) == pytest.approx(expected, abs=1e-10)


def test_the_projection_is_the_nearest_point_of_the_null() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        b1 = rng.uniform(0.02, 0.8)
        a1 = rng.uniform(min(b1 + 0.12, 0.98), 0.99)
        n_a, n_b = rng.integers(1, 500, 2)
        nearest = nearest_by_divergence(a1, b1, n_a, n_b, 0.1)
        assert projection(a1, b1, n_a, n_b, 0.1) == pytest.approx(nearest, abs=1e-6)


def test_the_level_forgets_half_in_a_thousand() -> None:
    level = Level()
    assert level.rate == pytest.approx(0.85)
    level.learn(Pair(400, 200, 600, 300))
    assert (level.trials, level.hits) == pytest.approx((1010, 508.5))


# --- Reference values of the mixture ------------------------------------------------------------


def one_sample(trials: int, hits: int, null: float = 0.8) -> list[float]:
    return [log_likelihood_ratio(trials, hits, null, x) for x in alternatives(null, BELOW)]


def test_reference_alternatives_and_likelihood_ratios() -> None:
    assert alternatives(0.8, BELOW) == pytest.approx([0.78, 0.765, 0.74, 0.7, 0.63, 0.5])
    assert alternatives(0.1, ABOVE) == pytest.approx([0.12, 0.135, 0.16, 0.2, 0.27, 0.4])
    assert alternatives(0.01, BELOW)[-1] == pytest.approx(0.005)
    assert log_likelihood_ratio(10, 7, 0.8, 0.7) == pytest.approx(0.2816755760, abs=1e-10)
    assert log_likelihood_ratio(20, 5, 0.1, 0.2) == pytest.approx(1.6989903680, abs=1e-10)


@pytest.mark.parametrize("kind", [Mixture, RunningMixture])
def test_reference_mixture(kind: type[Mixture | RunningMixture]) -> None:
    stream = kind(SIXTH)
    assert stream.statistic == -math.inf
    stream.advance(10)
    stream.bet(one_sample(10, 7))
    assert stream.statistic == pytest.approx(2.4085293996, abs=1e-10)
    stream.advance(2)
    assert stream.statistic == pytest.approx(2.4085293996, abs=1e-10)
    stream.advance(3)
    stream.bet(one_sample(5, 2))
    assert stream.statistic == pytest.approx(3.7624129573, abs=1e-10)
    stream.reset()
    assert (stream.statistic, stream.pending) == (-math.inf, 0)


@pytest.mark.parametrize(
    ("null", "days", "needed"), [(0.8, 4.5e5, 16), (0.85, 4.5e5, 14), (0.9, 1e5, 10)]
)
def test_reference_failures_in_a_row_until_a_page(null: float, days: float, needed: int) -> None:
    cohorts = [(1.0, {"x": one_sample(1, 0, null)})] * 30
    assert pages_of(cohorts, {"x": 1.0}, SIXTH, days)[0] == (needed - 1, "x")


@pytest.mark.parametrize(
    ("rate", "steps", "expected"),
    [(0.8, (0.02, 0.035, 0.06, 0.10, 0.17, 0.30), 9.0), (0.9, (0.10, 0.30), 4.453810)],
)
def test_reference_expected_mixture(rate: float, steps: tuple[float, ...], expected: float) -> None:
    """With a clock of events: the number of events at the boundary, less inside the null."""
    total = 0.0
    batches = (3, 2, 4)
    for hits in itertools.product(*(range(n + 1) for n in batches)):
        stream = Mixture([1 / len(steps)] * len(steps))
        for n, k in zip(batches, hits, strict=True):
            stream.advance(n)
            stream.bet([log_likelihood_ratio(n, k, 0.8, 0.8 - step) for step in steps])
        chance = math.prod(binomial(k, n, rate) for n, k in zip(batches, hits, strict=True))
        total += chance * math.exp(stream.statistic)
    assert total == pytest.approx(expected, abs=5e-7)


def test_the_recursion_is_the_definition() -> None:
    rng = np.random.default_rng(5)
    slow, fast = Mixture(FIFTH), RunningMixture(FIFTH)
    for _ in range(300):
        days, cluster = rng.choice([0.0, 1 / 24, 3.0]), rng.choice([1.0, 4.0])
        log_es = rng.normal(-0.2, 2.0, 5).tolist()
        for stream in (slow, fast):
            stream.advance(days)
            if days < 3:
                stream.bet(log_es, cluster)
        assert fast.statistic == pytest.approx(slow.statistic, abs=1e-9)
        if rng.random() < 0.02:
            slow.reset()
            fast.reset()


def test_dependent_decisions_bet_once() -> None:
    stream = Mixture([1.0])
    stream.advance(1.0)
    stream.bet([6.0], cluster_size=4)
    assert stream.statistic == pytest.approx(1.5)


# --- Budget, pages, tickets ---------------------------------------------------------------------


def stream(
    name: str,
    metric: Metric = Metric.TPR,
    kind: StreamKind = StreamKind.GAP,
    group_by: str = "channel",
) -> Stream:
    limit = Fraction(1, 10)
    return Stream("c", group_by, metric, kind, name, "complement", Direction.SLICE_WORSE, limit)


def test_the_budget_of_the_first_streams() -> None:
    first = [
        stream("a"),
        stream("b"),
        stream("a", Metric.FPR),
        stream("a", Metric.BLOCKED),
        stream("a", Metric.FPR, StreamKind.LEVEL),
        stream("a", group_by="channel+tier"),
        stream("a", group_by="channel+language+tier"),
        stream("b", group_by="channel+language+region+tier"),
    ]
    weights = budget([first])
    # Classes: .28 of two streams, .14 three times, .10 and .02 of two: .82 of all that there are.
    parts = [14, 14, 14, 14, 14, 10, 1, 1]
    assert [weights[one] for one in first] == [Fraction(4 * part, 5 * 82) for part in parts]
    assert sum(weights.values()) == Fraction(4, 5)


def test_later_streams_spend_what_was_kept() -> None:
    first = [stream(f"first {i}") for i in range(4)]
    added = [[stream(f"later {i}"), stream(f"also {i}")] for i in range(3)]
    before, after = budget([first]), budget([first, added[0], first, added[1], added[2]])
    assert before.items() <= after.items()
    # A half, a sixth and a twelfth of the fifth that was kept, for two streams each.
    assert [after[one] for one, _ in added] == [Fraction(1, n) for n in (20, 60, 120)]
    assert [after[one] for _, one in added] == [after[one] for one, _ in added]


def test_no_later_stream_is_heavier_than_all_before_and_the_rest_is_kept() -> None:
    first = [stream(f"first {i}") for i in range(100)]
    after = budget([first, [stream("one")], [stream(f"many {i}") for i in range(100)]])
    assert after[stream("one")] == Fraction(4, 500)
    assert after[stream("many 0")] == (Fraction(1, 5) - Fraction(4, 500)) / 300


def test_a_page_is_at_the_budget_and_not_below() -> None:
    assert pages(math.log(180) + 1e-12, 0.5)
    assert not pages(math.log(180) - 1e-9, 0.5)
    assert not pages(50.0, 0.0)


def test_a_stream_that_paged_starts_again() -> None:
    cohorts = [(1.0, {"x": [3.0], "y": [-1.0]})] * 6
    found = pages_of(cohorts, {"x": 0.5, "y": 0.5}, [1.0])
    assert found == [(1, "x"), (3, "x"), (5, "x")]


def test_weeks_begin_on_monday_and_start_empty() -> None:
    monday = 4 * 24  # 1970-01-05
    assert (iso_week(monday - 1), iso_week(monday)) == ((1970, 1), (1970, 2))
    panes = [(monday + hour, [0.0] if hour % 2 else None) for hour in range(-2, 170)]
    weeks = weekly_log_es(panes, [1.0])
    assert weeks[1970, 2] == pytest.approx(0.0)
    assert weeks[1970, 1] == pytest.approx(math.log(2 / 168))
    assert weeks[1970, 3] == pytest.approx(math.log(2 / 168))


def test_a_fair_week_expects_at_most_one() -> None:
    """Over all histories of a week of seven cohorts, each a fair bet."""
    total = 0.0
    for wins in itertools.product((0, 1), repeat=7):
        panes: list[tuple[int, list[float] | None]] = [
            (96 + 24 * day + 23, [math.log(1.5 if win else 0.5)]) for day, win in enumerate(wins)
        ]
        panes += [(96 + hour, None) for hour in range(168) if hour % 24 != 23]
        week = weekly_log_es(sorted(panes, key=lambda pane: pane[0]), [1.0])
        total += math.exp(week[1970, 2]) / 2**7
    assert total == pytest.approx(1.0)


def test_e_bh_takes_the_largest_list_that_holds_itself() -> None:
    weights = [math.log(0.25)] * 4
    log_es = [math.log(x) for x in (41.0, 21.0, 13.5, 9.0)]
    assert e_bh(log_es, weights, 0.1) == [True, True, True, False]
    assert e_bh([math.log(39.0)] + [0.0] * 3, weights, 0.1) == [False] * 4


def test_e_bh_is_the_largest_self_consistent_set() -> None:
    rng = np.random.default_rng(8)
    sizes = set()
    for _ in range(2_000):
        size = int(rng.integers(1, 8))
        log_es = (np.round(rng.normal(2.5, 2.0, size) * 2) / 2).tolist()
        weights = np.log(rng.dirichlet(np.ones(size))).tolist()
        found = e_bh(log_es, weights, 0.1)
        assert found == e_bh_by_subsets(log_es, weights, 0.1)
        sizes.add(sum(found))
    assert sizes > set(range(5))


# --- Expectations, exactly ----------------------------------------------------------------------


def fractions(*texts: str) -> list[Fraction]:
    return [Fraction(text) for text in texts]


def rate_of(shares: list[Fraction], hits: list[Fraction], autos: list[bool]) -> Fraction:
    """P(auto | y)."""
    both = [share * hit for share, hit in zip(shares, hits, strict=True)]
    return sum((x for x, auto in zip(both, autos, strict=True) if auto), Fraction(0)) / sum(both)


SHARES = fractions("1/2", "1/8", "3/8")
AUTOS = [True, True, False]
AUDITS = fractions("1/20", "1/2", "1")
HITS = fractions("9/10", "2/3", "3/10")
GUESSES = {
    "right": HITS,
    "wrong": fractions("1/2", "1/10", "9/10"),
    "certain": fractions("1", "0", "1"),
    "never": fractions("0", "0", "0"),
}
AT = rate_of(SHARES, HITS, AUTOS)


def believed(guesses: list[Fraction], audits: list[Fraction] = AUDITS) -> list[Stratum]:
    return [Stratum(*x) for x in zip(AUTOS, guesses, audits, strict=True)]


@pytest.mark.parametrize("guesses", GUESSES.values(), ids=GUESSES)
@pytest.mark.parametrize("side", [BELOW, ABOVE])
@pytest.mark.parametrize("part", ["1/50", "1/4", "9/10", "1"])
def test_a_level_expects_exactly_one_at_its_boundary(
    guesses: list[Fraction], side: int, part: str
) -> None:
    strata = believed(guesses)
    lam = Fraction(part) * largest_lam(strata, AT, side)
    for decisions in (1, 2, 3):
        cells = truth(strata, SHARES, HITS)
        expected = expected_e(cells, decisions, lambda cohort: level_e(cohort, AT, lam, side))
        assert expected == 1


@pytest.mark.parametrize("guesses", GUESSES.values(), ids=GUESSES)
@pytest.mark.parametrize("side", [BELOW, ABOVE])
def test_a_level_expects_less_inside_its_null(guesses: list[Fraction], side: int) -> None:
    boundary = AT + side * Fraction(1, 20)
    strata = believed(guesses)
    lam = Fraction(1, 2) * largest_lam(strata, boundary, side)
    cells = truth(strata, SHARES, HITS)
    inside = expected_e(cells, 3, lambda cohort: level_e(cohort, boundary, lam, side))
    assert 0 < inside < 1
    outside = AT - side * Fraction(1, 20)
    more = expected_e(cells, 3, lambda cohort: level_e(cohort, outside, lam, side))
    assert more > 1


def test_six_decisions_expect_exactly_one() -> None:
    strata = [
        Stratum(True, Fraction(7, 10), Fraction(1, 20)),
        Stratum(False, Fraction(1, 2), Fraction(1)),
    ]
    shares, hits = fractions("3/5", "2/5"), fractions("9/10", "1/4")
    at = rate_of(shares, hits, [True, False])
    lam = Fraction(1, 2) * largest_lam(strata, at, BELOW)
    cells = truth(strata, shares, hits)
    assert expected_e(cells, 6, lambda cohort: level_e(cohort, at, lam, BELOW)) == 1


@pytest.mark.parametrize("side", [BELOW, ABOVE])
def test_wrong_audit_rates_do_not_matter_where_the_guess_is_right(side: int) -> None:
    strata = believed(HITS)
    lam = Fraction(1, 2) * largest_lam(strata, AT, side)
    late = fractions("1/40", "1/4", "1")
    cells = truth(strata, SHARES, HITS, late)
    assert expected_e(cells, 3, lambda cohort: level_e(cohort, AT, lam, side)) == 1


def test_both_wrong_is_not_valid() -> None:
    """What the guarantee assumes is needed: late audits and a guess too low."""
    strata = believed(GUESSES["wrong"])
    lam = Fraction(1, 2) * largest_lam(strata, AT, BELOW)
    cells = truth(strata, SHARES, HITS, fractions("1/40", "1/4", "1"))
    assert expected_e(cells, 3, lambda cohort: level_e(cohort, AT, lam, BELOW)) > 1


def test_a_false_positive_rate_is_the_mirror() -> None:
    not_ready = [1 - hit for hit in HITS]
    at = rate_of(SHARES, not_ready, AUTOS)
    strata = believed(fractions("1/5", "1/5", "1/5"))
    lam = Fraction(1, 2) * largest_lam(strata, at, ABOVE)
    cells = truth(strata, SHARES, not_ready)
    assert expected_e(cells, 3, lambda cohort: level_e(cohort, at, lam, ABOVE)) == 1


def test_every_probability_is_enumerated() -> None:
    cells = truth(believed(HITS), SHARES, HITS)
    assert expected_e(cells, 5, lambda _: Fraction(1)) == 1
    labelled = expected_e(cells, 4, lambda c: Fraction(sum(x.labelled for _, x in c)))
    assert labelled == 4 * sum(s * a for s, a in zip(SHARES, AUDITS, strict=True))


def test_counts_are_sequences_forgotten() -> None:
    """The multinomial enumeration against all sequences of three decisions."""
    strata = believed(GUESSES["wrong"])
    cells = truth(strata, SHARES, HITS)
    lam = Fraction(1, 2) * largest_lam(strata, AT, BELOW)

    def e(factors: list[Fraction]) -> Fraction:
        return max(Fraction(1, 10), math.prod(factors, start=Fraction(1)))

    sequences = sum(
        math.prod((Fraction(p) for p, _, _ in drawn), start=Fraction(1))
        * e([Fraction(1 - lam * stratum.z(outcome, AT)) for _, stratum, outcome in drawn])
        for drawn in itertools.product(cells, repeat=3)
    )
    counted = expected_e(cells, 3, lambda c: max(Fraction(1, 10), level_e(c, AT, lam, BELOW)))
    assert counted == sequences


def two_strata(rate: Fraction, guess: str) -> Cells:
    """An arm whose P(auto | y) is the rate, with a right or a wrong guess."""
    base, other = Fraction(3, 5), Fraction(1, 10)
    auto = base * rate + (1 - base) * other
    hits = [base * rate / auto, base * (1 - rate) / (1 - auto)]
    guesses = hits if guess == "right" else fractions("1/2", "1/2")
    strata = [Stratum(True, guesses[0], Fraction(1, 5)), Stratum(False, guesses[1], Fraction(1))]
    return truth(strata, [auto, 1 - auto], hits)


RUNGS_LIMIT = Fraction(1, 10)


def rungs_for(a: Cells, b: Cells, limit: Fraction, step: Fraction) -> list[Rung]:
    """Large bets on every level of a full grid."""
    rungs = []
    for i in range(math.ceil((1 - limit) / step)):
        level, above = i * step, min(Fraction(1), (i + 1) * step + limit)
        lam_above = Fraction(4, 5) * largest_lam(strata_of(a), above, ABOVE) * (above < 1)
        lam_below = Fraction(4, 5) * largest_lam(strata_of(b), level, BELOW) * (level > 0)
        rungs.append(Rung(above, lam_above, level, lam_below))
    return rungs


@pytest.mark.parametrize("guess", ["right", "wrong"])
@pytest.mark.parametrize("rate_b", ["1/20", "1/2", "13/20", "7/8", "19/20"])
@pytest.mark.parametrize("below", ["0", "1/20"])
def test_a_gap_expects_at_most_one(guess: str, rate_b: str, below: str) -> None:
    at_b = Fraction(rate_b)
    at_a = min(at_b + RUNGS_LIMIT - Fraction(below), Fraction(1))
    a, b = two_strata(at_a, guess), two_strata(at_b, guess)
    rungs = rungs_for(a, b, RUNGS_LIMIT, Fraction(1, 5))
    assert not uncovered(rungs, 0.1)
    expected = expected_gap_e((a, 2), (b, 2), lambda x, y: gap_e(x, y, rungs))
    assert 0 < expected <= 1


def test_a_gap_beyond_the_limit_grows() -> None:
    a, b = two_strata(Fraction(19, 20), "right"), two_strata(Fraction(3, 10), "right")
    grid = [i * 0.2 for i in range(5)]
    rungs = optimal_rungs(grid, 0.1, a, b, 0.2)
    assert expected_gap_e((a, 2), (b, 2), lambda x, y: gap_e(x, y, rungs)) > 1


def test_rates_may_drift_under_the_gap() -> None:
    """The same bets are valid wherever the two rates have gone, if their gap is at the limit."""
    arms = [two_strata(Fraction(x), "wrong") for x in ("1/10", "1/5")]
    rungs = rungs_for(arms[1], arms[0], RUNGS_LIMIT, Fraction(1, 5))
    for tenths in range(1, 10):
        a, b = (with_rate(arms[0], Fraction(tenths + more, 10)) for more in (1, 0))
        assert expected_gap_e((a, 2), (b, 1), lambda x, y: gap_e(x, y, rungs)) <= 1


def with_rate(cells: Cells, rate: Fraction) -> Cells:
    """Another truth for strata that are believed to be the same."""
    moved = two_strata(rate, "wrong")
    return [(p, s, o) for (p, _, _), (_, s, o) in zip(moved, cells, strict=True)]


def test_a_projection_expects_at_most_one() -> None:
    rng = np.random.default_rng(60)
    largest = 0.0
    for _ in range(60):
        n_a, n_b = (int(x) for x in rng.integers(1, 13, 2))
        limit = float(rng.choice([0.05, 0.1, 0.2]))
        gap = limit + float(rng.choice(GAPS_BEYOND))
        alternative = gap_alternative(rng.uniform(0.1, 0.95), n_a, n_b, gap)
        e = projection_table(n_a, n_b, alternative, limit)
        for b in np.linspace(0, 1, 41):
            for a in {min(1.0, b + limit), max(0.0, b - 0.1), b}:
                largest = max(largest, expected_pair_e((a, n_a), (b, n_b), e.__getitem__))
    assert 0.999 < largest <= 1 + 1e-12


def projection_table(
    n_a: int, n_b: int, alternative: tuple[float, float], limit: float
) -> dict[Pair, float]:
    """The e-value of every outcome."""
    pairs = [Pair(n_a, k_a, n_b, k_b) for k_a in range(n_a + 1) for k_b in range(n_b + 1)]
    return {pair: math.exp(projection_log_e(pair, *alternative, limit)) for pair in pairs}


def test_a_cluster_of_equal_decisions_expects_at_most_one() -> None:
    """Three copies of every decision, whose log e is divided by three."""
    strata = believed(GUESSES["wrong"])
    lam = Fraction(9, 10) * largest_lam(strata, AT, BELOW)
    cells = truth(strata, SHARES, HITS)

    def copied(cohort: list[tuple[Stratum, Counted]]) -> list[tuple[Stratum, Counted]]:
        return [(s, Counted(3 * c.decisions, 3 * c.labelled, 3 * c.hits)) for s, c in cohort]

    together = expected_e(cells, 2, lambda c: level_e(copied(list(c)), AT, lam, BELOW))
    assert together > 1
    divided = expected_e(
        cells, 2, lambda c: math.exp(level_log_e(copied(list(c)), AT, lam, BELOW) / 3)
    )
    assert divided == pytest.approx(1)


def test_outcomes_without_sampling_are_labelled() -> None:
    assert REVIEW.outcomes == (HIT, MISS)
    assert AUTO.outcomes == (UNLABELLED, HIT, MISS)


# --- Sequences: pages at the boundary -----------------------------------------------------------


def boundary_day(day: int) -> tuple[Cells, float]:
    """Base rate and routing move from day to day, P(auto | y) stays .8; the guesses stay wrong."""
    base = 0.55 + 0.25 * math.sin(day / 5)
    shares = cell_shares(0.8, base, 0.1 + 0.05 * (day % 3))
    strata = [Stratum(True, 0.7, 0.2), Stratum(False, 0.4, 1.0)]
    return truth(strata, [shares[True][0], shares[False][0]], [x[1] for x in shares.values()]), 0.8


@pytest.mark.parametrize("side", [pytest.param(BELOW, marks=pytest.mark.full), ABOVE])
def test_a_level_at_its_boundary_pages_within_the_budget(side: int) -> None:
    lams = level_lams(strata_of(boundary_day(0)[0]), 0.8, side)

    def log_es(day: int, rng: np.random.Generator) -> list[float]:
        cells, boundary = boundary_day(day)
        cohort = draw(cells, 60, rng)
        return [level_log_e(cohort, boundary, lam, side) for lam in lams]

    found = simulated_pages(90, 300, log_es, SIXTH, seed=17)
    assert 0 < found <= most_pages(90, 300)


def test_a_level_beyond_its_boundary_pages_more_often() -> None:
    lams = level_lams(strata_of(boundary_day(0)[0]), 0.88, BELOW)

    def log_es(day: int, rng: np.random.Generator) -> list[float]:
        cohort = draw(boundary_day(day)[0], 60, rng)
        return [level_log_e(cohort, 0.88, lam, BELOW) for lam in lams]

    assert simulated_pages(90, 100, log_es, SIXTH, seed=18) > most_pages(90, 100)


@pytest.mark.full
def test_a_projected_gap_at_the_limit_pages_within_the_budget() -> None:
    """The common rate jumps every five days, the gap stays at the limit."""
    level = Level()

    def log_es(day: int, rng: np.random.Generator) -> list[float]:
        if day == 0:
            level.trials, level.hits = Level().trials, Level().hits
        rate = (0.6, 0.85, 0.4)[day // 5 % 3]
        pair = Pair(40, int(rng.binomial(40, rate + 0.1)), 40, int(rng.binomial(40, rate)))
        found = projection_log_es(pair, level.rate, 0.1)
        level.learn(pair)
        return found

    found = simulated_pages(90, 100, log_es, FIFTH, seed=19)
    assert found <= most_pages(90, 100)


def test_an_augmented_gap_at_the_limit_pages_within_the_budget() -> None:
    grid = full_grid(0.15, 0.1)
    ladders = [
        optimal_rungs(grid, 0.1, arm(0.75 + half, audit=0.2), arm(0.75 - half, audit=0.2), 0.15)
        for half in (0.075, 0.15)
    ]
    assert not any(uncovered(rungs, 0.1) for rungs in ladders)
    a, b = arm(0.85, audit=0.2), arm(0.75, audit=0.2)

    def log_es(day: int, rng: np.random.Generator) -> list[float]:
        first, second = draw(a, 300, rng), draw(b, 300, rng)
        return [gap_log_e(first, second, rungs) for rungs in ladders]

    assert simulated_pages(90, 30, log_es, [0.5, 0.5], seed=20) <= most_pages(90, 30)
