"""Labels of slices: what is found, how soon, when it ends, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np
import pytest
from example_counts import examples
from fleet_cells import coding
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import COUNTERS, Counter, Int64s, Route, Stratum
from monitor.core.counts.rollup import HourlySlices
from monitor.core.intervals import Floats
from monitor.core.publish.annotations import Fault
from monitor.detection.advisory.slice_labels import (
    TOLERATED,
    FaultStatus,
    HourlyLabels,
    SliceFault,
    SliceLabels,
)
from monitor.detection.pages.projection import EXCESSES, PairCounts, gap_log_e

CODING = coding(a="uvwxyz")
GROUP = GroupBy(("a",))
SLICES = tuple(f"a={value}" for value in "uvwxyz")
STRATA = np.array(
    [Stratum(Route.AUTO_SERVE, 0, 2).code, Stratum(Route.HUMAN_REVIEW, 0, 0).code], np.int64
)
RATES = np.array([CODING.audit_rates[2], CODING.audit_rates[0]])
DAY = 24
MISSING = SliceFault("a=u", Route.AUTO_SERVE, Fault.MISSING)
TOO_FEW = SliceFault("a=u", Route.AUTO_SERVE, Fault.TOO_FEW)


def table(decisions: Int64s, requests: Int64s, labels: Int64s) -> HourlySlices:
    """One hour of every slice and stratum, each of shape (S, 2)."""
    values = np.zeros((1, len(SLICES), len(STRATA), COUNTERS), np.int64)
    values[..., Counter.N], values[..., Counter.Q] = decisions, requests
    values[..., Counter.LABELLED] = labels
    return HourlySlices(SLICES, STRATA, values)


@dataclass
class World:
    """Slices of which the first has a twentieth of the traffic; 5 % of auto_serve is audited.

    Attributes:
        answered: share of the labels of the first slice that come, of auto_serve, by day.
        asked: share of its audits that are requested, by day.
        of_all: share of the labels of all slices that come.
        seed: of all draws.
        watch: what is tested.
    """

    answered: dict[int, float] = field(default_factory=dict)
    asked: dict[int, float] = field(default_factory=dict)
    of_all: float = 0.98
    seed: int = 0
    watch: SliceLabels = field(default_factory=lambda: SliceLabels.start(GROUP, CODING, 1.0, 1))

    def hours(self, first: int, end: int) -> HourlySlices:
        values = [self.hour(hour).values for hour in range(first, end)]
        return HourlySlices(SLICES, STRATA, np.concatenate(values))

    def hour(self, hour: int) -> HourlySlices:
        rng = np.random.default_rng((self.seed, hour))
        daily = np.array([1_000, 3_000, 4_000, 4_000, 4_000, 4_000])
        decisions = rng.poisson(daily[:, None] / DAY * (0.7, 0.3))
        rates, come = np.tile(RATES, (6, 1)), np.full((6, 2), self.of_all)
        rates[0, 0] *= _of_day(self.asked, hour)
        come[0, 0] *= _of_day(self.answered, hour)
        requests = rng.binomial(decisions, rates)
        return table(decisions, requests, rng.binomial(requests, come))

    def play(self, days: int, first: int = 0) -> dict[SliceFault, FaultStatus]:
        for day in range(first, days):
            hours = range(day * DAY, (day + 1) * DAY)
            self.watch.advance(hours, self.hours(hours.start, hours.stop))
        return self.watch.lasting(days * DAY)


def _of_day(changes: dict[int, float], hour: int) -> float:
    return next((x for day, x in sorted(changes.items(), reverse=True) if hour >= day * DAY), 1.0)


@pytest.mark.parametrize(("share", "hours"), [(0.0, 10), (0.5, 24), (0.76, 6 * DAY)])
def test_a_slice_that_loses_its_labels_is_found_within_hours(share: float, hours: int) -> None:
    """A twentieth of the traffic: all labels together are complete to .95 or more."""
    for seed in range(3):
        world = World(answered={5: share}, seed=seed)
        found = world.play(5 + hours // DAY + 1)
        assert set(found) == {MISSING}
        assert 5 * DAY <= found[MISSING].since < 5 * DAY + hours


def test_a_slice_whose_audits_are_requested_too_seldom_is_found() -> None:
    """At .03 where .05 is said: of all audits together 2 % are not requested."""
    for seed in range(3):
        found = World(asked={5: 0.6}, seed=seed).play(13)
        assert set(found) == {TOO_FEW}
        assert found[TOO_FEW].since < 12 * DAY
        assert found[TOO_FEW].share == pytest.approx(0.6, abs=0.2)


def test_what_all_slices_lack_is_no_slice_s_fault() -> None:
    assert World(of_all=0.6).play(20) == {}


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_found_where_all_is_well(seed: int) -> None:
    assert World(seed=seed, of_all=0.93).play(60) == {}


def test_the_share_that_is_missing_is_told_as_it_is_found_again() -> None:
    found = World(answered={5: 0.2}).play(9)
    assert found[MISSING].share == pytest.approx(0.8, abs=0.08)


def test_a_fault_ends_when_labels_are_back() -> None:
    world = World(answered={5: 0.0, 8: 1.0})
    assert world.play(8)
    assert world.play(12, first=8) == {}
    assert world.watch.lasting(8 * DAY), "what was known then does not change"
    assert world.watch.lasting(5 * DAY) == {}


def test_a_second_fault_is_another_one() -> None:
    world = World(answered={5: 0.0, 7: 1.0, 20: 0.0})
    (second,) = world.play(22).values()
    assert second.since >= 20 * DAY
    assert world.watch.lasting(7 * DAY)[MISSING].since < 6 * DAY


@pytest.mark.parametrize(
    "stop",
    [
        3 * DAY + 5,
        pytest.param(6 * DAY, marks=pytest.mark.full),
        pytest.param(8 * DAY + 1, marks=pytest.mark.full),
    ],
)
def test_a_restart_is_seen_in_nothing(stop: int) -> None:
    whole, stopped = World(answered={5: 0.0, 8: 1.0}), World(answered={5: 0.0, 8: 1.0})
    for hour in range(10 * DAY):
        whole.watch.advance([hour], whole.hour(hour))
        stopped.watch.advance([hour], stopped.hour(hour))
        if hour == stop:
            fresh = SliceLabels.start(GROUP, CODING, 1.0, 1)
            stopped.watch = fresh.restored(stopped.watch.to_bytes())
    assert stopped.watch.to_bytes() == whole.watch.to_bytes()


def test_slices_that_are_new_begin_without_evidence_and_others_go_on() -> None:
    world = World(answered={5: 0.0})
    world.play(6)
    fewer = SliceLabels.start(GROUP, coding(a="uvw"), 1.0, 1)
    assert fewer.restored(world.watch.to_bytes()).lasting(6 * DAY).keys() == {MISSING}
    other = SliceLabels.start(GROUP, coding(a="vwxyzq"), 1.0, 1).restored(world.watch.to_bytes())
    assert other.lasting(6 * DAY) == {}
    row = [*other.slices].index("a=q")
    assert np.isneginf(other.missing.log_r[2 * row]).all()


def test_damaged_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="damaged"):
        SliceLabels.start(GROUP, CODING, 1.0, 1).restored(b"no")


def test_an_hour_without_slices_moves_nothing_but_the_clock() -> None:
    watch = SliceLabels.start(GROUP, CODING, 1.0, 1)
    watch.advance([3], HourlySlices((), STRATA, np.zeros((1, 0, 2, COUNTERS), np.int64)))
    assert watch.consumed == 3
    assert watch.lasting(4) == {}
    assert np.isneginf(watch.missing.log_r).all()


def test_labels_of_an_hour_are_counted_by_slice_route_and_rate() -> None:
    decisions, requests = np.full((6, 2), 40), np.full((6, 2), 10)
    labels = np.array([[12, 3]] * 6)
    seen = HourlyLabels.from_counts(table(decisions, requests, labels), SLICES[:2], 4)
    assert seen.decisions[0, :, 0].tolist() == [[0, 0, 40, 0]] * 2
    assert seen.decisions[0, :, 1].tolist() == [[40, 0, 0, 0]] * 2
    assert seen.requested.tolist() == [[[10, 10]] * 2]
    assert seen.received.tolist() == [[[10, 3]] * 2], "more than was requested is no more than all"


@given(st.lists(st.integers(1, 30), min_size=1), st.integers(0, 3))
@settings(max_examples=examples(15), deadline=None)
def test_hours_move_the_same_however_they_are_put_together(steps: list[int], seed: int) -> None:
    """Bit by bit, with faults that begin and end, and hours without decisions."""
    one, many = (World(answered={1: 0.0, 2: 1.0}, seed=seed) for _ in range(2))
    ends = [0, *(end for end in np.cumsum(steps).tolist() if end < 4 * DAY), 4 * DAY]
    every = many.hours(0, 4 * DAY)
    every.values[30:34] = 0
    for hour in range(4 * DAY):
        alone = HourlySlices(SLICES, STRATA, every.values[hour : hour + 1])
        one.watch.advance([hour], alone)
    for first, end in pairwise(ends):
        together = HourlySlices(SLICES, STRATA, every.values[first:end])
        many.watch.advance(range(first, end), together)
    assert many.watch.to_bytes() == one.watch.to_bytes()


def enumerated(n_a: int, n_b: int, rates: tuple[float, float], level: float) -> Floats:
    """E[e] of every alternative, by all outcomes of a few requests."""
    total = np.zeros(len(EXCESSES))
    for k_a, k_b in product(range(n_a + 1), range(n_b + 1)):
        pairs = PairCounts(*(np.array([x]) for x in (n_a, k_a, n_b, k_b)))
        chance = _binomial(n_a, k_a, rates[0]) * _binomial(n_b, k_b, rates[1])
        total += chance * np.exp(gap_log_e(pairs, np.array([level]), TOLERATED)[0])
    return total


def _binomial(n: int, k: int, p: float) -> float:
    ways = np.prod(np.arange(n - k + 1, n + 1)) / np.prod(np.arange(1, k + 1))
    return float(ways * p**k * (1 - p) ** (n - k))


@pytest.mark.parametrize("missing", [0.0, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 8), (7, 2)])
def test_evidence_expects_at_most_one_up_to_what_is_tolerated(
    missing: float, sizes: tuple[int, int]
) -> None:
    for level, more in product((0.02, 0.4), (0.0, TOLERATED / 2, TOLERATED)):
        expected = enumerated(*sizes, (missing + more, missing), level)
        assert (expected <= 1 + 1e-12).all()
    beyond = enumerated(*sizes, (min(missing + 0.5, 1.0), missing), min(missing + 0.1, 0.9))
    assert beyond.max() > 1 or missing > 0.5
