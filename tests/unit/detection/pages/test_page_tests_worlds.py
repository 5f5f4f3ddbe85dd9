"""The benchmark's worlds are what they say, its rivals do what they are named for."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from answered import answered
from fleet_catalogue import (
    AT_LIMIT,
    BEST,
    ONE_BAND,
    QUICK,
    Rates,
    changing,
    dropping_levels,
    mixing,
    nulls,
    part_in_breach,
    released,
    standing_breaches,
    standing_gaps,
    steady,
)
from fleet_counts import Cells, coding, contract
from fleet_optimum import information, limit, oracle
from fleet_play import Score, play
from fleet_rivals import (
    Adwin,
    Drift,
    Page,
    PageHinkley,
    Rival,
    Side,
    Windowed,
    evenly,
    outcomes,
    point_rule,
    rivals,
    side_of,
    weekly_z,
    wilson_rule,
    z_rule,
)
from fleet_worlds import HOURS, LEVELS, Audits, Watch, World, WorldCohort, gaps
from river import drift
from scipy import stats

from monitor.core.contract import Metric
from monitor.core.counts.rollup import roll_up
from monitor.detection.pages.cohort import SliceCohort
from monitor.detection.pages.streams import Direction, StreamKind

CALM = {world.name: world for world in nulls(QUICK)}
OPEN = {world.name: world for world in (*standing_gaps(QUICK), *dropping_levels(QUICK))}
STANDING = {world.name: world for world in (*standing_breaches(QUICK), part_in_breach(QUICK))}
ALL = CALM | OPEN | STANDING


def total(world: World) -> SliceCohort:
    """Everything a world draws."""
    first, *rest = (cohort.counts for cohort in world.cohorts())
    for counts in rest:
        first = first + counts
    return first


def small(**changes: Any) -> World:
    """Three slices for ten days, the first the reference."""
    world = World(
        name="small",
        days=10,
        path=steady([BEST, AT_LIMIT, AT_LIMIT]),
        hourly=np.array([200.0, 100.0, 50.0]),
        audits=Audits.of(3, 0.2),
        watches=(*gaps(Metric.TPR, Metric.FPR, Metric.BLOCKED), *LEVELS),
        reference=0,
        profile=ONE_BAND,
    )
    return replace(world, **changes)


# Worlds.


@pytest.mark.parametrize("world", ALL.values(), ids=ALL)
def test_what_is_drawn_has_the_rates_of_the_path(world: World) -> None:
    """Every stratum of every slice, against its expectation; 6 sigma over some 100,000 of them."""
    hours = np.arange(world.days * HOURS)
    population = world.path(hours / HOURS)
    cells = population.cells(world.profile)
    np.testing.assert_allclose(cells.sum(axis=(0, 2, 3, 4)), world.days * HOURS)
    traffic = world.traffic(hours)
    np.testing.assert_allclose(traffic.mean(axis=0), world.hourly)
    expected = np.einsum("ts,tsrby,srq->srqby", traffic, cells, world.audits.mix)
    come = np.stack([world.audits.outcomes(day)[..., 2] for day in range(world.days)])
    labels = np.einsum(
        "ts,tsrby,srq,tsrq->srqby", traffic, cells, world.audits.mix, come.repeat(HOURS, axis=0)
    )
    counts = total(world)
    for drawn, mean in (
        (counts.decisions, expected.sum(axis=-1)),
        (counts.labelled, labels.sum(axis=-1)),
        (counts.ready, labels[..., 1]),
    ):
        assert np.all(np.abs(drawn - mean) <= 6 * np.sqrt(mean) + 6)
    assert np.array_equal(counts.routed[:, :2], counts.decisions.sum(axis=(2, 3)))
    blocked = counts.routed[:, 2] / counts.routed.sum(axis=1)
    assert blocked == pytest.approx(population.blocked.mean(axis=0), abs=0.04)


@pytest.mark.parametrize("world", CALM.values(), ids=CALM)
def test_a_null_is_never_in_breach_and_mostly_at_the_limit(world: World) -> None:
    assert not any(world.breaches(watch).any() for watch in world.watches)
    nearest = max(_excess(world, watch).max() for watch in world.watches)
    if world.name == "comfortable":
        assert nearest < -0.05
    else:
        assert nearest == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("world", OPEN.values(), ids=OPEN)
def test_a_breach_begins_on_the_day_of_change(world: World) -> None:
    assert world.change is not None
    start = world.change * HOURS
    breaches = [world.breaches(watch) for watch in world.watches]
    assert not any(found[:start].any() for found in breaches)
    worse = breaches[0]
    assert world.watches[0].direction is Direction.SLICE_WORSE
    rows = world.rows(world.watches[0])
    assert worse[start:, rows].all()
    assert not any(found.any() for found in breaches[1:])


def test_a_gap_is_as_large_as_its_name_says() -> None:
    for name, gap in (("gap 0.13", 0.13), ("gap 0.30", 0.30)):
        excess = _excess(OPEN[name], OPEN[name].watches[0])
        assert excess[-1, 1:] == pytest.approx(gap - 0.10)
        assert excess[0, 1:] == pytest.approx(0.03 - 0.10)


def test_the_rates_of_a_mixture_follow_its_mix() -> None:
    world = small(path=mixing(3), reference=None)
    misses, _ = world.harm(Metric.TPR)
    assert misses[0] == pytest.approx(1 - (0.55 * 0.95 + 0.45 * 0.75))
    top = int(3.5 * HOURS)
    assert misses[top] == pytest.approx(1 - (0.85 * 0.95 + 0.15 * 0.75))


def test_a_complement_weighs_the_others_by_their_trials() -> None:
    world = small(reference=None)
    _, others = world.harm(Metric.TPR)
    assert others[0, 0] == pytest.approx(0.20)
    assert others[0, 1] == pytest.approx((200 * 0.10 + 50 * 0.20) / 250)
    blocked, rest = world.harm(Metric.BLOCKED)
    assert blocked[0].tolist() == pytest.approx([0.05, 0.15, 0.15])
    all_a, all_c = 200 / 0.95, 50 / 0.85
    assert rest[0, 1] == pytest.approx((0.05 * all_a + 0.15 * all_c) / (all_a + all_c))


def test_late_audits_are_missing_whatever_they_would_have_said() -> None:
    late = total(small(days=40, audits=Audits.of(3, 0.2).late(0.3, slice(1, 2))))
    share = late.labelled[:, 0].sum(axis=(1, 2)) / late.decisions[:, 0, 1].sum(axis=1)
    assert share == pytest.approx([0.2, 0.14, 0.2], abs=0.01)
    ready = late.ready[:, 0].sum(axis=(1, 2)) / late.labelled[:, 0].sum(axis=(1, 2))
    assert ready[1] == pytest.approx(ready[2], abs=0.02)


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    one, again, other = (total(small(seed=seed)) for seed in ((1,), (1,), (2,)))
    assert np.array_equal(one.ready, again.ready)
    assert not np.array_equal(one.ready, other.ready)


def test_weekly_versions_are_annotated_in_the_same_draws() -> None:
    plain = small(days=15)
    pairs = list(zip(plain.cohorts(), released(plain).cohorts(), strict=True))
    assert all(np.array_equal(a.counts.ready, b.counts.ready) for a, b in pairs)
    assert [b.hour for _, b in pairs if b.new_version] == [7 * HOURS, 14 * HOURS]
    assert not any(a.new_version for a, _ in pairs)


def test_a_named_reference_has_no_gap_of_its_own_but_a_level() -> None:
    world = small()
    assert world.rows(gaps(Metric.TPR)[0]) == [1, 2]
    assert world.rows(LEVELS[0]) == [0, 1, 2]
    stream = world.stream(gaps(Metric.TPR)[0], 1)
    assert (stream.slice, stream.reference) == (world.slices[1], world.slices[0])
    assert world.stream(LEVELS[0], 0).reference == ""


def test_the_cells_of_a_cohort_roll_up_to_it() -> None:
    world = replace(CALM["two audit rates"], days=1)
    cells, coded = Cells(world), coding(world)
    assert contract(world).group_bys[0].reference == world.slices[0]
    for cohort in world.cohorts():
        slices = roll_up(cells.counts(cohort.counts), cells.index, ("slice",))
        assert slices.slices == world.slices
        again = SliceCohort.from_counts(slices, world.slices, world.layout)
        for name in ("decisions", "labelled", "ready", "routed"):
            assert np.array_equal(getattr(again, name), getattr(cohort.counts, name))
    assert coded.audit_rates == (1.0, 0.2, 0.05)


# The optimum.


@pytest.mark.parametrize(
    ("before", "after", "median", "p95"),
    [(0.95, 0.85, 91, 207), (0.85, 0.80, 506, 1247), (0.85, 0.75, 171, 417), (0.7, 0.6, 245, 491)],
)
def test_the_oracle_is_as_fast_as_its_simulation(
    before: float, after: float, median: float, p95: float
) -> None:
    """Against 300 to 400 simulated runs each: +-5 % at the median, more at the 95th percentile."""
    best = oracle(before, after, 1e5)
    assert best.median == pytest.approx(median, rel=0.05)
    assert best.p95 == pytest.approx(p95, rel=0.15)
    kl = after * math.log(after / before) + (1 - after) * math.log((1 - after) / (1 - before))
    assert best.median < limit(kl, 1e5)


@pytest.mark.full
def test_the_oracle_keeps_its_mean_time_to_a_false_alarm() -> None:
    before, after, wanted = 0.8, 0.6, 1_000.0
    threshold = oracle(before, after, wanted).threshold
    hits = np.random.default_rng(5).random((2_000, 20_000)) < before
    gains = (math.log((1 - after) / (1 - before)), math.log(after / before))
    state, alarm = np.zeros(2_000), np.full(2_000, np.inf)
    for i in range(hits.shape[1]):
        state = np.maximum(state, 0) + np.where(hits[:, i], gains[1], gains[0])
        alarm = np.where(np.isinf(alarm) & (state >= threshold), i + 1, alarm)
    assert alarm.mean() == pytest.approx(wanted, rel=0.08)


def test_the_information_of_a_decision_under_audits() -> None:
    """Limit .80, truth .70, audits 5 %, review 100 %: 14.56 nats in 1,000 decisions."""
    truth = steady([Rates(0.70, 0.10)])(np.zeros(1))
    assert 1_000 * information(truth, Audits.of(1, 0.05), 0, 0.80) == pytest.approx(14.56, abs=0.01)
    complete = information(truth, Audits.of(1), 0, 0.80)
    kl = 0.70 * math.log(0.70 / 0.80) + 0.30 * math.log(0.30 / 0.20)
    assert complete == pytest.approx(0.6 * kl, rel=1e-4)


# Rivals.


def labelled_cohort(
    hour: int, auto: list[tuple[int, int]], review: list[tuple[int, int]]
) -> WorldCohort:
    """Slices with (ready, not ready) of both routes, everything labelled."""
    both = np.array([auto, review]).transpose(1, 0, 2)
    ready, all_of_them = both[..., 0], both.sum(axis=-1)
    n, m = (x[:, :, None, None] for x in (all_of_them, ready))
    routed = np.concatenate([all_of_them, np.zeros((len(auto), 1), np.int64)], axis=1)
    return WorldCohort(hour, answered(n, n, m, routed), new_version=False)


def test_labels_that_a_change_detector_is_fed_with() -> None:
    cohort = labelled_cohort(0, [(9, 2)], [(3, 7)])
    assert outcomes(cohort.counts, Metric.TPR).tolist() == [[9, 3]]
    assert outcomes(cohort.counts, Metric.FPR).tolist() == [[2, 7]]
    assert evenly(3, 7) == [0, 0, 1, 0, 1, 0, 1]
    assert evenly(0, 0) == []


def test_a_side_is_right_under_sampled_labels() -> None:
    counts = total(small(days=60, seed=(3,)))
    for metric, rates in ((Metric.TPR, (0.1, 0.2, 0.2)), (Metric.FPR, (0.1, 0.2, 0.2))):
        side = side_of(counts, metric)
        error = np.sqrt(side.point * (1 - side.point) / side.n)
        assert np.all(np.abs(side.point - rates) < 4 * error)
    assert side_of(counts, Metric.BLOCKED).point == pytest.approx([0.05, 0.15, 0.15], abs=0.01)


def test_rules_of_a_window() -> None:
    n = np.array([400.0])
    better, worse = Side(np.array([0.10]), n), Side(np.array([0.22]), n)
    assert point_rule(worse, better, 0.10).all()
    assert not wilson_rule(worse, better, 0.10).any()
    assert wilson_rule(worse, better, 0.05).all()
    assert point_rule(worse, None, 0.20).all()
    assert not wilson_rule(worse, None, 0.20).any()
    z = (0.22 - 0.05 - 0.10) / math.sqrt((0.22 * 0.78 + 0.10 * 0.90) / 400)
    assert z_rule(worse, better, 0.05, z - 0.02).all()
    assert not z_rule(worse, better, 0.05, z + 0.02).any()
    nothing = Side(np.array([np.nan]), np.array([0.0]))
    for rule in (point_rule, wilson_rule):
        assert not rule(nothing, better, 0.0).any()


def test_wilson_on_a_level_is_the_score_test() -> None:
    for misses in range(60, 130):
        side = Side(np.array([misses / 400]), np.array([400.0]))
        z = (misses / 400 - 0.2) / math.sqrt(0.2 * 0.8 / 400)
        assert bool(wilson_rule(side, None, 0.2)[0]) == (z > stats.norm.ppf(0.975))


def test_the_weekly_z_pages_once_in_90_days() -> None:
    assert 90 / 7 * 40 * stats.norm.sf(weekly_z(40)) == pytest.approx(1)


def naive_points(world: World) -> list[tuple[int, Page]]:
    """The point rule on fully labelled streams, label by label and hour by hour."""
    hours = list(world.cohorts())
    last: dict[Page, int] = {}
    pages = []
    for now in range(7 * HOURS - 1, len(hours)):
        window = [cohort.counts for cohort in hours[now - 7 * HOURS + 1 : now + 1]]
        for watch in world.watches:
            rates = [_naive_harm(window, row, watch.metric) for row in range(world.size)]
            for row in world.rows(watch):
                assert world.reference is not None
                gap = rates[row] - rates[world.reference]
                gap = -gap if watch.direction is Direction.REFERENCE_WORSE else gap
                level = 1 - watch.limit if watch.metric is Metric.TPR else watch.limit
                beyond = rates[row] > level if watch.kind is StreamKind.LEVEL else gap > watch.limit
                page = Page(row, watch.metric, watch.kind, watch.direction)
                if beyond and now - last.get(page, -math.inf) >= 7 * HOURS:
                    last[page] = now
                    pages.append((now, page))
    return pages


def _naive_harm(window: list[SliceCohort], row: int, metric: Metric) -> Fraction:
    auto = review = 0
    for counts in window:
        served, reviewed = outcomes(counts, metric)[row].tolist()
        auto, review = auto + served, review + reviewed
    return Fraction(review if metric is Metric.TPR else auto, auto + review)


@pytest.mark.full
def test_windows_agree_with_counting_label_by_label() -> None:
    watches = (*gaps(Metric.TPR, Metric.FPR), *LEVELS)
    world = small(days=20, hourly=np.full(3, 5.0), audits=Audits.of(3), watches=watches)
    rule = Windowed(world, point_rule)
    pages = [(c.hour, page) for c in world.cohorts() for page in rule.advance(c)]
    assert len(pages) > 5
    assert sorted(pages) == sorted(naive_points(world))


@pytest.mark.parametrize(("lower_is_worse", "mode"), [(True, "down"), (False, "up")])
def test_page_hinkley_in_arrays_is_rivers(lower_is_worse: bool, mode: str) -> None:
    """The same alarms at the same feeds, with drifts up and down and idle slices between."""
    rng = np.random.default_rng(11)
    mine = PageHinkley(4, lower_is_worse)
    theirs = [drift.PageHinkley(mode=mode) for _ in range(4)]
    alarms = 0
    for hour in range(1_500):
        rate = 0.9 if hour // 250 % 2 else 0.3
        trials = rng.integers(0, 8, 4) * (rng.random(4) < 0.8)
        hits = rng.binomial(trials, rate)
        expected = [_fed(theirs[row], evenly(hits[row], trials[row])) for row in range(4)]
        found = mine.feed(hits, trials).tolist()
        assert found == expected
        alarms += sum(found)
    assert alarms > 4


def _fed(detector: drift.PageHinkley, labels: list[int]) -> bool:
    alarms = []
    for x in labels:
        detector.update(x)
        alarms.append(detector.drift_detected)
    return any(alarms)


def test_adwin_counts_drifts_to_the_worse_only() -> None:
    def alarms(detector: Drift) -> list[int]:
        hours = []
        for hour in range(400):
            hits = 9 if hour < 200 else 5
            if detector.feed(np.array([hits]), np.array([10])).any():
                hours.append(hour)
        return hours

    fallen = alarms(Adwin(1, worse_is_lower=True))
    assert fallen
    assert 200 <= fallen[0] < 230
    assert alarms(Adwin(1, worse_is_lower=False)) == []


# Playing.


class Scripted:
    """Pages what it is told, when it is told."""

    def __init__(self, script: dict[int, list[Page]]) -> None:
        self._script = script

    def advance(self, cohort: WorldCohort) -> list[Page]:
        return self._script.get(cohort.hour, [])


TPR_GAP = Watch(Metric.TPR, StreamKind.GAP, Fraction("0.10"))


def breaking() -> World:
    """Slice 1 is in breach from day 4 on; slice 2 never."""
    before = [BEST, AT_LIMIT, AT_LIMIT]
    after = [BEST, Rates(0.70, 0.20, 0.15), AT_LIMIT]
    path = changing(steady(before), steady(after), 4)
    return small(path=path, watches=(TPR_GAP,), change=4)


def played(script: dict[int, list[Page]]) -> Score:
    rule: Rival = Scripted(script)
    return play(breaking(), {"rule": rule})["rule"]


def test_a_page_is_false_if_the_contract_held_since_the_last_one() -> None:
    one, two = (Page(row, Metric.TPR, StreamKind.GAP) for row in (1, 2))
    score = played({10: [two], 50: [two], 4 * HOURS + 6: [one]})
    assert score.false == 2
    assert score.breaches == 1
    assert [found.days for found in score.found] == [7 / HOURS]
    assert score.share_found == 1
    assert score.days == 4 + 7 / HOURS, "the rest of the world says nothing about this rule"


def test_a_stream_that_paged_before_the_change_has_no_delay() -> None:
    one = Page(1, Metric.TPR, StreamKind.GAP)
    score = played({10: [one], 5 * HOURS: [one]})
    assert (score.false, score.early, score.found) == (1, 1, [])
    assert math.isnan(score.quantile("days", 0.5))


def test_labels_are_counted_from_the_change_to_the_page() -> None:
    world = breaking()
    (found,) = played({5 * HOURS: [Page(1, Metric.TPR, StreamKind.GAP)]}).found
    hours = [c.counts for c in world.cohorts() if 4 * HOURS <= c.hour <= 5 * HOURS]
    assert found.labels == sum(int(counts.ready[1].sum()) for counts in hours)
    assert found.decisions == sum(int(counts.decisions[1].sum()) for counts in hours)


def test_a_breach_that_is_never_paged_is_later_than_any() -> None:
    score = played({})
    assert score.quantile("days", 0.5) == math.inf
    assert score.share_found == 0
    assert score.days == 10


def test_scores_of_several_seeds_add_up() -> None:
    one = Page(1, Metric.TPR, StreamKind.GAP)
    both = played({4 * HOURS: [one]}) + played({6 * HOURS: [one]})
    assert (both.breaches, both.quantile("days", 0.5)) == (2, 1 / HOURS)
    assert both.quantile("days", 0.95) == 2 + 1 / HOURS


def test_every_rival_runs_in_every_kind_of_world() -> None:
    for world in (CALM["flat, 1 slice"], CALM["seasonal common swing"], OPEN["gap 0.30"]):
        scores = play(replace(world, days=9), rivals(world))
        assert list(scores) == list(rivals(world))
        assert all(score.days > 0 and score.labels > 0 for score in scores.values())


def _excess(world: World, watch: Watch) -> np.ndarray:
    """How far beyond its limit each stream truly is, by hour and slice."""
    mine, theirs = world.harm(watch.metric)
    if watch.kind is StreamKind.LEVEL:
        limit_of = 1 - watch.limit if watch.metric is Metric.TPR else watch.limit
        return mine - float(limit_of)
    gap = mine - theirs if watch.direction is Direction.SLICE_WORSE else theirs - mine
    return gap - float(watch.limit)
